"""Correlations with small filters, in integers for smoothing, else in float32.

The kernels read an image with margins, uint8 (H + margins, (W + margins) * 3), and write uint8 (H, W * 3).
"""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.planes import CHANNELS, nearest_level
from corruptions.kernels.vectors import fma

HALF, FRACTION = np.uint32(1 << 15), np.uint32(16)
"""Half a level, and the number of fraction bits, after smoothing along both axes."""


@inlined
def add_weighted_pair(sums, left, right, weight):
    """Add (left + right) * weight to ``sums`` in its type."""
    kind = sums.dtype.type
    for i in range(sums.size):
        sums[i] += kind(kind(kind(left[i]) + kind(right[i])) * weight)


@kernel
def smooth(source, half, out):
    """Write the image, smoothed along both axes and rounded to nearest with halves up, to ``out``.

    Args:
        source: Image with margins of ``half.size - 1`` pixels.
        half: One side of a symmetric filter, centre first, uint16. All weights together are 256.
        out: uint8 (H, W * 3).
    """
    height, width = out.shape
    radius = half.size - 1
    columns, sums = scratch(source.shape[1], np.uint16), scratch(width, np.uint32)
    for y in range(height):
        centre = source[y + radius]
        for i in range(columns.size):
            columns[i] = np.uint16(np.uint16(centre[i]) * half[0])
        for k in range(1, half.size):
            add_weighted_pair(columns, source[y + radius - k], source[y + radius + k], half[k])
        middle, weight = columns[CHANNELS * radius :], np.uint32(half[0])
        for i in range(width):
            sums[i] = np.uint32(np.uint32(middle[i]) * weight) + HALF
        for k in range(1, half.size):
            start, end = CHANNELS * (radius - k), CHANNELS * (radius + k)
            add_weighted_pair(sums, columns[start : start + width], columns[end : end + width], np.uint32(half[k]))
        target = out[y]
        for i in range(width):
            target[i] = np.uint8(sums[i] >> FRACTION)


@kernel
def correlate_3x3(source, weights, out):
    """Write the image, correlated with a filter and rounded to nearest with halves to even, to ``out``.

    Products are fused with the sum that follows, in the order of rows and columns, as OpenCV does on CPUs that can.

    Args:
        source: Image with margins of one pixel.
        weights: The filter, float32 (3, 3).
        out: uint8 (H, W * 3).
    """
    height, width = out.shape
    sums = scratch(width, np.float32)
    for y in range(height):
        sums[:] = 0
        for k in range(3):
            row, (first, second, third) = source[y + k], weights[k]
            centre, right = row[CHANNELS:], row[2 * CHANNELS :]
            for i in range(width):
                total = fma(np.float32(row[i]), first, sums[i])
                sums[i] = fma(np.float32(right[i]), third, fma(np.float32(centre[i]), second, total))
        target = out[y]
        for i in range(width):
            target[i] = nearest_level(sums[i])
