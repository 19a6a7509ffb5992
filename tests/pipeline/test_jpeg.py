import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from corruptions.kernels.jpeg import round_trip
from pipeline.images.jpeg import file_and_pixels
from tests.factories.images import photograph

SIDES = st.integers(1, 70)


def pillows(image: np.ndarray, quality: int, halved: bool, optimize: bool = True) -> tuple[bytes, np.ndarray]:
    buffer, subsampling = io.BytesIO(), "4:2:0" if halved else "4:4:4"
    Image.fromarray(image).save(buffer, "JPEG", quality=quality, subsampling=subsampling, optimize=optimize)
    return buffer.getvalue(), np.asarray(Image.open(buffer))


def check(image: np.ndarray, quality: int, halved: bool, optimize: bool = True) -> None:
    """Assert that file and pixels are those of Pillow."""
    file, pixels = pillows(image, quality, halved, optimize)
    written, made = file_and_pixels(image, quality, halved, optimize)
    assert written == file
    np.testing.assert_array_equal(made, pixels)
    np.testing.assert_array_equal(round_trip(image, quality, halved), pixels)


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
    optimize=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_files_and_pixels_equal_pillows(
    kind: str, height: int, width: int, quality: int, halved: bool, optimize: bool, seed: int
) -> None:
    check(drawn(kind, height, width, seed), quality, halved, optimize)


@pytest.mark.parametrize("quality", range(1, 101, 9))
def test_photographs_equal_at_every_quality(quality: int) -> None:
    check(photograph(151, 226), quality, halved=True)


def test_codewords_have_at_most_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the limit, the rarest symbols of noise would have codewords of 17 to 19 bits."""
    monkeypatch.setattr(ImageFile, "MAXBLOCK", 2**20)  # Pillow's buffer for the file
    check(drawn("noise", 400, 400, 0), 100, halved=False)


def test_an_image_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 65500 pixels on a side, the image is 65501 x 1"):
        file_and_pixels(np.zeros((1, 65501, 3), np.uint8), 85)


def test_writes_into_an_array() -> None:
    image, batch = photograph(64, 80), np.zeros((2, 64, 80, 3), np.uint8)
    assert round_trip(image, 85, out=batch[1]).base is batch
    np.testing.assert_array_equal(batch[1], pillows(image, 85, halved=True)[1])
    assert not batch[0].any()
