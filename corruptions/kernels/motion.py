"""ImageMagick's motion blur: one-sided Gaussian weights along a line of whole-pixel steps, with replicated edges."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.elementary import cos_sin, exp, hypot
from corruptions.kernels import inlined, kernel, scratch

QUANTUM = 257
"""One 8-bit level in ImageMagick's 16-bit quanta."""

ROUNDING = 0.5 / QUANTUM
"""Amount added to a level before truncation.

ImageMagick Q16 without HDRI rounds in 16 bits and truncates to 8: floor(floor(257 s + 0.5) / 257) =
floor(s + 0.5 / 257).
"""


MIN_WEIGHT = np.float32(2e-6)
"""Smaller weights are removed. Together they change a pixel by less than 0.01 levels."""

BLOCK = 4
"""Taps added in one pass over the sums."""


@lru_cache(maxsize=256)
def one_sided_weights(radius: int, sigma: float) -> NDArray[np.float64]:
    """Return the weights of the 2 * radius + 1 taps, beginning at the pixel itself. They sum to 1."""
    weights = [exp(-(i * i) / (2.0 * sigma * sigma)) for i in range(2 * radius + 1)]
    total = math.fsum(weights)
    return np.array([weight / total for weight in weights])


def line_step(width: int, angle: float) -> tuple[float, float, float]:
    """Return (px, py, length) of a line of ``width`` taps at ``angle`` degrees, computed in ImageMagick's order."""
    turn = math.pi * angle / 180.0
    cosine, sine = cos_sin(turn)
    px, py = width * sine, width * cosine
    return px, py, hypot(px, py)


@inlined
def tap_offset(i, px, py, length):
    """Return (dx, dy) of tap ``i``. ImageMagick's order of operations is kept, because it decides rounding of ties."""
    return math.ceil(i * py / length - 0.5), math.ceil(i * px / length - 0.5)


@kernel
def merge_taps(weights, px, py, length):
    """Return int64 offsets (T, 2) as (dx, dy) and float32 weights (T,), with taps on the same pixel merged.

    Taps on the same pixel are consecutive. ``px``, ``py`` and ``length`` come from :func:`line_step`.
    """
    offsets, sums = np.empty((weights.size, 2), np.int64), np.zeros(weights.size)
    count = 0
    for i in range(weights.size):
        dx, dy = tap_offset(i, px, py, length)
        if count == 0 or offsets[count - 1, 0] != dx or offsets[count - 1, 1] != dy:
            offsets[count, 0], offsets[count, 1] = dx, dy
            count += 1
        sums[count - 1] += weights[i]
    return offsets[:count], sums[:count].astype(np.float32)


def taps(radius: int, sigma: float, angle: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return offsets (T, 2) as (dx, dy) and weights (T,) of a blur, with taps on the same pixel merged."""
    merged: tuple[NDArray[np.int64], NDArray[np.float32]] = merge_taps(
        one_sided_weights(radius, sigma), *line_step(2 * radius + 1, angle)
    )
    return merged


@inlined
def pad_row(source, channels, left, row):
    """Write a row (W * channels) as float32 to ``row``, with its first and last pixel repeated at the ends.

    ``left`` is the number of pixels added before the first.
    """
    width, start = source.size, left * channels
    middle, end = row[start : start + width], row[start + width :]
    for i in range(width):
        middle[i] = source[i]
    for i in range(start):
        row[i] = middle[i % channels]
    for i in range(end.size):
        end[i] = middle[width - channels + i % channels]


@inlined
def tap_row(rows, y, last, start, offset, channels, width):
    """Return the ``width`` values that a tap reads for row ``y`` of 0..``last``. ``start`` is the index of dx = 0."""
    at = start + offset[0] * channels
    return rows[min(max(y + offset[1], 0), last) % rows.shape[0]][at : at + width]


@inlined
def add_taps(total, a, b, c, d, weights):
    """Add four weighted rows to ``total``. Adding four at once halves the accesses to ``total``."""
    first, second, third, fourth = weights[0], weights[1], weights[2], weights[3]
    for i in range(total.size):
        total[i] += (a[i] * first + b[i] * second) + (c[i] * third + d[i] * fourth)


@kernel
def sum_taps(pixels, channels, offsets, weights, rounding):
    """Return the weighted sum of the taps of each value plus ``rounding``, truncated, uint8 (H, W * channels).

    The number of taps must be a multiple of BLOCK. Only the rows that the taps of one row read are kept as floats.
    """
    height, width = pixels.shape
    left, right = max(0, -offsets[:, 0].min()), max(0, offsets[:, 0].max())
    below = offsets[:, 1].max()
    rows = np.empty((below - offsets[:, 1].min() + 1, width + (left + right) * channels), np.float32)
    out, total = np.empty((height, width), np.uint8), scratch(width, np.float32)
    last, start, ready = height - 1, left * channels, 0
    for y in range(height):
        while ready <= min(y + below, last):
            pad_row(pixels[ready], channels, left, rows[ready % rows.shape[0]])
            ready += 1
        total[:] = rounding
        for k in range(0, weights.size, BLOCK):
            a = tap_row(rows, y, last, start, offsets[k], channels, width)
            b = tap_row(rows, y, last, start, offsets[k + 1], channels, width)
            c = tap_row(rows, y, last, start, offsets[k + 2], channels, width)
            d = tap_row(rows, y, last, start, offsets[k + 3], channels, width)
            add_taps(total, a, b, c, d, weights[k : k + BLOCK])
        target = out[y]
        for i in range(width):
            target[i] = np.uint8(np.int32(min(total[i], np.float32(255.0))))
    return out


@kernel
def pad_taps(offsets, weights):
    """Return the taps above MIN_WEIGHT, padded with taps of weight 0 to a multiple of BLOCK."""
    count = np.int32(0)
    for weight in weights:
        count = np.int32(count + np.int32(weight > MIN_WEIGHT))
    size = -(-count // BLOCK) * BLOCK
    padded_offsets, padded_weights = np.zeros((size, 2), np.int64), np.zeros(size, np.float32)
    padded_offsets[:count], padded_weights[:count] = offsets[:count], weights[:count]
    return padded_offsets, padded_weights


def motion_blur(image: NDArray[np.uint8], radius: int, sigma: float, angle: float) -> NDArray[np.uint8]:
    """Return an image blurred along a line.

    Args:
        image: uint8 (H, W) or (H, W, C).
        radius: Half the length of the line in pixels.
        sigma: Standard deviation of the weights along the line in pixels.
        angle: Direction in degrees, in any quadrant.

    Returns:
        A new uint8 array of the same shape.
    """
    offsets, weights = pad_taps(*taps(radius, sigma, angle))
    pixels = np.ascontiguousarray(image).reshape(image.shape[0], -1)
    blurred: NDArray[np.uint8] = sum_taps(pixels, math.prod(image.shape[2:]), offsets, weights, np.float32(ROUNDING))
    return blurred.reshape(image.shape)
