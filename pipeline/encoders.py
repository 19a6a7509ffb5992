"""Array -> payload bytes and back: one row per encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from pipeline.decoders import MAX_PIXELS

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Encoder:
    """How a payload is stored. ``encode`` and ``decode`` are inverse up to the format's own loss."""

    suffix: str
    encode: Callable[[Image], bytes]
    decode: Callable[[bytes], Image]


def jpeg(quality: int, optimize: bool) -> Encoder:
    """JPEG, 4:2:0 chroma. OpenCV writes the bytes that Pillow writes at the same settings, a little faster.

    ``quality`` 1..100; ``optimize`` computes Huffman tables for each image (smaller files, the same pixels).
    """
    settings = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, int(optimize)]

    def encode(image: Image) -> bytes:
        done, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), settings)
        if not done:
            raise RuntimeError(f"JPEG encoding of a {image.shape} image failed")
        return data.tobytes()

    return Encoder(".jpg", encode, _decode_jpeg)


def _decode_jpeg(data: bytes) -> Image:
    """RGB (H, W, 3), the pixels that Pillow gives, faster. Raises ValueError for bytes that are no sound JPEG."""
    height, width, *_ = simplejpeg.decode_jpeg_header(data)
    if height * width > MAX_PIXELS:
        raise ValueError(f"{width} x {height} pixels are more than the {MAX_PIXELS} allowed")
    return np.asarray(simplejpeg.decode_jpeg(data, colorspace="RGB"))


ENCODERS: Mapping[str, Callable[..., Encoder]] = {"jpeg": jpeg}
"""Encoder name -> function that takes its settings."""
