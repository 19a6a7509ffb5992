"""Pillow's affine transform with its bilinear filter, in the same float64 arithmetic, for a window of the result."""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.planes import CHANNELS, PIXEL
from corruptions.kernels.sampling.elastic import blend
from corruptions.kernels.sampling.fixed_sampling import PADDING, framed
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

Matrix = tuple[float, float, float, float, float, float]
"""Six coefficients from output to input coordinates."""

OUTSIDE = np.int32(-1)
"""Stands for the place of a pixel that is outside of the image."""

TO_NEAREST = np.float32(3 << 22)
"""A float32 below 2^22 plus this, and minus it again, is rounded to the nearest integer, halves to even."""


@inlined
def lerp(a, b, weight):
    """Return Pillow's interpolation of two levels, or of two vectors of levels."""
    return a + (b - a) * weight


@inlined
def held(position, most):
    """Return a whole number, float64, held within 0..most, as int32."""
    above = position if position > 0.0 else 0.0
    return np.int32(above if above < most else np.float64(most))


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
def affine(source, part, shape, matrix, window):
    """Return the window of an affine transform, uint8 (h, w, 3).

    Args:
        source: uint8, the values of a part of the complete image, from :func:`bordered`.
        part: (top, left, rows, columns) of this part.
        shape: (height, width) of the complete image. Outside of it, pixels are black. Within half a pixel of its edge,
            the edge pixel is repeated.
        matrix: Six coefficients from output to input coordinates.
        window: (top, left, h, w) of the window.
    """
    full_height, full_width = shape
    top, left, rows, columns = part
    pitch = columns + 2
    out = np.zeros(CHANNELS * window[2] * window[3] + PADDING, np.uint8)
    place, below = np.uint64(0), PIXEL * np.uint64(pitch)
    starts, right, down = np.empty(window[3], np.int32), np.empty(window[3]), np.empty(window[3])
    a, b, c, d, e, f = matrix
    for y in range(window[2]):
        at_y = window[0] + y + 0.5
        for x in range(window[3]):
            at_x = window[1] + x + 0.5
            px, py = a * at_x + b * at_y + c, d * at_x + e * at_y + f
            inside = (px >= 0.0) & (px < full_width) & (py >= 0.0) & (py < full_height)
            column, row = np.floor(px - 0.5), np.floor(py - 0.5)
            right[x], down[x] = px - 0.5 - column, py - 0.5 - row
            start = held(row - (top - 1.0), rows) * np.int32(pitch) + held(column - (left - 1.0), columns)
            starts[x] = start if inside else OUTSIDE
        for x in range(np.uint64(window[3])):
            if starts[x] == OUTSIDE:
                out[place] = 0  # the pixel before has written to it
            else:
                at = PIXEL * np.uint64(starts[x])
                near, far = split_pixels(to_doubles(to_words(load_eighth(source, at))))
                above = lerp(near, far, right[x])
                near, far = split_pixels(to_doubles(to_words(load_eighth(source, at + below))))
                store(out, place, to_bytes(to_integers(lerp(above, lerp(near, far, right[x]), down[x]))))
            place += PIXEL
    return out[:-PADDING].reshape(window[2], window[3], CHANNELS)


@kernel
def project_window(source, part, matrix, window):
    """Return the window of a projection, uint8 (h, w, 3), in the arithmetic of OpenCV 5's warpPerspective.

    It computes in float32 and fuses products with the sum that follows. Up to 15 columns at the right edge of the
    complete photograph, which windows do not reach, are computed in another order there.

    Args:
        source: uint8, the values of a part of the complete photograph, from ``framed(pixels, 1)``. Outside of it,
            pixels are black.
        part: (top, left, rows, columns) of this part.
        matrix: Nine float32 from output coordinates to those of the complete photograph.
        window: (top, left, h, w) of the window.
    """
    top, left, rows, columns = part
    pitch = columns + 2
    out = np.zeros(CHANNELS * window[2] * window[3] + PADDING, np.uint8)
    place, below = np.uint64(0), PIXEL * np.uint64(pitch)
    starts, right, down = np.empty(window[3], np.int32), scratch(window[3], np.float32), scratch(window[3], np.float32)
    a, b, c, d, e, f, g, h, i = matrix
    for y in range(window[2]):
        at_y = np.float32(window[0] + y)
        start_x, start_y, start_depth = at_y * b + c, at_y * e + f, at_y * h + i
        for x in range(window[3]):
            at_x = np.float32(np.int32(window[1] + x))
            depth = fma(at_x, g, start_depth)
            px, py = fma(at_x, a, start_x) / depth, fma(at_x, d, start_y) / depth
            column, row = np.floor(px), np.floor(py)
            right[x], down[x] = px - column, py - row
            first, upper = np.float64(column) - (left - 1.0), np.float64(row) - (top - 1.0)
            inside = (first >= 0.0) & (first <= columns) & (upper >= 0.0) & (upper <= rows)
            starts[x] = held(upper, rows) * np.int32(pitch) + held(first, columns) if inside else OUTSIDE
        for x in range(np.uint64(window[3])):
            if starts[x] == OUTSIDE:
                out[place] = 0  # the pixel before has written to it
            else:
                at = PIXEL * np.uint64(starts[x])
                near, far = split_pixels(load_eight(source, at))
                near_below, far_below = split_pixels(load_eight(source, at + below))
                level = blend(near, far, near_below, far_below, right[x], down[x])
                store(out, place, to_bytes(to_integers((level + TO_NEAREST) - TO_NEAREST)))
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
