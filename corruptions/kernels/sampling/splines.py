"""Cubic B-splines at positions between pixels: zooms on their values, and turns on their coefficients.

Edges are mirrored without doubling the edge pixel.
"""

import math

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.vectors import fill, load, store

TAPS = 4
"""Pixels along an axis that have a weight at a position."""
BEFORE = 1
"""Pixels before the one at or before a position that have a weight."""

POLE = math.sqrt(3.0) - 2.0
"""Pole of the recursive filter that makes the coefficients of a cubic B-spline."""
GAIN = 6.0
"""Its gain along one axis."""

CHANNELS = 4
"""Values of a pixel of coefficients: three channels, and one that is 0. Four pixels fill a vector of float32."""

PIECES = np.array([(1, 4, 1, 0), (-3, 0, 3, 0), (3, -6, 3, 0), (-1, 3, -3, 1)], np.float32) / np.float32(6)
"""Weights of the taps as polynomials of the fraction: the factors of its powers 0 to 3, (power, tap)."""
LANES = np.repeat(PIECES, CHANNELS, axis=1)
"""The same for each value of four neighbouring pixels, (power, value)."""
HORIZON = 40
"""Pixels after which the power of the pole is negligible."""

BLACK, WHITE = np.float32(0), np.float32(255)
"""Lowest and highest level."""
NOISE = np.float32(2.0**-13)
"""Added before levels are truncated. It exceeds the rounding errors, which would darken flat areas by a level."""


@inlined
def mirrored(index, size):
    """Return the index in 0..size - 1 of an index less than ``size`` beyond the edges."""
    index = abs(index)
    return min(index, 2 * size - 2 - index)


@kernel
def zoom_taps(size, target, first):
    """Return the taps of ``size`` outputs from number ``first`` of an axis zoomed from ``size`` to ``target`` pixels.

    Returns:
        The pixels (TAPS, size), and their weights (TAPS, size), float64.
    """
    indices, weights = np.empty((TAPS, size), np.int64), np.empty((TAPS, size))
    for k in range(size):
        position = (first + k) * ((size - 1) / (target - 1))
        lower = np.floor(position)
        t = position - lower
        q = 1.0 - t
        weights[0, k] = q * q * q / 6.0
        weights[1, k] = (t * t * (t - 2.0) * 3.0 + 4.0) / 6.0
        weights[2, k] = (q * q * (q - 2.0) * 3.0 + 4.0) / 6.0
        weights[3, k] = 1.0 - weights[0, k] - weights[1, k] - weights[2, k]
        for tap in range(TAPS):
            indices[tap, k] = mirrored(int(lower) - BEFORE + tap, size)
    return indices, weights


@kernel
def zoom_channel(image, channel, rows, row_weights, columns, column_weights, out):
    """Write a channel of a zoomed image to ``out`` (H, W, 3). The taps are those of :func:`zoom_taps`.

    Each level is the sum of 16 products in raster order, because many sums are halfway between two levels.
    """
    height, width, _ = image.shape
    taps = np.empty((height, TAPS, width))
    for y in range(height):
        for tap in range(TAPS):
            for x in range(width):
                taps[y, tap, x] = image[y, columns[tap, x], channel]
    total = scratch(width, np.float64)
    for y in range(height):
        total[:] = 0.0
        for i in range(TAPS):
            weight = row_weights[i, y]
            for j in range(TAPS):
                values, weights = taps[rows[i, y], j], column_weights[j]
                for x in range(width):
                    total[x] += values[x] * weight * weights[x]
        for x in range(width):
            out[y, x, channel] = np.uint8(np.int32(total[x] + 0.5))


@inlined
def filter_columns(lines):
    """Replace float64 columns (n, m) by their spline coefficients."""
    size = lines.shape[0]
    first, power = scratch(lines.shape[1], np.float64), GAIN
    first[:] = 0.0
    for k in range(HORIZON):
        row = lines[mirrored(k % (2 * size - 2), size)]
        for x in range(first.size):
            first[x] += power * row[x]
        power *= POLE
    before = lines[0]
    for x in range(first.size):
        before[x] = first[x]
    for k in range(1, size):
        before, row = lines[k - 1], lines[k]
        for x in range(first.size):
            row[x] = GAIN * row[x] + POLE * before[x]
    before, row = lines[size - 2], lines[size - 1]
    for x in range(first.size):
        row[x] = (row[x] + POLE * before[x]) * (POLE / (POLE * POLE - 1.0))
    for k in range(size - 2, -1, -1):
        after, row = lines[k + 1], lines[k]
        for x in range(first.size):
            row[x] = POLE * (after[x] - row[x])


