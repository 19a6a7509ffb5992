import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from corruptions.kernels.jpeg import round_trip
from tests.factories.images import photograph

SIDES = st.integers(1, 70)


def decoded(image: np.ndarray, quality: int, halved: bool) -> np.ndarray:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=quality, subsampling="4:2:0" if halved else "4:4:4")
    return np.asarray(Image.open(buffer))


def drawn(kind: str, height: int, width: int, seed: int) -> np.ndarray:
    generator, ramp = np.random.default_rng(seed), np.indices((height, width)).sum(0)[..., None]
    levels = {
        "noise": generator.integers(0, 256, (height, width, 3)),
        "extremes": generator.choice([0, 255], (height, width, 3)),
        "checkerboard": ramp % 2 * 255,
        "ramp": ramp * 4 % 256,
        "flat": generator.integers(0, 256, 3),
    }[kind]
    return np.broadcast_to(levels, (height, width, 3)).astype(np.uint8)


@settings(max_examples=300)
@given(
    kind=st.sampled_from(["noise", "extremes", "checkerboard", "ramp", "flat"]),
    height=SIDES,
    width=SIDES,
    quality=st.integers(1, 100),
    halved=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_pillows_decoder_after_its_encoder(
    kind: str, height: int, width: int, quality: int, halved: bool, seed: int
) -> None:
    image = drawn(kind, height, width, seed)
    np.testing.assert_array_equal(round_trip(image, quality, halved), decoded(image, quality, halved))


@pytest.mark.parametrize("quality", range(1, 101, 9))
def test_photographs_equal_at_every_quality(quality: int) -> None:
    image = photograph(151, 226)
    np.testing.assert_array_equal(round_trip(image, quality), decoded(image, quality, halved=True))


def test_writes_into_an_array() -> None:
    image, batch = photograph(64, 80), np.zeros((2, 64, 80, 3), np.uint8)
    assert round_trip(image, 85, out=batch[1]).base is batch
    np.testing.assert_array_equal(batch[1], decoded(image, 85, halved=True))
    assert not batch[0].any()
