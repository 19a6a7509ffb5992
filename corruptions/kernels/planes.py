"""Pixels as three planes or as one word each, the words of neighbouring pixels, and levels as floats.

Channels are indexed as ``flat[3 * i + c]`` with a literal 3, which is the form that the compiler vectorises.
"""

import numpy as np

from corruptions.kernels import inlined, kernel

CHANNELS, PIXEL = 3, np.uint64(3)
"""Values of a pixel."""

CHUNK = 2048
"""Pixels per pass of :func:`pack`. Three planes of a chunk fit into the first-level cache."""

UNIT_HIGH = float.fromhex("0x1.01p-8")
"""Higher part of 1 / 255. A level times this is exact, also in float32."""
UNIT_LOW = float.fromhex("0x1.0101010101010p-24")
"""Lower part of 1 / 255. The parts have more bits than a float64, so the sum of both products rounds once."""

BLACK, WHITE = np.int32(0), np.int32(255)
"""Lowest and highest level."""


@inlined
def to_unit(level, dtype):
    """Return ``level / 255`` in a float type, correctly rounded for every level 0..255, without a division."""
    value = dtype(level)
    return value * dtype(UNIT_HIGH) + value * dtype(UNIT_LOW)


@inlined
def nearest_level(x):
    """Return a float as the nearest level, halves to even, clipped to 0..255."""
    return np.uint8(min(max(np.int32(np.rint(x)), BLACK), WHITE))


@kernel
def equal_pixels(image, top, bottom, left, right):
    """Return whether all pixels of rows top..bottom - 1 and values left..right - 1 of (H, W * 3) are equal."""
    first, differences = image[top][left:right], np.uint8(0)
    for y in range(top, bottom):
        row = image[y][left:right]
        neighbours = row[3:]
        for i in range(neighbours.size):
            differences |= row[i] ^ neighbours[i]
        for i in range(3):
            differences |= row[i] ^ first[i]
        if differences:
            return False
    return True


@inlined
def deinterleave(flat, reds, greens, blues):
    """Write (3 P,) interleaved values to three arrays of at least P values."""
    for i in range(flat.size // 3):
        reds[i] = flat[3 * i]
        greens[i] = flat[3 * i + 1]
        blues[i] = flat[3 * i + 2]


@inlined
def interleave(reds, greens, blues, flat):
    """Write three arrays of at least P values to (3 P,) interleaved values."""
    for i in range(flat.size // 3):
        flat[3 * i] = reds[i]
        flat[3 * i + 1] = greens[i]
        flat[3 * i + 2] = blues[i]


@kernel
def pack(flat):
    """Return (3 P,) interleaved uint8 as (P,) uint32, so that one load and one store move a pixel.

    The channels are first separated into planes, because a direct conversion to wider numbers vectorises badly.
    """
    out = np.empty(flat.size // 3, np.uint32)
    reds, greens, blues = np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8)
    for start in range(0, out.size, CHUNK):
        deinterleave(flat[3 * start : 3 * (start + CHUNK)], reds, greens, blues)
        words = out[start : start + CHUNK]
        for i in range(words.size):
            words[i] = np.uint32(reds[i]) | np.uint32(greens[i]) << np.uint32(8) | np.uint32(blues[i]) << np.uint32(16)
    return out


@inlined
def unpack(pixels, flat):
    """Write (P,) uint32 of :func:`pack` to (3 P,) interleaved uint8."""
    for i in range(pixels.size):
        flat[3 * i] = np.uint8(pixels[i])
        flat[3 * i + 1] = np.uint8(pixels[i] >> np.uint32(8))
        flat[3 * i + 2] = np.uint8(pixels[i] >> np.uint32(16))
