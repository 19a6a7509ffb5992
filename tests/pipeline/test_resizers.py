from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from perturbations import preparation
from perturbations.preparation import center_crop
from pipeline.recipes import load
from pipeline.resizers import prepare

IMAGENET = load("imagenet-c").prepare.steps


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height * 10_000 + width).integers(0, 256, (height, width, 3)).astype(np.uint8)


def published(image: np.ndarray) -> np.ndarray:
    """The preparation in Pillow's own terms: shorter side 256, then the middle 224 x 224."""
    height, width = image.shape[:2]
    size = (256, int(256 * height / width)) if width <= height else (int(256 * width / height), 256)
    resized = Image.fromarray(image).resize(size, Image.Resampling.BILINEAR)
    left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
    return np.asarray(resized.crop((left, top, left + 224, top + 224)))


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (256, 256), (333, 500), (16, 16), (17, 400), (1200, 301)])
def test_the_published_preparation(size: tuple[int, int]) -> None:
    np.testing.assert_array_equal(prepare(noise(*size), IMAGENET), published(noise(*size)))


@given(st.integers(1, 400), st.integers(1, 400))
@settings(max_examples=30, deadline=None)
def test_any_size_becomes_224_square(height: int, width: int) -> None:
    prepared = prepare(noise(height, width), IMAGENET)
    assert prepared.shape == (224, 224, 3)
    assert prepared.flags.c_contiguous
    assert prepared.flags.writeable


@pytest.mark.parametrize("turned", [False, True])
def test_a_strip_is_resized_only_where_the_crop_looks(monkeypatch: pytest.MonkeyPatch, turned: bool) -> None:
    strip = noise(20, 900)
    strip = np.ascontiguousarray(strip.transpose(1, 0, 2)) if turned else strip
    whole = prepare(strip, IMAGENET)
    monkeypatch.setattr(preparation, "MAX_RESIZED_PIXELS", 256 * 1000)
    part = prepare(strip, IMAGENET)
    assert np.abs(part.astype(int) - whole).max() <= 1


def test_an_extreme_strip_needs_little_memory() -> None:
    assert prepare(noise(1, 60_000), IMAGENET).shape == (224, 224, 3)


def test_crop_offsets_round_as_python_does() -> None:
    """(5 - 2) / 2 = 1.5 rounds to 2, (7 - 2) / 2 = 2.5 rounds to 2 as well."""
    image = noise(5, 7)
    np.testing.assert_array_equal(center_crop(image, 2, 2), image[2:4, 2:4])


def test_fraction_and_square_steps() -> None:
    image = noise(100, 61)
    cropped = prepare(image, [("center_fraction", 0.875)])
    np.testing.assert_array_equal(cropped, image[6:93, 4:57])
    squared = prepare(image, [("square", 32)])
    np.testing.assert_array_equal(
        squared, np.asarray(Image.fromarray(image).resize((32, 32), Image.Resampling.BILINEAR))
    )


def test_the_photograph_is_not_changed() -> None:
    image = noise(224, 224)
    prepared = prepare(image, [("center_crop", 224)])
    prepared[:] = 0
    np.testing.assert_array_equal(image, noise(224, 224))
