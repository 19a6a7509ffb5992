"""Pillow's BOX resize in its own 22-bit fixed point, bit-exact.

Columns come before rows, as in every Pillow of the time of the data; Pillow 13 begins with the rows where the height
shrinks by more than twice what the width does, which can move a level by one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel

BITS = 22
"""Fraction bits of Pillow's 8-bit resampling weights."""

REACH = 0.5
"""Half the width of a box, which contains its upper end only."""


@lru_cache(maxsize=256)
def boxes(size: int, target: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint32]]:
    """For each of ``target`` outputs its first input, how many inputs it averages, and their common weight."""
    scale = size / target
    stretch = max(scale, 1.0)
    firsts, counts = np.empty(target, np.int32), np.empty(target, np.int32)
    for i in range(target):
        centre = (i + 0.5) * scale
        low = max(int(centre - stretch * REACH + 0.5), 0)
        high = min(int(centre + stretch * REACH + 0.5), size)
        inside = [j for j in range(low, high) if -REACH < (j - centre + 0.5) / stretch <= REACH]
        firsts[i], counts[i] = inside[0], len(inside)
    return firsts, counts, np.array([int(0.5 + 1.0 / n * 2**BITS) for n in counts], np.uint32)


@kernel
def shrink_rows(image, firsts, counts, weights):
    """(H, W, 3) uint8 to (h, W, 3): each output row the rounded mean of its input rows."""
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
            out[y, x] = np.uint8((sums[x] * weights[y] + np.uint32(1 << (BITS - 1))) >> np.uint32(BITS))
    return out.reshape(height, image.shape[1], 3)


@kernel
def shrink_columns(image, firsts, counts, weights):
    """(H, W, 3) uint8 to (H, w, 3): each output column the rounded mean of its input columns."""
    height, width = image.shape[0], firsts.size
    out = np.empty((height, width, 3), np.uint8)
    half, bits = np.uint32(1 << (BITS - 1)), np.uint32(BITS)
    for y in range(height):
        for x in range(width):
            r, g, b = np.uint32(0), np.uint32(0), np.uint32(0)
            for k in range(firsts[x], firsts[x] + counts[x]):
                r += image[y, k, 0]
                g += image[y, k, 1]
                b += image[y, k, 2]
            out[y, x, 0] = np.uint8((r * weights[x] + half) >> bits)
            out[y, x, 1] = np.uint8((g * weights[x] + half) >> bits)
            out[y, x, 2] = np.uint8((b * weights[x] + half) >> bits)
    return out


@kernel
def repeat(image, rows, columns):
    """(H, W, 3) uint8 whose pixel (y, x) is that of ``image`` at (rows[y], columns[x])."""
    height, width = rows.size, columns.size
    out = np.empty((height, width, 3), np.uint8)
    for y in range(height):
        if y > 0 and rows[y] == rows[y - 1]:  # the same row again: copy it
            out[y] = out[y - 1]
            continue
        for x in range(width):
            for c in range(3):
                out[y, x, c] = image[rows[y], columns[x], c]
    return out


def pixelate(image: NDArray[np.uint8], share: float) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 with both sides averaged down to ``share`` of their length and repeated up again."""
    height, width = image.shape[:2]
    low_height, low_width = int(height * share), int(width * share)
    small = shrink_rows(shrink_columns(image, *boxes(width, low_width)), *boxes(height, low_height))
    result: NDArray[np.uint8] = repeat(small, boxes(low_height, height)[0], boxes(low_width, width)[0])
    return result
