"""Tests of the normalisation of batches, whose memory is reused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluate.predict.classifier import Normaliser

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_normalised_values_equal_the_formula(counts: list[int], height: int, width: int, pads: bool) -> None:
    normalise = Normaliser(4, MEAN, STD, torch.device("cpu"), pads)
    for seed, count in enumerate(counts):
        images = np.random.default_rng(seed).integers(0, 256, (count, height, width, 3)).astype(np.uint8)
        values = normalise(torch.from_numpy(images))
        assert values.shape == (4 if pads else count, 3, height, width)
        assert values.dtype == torch.float32
        expected = ((images / 255 - MEAN) / STD).transpose(0, 3, 1, 2)
        np.testing.assert_allclose(values[:count].numpy(), expected, atol=2e-6)
        assert not values[count:].any()


def test_batches_may_change_their_image_size() -> None:
    normalise = Normaliser(2, (0, 0, 0), (1, 1, 1), torch.device("cpu"))
    for side in (8, 5, 8):
        values = normalise(torch.full((2, side, side, 3), 51, dtype=torch.uint8))
        assert values.shape == (2, 3, side, side)
        assert values.numpy() == pytest.approx(0.2)
