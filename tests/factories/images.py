"""Image files for decoders, and the installed decoders."""

import io

import numpy as np
from PIL import Image

from pipeline.images.decoders import DECODERS

INSTALLED = [name for name, decoder in DECODERS.items() if not decoder.missing()]
"""Names of the installed decoders. nvjpeg needs a GPU."""


def photograph(height: int, width: int) -> np.ndarray:
    """Return smooth waves of colour, uint8 (H, W, 3)."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([127 + 100 * np.sin(x / 9), 127 + 100 * np.cos(y / 7), (x + y) % 256], axis=-1).astype(np.uint8)


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Return random values, uint8 (H, W, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def blocks(height: int, width: int) -> np.ndarray:
    """Return squares of 8 x 8 pixels in random colours, uint8 (H, W, 3)."""
    return noise(-(-height // 8), -(-width // 8), seed=5).repeat(8, axis=0).repeat(8, axis=1)[:height, :width].copy()


def encoded(image: Image.Image, kind: str = "PNG", **settings: object) -> bytes:
    """Return the bytes of an image file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **settings)
    return buffer.getvalue()


def assert_corrupted_copy(result: np.ndarray, image: np.ndarray, before: np.ndarray) -> None:
    """Assert that a result is a new array of the image's form, and that the image is as ``before``."""
    assert np.array_equal(image, before)
    assert not np.shares_memory(result, image)
    assert result.dtype == np.uint8
    assert result.shape == image.shape
    assert result.flags.c_contiguous
    assert result.flags.writeable
