"""Pillow's affine transform with its bilinear filter, for a window of the result: the same arithmetic in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel


@inlined
def clamp(position, size):
    """A position as an index below ``size``."""
    return min(max(position, 0), size - 1)


@inlined
def between(a, b, share):
    """Pillow's interpolation of two levels."""
    return a + (b - a) * share


@kernel
def sample_window(pixels, canvas, matrix, window):
    """(h, w, 3) uint8: for each pixel of the window (top, left, h, w) what the matrix (6,) finds on the canvas.

    ``canvas`` is (height, width, top, left) of the whole image, of which ``pixels`` (H, W, 3) is the part from
    (top, left) on. Points outside of the whole image are black; half a pixel at its edge repeats the edge.
    """
    whole_height, whole_width, top, left = canvas
    rows, columns, _ = pixels.shape
    out = np.zeros((window[2], window[3], 3), np.uint8)
    a, b, c, d, e, f = matrix
    for y in range(window[2]):
        down = window[0] + y + 0.5
        target = out[y]
        for x in range(window[3]):
            across = window[1] + x + 0.5
            px, py = a * across + b * down + c, d * across + e * down + f
            if px < 0.0 or px >= whole_width or py < 0.0 or py >= whole_height:
                continue
            px, py = px - 0.5, py - 0.5
            column, row = np.int64(math.floor(px)), np.int64(math.floor(py))
            share_x, share_y = px - column, py - row
            first, second = clamp(column - left, columns), clamp(column + 1 - left, columns)
            upper, lower = pixels[clamp(row - top, rows)], pixels[clamp(row + 1 - top, rows)]
            for channel in range(3):
                above = between(np.float64(upper[first, channel]), np.float64(upper[second, channel]), share_x)
                below = between(np.float64(lower[first, channel]), np.float64(lower[second, channel]), share_x)
                target[x, channel] = np.uint8(np.int32(between(above, below, share_y)))
    return out


@inlined
def axis_samples(scale, offset, start, whole, first, count, lower, upper, share):
    """Along one axis: the two neighbours and the share of the second for each position; share -1 outside."""
    for i in range(lower.size):
        position = scale * (start + i + 0.5) + offset
        if position < 0.0 or position >= whole:
            share[i] = -1.0
            continue
        position -= 0.5
        below = np.int64(math.floor(position))
        share[i] = position - below
        lower[i], upper[i] = clamp(below - first, count), clamp(below + 1 - first, count)


@inlined
def stretch(source, lower, upper, share, row):
    """``row`` (3 W,) = a row of pixels (C, 3) interpolated at the samples of an axis, as float64."""
    for x in range(lower.size):
        low, high, part = lower[x], upper[x], share[x]
        for channel in range(3):
            row[3 * x + channel] = between(np.float64(source[low, channel]), np.float64(source[high, channel]), part)


@kernel
def scale_window(pixels, canvas, matrix, window):
    """:func:`sample_window` for a matrix that neither turns nor shears: rows are interpolated once each."""
    whole_height, whole_width, top, left = canvas
    height, width = window[2], window[3]
    out = np.zeros((height, width, 3), np.uint8)
    columns = np.zeros((2, width), np.int64)
    rows = np.zeros((2, height), np.int64)
    share_x, share_y = np.empty(width), np.empty(height)
    axis_samples(matrix[0], matrix[2], window[1], whole_width, left, pixels.shape[1], columns[0], columns[1], share_x)
    axis_samples(matrix[4], matrix[5], window[0], whole_height, top, pixels.shape[0], rows[0], rows[1], share_y)
    inside = np.flatnonzero(share_x >= 0.0)
    if inside.size == 0:
        return out
    begin, end = inside[0], inside[-1] + 1
    ready = np.full(2, -1)
    stretched = np.empty((2, 3 * (end - begin)))
    for y in range(height):
        if share_y[y] < 0.0:
            continue
        for k in range(2):
            row = rows[k, y]
            if ready[row % 2] != row:
                stretch(
                    pixels[row], columns[0, begin:end], columns[1, begin:end], share_x[begin:end], stretched[row % 2]
                )
                ready[row % 2] = row
        above, below, part = stretched[rows[0, y] % 2], stretched[rows[1, y] % 2], share_y[y]
        target = out[y].reshape(-1)[3 * begin : 3 * end]
        for i in range(target.size):
            target[i] = np.uint8(np.int32(between(above[i], below[i], part)))
    return out


