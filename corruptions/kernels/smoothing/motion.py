"""ImageMagick's motion blur: one-sided Gaussian weights along a line of whole-pixel steps, with replicated edges.

A value is the sum s of the levels at the taps times their weights, in 0..255. ImageMagick Q16 without HDRI adds up
257 s in float64, tap by tap, rounds it to 16 bits and truncates that to 8: floor(floor(257 s + 0.5) / 257) =
floor(s + 0.5 / 257).
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from corruptions.elementary import cos_sin, exp, hypot
from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.doubts import marks_for, truncate_marked

QUANTUM = 257
"""One 8-bit level in ImageMagick's 16-bit quanta."""

ROUNDING = 0.5 / QUANTUM
"""Amount added to a level before truncation."""

SQRT_2PI = 2.5066282746310002
"""ImageMagick's divisor of a Gaussian. It cancels out except for rounding."""

MIN_WEIGHT = 2.0**-24
"""Smaller weights are left out of the fast sum."""

BLOCK = 4
"""Taps added in one pass over the sums."""


@lru_cache(maxsize=256)
def one_sided_weights(radius: int, sigma: float) -> NDArray[np.float64]:
    """Return the weights of the 2 * radius + 1 taps, beginning at the pixel itself, in ImageMagick's order."""
    weights = [exp(-(i * i) / (2.0 * sigma * sigma)) / (SQRT_2PI * sigma) for i in range(2 * radius + 1)]
    *_, total = accumulate(weights)
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
def tap_offsets(count, px, py, length):
    """Return the int64 offsets (T, 2) as (dx, dy) of all taps. The numbers come from :func:`line_step`."""
    offsets = np.empty((count, 2), np.int64)
    for i in range(count):
        offsets[i, 0], offsets[i, 1] = tap_offset(i, px, py, length)
    return offsets


@kernel
def fast_taps(offsets, weights):
    """Return offsets (M, 2) and float32 weights (M,) of the fast sum, and the bound of its error in levels.

    Taps on the same pixel, which are consecutive, are merged. Taps below MIN_WEIGHT are left out, and taps of weight 0
    make their number a multiple of BLOCK.

    The bound: all partial sums are at most 255. With u = 2**-24, a weight, its product and the two sums inside of a
    block have a relative error of u each, together at most 4 u 255. Each of the M / BLOCK additions to the total, the
    first of which adds to ROUNDING, is off by half the distance of floats below 256, 2**-17, and so are two sums with
    the bound itself. Weights that are left out change a value by at most 255 times their sum.
    """
    fast, sums = np.zeros((weights.size + BLOCK, 2), np.int64), np.zeros(weights.size + BLOCK)
    count, left_out = 0, 0.0
    for i in range(weights.size):
        if weights[i] < MIN_WEIGHT:
            left_out += weights[i]
            continue
        if count == 0 or fast[count - 1, 0] != offsets[i, 0] or fast[count - 1, 1] != offsets[i, 1]:
            fast[count] = offsets[i]
            count += 1
        sums[count - 1] += weights[i]
    size = -(-count // BLOCK) * BLOCK
    bound = 255 * (4 * 2.0**-24 + left_out) + (size // BLOCK + 3) * 2.0**-17
    return fast[:size], sums[:size].astype(np.float32), bound


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
def published_value(pixels, y, i, channels, offsets, weights):
    """Return value ``i`` of row ``y`` in ImageMagick's order of sums."""
    bottom, right, column, channel = pixels.shape[0] - 1, pixels.shape[1] // channels - 1, i // channels, i % channels
    total = 0.0
    for k in range(weights.size):
        row = pixels[min(max(y + offsets[k, 1], 0), bottom)]
        total += weights[k] * (QUANTUM * row[min(max(column + offsets[k, 0], 0), right) * channels + channel])
    return np.uint8(np.int64(total + 0.5) // QUANTUM)


@kernel
def sum_taps(pixels, channels, offsets, weights):
    """Return the blurred image, uint8 (H, W * channels). ``offsets`` and ``weights`` are those of all taps.

    Only the rows that the taps of one row read are kept as floats.
    """
    fast, fast_weights, error = fast_taps(offsets, weights)
    height, width = pixels.shape
    left, right = max(0, -fast[:, 0].min()), max(0, fast[:, 0].max())
    below = fast[:, 1].max()
    rows = np.empty((below - fast[:, 1].min() + 1, width + (left + right) * channels), np.float32)
    out, total = np.empty((height, width), np.uint8), scratch(width, np.float32)
    marks, found = marks_for(width)
    last, start, ready = height - 1, left * channels, 0
    bound = np.float32(error)
    for y in range(height):
        while ready <= min(y + below, last):
            pad_row(pixels[ready], channels, left, rows[ready % rows.shape[0]])
            ready += 1
        total[:] = ROUNDING
        for k in range(0, fast_weights.size, BLOCK):
            a = tap_row(rows, y, last, start, fast[k], channels, width)
            b = tap_row(rows, y, last, start, fast[k + 1], channels, width)
            c = tap_row(rows, y, last, start, fast[k + 2], channels, width)
            d = tap_row(rows, y, last, start, fast[k + 3], channels, width)
            add_taps(total, a, b, c, d, fast_weights[k : k + BLOCK])
        for k in range(truncate_marked(total, -bound, bound, out[y], marks, found)):
            out[y, found[k]] = published_value(pixels, y, found[k], channels, offsets, weights)
    return out


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
    weights = one_sided_weights(radius, sigma)
    offsets = tap_offsets(weights.size, *line_step(weights.size, angle))
    pixels = np.ascontiguousarray(image).reshape(image.shape[0], -1)
    return sum_taps(pixels, math.prod(image.shape[2:]), offsets, weights).reshape(image.shape)
