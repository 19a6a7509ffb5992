"""Pillow's BILINEAR resize in its 22-bit fixed-point arithmetic, bit-exact, computed only for a window of the result.

The order of the axes can change a level by one. This module always uses the order of Pillow 13, whichever version is
installed. Earlier versions always begin with the columns.
"""

import math

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel, scratch
from corruptions.kernels.planes import pack, unpack
from corruptions.kernels.sampling.pixelate import BITS, ROUNDING
from corruptions.kernels.vectors import fill, load_quarter, store, to_bytes, to_words

ONE = float(1 << BITS)
"""A weight of 1 in fixed point."""

ROWS = 4
"""Rows that are resampled at once."""

PIXELS = 4 * ROWS
"""Bytes of a pixel of each of these rows."""


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
    """Return uint8 (H, w, 3) from (H, W, 3): each output column is the weighted sum of its input columns.

    Four rows are resampled at once: their pixels, of four values each, lie side by side and fill a vector of sums.
    """
    height, size, width = image.shape[0], image.shape[1], begins.size
    values = image.reshape(-1)
    shares, taps = weights.view(np.int32).reshape(-1), weights.shape[1]
    count = reads.max()  # the same for all outputs, which is faster: the weights beyond the inputs of an output are 0
    inputs, outputs = scratch(ROWS * (size + taps), np.uint32), scratch(ROWS * width, np.uint32)
    levels, results = inputs.view(np.uint8), outputs.view(np.uint8)
    out = np.empty((height, 3 * width), np.uint8)
    for top in range(0, height, ROWS):
        pixels = pack(values[3 * size * top : 3 * size * (top + ROWS)]).reshape(-1, size)
        last = len(pixels) - 1
        a, b, c, d = pixels[0], pixels[min(1, last)], pixels[min(2, last)], pixels[min(3, last)]
        for x in range(size):
            inputs[4 * x], inputs[4 * x + 1], inputs[4 * x + 2], inputs[4 * x + 3] = a[x], b[x], c[x], d[x]
        for x in range(width):
            sums = fill(np.int32(ROUNDING))
            for k in range(count):
                loaded = load_quarter(levels, np.uint64(PIXELS * (begins[x] + k)))
                sums = sums + to_words(loaded) * shares[taps * x + k]
            store(results, np.uint64(PIXELS * x), to_bytes(sums >> np.int32(BITS)))
        for r in range(len(pixels)):
            unpack(outputs[r::ROWS].copy(), out[top + r])
    return out.reshape(height, width, 3)


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
