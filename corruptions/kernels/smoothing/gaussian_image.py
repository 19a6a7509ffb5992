"""Separable Gaussian smoothing of images, with replicated edges, in the levels of the published scripts.

An image is smoothed in float32, first along its rows, with a proven bound of the error (:func:`image_filter`). Values
that have an integer within the bound are smoothed again in float64 as by scipy: first along their columns, adding the
centre, then pairs from the outermost to the nearest. In flat areas, this would concern every value; there, the results
are in a table.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.doubts import UNIT_ROUNDOFF, truncate_decided
from corruptions.kernels.planes import CHANNELS, to_unit
from corruptions.kernels.smoothing.gaussian import TRUNCATE, extend, half_gaussian
from corruptions.kernels.vectors import fill, load, load_half, multiply_add, store, to_floats

BLOCK = 32
"""Values that are smoothed at once, in several vectors of float32, which hides the latency of additions."""

MIDDLE = np.float32(128)
"""Subtracted from levels before they are smoothed, which halves the error."""

VECTOR, BAND = 16, 8
"""Numbers of float32 in a vector, and rows that are smoothed along their columns together, a multiple of 4."""

BRIDGE = 64
"""Values between the filters of two undecided values that take less time than sums for each of the two."""

MANY = 16
"""Flat areas of a row are searched if at least one of this many values is undecided."""


class ImageFilter(NamedTuple):
    """A filter, and what the decision about levels needs."""

    half: NDArray[np.float64]
    """One side of the filter, centre first."""
    fast_half: NDArray[np.float32]
    """The same in float32."""
    error: np.float32
    """Bound of the error of levels smoothed in float32."""
    flat: NDArray[np.uint8]
    """Published value of each level where the filter covers no other, (256,).

    Quirk: some levels decrease by one, because the published scripts divide, multiply and truncate in float64.
    """


@lru_cache(maxsize=256)
def image_filter(sigma: float, truncate: float) -> ImageFilter:
    """Return the filter of :func:`smooth_levels`.

    The bound: let u = UNIT_ROUNDOFF, w0 ... wr the weights, and all values at most 128, as they are after MIDDLE is
    subtracted. In each of two passes, weights and products are rounded once, in the second one also sums of pairs:
    128 u (2 + 3). The sum of a pass has r additions. After that of pair k, its amount is at most
    128 (w0 + 2 (wk + ... + wr)), of which u is lost, together 128 u (r w0 + 2 sum of k wk). A hundredth is added for
    terms of u^2, and 2^-16 for the rounding of a level and for float64 itself, whose errors are below 1e-12.
    """
    half = half_gaussian(sigma, truncate)
    radius = half.size - 1
    additions = radius * half[0] + 2 * math.fsum(k * half[k] for k in range(radius + 1))
    error = np.float32(1.01 * 128 * UNIT_ROUNDOFF * (5 + 2 * additions) + 2.0**-16)
    sums = np.arange(256) / 255.0
    for _ in range(2):
        units, sums = sums, sums * half[0]
        for weight in half[:0:-1]:
            sums = sums + (units + units) * weight
    return ImageFilter(half, half.astype(np.float32), error, (np.minimum(sums, 1.0) * 255.0).astype(np.uint8))


@inlined
def weigh_rows(values, rows, half, lines):
    """Write a band of neighbouring rows, smoothed along their columns, to ``lines``.

    Four at once quarter the accesses to the rows: the next pair of each sum has the rows of its neighbour. A block of
    all rows is smoothed before the next one, because they read much the same values.

    Args:
        values: Rows of floats.
        rows: Positions in ``values`` of the 2 * radius + N rows that the filters cover, uint64.
        half: One side of the filter, centre first.
        lines: (N, W), N a multiple of 4, W of a vector.
    """
    radius, width = half.size - 1, np.uint64(lines.shape[1])
    for x in range(np.uint64(0), width, np.uint64(VECTOR)):
        for y in range(0, lines.shape[0], 4):
            middle, bottom = y + radius, y + 2 * radius
            a, b = load(values, rows[middle] + x) * half[0], load(values, rows[middle + 1] + x) * half[0]
            c, d = load(values, rows[middle + 2] + x) * half[0], load(values, rows[middle + 3] + x) * half[0]
            above_a, above_b = load(values, rows[y] + x), load(values, rows[y + 1] + x)
            above_c, below_b = load(values, rows[y + 2] + x), load(values, rows[bottom + 1] + x)
            below_c, below_d = load(values, rows[bottom + 2] + x), load(values, rows[bottom + 3] + x)
            for k in range(radius, 0, -1):
                above_d, below_a = load(values, rows[middle + 3 - k] + x), load(values, rows[middle + k] + x)
                weight = fill(half[k])
                a, b = multiply_add(above_a + below_a, weight, a), multiply_add(above_b + below_b, weight, b)
                c, d = multiply_add(above_c + below_c, weight, c), multiply_add(above_d + below_d, weight, d)
                above_a, above_b, above_c = above_b, above_c, above_d
                below_b, below_c, below_d = below_a, below_b, below_c
            place = np.uint64(y) * width + x
            store(lines, place, a)
            store(lines, place + width, b)
            store(lines, place + width + width, c)
            store(lines, place + width + width + width, d)


@inlined
def weigh_line(line, half, row):
    """Write a line with margins, int16, smoothed along x, to ``row``, whose size is a multiple of BLOCK."""
    margin, second = np.uint64((half.size - 1) * CHANNELS), np.uint64(BLOCK // 2)
    for x in range(np.uint64(0), np.uint64(row.size), second + second):
        at = margin + x
        a, b = to_floats(load_half(line, at)) * half[0], to_floats(load_half(line, at + second)) * half[0]
        for k in range(half.size - 1, 0, -1):
            left, right, weight = at - np.uint64(k * CHANNELS), at + np.uint64(k * CHANNELS), fill(half[k])
            a = multiply_add(to_floats(load_half(line, left) + load_half(line, right)), weight, a)
            b = multiply_add(to_floats(load_half(line, left + second) + load_half(line, right + second)), weight, b)
        store(row, x, a)
        store(row, x + second, b)


@inlined
def add_units(sums, above, below, weight):
    """Add (above + below) / 255 * weight to ``sums`` as published, for two rows of levels."""
    for i in range(sums.size):
        sums[i] += (to_unit(above[i], np.float64) + to_unit(below[i], np.float64)) * weight


@kernel
def sum_columns(source, half, y, first, sums):
    """Write values of row ``y``, from ``first`` on, smoothed along their columns as published, to ``sums``."""
    stop, bottom = first + sums.size, source.shape[0] - 1
    centre = source[y][first:stop]
    for i in range(sums.size):
        sums[i] = to_unit(centre[i], np.float64) * half[0]
    for k in range(half.size - 1, 0, -1):
        add_units(sums, source[max(y - k, 0)][first:stop], source[min(y + k, bottom)][first:stop], half[k])


@kernel
def published_level(sums, half, i):
    """Return the published level of value ``i`` of a row from :func:`sum_columns` with margins."""
    total = sums[i] * half[0]
    for k in range(half.size - 1, 0, -1):
        total += (sums[i - k * CHANNELS] + sums[i + k * CHANNELS]) * half[k]
    return np.uint8(np.int32(min(total, 1.0) * 255.0))


@kernel
def settle_flat(source, y, radius, flat, target, found, count):
    """Write the undecided values whose filter covers equal levels. Return the number of the others, kept in ``found``.

    Args:
        source: The image, uint8 (H, W * 3).
        y: The row.
        radius: Radius of the filter in pixels.
        flat: Field of :class:`ImageFilter`.
        target: uint8 (W * 3).
        found: Positions of the undecided values.
        count: Their number.
    """
    levels, (height, width), margin, kept = source[y], source.shape, radius * CHANNELS, 0
    columns = np.ones(width + 2 * margin, np.uint8)  # whether the levels around the row are equal
    inner = columns[margin : margin + width]
    for k in range(max(y - radius, 0), min(y + radius, height - 1)):
        row, below = source[k], source[k + 1]
        for i in range(width):
            inner[i] &= np.uint8(row[i] == below[i])
    extend(columns, margin, margin + width, CHANNELS)
    same = columns.copy()  # and whether they equal those to the left
    joined, right = same[margin + CHANNELS :], levels[CHANNELS:]
    for i in range(right.size):
        joined[i] &= np.uint8(levels[i] == right[i])
    uniform = columns[:width]  # of the first column of each filter; after the loop, of all its columns
    for k in range(1, 2 * radius + 1):
        tap = same[CHANNELS * k :]
        for i in range(width):
            uniform[i] &= tap[i]
    for i in found[:count]:
        if uniform[i]:
            target[i] = flat[levels[i]]
        else:
            found[kept], kept = i, kept + 1
    return kept


@kernel
def smooth_levels(source, half, fast_half, error, flat, out):
    """Smooth an image, uint8 (H, W * 3), and write it to ``out``. See :class:`ImageFilter` for the others."""
    height, width = source.shape
    margin, size, count = (half.size - 1) * CHANNELS, -(-width // BLOCK) * BLOCK, 2 * half.size + BAND - 2
    pitch = size + BLOCK // 2  # an odd number of cache lines, so that rows do not compete for the same ones
    ring, sums = scratch(count * pitch, np.float32), np.empty(width + 2 * margin)
    line, lines = scratch(size + 2 * margin, np.int16), scratch(BAND * size, np.float32).reshape(BAND, size)
    rows, found, ready = np.empty(count, np.uint64), np.empty(width, np.int64), 0
    least, most = MIDDLE - error, MIDDLE + error
    for top in range(0, height, BAND):
        while ready <= min(top + half.size + BAND - 2, height - 1):
            levels, middle = source[ready], line[margin : margin + width]
            for i in range(width):
                middle[i] = np.int16(levels[i]) - np.int16(MIDDLE)
            extend(line[: width + 2 * margin], margin, margin + width, CHANNELS)
            weigh_line(line, fast_half, ring[ready % count * pitch :][:size])
            ready += 1
        for k in range(count):
            rows[k] = min(max(top - half.size + 1 + k, 0), height - 1) % count * pitch
        weigh_rows(ring, rows, fast_half, lines)
        for y in range(top, min(top + BAND, height)):
            levels, target = lines[y - top][:width], out[y]
            undecided = truncate_decided(levels, least, most, target, found)
            if undecided * MANY >= width:
                undecided = settle_flat(source, y, half.size - 1, flat, target, found, undecided)
            decided = 0
            while decided < undecided:
                begin, end = decided, decided + 1
                while end < undecided and found[end] - found[end - 1] <= 2 * margin + BRIDGE:
                    end += 1
                start, stop = max(found[begin] - margin, 0), min(found[end - 1] + margin + 1, width)
                sum_columns(source, half, y, start, sums[margin + start : margin + stop])
                if start == 0 or stop == width:
                    extend(sums, margin, margin + width, CHANNELS)
                for i in found[begin:end]:
                    target[i] = published_level(sums, half, margin + i)
                decided = end


def smooth_image(image: NDArray[np.uint8], sigma: float, truncate: float = TRUNCATE) -> NDArray[np.uint8]:
    """Return an image smoothed and truncated to the published levels.

    Args:
        image: uint8 (H, W, 3).
        sigma: Sigma in pixels.
        truncate: Radius of the filter in sigmas.
    """
    weights = image_filter(sigma, truncate)
    if weights.half.size == 1:
        return weights.flat[image]
    out = np.empty(image.shape, np.uint8)
    height = image.shape[0]
    smooth_levels(image.reshape(height, -1), *weights, out.reshape(height, -1))
    return out