@inlined
def level_at(pixels, row, column, channel):
    """A level of the picture; black outside."""
    inside = 0 <= row < pixels.shape[0] and 0 <= column < pixels.shape[1]
    return np.float32(pixels[row, column, channel]) if inside else np.float32(0)


@inlined
def mixed(a, b, c, d, share_x, share_y):
    """Four levels, the upper two first, interpolated in float32 and rounded."""
    return np.uint8(np.int32(between(between(a, b, share_x), between(c, d, share_x), share_y) + np.float32(0.5)))


@kernel
def project_window(pixels, matrix, window):
    """(h, w, 3) uint8: for each pixel of the window (top, left, h, w) what the projection (9,) finds.

    Points between four pixels are interpolated, black being all around, as OpenCV's warpPerspective does it; there,
    vector code rounds differently from CPU to CPU, here it does not.
    """
    out = np.zeros((window[2], window[3], 3), np.uint8)
    rows, columns, _ = pixels.shape
    a, b, c, d, e, f, g, h, i = matrix
    for y in range(window[2]):
        down = np.float64(window[0] + y)
        target = out[y]
        for x in range(window[3]):
            across = np.float64(window[1] + x)
            depth = g * across + h * down + i
            px, py = (a * across + b * down + c) / depth, (d * across + e * down + f) / depth
            if not (-1.0 < px < columns and -1.0 < py < rows):
                continue
            # plus and minus one: a conversion cuts towards zero, and these lie above -1
            column, row = np.int64(px + 1.0) - 1, np.int64(py + 1.0) - 1
            share_x, share_y = np.float32(px - column), np.float32(py - row)
            if 0 <= row < rows - 1 and 0 <= column < columns - 1:
                upper, lower = pixels[row], pixels[row + 1]
                for k in range(3):
                    first, second = np.float32(upper[column, k]), np.float32(upper[column + 1, k])
                    third, fourth = np.float32(lower[column, k]), np.float32(lower[column + 1, k])
                    target[x, k] = mixed(first, second, third, fourth, share_x, share_y)
            else:
                for k in range(3):
                    first, second = level_at(pixels, row, column, k), level_at(pixels, row, column + 1, k)
                    third, fourth = level_at(pixels, row + 1, column, k), level_at(pixels, row + 1, column + 1, k)
                    target[x, k] = mixed(first, second, third, fourth, share_x, share_y)
    return out


@kernel
def add_level(total, levels, units, share, out):
    """total (P,) float32 += the levels (P,) in 0..1; ``out`` = total / share, clipped, times 255, truncated."""
    one, white = np.float32(1), np.float32(255)
    for i in range(total.size):
        total[i] += units[levels[i]]
        out[i] = np.uint8(np.int32(min(total[i] / share, one) * white))


@kernel
def drip(layer, weights):
    """A layer (H, W) with each column convolved with ``weights`` (K,) as numpy.convolve(mode="same") does."""
    height, width = layer.shape
    out = np.zeros_like(layer)
    ahead = weights.size - 1 - weights.size // 2
    for y in range(height):
        target = out[y]
        for k in range(weights.size):
            source = y + ahead - k
            if 0 <= source < height:
                above, weight = layer[source], layer.dtype.type(weights[k])
                for x in range(width):
                    target[x] += above[x] * weight
    return out


Matrix = tuple[float, float, float, float, float, float]


def affine(pixels: NDArray[np.uint8], canvas: tuple[int, ...], matrix: Matrix, window: tuple[int, ...]) -> Any:
    """A window of the affine transform, by the faster kernel where the axes stay parallel."""
    sample = scale_window if matrix[1] == 0.0 and matrix[3] == 0.0 else sample_window
    return sample(pixels, canvas, matrix, window)
