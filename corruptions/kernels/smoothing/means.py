"""Means of the pixels in a box or along a line.

The kernels read an image with margins, uint8 (H + margins, (W + margins) * 3), and write uint8 (H, W * 3). They add
integers. Sums are divided by a multiplication: see :func:`division`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.planes import CHANNELS

SHORT = 257
"""Largest number of levels whose sum fits into 16 bits."""


def division(count: int) -> NDArray[Any]:
    """Return what is added to a sum of ``count`` levels, and by what it is multiplied, to divide it by their number.

    The truncated product is the mean, rounded to nearest with halves up. Besides half of the count, a quarter is added.
    It keeps the product away from integers, so that the rounding of the factor does not matter.

    Args:
        count: Number of levels, at least 1.

    Returns:
        (2,), float32 if the sum fits into 16 bits, else float64.
    """
    return np.array([count / 2 + 0.25, 1 / count], np.float32 if count <= SHORT else np.float64)


@inlined
def store_means(sums, divide, target):
    """Write the means of sums to uint8 ``target``."""
    kind = divide.dtype.type
    offset, factor = divide[0], divide[1]
    for i in range(target.size):
        target[i] = np.uint8(np.int32((kind(sums[i]) + offset) * factor))


@inlined
def add_row(sums, row):
    """Add a row to ``sums``."""
    for i in range(sums.size):
        sums[i] += row[i]


@inlined
def slide(sums, entering, leaving):
    """Add a row to ``sums`` and subtract another one."""
    kind = sums.dtype.type
    for i in range(sums.size):
        sums[i] += kind(entering[i]) - kind(leaving[i])


@kernel
def box_means(source, side, divide, sums, out):
    """Write the mean of side x side pixels to ``out``, per channel.

    Args:
        source: Image with margins of side - 1 rows and columns in total.
        side: Side of the box.
        divide: :func:`division` by the number of pixels.
        sums: uint16, or uint32 if their sum does not fit, two rows of ``source``. Overwritten.
        out: uint8 (H, W * 3).
    """
    height, width = out.shape
    columns, boxes = sums[0], sums[1][:width]
    columns[:] = 0
    for y in range(side):
        add_row(columns, source[y])
    for y in range(height):
        if y > 0:
            slide(columns, source[y + side - 1], source[y - 1])
        boxes[:] = 0
        for x in range(side):
            add_row(boxes, columns[CHANNELS * x : CHANNELS * x + width])
        store_means(boxes, divide, out[y])


@kernel
def tap_means(source, side, taps, divide, out):
    """Write the mean of some of the side x side pixels around each pixel to ``out``, per channel.

    Args:
        source: Image with margins of side - 1 rows and columns in total.
        side: Side of the square.
        taps: Positions of the pixels in the square, row * side + column, int64 (n,), n <= SHORT.
        divide: :func:`division` by n, float32 (2,).
        out: uint8 (H, W * 3).
    """
    height, width = out.shape
    sums = scratch(width, np.uint16)
    for y in range(height):
        sums[:] = 0
        for tap in taps:
            start = CHANNELS * (tap % side)
            add_row(sums, source[y + tap // side][start : start + width])
        store_means(sums, divide, out[y])
