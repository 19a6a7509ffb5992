"""Image files for decoders, and the decoders of this machine."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from pipeline.images.decoders import DECODERS

HERE = [name for name, decoder in DECODERS.items() if not decoder.missing()]
"""The decoders of this machine; nvjpeg needs a GPU."""


def photograph(height: int, width: int) -> np.ndarray:
    """Return smooth waves of colour."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([127 + 100 * np.sin(x / 9), 127 + 100 * np.cos(y / 7), (x + y) % 256], axis=-1).astype(np.uint8)


def encoded(image: Image.Image, kind: str = "PNG", **settings: object) -> bytes:
    """Return an image as the bytes of a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **settings)
    return buffer.getvalue()
