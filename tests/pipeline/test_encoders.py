from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from pipeline.encoders import jpeg

SIZES = [(224, 224), (16, 16), (17, 33), (299, 299), (64, 63)]


def picture(height: int, width: int) -> np.ndarray:
    rows, columns = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(height).integers(0, 50, (height, width, 3))
    return (np.stack([rows, columns, rows + columns], axis=2) % 200 + noise).astype(np.uint8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("quality", "optimize"), [(85, True), (85, False), (10, True), (100, True)])
def test_bytes_are_those_of_pillow(size: tuple[int, int], quality: int, optimize: bool) -> None:
    image, buffer = picture(*size), io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=quality, optimize=optimize)
    assert jpeg(quality, optimize).encode(image) == buffer.getvalue()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("quality", [5, 50, 85, 100])
def test_pixels_are_those_of_pillow(size: tuple[int, int], quality: int) -> None:
    encoder = jpeg(quality, True)
    data = encoder.encode(picture(*size))
    with Image.open(io.BytesIO(data)) as image:
        np.testing.assert_array_equal(encoder.decode(data), np.asarray(image))


def test_damaged_and_huge_payloads_raise() -> None:
    encoder = jpeg(85, True)
    data = encoder.encode(picture(64, 64))
    with pytest.raises(ValueError, match=r"(?i)jpeg"):
        encoder.decode(b"no jpeg")
    start = data.index(b"\xff\xc0") + 5
    bomb = data[:start] + b"\xff\xdc\xff\xdc" + data[start + 4 :]
    with pytest.raises(ValueError, match="more than"):
        encoder.decode(bomb)
