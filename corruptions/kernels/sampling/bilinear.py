"""Pillow's BILINEAR resize in its 22-bit fixed-point arithmetic, bit-exact, computed only for a window of the result.

The order of the axes can change a level by one. This module always uses the order of Pillow 13, whichever version is
installed. Earlier versions always begin with the columns.
"""

import math

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel, scratch
from corruptions.kernels.sampling.pixelate import BITS, ROUNDING

ONE = float(1 << BITS)
"""A weight of 1 in fixed point."""


@kernel
def filter_taps(size, target, first, count):
    """Return the inputs and weights of a range of outputs along one axis.

    Args:
        size: Length of the input axis in pixels.
        target: Length of the complete output axis in pixels.
        first: First output to compute.
        count: Number of outputs to compute.

    Returns:
        The first input of each output (count,), the number of its inputs (count,), and their weights in fixed point
        (count, largest number of inputs).
    """
    scale = size / target
    reach = max(scale, 1.0)
    begins, reads = np.empty(count, np.int64), np.empty(count, np.int64)
    weights = np.zeros((count, 2 * math.ceil(reach) + 1), np.uint32)
    unscaled = np.empty(weights.shape[1])
    for i in range(count):
        centre = (first + i + 0.5) * scale
        start = max(int(centre - reach + 0.5), 0)
        begins[i], reads[i] = start, min(int(centre + reach + 0.5), size) - start
        total = 0.0
        for k in range(reads[i]):
            unscaled[k] = max(1.0 - abs((start + k - centre + 0.5) * (1.0 / reach)), 0.0)
            total += unscaled[k]
        for k in range(reads[i]):
            weights[i, k] = np.uint32(0.5 + unscaled[k] / total * ONE)
    return begins, reads, weights


@kernel
def resample_columns(image, begins, reads, weights):
    """Return uint8 (H, w, 3) from (H, W, 3): each output column is the weighted sum of its input columns."""
    width = image.shape[1]
    flat = image.reshape(-1)
    out = np.empty((image.shape[0], 3 * begins.size), np.uint8)
    for y in range(image.shape[0]):
        line, row = flat[3 * width * y : 3 * width * (y + 1)], out[y]
        for x in range(begins.size):
            red, green, blue = ROUNDING, ROUNDING, ROUNDING
            at = np.uint64(3 * begins[x])  # numba does not check unsigned indices for negative values
            for k in range(np.uint32(reads[x])):  # sums in 32 bits, as in contrast.total
                weight = weights[x, k]
                red = np.uint32(red + np.uint32(line[at] * weight))
                green = np.uint32(green + np.uint32(line[at + np.uint64(1)] * weight))
                blue = np.uint32(blue + np.uint32(line[at + np.uint64(2)] * weight))
                at += np.uint64(3)
            row[3 * x] = np.uint8(red >> np.uint32(BITS))
            row[3 * x + 1] = np.uint8(green >> np.uint32(BITS))
            row[3 * x + 2] = np.uint8(blue >> np.uint32(BITS))
    return out.reshape(image.shape[0], begins.size, 3)


@kernel
def resample_rows(image, begins, reads, weights):
    """Return uint8 (h, W, 3) from (H, W, 3): each output row is the weighted sum of its input rows."""
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
    """Return whether rows are resampled before columns.

    This is so if the height shrinks by more than twice as many pixels as the width.
    """
    return height > size[0] and height - size[0] > 2 * (width - size[1])


def resize_bilinear(
    image: NDArray[np.uint8], size: tuple[int, int], corner: tuple[int, int], window: tuple[int, int]
) -> NDArray[np.uint8]:
    """Resize an image and return a window of the result.

    Args:
        image: uint8 (H, W, 3).
        size: Complete result, (height, width) in pixels.
        corner: Top left corner (y, x) of the window.
        window: Size (height, width) of the window.

    Returns:
        uint8 (h, w, 3).
    """
    height, width, _ = image.shape
    (top, down, rows), (left, across, columns) = map(filter_taps, (height, width), size, corner, window)
    first, last = (top[0], left[0]), (top[-1] + down[-1], left[-1] + across[-1])
    # Copy the part that is read: it is small, and numba would compile again for read-only arrays.
    part = np.array(image[first[0] : last[0], first[1] : last[1]], order="C")
    vertical, horizontal = (top - first[0], down, rows), (left - first[1], across, columns)
    if rows_first(height, width, size):
        return resample_columns(resample_rows(part, *vertical), *horizontal)
    return resample_rows(resample_columns(part, *horizontal), *vertical)
