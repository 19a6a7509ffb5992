"""Pillow's BOX resize in its 22-bit fixed-point arithmetic, bit-exact.

Columns are resized before rows, as in all Pillow versions of the time when the data was published. Pillow 13 begins
with the rows if the height shrinks by more than twice as many pixels as the width, which can change a level by one.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import copy, inlined, kernel
from corruptions.kernels.planes import pack, unpack

BITS = 22
"""Fraction bits of Pillow's 8-bit resampling weights."""

ROUNDING = np.uint32(1 << (BITS - 1))
"""Half a level in fixed point."""
LANE, LANE_MASK = np.uint64(16), np.uint64(0xFFFF)
"""Bits of one of three sums in a 64-bit word."""

HALF_WIDTH = 0.5
"""Half the width of a box. Of both ends, only the upper one is in the box."""


@lru_cache(maxsize=256)
def boxes(size: int, target: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint32]]:
    """Return the first input of each of ``target`` outputs, its number of inputs, and their common weight."""
    scale = size / target
    stretch = max(scale, 1.0)
    firsts, counts = np.empty(target, np.int32), np.empty(target, np.int32)
    for i in range(target):
        centre = (i + 0.5) * scale
        low = max(int(centre - stretch * HALF_WIDTH + 0.5), 0)
        high = min(int(centre + stretch * HALF_WIDTH + 0.5), size)
        inside = [j for j in range(low, high) if -HALF_WIDTH < (j - centre + 0.5) / stretch <= HALF_WIDTH]
        firsts[i], counts[i] = inside[0], len(inside)
    return firsts, counts, np.array([int(0.5 + 1.0 / n * 2**BITS) for n in counts], np.uint32)


@kernel
def shrink_rows(image, firsts, counts, weights):
    """Return uint8 (h, W, 3) from (H, W, 3): each output row is the rounded mean of its input rows."""
    height, width = firsts.size, image.shape[1] * 3
    flat = image.reshape(image.shape[0], width)
    out = np.empty((height, width), np.uint8)
    sums = np.empty(width, np.uint32)
    for y in range(height):
        sums[:] = 0
        for k in range(firsts[y], firsts[y] + counts[y]):
            for x in range(width):
                sums[x] += flat[k, x]
        for x in range(width):
            out[y, x] = np.uint8((sums[x] * weights[y] + ROUNDING) >> np.uint32(BITS))
    return out.reshape(height, image.shape[1], 3)


@inlined
def cumulative_sums(row, sums):
    """Write the sums of all pixels of a row (3 W,) before each x to ``sums``, three sums per word in lanes of 16 bits.

    Overflow between lanes cancels in the difference of two sums, if that difference fits into its lanes.
    """
    for x in range(sums.size - 1):
        r, g, b = np.uint64(row[3 * x]), np.uint64(row[3 * x + 1]), np.uint64(row[3 * x + 2])
        sums[x + 1] = r | g << LANE | b << LANE << LANE
    total = np.uint64(0)
    for x in range(sums.size):
        total += sums[x]
        sums[x] = total


@inlined
def fill_means(sums, weights, row):
    """Write the rounded means of (W,) sums in lanes to a row (3 W,)."""
    for x in range(sums.size):
        r, g = np.uint32(sums[x] & LANE_MASK), np.uint32(sums[x] >> LANE & LANE_MASK)
        b = np.uint32(sums[x] >> LANE >> LANE)
        row[3 * x] = np.uint8((r * weights[x] + ROUNDING) >> np.uint32(BITS))
        row[3 * x + 1] = np.uint8((g * weights[x] + ROUNDING) >> np.uint32(BITS))
        row[3 * x + 2] = np.uint8((b * weights[x] + ROUNDING) >> np.uint32(BITS))


@kernel
def shrink_columns(image, firsts, counts, weights):
    """Return uint8 (H, w, 3) from (H, W, 3): each output column is the rounded mean of its input columns.

    A column may have at most 257 input columns.
    """
    height, width = image.shape[:2]
    low = firsts.size
    flat = image.reshape(-1)
    out = np.empty(3 * height * low, np.uint8)
    sums, boxed = np.zeros(width + 1, np.uint64), np.empty(low, np.uint64)
    for y in range(height):
        sums[0] = 0
        cumulative_sums(flat[3 * y * width : 3 * (y + 1) * width], sums)
        for x in range(low):
            first = np.uint64(firsts[x])
            boxed[x] = sums[first + np.uint64(counts[x])] - sums[first]
        fill_means(boxed, weights, out[3 * y * low : 3 * (y + 1) * low])
    return out.reshape(height, low, 3)


@kernel
def repeat(image, rows, columns):
    """Return uint8 (H, W, 3) whose pixel (y, x) is the input's pixel (rows[y], columns[x])."""
    width = columns.size
    low = image.shape[1]
    source = pack(image.reshape(-1))
    out = np.empty((rows.size, 3 * width), np.uint8)
    pixels = np.empty(width, np.uint32)
    for y in range(rows.size):
        row = out[y]
        if y > 0 and rows[y] == rows[y - 1]:
            copy(out[y - 1], row)
            continue
        line = source[rows[y] * low : (rows[y] + 1) * low]
        for x in range(width):
            pixels[x] = line[np.uint64(columns[x])]
        unpack(pixels, row)
    return out.reshape(rows.size, width, 3)


@lru_cache(maxsize=256)
def nearest(size: int, target: int) -> NDArray[np.int32]:
    """Return the input of each of ``target`` outputs of Pillow's NEAREST.

    Quirk: Pillow adds up the step, so that rounding may move whole rows or columns to the next input.
    """
    step = size / target
    positions = np.array([step * HALF_WIDTH, *[step] * (target - 1)])
    return np.cumsum(positions).astype(np.int32)


def pixelate(image: NDArray[np.uint8], fraction: float, steps: bool = False) -> NDArray[np.uint8]:
    """Return uint8 (H, W, 3) with both sides shrunk to ``fraction`` of their length and enlarged by repetition.

    It is enlarged by Pillow's BOX, or by :func:`nearest` if ``steps`` is set.
    """
    height, width = image.shape[:2]
    low_height, low_width = int(height * fraction), int(width * fraction)
    small = shrink_rows(shrink_columns(image, *boxes(width, low_width)), *boxes(height, low_height))
    if steps:
        return repeat(small, nearest(low_height, height), nearest(low_width, width))
    return repeat(small, boxes(low_height, height)[0], boxes(low_width, width)[0])
