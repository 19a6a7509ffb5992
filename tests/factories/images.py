"""Image files for decoders, and the installed decoders."""

from __future__ import annotations

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
