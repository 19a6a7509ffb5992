"""Pillow's affine transform with its bilinear filter, in the same float64 arithmetic, for a window of the result."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.sampling.elastic import blend
from corruptions.kernels.sampling.fixed_sampling import CHANNELS, PADDING, PIXEL, framed
from corruptions.kernels.vectors import (
    fma,
    load_eight,
    load_eighth,
    split_pixels,
    store,
    to_bytes,
    to_doubles,
    to_integers,
    to_words,
)

TO_NEAREST = np.float32(3 << 22)
"""A float32 below 2^22 plus this, and minus it again, is rounded to the nearest integer, halves to even."""


@inlined
def clamp(position, size):
    """Return a position as an index in 0..size - 1."""
    return min(max(position, 0), size - 1)


@inlined
def lerp(a, b, weight):
    """Return Pillow's interpolation of two levels, or of two vectors of levels."""
    return a + (b - a) * weight


@kernel
def bordered(pixels):
    """Return the values of an image (H, W, 3) with its edge pixels repeated once on all sides, and PADDING more."""
    out = framed(pixels, 1)
    rows = out[:-PADDING].reshape(pixels.shape[0] + 2, CHANNELS * (pixels.shape[1] + 2))
    for channel in range(CHANNELS):
        rows[:, channel] = rows[:, CHANNELS + channel]
        rows[:, channel - CHANNELS] = rows[:, channel - 2 * CHANNELS]
    rows[0], rows[-1] = rows[1], rows[-2]
    return out


@kernel
def sample_window(pixels, canvas, matrix, window):
    """Return the window of an affine transform, uint8 (h, w, 3).

    Args:
        pixels: uint8 (H, W, 3), the part of the complete image that begins at (top, left).
        canvas: (height, width, top, left) of the complete image. Outside of it, pixels are black. Within half a pixel
            of its edge, the edge pixel is repeated.
        matrix: Six coefficients from output to input coordinates.
        window: (top, left, h, w) of the window.
    """
    full_height, full_width, top, left = canvas
    rows, columns, _ = pixels.shape
    source, pitch = bordered(pixels), columns + 2
    out = np.zeros(CHANNELS * window[2] * window[3] + PADDING, np.uint8)
    place = np.uint64(0)
    a, b, c, d, e, f = matrix
    for y in range(window[2]):
        down = window[0] + y + 0.5
        for x in range(window[3]):
            across = window[1] + x + 0.5
            px, py = a * across + b * down + c, d * across + e * down + f
            if px < 0.0 or px >= full_width or py < 0.0 or py >= full_height:
                out[place] = 0  # the pixel before has written to it
            else:
                px, py = px - 0.5, py - 0.5
                column, row = math.floor(px), math.floor(py)
                weight_x, weight_y = px - column, py - row
                first, upper = clamp(column - left + 1, columns + 1), clamp(row - top + 1, rows + 1)
                at = PIXEL * np.uint64(upper * pitch + first)
                near, far = split_pixels(to_doubles(to_words(load_eighth(source, at))))
                above = lerp(near, far, weight_x)
                near, far = split_pixels(to_doubles(to_words(load_eighth(source, at + PIXEL * np.uint64(pitch)))))
                store(out, place, to_bytes(to_integers(lerp(above, lerp(near, far, weight_x), weight_y))))
            place += PIXEL
    return out[:-PADDING].reshape(window[2], window[3], CHANNELS)


@inlined
def axis_samples(scale, offset, start, full_size, first, count, lower, upper, weight):
    """Compute the samples of each position along one axis.

    Writes the indices of both neighbours, and the weight of the upper one or -1 outside of the image.
    """
    for i in range(lower.size):
        position = scale * (start + i + 0.5) + offset
        if position < 0.0 or position >= full_size:
            weight[i] = -1.0
            continue
        position -= 0.5
        below = np.int64(math.floor(position))
        weight[i] = position - below
        lower[i], upper[i] = clamp(below - first, count), clamp(below + 1 - first, count)


@inlined
def stretch(source, lower, upper, weight, row):
    """Write a row of pixels (C, 3), interpolated at the samples of an axis, to ``row`` (3 W,) as float64."""
    for x in range(lower.size):
        low, high, part = lower[x], upper[x], weight[x]
        for channel in range(3):
            row[3 * x + channel] = lerp(np.float64(source[low, channel]), np.float64(source[high, channel]), part)


