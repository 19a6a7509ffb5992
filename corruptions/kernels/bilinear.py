"""Pillow's BILINEAR resize in its own 22-bit fixed point, bit-exact, of which only a window is computed.

Which axis comes first can move a level by one. Here that is as in Pillow 13, whichever is installed; those before began
with the columns whatever the size.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel, scratch
from corruptions.kernels.pixelate import BITS, ROUNDING

ONE = float(1 << BITS)


@kernel
def taps(size, target, first, count):
    """What ``count`` outputs from ``first`` on read of an axis of ``size`` that becomes ``target`` long.

    (count,) each one's first input, (count,) how many it reads, and (count, most of them) their weights in fixed point.
    """
    scale = size / target
    reach = max(scale, 1.0)
    begins, reads = np.empty(count, np.int64), np.empty(count, np.int64)
    weights = np.zeros((count, 2 * math.ceil(reach) + 1), np.uint32)
    shares = np.empty(weights.shape[1])
    for i in range(count):
        centre = (first + i + 0.5) * scale
        begin = max(int(centre - reach + 0.5), 0)
        begins[i], reads[i] = begin, min(int(centre + reach + 0.5), size) - begin
        total = 0.0
        for k in range(reads[i]):
            shares[k] = max(1.0 - abs((begin + k - centre + 0.5) * (1.0 / reach)), 0.0)
            total += shares[k]
        for k in range(reads[i]):
            weights[i, k] = np.uint32(0.5 + shares[k] / total * ONE)
    return begins, reads, weights


@kernel
def combine_columns(image, begins, reads, weights):
    """(H, W, 3) uint8 to (H, w, 3): every output column from the columns that it reads."""
    width = image.shape[1]
    flat = image.reshape(-1)
    out = np.empty((image.shape[0], 3 * begins.size), np.uint8)
    for y in range(image.shape[0]):
        line, row = flat[3 * width * y : 3 * width * (y + 1)], out[y]
        for x in range(begins.size):
            red, green, blue = ROUNDING, ROUNDING, ROUNDING
            at = np.uint64(3 * begins[x])  # an unsigned index needs no check for a count from the end
            for k in range(reads[x]):
                weight = weights[x, k]
                red += line[at] * weight
                green += line[at + np.uint64(1)] * weight
                blue += line[at + np.uint64(2)] * weight
                at += np.uint64(3)
            row[3 * x] = np.uint8(red >> np.uint32(BITS))
            row[3 * x + 1] = np.uint8(green >> np.uint32(BITS))
            row[3 * x + 2] = np.uint8(blue >> np.uint32(BITS))
    return out.reshape(image.shape[0], begins.size, 3)


@kernel
def combine_rows(image, begins, reads, weights):
    """(H, W, 3) uint8 to (h, W, 3): every output row from the rows that it reads."""
    width = 3 * image.shape[1]
    flat = image.reshape(image.shape[0], width)
    out = np.empty((begins.size, width), np.uint8)
    sums = scratch(width, np.uint32)
    for y in range(begins.size):
        sums[:] = ROUNDING
        for k in range(reads[y]):
            line, weight = flat[begins[y] + k], weights[y, k]
            for i in range(width):
                sums[i] += line[i] * weight
        row = out[y]
        for i in range(width):
            row[i] = np.uint8(sums[i] >> np.uint32(BITS))
    return out.reshape(begins.size, image.shape[1], 3)


def rows_first(height: int, width: int, size: tuple[int, int]) -> bool:
    """Whether rows are combined before columns: the height shrinks by more than twice as many pixels as the width."""
    return height > size[0] and height - size[0] > 2 * (width - size[1])


def resize_bilinear(
    image: NDArray[np.uint8], size: tuple[int, int], corner: tuple[int, int], window: tuple[int, int]
) -> NDArray[np.uint8]:
    """The part of ``window`` (h, w) at ``corner`` (y, x) of an image (H, W, 3) uint8 that is resized to ``size``."""
    height, width, _ = image.shape
    (top, down, rows), (left, across, columns) = map(taps, (height, width), size, corner, window)
    first, last = (top[0], left[0]), (top[-1] + down[-1], left[-1] + across[-1])
    # A copy of what is read: small, and never read-only, which would be a type of its own to compile for.
    part = np.array(image[first[0] : last[0], first[1] : last[1]], order="C")
    vertical, horizontal = (top - first[0], down, rows), (left - first[1], across, columns)
    if rows_first(height, width, size):
        tall: NDArray[np.uint8] = combine_columns(combine_rows(part, *vertical), *horizontal)
        return tall
    wide: NDArray[np.uint8] = combine_rows(combine_columns(part, *horizontal), *vertical)
    return wide
