"""ImageMagick's motion blur: one-sided Gaussian weights along a line of whole-pixel steps, edges replicated."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch

QUANTUM = 257
"""A level in ImageMagick's 16-bit quanta."""

ROUNDING = 0.5 / QUANTUM
"""Q16 without HDRI rounds in 16 bits, then cuts to 8: floor(floor(257 s + 0.5) / 257) = floor(s + 0.5 / 257)."""


NEGLIGIBLE = np.float32(2e-6)
"""Taps of less weight are left out: together under 0.01 levels."""

BLOCK = 4
"""Taps that are added in one pass over the sums."""


@lru_cache(maxsize=256)
def one_sided_weights(radius: int, sigma: float) -> NDArray[np.float64]:
    """Weights of the 2 * radius + 1 taps, from the pixel itself on; they sum to 1."""
    weights = [math.exp(-(i * i) / (2.0 * sigma * sigma)) for i in range(2 * radius + 1)]
    total = math.fsum(weights)
    return np.array([weight / total for weight in weights])


def step(width: int, angle: float) -> tuple[float, float, float]:
    """(px, py, length) of a blur of ``width`` taps at ``angle`` degrees, in ImageMagick's order of operations."""
    turn = math.pi * angle / 180.0
    px, py = width * math.sin(turn), width * math.cos(turn)
    return px, py, math.hypot(px, py)


@inlined
def tap_offset(i, px, py, length):
    """(dx, dy) of tap ``i`` along a :func:`step`, in ImageMagick's order of operations, which decides the ties."""
    return math.ceil(i * py / length - 0.5), math.ceil(i * px / length - 0.5)


@kernel
def merged_taps(weights, px, py, length):
    """Offsets (T, 2) as (dx, dy) and weights (T,) float32 along a :func:`step`; taps on one pixel follow each other."""
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
    """Offsets (T, 2) as (dx, dy) and weights (T,) of a blur; taps that fall on one pixel are merged."""
    merged: tuple[NDArray[np.int64], NDArray[np.float32]] = merged_taps(
        one_sided_weights(radius, sigma), *step(2 * radius + 1, angle)
    )
    return merged


@inlined
def widen_row(source, channels, left, row):
    """``row`` = ``source`` (W * channels) as float32, its first pixel repeated ``left`` times, its last beyond."""
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
    """The ``width`` values that a tap reads for row ``y`` of 0..``last``; ``start``: where dx = 0 begins."""
    at = start + offset[0] * channels
    return rows[min(max(y + offset[1], 0), last) % rows.shape[0]][at : at + width]


@inlined
def add_taps(total, a, b, c, d, weights):
    """total += the sum of four rows, each times its weight: ``total`` is read and written once for four."""
    first, second, third, fourth = weights[0], weights[1], weights[2], weights[3]
    for i in range(total.size):
        total[i] += (a[i] * first + b[i] * second) + (c[i] * third + d[i] * fourth)


@kernel
def sum_taps(pixels, channels, offsets, weights, rounding):
    """(H, W * channels) uint8: for every value the weighted sum of its taps, plus ``rounding``, truncated.

    The number of taps is a multiple of BLOCK. Only the rows that the taps of one row reach are there as floats.
    """
    height, width = pixels.shape
    left, right = max(0, -offsets[:, 0].min()), max(0, offsets[:, 0].max())
    below = offsets[:, 1].max()
    rows = np.empty((below - offsets[:, 1].min() + 1, width + (left + right) * channels), np.float32)
    out, total = np.empty((height, width), np.uint8), scratch(width, np.float32)
    last, start, ready = height - 1, left * channels, 0
    for y in range(height):
        while ready <= min(y + below, last):
            widen_row(pixels[ready], channels, left, rows[ready % rows.shape[0]])
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
def filled(offsets, weights):
    """The taps that count, and taps of weight 0 up to a multiple of BLOCK."""
    count = (weights > NEGLIGIBLE).sum()
    size = -(-count // BLOCK) * BLOCK
    places, shares = np.zeros((size, 2), np.int64), np.zeros(size, np.float32)
    places[:count], shares[:count] = offsets[:count], weights[:count]
    return places, shares


def motion_blur(image: NDArray[np.uint8], radius: int, sigma: float, angle: float) -> NDArray[np.uint8]:
    """(H, W) or (H, W, C) uint8, blurred along ``angle`` (degrees, any quadrant)."""
    offsets, weights = filled(*taps(radius, sigma, angle))
    pixels = np.ascontiguousarray(image).reshape(image.shape[0], -1)
    blurred: NDArray[np.uint8] = sum_taps(pixels, math.prod(image.shape[2:]), offsets, weights, np.float32(ROUNDING))
    return blurred.reshape(image.shape)
