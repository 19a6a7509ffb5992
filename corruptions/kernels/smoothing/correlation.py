"""Correlations with small filters: smoothing in integers, embossing and sharpening in float32.

The kernels read an image with margins, uint8 (H + margins, (W + margins) * 3), and write uint8 (H, W * 3).
"""

from __future__ import annotations

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.planes import nearest_level

CHANNELS = 3
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


@inlined
def difference(left, right):
    """Return the difference of two levels as int16."""
    return np.int16(np.int16(left) - np.int16(right))


@kernel
def emboss(source, strength, out):
    """Write the image, correlated with [[-1 - s, -s, 0], [-s, 1, s], [0, s, 1 + s]], to ``out``.

    Equal weights have one product: s * (differences of all opposite neighbours) + centre + difference of the corners.

    Args:
        source: Image with margins of one pixel.
        strength: s, float32.
        out: uint8 (H, W * 3).
    """
    height, width = out.shape
    for y in range(height):
        above, row, below, target = source[y], source[y + 1], source[y + 2], out[y]
        up, centre, right = above[CHANNELS:], row[CHANNELS:], row[2 * CHANNELS :]
        down, corner = below[CHANNELS:], below[2 * CHANNELS :]
        for i in range(width):
            diagonal = difference(corner[i], above[i])
            sides = np.int16(difference(down[i], up[i]) + difference(right[i], row[i]))
            plain = np.float32(np.int16(np.int16(centre[i]) + diagonal))
            target[i] = nearest_level(plain + strength * np.float32(np.int16(diagonal + sides)))


@kernel
def sharpen(source, centre_weight, weight, out):
    """Write the weighted difference of each value and its eight neighbours to ``out``.

    Args:
        source: Image with margins of one pixel.
        centre_weight: Weight of the value, float32.
        weight: Weight of the sum of its neighbours, which is subtracted, float32.
        out: uint8 (H, W * 3).
    """
    height, width = out.shape
    columns = scratch(source.shape[1], np.uint16)
    for y in range(height):
        above, row, below, target = source[y], source[y + 1], source[y + 2], out[y]
        for i in range(columns.size):
            columns[i] = np.uint16(np.uint16(np.uint16(above[i]) + np.uint16(row[i])) + np.uint16(below[i]))
        centre, middle, right = row[CHANNELS:], columns[CHANNELS:], columns[2 * CHANNELS :]
        for i in range(width):
            level = np.uint16(centre[i])
            others = np.uint16(np.uint16(np.uint16(columns[i] + middle[i]) + right[i]) - level)
            target[i] = nearest_level(np.float32(level) * centre_weight - np.float32(others) * weight)
