"""Gaussian smoothing of fields that are mirrored at the edge, as by SciPy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import copy, inlined, kernel, scratch
from corruptions.kernels.smoothing.gaussian import half_gaussian
from corruptions.kernels.smoothing.waves import mirror_index, smooth_long
from corruptions.kernels.vectors import lanes_of, load, load_half, store

LONG_RADIUS = 24
"""Filters with a larger radius are computed as a sum of cosines, in a time independent of the radius."""

BAND = 8
"""Rows that are smoothed along their columns together, an even number."""

BLOCK = 32
"""Rows are padded to a multiple of this: four half vectors of float32, whose sums hide the latency of additions."""


@inlined
def correlate_rows(ring, rows, half, lines, margin):
    """Write a band of rows, weighted by a symmetric filter along their columns, to ``lines``.

    Two rows at once halve the reads: pair k of the second one and pair k + 1 of the first one share the lower row, and
    pair k of the first one and pair k + 1 of the second one the upper row.

    Args:
        ring: Rows of floats.
        rows: Positions in ``ring`` of the 2 * radius + N rows that the filters cover, uint64.
        half: One side of the filter, centre first.
        lines: (N, W + 2 * margin), N even, W a multiple of BLOCK. The margins are not written.
        margin: A multiple of the numbers in a cache line.
    """
    radius, pitch = half.size - 1, np.uint64(lines.shape[1])
    for x in range(np.uint64(0), pitch - np.uint64(2 * margin), np.uint64(lanes_of(ring))):
        for y in range(0, lines.shape[0], 2):
            upper, lower = load(ring, rows[y + radius] + x), load(ring, rows[y + radius + 1] + x)
            a, b = upper * half[0], lower * half[0]
            for k in range(1, half.size):
                above, below = load(ring, rows[y + radius - k] + x), load(ring, rows[y + radius + 1 + k] + x)
                a, b = a + (above + lower) * half[k], b + (upper + below) * half[k]
                upper, lower = above, below
            place = np.uint64(y) * pitch + np.uint64(margin) + x
            store(lines, place, a)
            store(lines, place + pitch, b)


@inlined
def correlate_line(line, half, row):
    """Write a line with margins, weighted by a symmetric filter, to ``row``, whose size is a multiple of BLOCK."""
    reach, second = np.uint64(half.size - 1), np.uint64(lanes_of(row) // 2)
    third, fourth = second + second, second + second + second
    for x in range(np.uint64(0), np.uint64(row.size), third + third):
        at = x + reach
        a, b = load_half(line, at) * half[0], load_half(line, at + second) * half[0]
        c, d = load_half(line, at + third) * half[0], load_half(line, at + fourth) * half[0]
        for k in range(np.uint64(1), np.uint64(half.size)):
            left, right, weight = at - k, at + k, half[k]
            a = a + (load_half(line, left) + load_half(line, right)) * weight
            b = b + (load_half(line, left + second) + load_half(line, right + second)) * weight
            c = c + (load_half(line, left + third) + load_half(line, right + third)) * weight
            d = d + (load_half(line, left + fourth) + load_half(line, right + fourth)) * weight
        store(row, x, a)
        store(row, x + second, b)
        store(row, x + third, c)
        store(row, x + fourth, d)


@kernel
def smooth_mirrored(field, down, across):
    """Return floats (H, W) correlated with symmetric filters along columns and rows, of which one side is given."""
    (height, width), radius, reach = field.shape, down.size - 1, across.size - 1
    size, margin = -(-width // BLOCK) * BLOCK, -(-reach // BLOCK) * BLOCK
    count, pitch = 2 * radius + BAND, size + BLOCK // 2  # an odd number of cache lines: rows compete less for the same
    ring, lines = scratch(count * pitch, field.dtype), scratch(BAND * (size + 2 * margin), field.dtype)
    lines, row = lines.reshape(BAND, size + 2 * margin), scratch(size, field.dtype)
    rows = np.array(
        [mirror_index(y, height) % count * pitch for y in range(-radius, height + BAND + radius)], np.uint64
    )
    outside = [x for x in range(-reach, size + reach) if x < 0 or x >= width]
    mirrored = [mirror_index(x, width) for x in outside]
    out, ready = np.empty_like(field), 0
    for top in range(0, height, BAND):
        while ready < min(top + BAND + radius, height):
            copy(field[ready], ring[ready % count * pitch :][:width])
            ready += 1
        correlate_rows(ring, rows[top : top + count], down, lines, margin)
        for y in range(top, min(top + BAND, height)):
            line = lines[y - top]
            for i in range(len(outside)):
                line[margin + outside[i]] = line[margin + mirrored[i]]
            correlate_line(line[margin - reach :], across, row)
            copy(row, out[y])
    return out


def smooth_field(field: NDArray[Any], sigmas: tuple[float, float], truncate: float) -> NDArray[np.float32]:
    """Return a layer smoothed by a Gaussian, with mirrored edges.

    Args:
        field: Layer (H, W).
        sigmas: Sigma in pixels along columns and along rows.
        truncate: Radius of the filter in sigmas.

    Returns:
        float32 (H, W).
    """
    field = field.astype(np.float32, copy=False)
    down, across = (half_gaussian(sigma, truncate).astype(np.float32) for sigma in sigmas)
    if max(down.size, across.size) - 1 <= LONG_RADIUS:
        smoothed: NDArray[np.float32] = smooth_mirrored(field, down, across)
        return smoothed
    return smooth_long(field, sigmas, truncate)


def displacements(
    field: NDArray[Any], sigmas: tuple[float, float], truncate: float, gain: float
) -> NDArray[np.float32]:
    """Return a layer (H, W) smoothed by a Gaussian with mirrored edges, times ``gain``, float32.

    Numbers in float64 are smoothed in float64, as published, and numbers in float32 faster.
    """
    if field.dtype == np.float64:
        halves = (half_gaussian(sigma, truncate) for sigma in sigmas)
        return (smooth_mirrored(field, *halves) * gain).astype(np.float32)
    smooth = smooth_field(field, sigmas, truncate)
    return np.multiply(smooth, np.float32(gain), out=smooth)
