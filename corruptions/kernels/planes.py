"""Interleaved 8-bit pixels as three planes or as one word each, and back, and levels as numbers in 0..1.

The channels are addressed as ``flat[3 * i + c]`` with the 3 written out: only then does the compiler see three
interleaved streams, which it shuffles apart in whole vectors, ten times as fast as value by value.
"""

from __future__ import annotations

import numpy as np

from corruptions.kernels import inlined, kernel

CHUNK = 2048
"""Pixels per pass of :func:`pack`: three planes stay in the first-level cache."""

UNIT_HIGH = float.fromhex("0x1.01p-8")
UNIT_LOW = float.fromhex("0x1.0101010101010p-24")
"""Their sum is 1 / 255 with more bits than a float64 holds; a level times the first is exact in float32 too, so that
the sum of both products rounds once."""


@inlined
def unit(level, kind):
    """``level / 255`` in a float type, bit for bit for every level 0..255, without the division."""
    value = kind(level)
    return value * kind(UNIT_HIGH) + value * kind(UNIT_LOW)


@inlined
def split(flat, reds, greens, blues):
    """Spreads (3 P,) interleaved values over three arrays of P or more."""
    for i in range(flat.size // 3):
        reds[i] = flat[3 * i]
        greens[i] = flat[3 * i + 1]
        blues[i] = flat[3 * i + 2]


@inlined
def join(reds, greens, blues, flat):
    """Fills (3 P,) interleaved values from three arrays of P or more."""
    for i in range(flat.size // 3):
        flat[3 * i] = reds[i]
        flat[3 * i + 1] = greens[i]
        flat[3 * i + 2] = blues[i]


@kernel
def pack(flat):
    """(3 P,) interleaved uint8 as (P,) uint32: one load and one store move a pixel.

    By way of planes: straight from the levels to wider numbers the widest vectors take four times as long.
    """
    out = np.empty(flat.size // 3, np.uint32)
    planes = np.empty((3, CHUNK), np.uint8)
    reds, greens, blues = planes[0], planes[1], planes[2]
    for start in range(0, out.size, CHUNK):
        split(flat[3 * start : 3 * (start + CHUNK)], reds, greens, blues)
        words = out[start : start + CHUNK]
        for i in range(words.size):
            words[i] = np.uint32(reds[i]) | np.uint32(greens[i]) << np.uint32(8) | np.uint32(blues[i]) << np.uint32(16)
    return out


@inlined
def unpack(pixels, flat):
    """Fills (3 P,) interleaved uint8 from (P,) uint32 of :func:`pack`."""
    for i in range(pixels.size):
        flat[3 * i] = np.uint8(pixels[i])
        flat[3 * i + 1] = np.uint8(pixels[i] >> np.uint32(8))
        flat[3 * i + 2] = np.uint8(pixels[i] >> np.uint32(16))
