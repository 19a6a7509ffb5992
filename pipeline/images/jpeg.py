"""JPEG decoding by libjpeg-turbo, with the pixels of Pillow."""

import numpy as np
import simplejpeg
from numpy.typing import NDArray

STREAM_ALIGNMENT = 32
"""Alignment in bytes at which libjpeg-turbo writes rows past the CPU cache.

Rows are placed off this alignment, so that they stay in the cache for the next step.
"""


def decode(data: bytes, height: int, width: int) -> NDArray[np.uint8]:
    """Decode a JPEG file.

    Args:
        data: Contents of the file.
        height: Height of the image in pixels.
        width: Width of the image in pixels.

    Returns:
        uint8 pixels (H, W, 3).

    Raises:
        ValueError: If the file cannot be decoded to an image of this size.
    """
    buffer = np.empty(height * width * 3 + STREAM_ALIGNMENT, np.uint8)
    start = (STREAM_ALIGNMENT // 2 - buffer.ctypes.data) % STREAM_ALIGNMENT
    pixels = buffer[start : start + height * width * 3].reshape(height, width, 3)
    simplejpeg.decode_jpeg(data, colorspace="RGB", buffer=pixels)
    return pixels
