"""Decoding of JPEG as Pillow does it, by libjpeg-turbo, into memory of which the next step finds as much as it can."""

from __future__ import annotations

import numpy as np
import simplejpeg
from numpy.typing import NDArray

STREAMED = 32
"""Bytes: rows that begin at a multiple of it libjpeg-turbo writes past the cache, and whoever reads them waits. That is
a tenth of decoding and hashing an image; where memory lies is chance otherwise."""


def decode(data: bytes | NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """The pixels, RGB (H, W, 3) uint8, of a JPEG file of that size. Raises ValueError."""
    room = np.empty(height * width * 3 + STREAMED, np.uint8)
    start = (STREAMED // 2 - room.ctypes.data) % STREAMED
    pixels = room[start : start + height * width * 3].reshape(height, width, 3)
    simplejpeg.decode_jpeg(data, colorspace="RGB", buffer=pixels)
    return pixels