@kernel
def scale_window(pixels, canvas, matrix, window):
    """Return :func:`sample_window` for a matrix without rotation and shear. Each row is interpolated once."""
    full_height, full_width, top, left = canvas
    height, width = window[2], window[3]
    out = np.zeros((height, width, 3), np.uint8)
    columns = np.zeros((2, width), np.int64)
    rows = np.zeros((2, height), np.int64)
    weight_x, weight_y = np.empty(width), np.empty(height)
    axis_samples(matrix[0], matrix[2], window[1], full_width, left, pixels.shape[1], columns[0], columns[1], weight_x)
    axis_samples(matrix[4], matrix[5], window[0], full_height, top, pixels.shape[0], rows[0], rows[1], weight_y)
    inside = np.flatnonzero(weight_x >= 0.0)
    if inside.size == 0:
        return out
    begin, end = inside[0], inside[-1] + 1
    ready = np.full(2, -1)
    stretched = np.empty((2, 3 * (end - begin)))
    for y in range(height):
        if weight_y[y] < 0.0:
            continue
        for k in range(2):
            row = rows[k, y]
            if ready[row % 2] != row:
                lower, upper, weight = columns[0, begin:end], columns[1, begin:end], weight_x[begin:end]
                stretch(pixels[row], lower, upper, weight, stretched[row % 2])
                ready[row % 2] = row
        above, below, part = stretched[rows[0, y] % 2], stretched[rows[1, y] % 2], weight_y[y]
        target = out[y].reshape(-1)[3 * begin : 3 * end]
        for i in range(target.size):
            target[i] = np.uint8(np.int32(lerp(above[i], below[i], part)))
    return out


@kernel
def project_window(pixels, corner, matrix, window):
    """Return the window of a projection, uint8 (h, w, 3), in the arithmetic of OpenCV 5's warpPerspective.

    It computes in float32 and fuses products with the sum that follows. Up to 15 columns at the right edge of the
    complete photograph, which windows do not reach, are computed in another order there.

    Args:
        pixels: uint8 (H, W, 3), the part of the photograph that the window needs. Outside of it, pixels are black.
        corner: (top, left) of this part.
        matrix: Nine float32 from output coordinates to those of the complete photograph.
        window: (top, left, h, w) of the window.
    """
    rows, columns, _ = pixels.shape
    source, pitch = framed(pixels, 1), columns + 2
    out = np.zeros(CHANNELS * window[2] * window[3] + PADDING, np.uint8)
    place = np.uint64(0)
    a, b, c, d, e, f, g, h, i = matrix
    for y in range(window[2]):
        down = np.float32(window[0] + y)
        start_x, start_y, start_depth = down * b + c, down * e + f, down * h + i
        for x in range(window[3]):
            across = np.float32(window[1] + x)
            depth = fma(across, g, start_depth)
            px, py = fma(across, a, start_x) / depth, fma(across, d, start_y) / depth
            if -1 <= px - corner[1] < columns and -1 <= py - corner[0] < rows:
                column, row = np.int64(np.floor(px)), np.int64(np.floor(py))
                weight_x, weight_y = px - np.float32(column), py - np.float32(row)
                at = PIXEL * np.uint64((row - corner[0] + 1) * pitch + column - corner[1] + 1)
                near, far = split_pixels(load_eight(source, at))
                below, beyond = split_pixels(load_eight(source, at + PIXEL * np.uint64(pitch)))
                level = blend(near, far, below, beyond, weight_x, weight_y)
                store(out, place, to_bytes(to_integers((level + TO_NEAREST) - TO_NEAREST)))
            else:
                out[place] = 0  # the pixel before has written to it
            place += PIXEL
    return out[:-PADDING].reshape(window[2], window[3], CHANNELS)


@kernel
def update_mean(total, levels, units, count, out):
    """Add levels in 0..1 to a running sum, and write the mean as levels.

    Args:
        total: float32 (P,), the running sum.
        levels: uint8 (P,), the levels to add.
        units: float32 (256,), the value in 0..1 of each level.
        count: float32, number of images in the sum.
        out: uint8 (P,), the mean, clipped and truncated.
    """
    one, white = np.float32(1), np.float32(255)
    for i in range(total.size):
        total[i] += units[levels[i]]
        out[i] = np.uint8(np.int32(min(total[i] / count, one) * white))


@kernel
def drip(layer, weights):
    """Return a layer (H, W) with each column convolved with ``weights`` (K,) as by numpy.convolve(mode="same")."""
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
"""Six coefficients from output to input coordinates."""


def affine(pixels: NDArray[np.uint8], canvas: tuple[int, ...], matrix: Matrix, window: tuple[int, ...]) -> Any:
    """Return the window of an affine transform.

    A faster kernel is used for a matrix without rotation and shear. The arguments are those of :func:`sample_window`.
    """
    sample = scale_window if matrix[1] == 0.0 and matrix[3] == 0.0 else sample_window
    return sample(pixels, canvas, matrix, window)