@kernel
def coefficients(image):
    """Return the spline coefficients of uint8 (H, W, 3), float32 (H + 3, W + 3, CHANNELS).

    One row and column before the image and two after it are mirrored.
    """
    height, width, _ = image.shape
    down, across = np.empty((height, width * 3)), np.empty((width, height * 3))
    for y in range(height):
        source, target = image[y].reshape(-1), down[y]
        for i in range(source.size):
            target[i] = source[i]
    filter_columns(down)
    for y in range(height):
        for x in range(width):
            for c in range(3):
                across[x, 3 * y + c] = down[y, 3 * x + c]
    filter_columns(across)
    out = np.zeros((height + TAPS - 1, width + TAPS - 1, CHANNELS), np.float32)
    for y in range(out.shape[0]):
        row = mirrored(y - BEFORE, height)
        for x in range(out.shape[1]):
            column = mirrored(x - BEFORE, width)
            for c in range(3):
                out[y, x, c] = across[column, 3 * row + c]
    return out


@inlined
def tap_weights(t, share):
    """Return the weights of the four taps at a fraction t, times ``share``. All are float32."""
    p = PIECES
    first = ((p[3, 0] * t + p[2, 0]) * t + p[1, 0]) * t + p[0, 0]
    second = ((p[3, 1] * t + p[2, 1]) * t + p[1, 1]) * t + p[0, 1]
    third = ((p[3, 2] * t + p[2, 2]) * t + p[1, 2]) * t + p[0, 2]
    fourth = ((p[3, 3] * t + p[2, 3]) * t + p[1, 3]) * t + p[0, 3]
    return first * share, second * share, third * share, fourth * share


@kernel
def average_turns(knots, turns, shares, lanes):
    """Return what :func:`turn_blur` returns. Positions outside of the image count as black.

    ``knots`` are the :func:`coefficients` of the image, ``lanes`` is LANES as one row.
    """
    height, width = knots.shape[0] - TAPS + 1, knots.shape[1] - TAPS + 1
    out = np.empty((height, width, 3), np.uint8)
    flat, pitch = knots.reshape(-1), knots.shape[1] * CHANNELS
    values = scratch(TAPS * CHANNELS, np.float32)
    constant, linear, square, cube = load(lanes, 0), load(lanes, 16), load(lanes, 32), load(lanes, 48)
    middle, centre = (height - 1) / 2, (width - 1) / 2
    for y in range(height):
        for x in range(width):
            total = fill(np.float32(0))
            for k in range(shares.size):
                cosine, sine = turns[k, 0], turns[k, 1]
                row = middle + (y - middle) * cosine + (x - centre) * sine
                column = centre - (y - middle) * sine + (x - centre) * cosine
                if row < 0.0 or row > height - 1.0 or column < 0.0 or column > width - 1.0:
                    continue
                top, left = int(row), int(column)
                a, b, c, d = tap_weights(np.float32(row - top), shares[k])
                at = top * pitch + left * CHANNELS
                upper = load(flat, at) * a + load(flat, at + pitch) * b
                lower = load(flat, at + 2 * pitch) * c + load(flat, at + 3 * pitch) * d
                t = np.float32(column - left)
                total = total + (upper + lower) * (((cube * t + square) * t + linear) * t + constant)
            store(values, 0, total)
            for c in range(3):
                level = (values[c] + values[CHANNELS + c]) + (values[2 * CHANNELS + c] + values[3 * CHANNELS + c])
                out[y, x, c] = np.uint8(np.int32(min(max(level + NOISE, BLACK), WHITE)))
    return out


def turn_blur(image: NDArray[np.uint8], turns: NDArray[np.float64], shares: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the weighted mean of an image turned by several angles about its centre.

    Args:
        image: uint8 (H, W, 3).
        turns: Cosine and sine of each angle, float64 (n, 2).
        shares: Weight of each angle, float32 (n,), of sum 1.

    Returns:
        A new uint8 array (H, W, 3).
    """
    return average_turns(coefficients(image), turns, shares, LANES.reshape(-1))


def zoom_channels(image: NDArray[np.uint8], zooms: tuple[float, ...]) -> NDArray[np.uint8]:
    """Return the centre of each channel zoomed by a factor of its own, without the prefilter of splines.

    Args:
        image: uint8 (H, W, 3).
        zooms: Factor of each channel, at least 1.

    Returns:
        A new uint8 array (H, W, 3).
    """
    out = np.empty_like(image)
    for channel, zoom in enumerate(zooms):
        targets = [round(size * zoom) for size in image.shape[:2]]
        rows, columns = (
            zoom_taps(size, target, (target - size) // 2) for size, target in zip(image.shape[:2], targets, strict=True)
        )
        zoom_channel(image, channel, *rows, *columns, out)
    return out
