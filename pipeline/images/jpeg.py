"""JPEG files as libjpeg-turbo writes them, from the coefficients of the kernel that knows their pixels."""

import struct
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels.huffman import COEFFICIENTS, LANES, LIMIT, SIDE, STANDARD_CODES, ZIGZAG, encode
from corruptions.kernels.jpeg import CHROMA_STEPS, LUMA_STEPS, round_trip, steps_of

JFIF, SCAN = b"JFIF\0\1\1\0\0\1\0\1\0\0", bytes([3, 1, 0, 2, 17, 3, 17, 0, 63, 0])
"""Content of the first segment of a file, and of the last one: which channel has which codes."""
CODES = b"\x00", b"\x10", b"\x01", b"\x11"
"""Names of the codes."""

LARGEST = 65500
"""Largest side in pixels that libjpeg-turbo writes."""


def file_and_pixels(
    image: NDArray[np.uint8], quality: int, halved: bool = True, optimize: bool = True
) -> tuple[bytes, NDArray[np.uint8]]:
    """Return a JPEG file, and the image that a decoder returns.

    Args:
        image: uint8 (H, W, 3).
        quality: 1..100.
        halved: Whether chroma has half the height and width (4:2:0), else full size (4:4:4).
        optimize: Whether the Huffman codes are those that are optimal for the image, else those of the standard.

    Raises:
        ValueError: The image is too large for JPEG.
    """
    height, width, _ = image.shape
    if max(height, width) > LARGEST:
        raise ValueError(f"JPEG files have at most {LARGEST} pixels on a side, the image is {width} x {height}")
    repeats = 2 if halved else 1
    sides = tuple((-(-height // scale), -(-width // scale)) for scale in (SIDE, SIDE * repeats))
    groups = (-(-rows // 2) * -(-blocks // SIDE) for rows, blocks in (*sides, sides[1]))
    luma, cb, cr = (np.empty(count * LANES * COEFFICIENTS, np.int16) for count in groups)
    pixels = round_trip(image, quality, halved, coefficients=(luma, cb, cr))
    codes = STANDARD_CODES.copy()
    data = encode(luma, cb, cr, sides, repeats, codes, optimize)
    named = zip(CODES, map(bytes, codes), strict=True)
    tables = (_segment(0xC4, name + code[: LIMIT + sum(code[:LIMIT])]) for name, code in named)
    head = _head(height, width, quality, repeats)
    return b"".join((head, *tables, _segment(0xDA, SCAN), data, b"\xff\xd9")), pixels


@lru_cache
def _head(height: int, width: int, quality: int, repeats: int) -> bytes:
    """Return the start of a file, up to the codes."""
    steps = (steps_of(base, quality)[0, ZIGZAG].astype(np.uint8).tobytes() for base in (LUMA_STEPS, CHROMA_STEPS))
    frame = struct.pack(">BHHBBBBBBBBBB", 8, height, width, 3, 1, 17 * repeats, 0, 2, 17, 1, 3, 17, 1)
    tables = (_segment(0xDB, bytes([number]) + table) for number, table in enumerate(steps))
    return b"".join((b"\xff\xd8", _segment(0xE0, JFIF), *tables, _segment(0xC0, frame)))


def _segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content
