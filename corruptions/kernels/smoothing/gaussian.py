"""Separable Gaussian smoothing with replicated edges, of layers and of images.

Images are truncated to the levels of the published scripts, unless the filter is wide: first smoothed in float32, with
a bound of the error. Where an integer is within the bound, a part of the row is smoothed again in float64, in the order
in which scipy adds.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.elementary import exp
from corruptions.kernels import LINE, copy, inlined, kernel, scratch
from corruptions.kernels.doubts import UNIT_ROUNDOFF, truncate
from corruptions.kernels.planes import to_unit
from corruptions.kernels.vectors import load, store

TRUNCATE = 4.0
"""Radius of the filter in sigmas, scikit-image's default."""

SIGMA_PER_STRIDE = 1.2
"""Smallest sigma in pixels per row of the stride of a wide filter. It keeps the error below 1e-6."""

BLOCK = 64
"""Values in four vectors of float32. Arrays that :func:`weigh` reads and writes have a multiple of it, at least."""

EXACT_BLOCK = BLOCK // 2
"""Values in four vectors of float64."""

MIDDLE = np.float32(128)
"""Subtracted from levels before they are smoothed, which halves the error."""

IDENTITY_LEVELS = (np.arange(256) / 255.0 * 255).astype(np.uint8)
"""Result of a filter of one tap for each level.

Quirk: some levels decrease by one, because the published scripts divide, multiply and truncate in float64.
"""


class Filter(NamedTuple):
    """A Gaussian as three passes: ``near`` down to every stride-th row, ``across`` along these rows, ``far`` to all.

    ``near`` and ``across`` are one side of a symmetric filter of an even radius, centre first. ``far`` is (stride,
    taps) with an even number of taps: for each position between two kept rows, the weights of the kept rows around it.
    """

    near: NDArray[Any]
    across: NDArray[Any]
    far: NDArray[Any]


@lru_cache(maxsize=256)
def half_gaussian(sigma: float, truncate: float = TRUNCATE) -> NDArray[np.float64]:
    """Return one side of a Gaussian, (radius + 1,), centre first. The complete filter sums to 1."""
    radius = int(truncate * sigma + 0.5)
    if radius == 0:
        return np.ones(1)
    variance = sigma * sigma
    half = [exp(-0.5 / variance * (i * i)) for i in range(radius + 1)]
    weights = np.array([*half[:0:-1], *half])
    normalized: NDArray[np.float64] = (weights / weights.sum())[radius:]
    return normalized


def even_gaussian(sigma: float, truncate: float) -> NDArray[np.float64]:
    """Return :func:`half_gaussian` with an even radius, padded with a weight of 0 if necessary."""
    half: NDArray[np.float64] = half_gaussian(sigma, truncate)
    return np.append(half, np.zeros(1 - half.size % 2))


@lru_cache(maxsize=256)
def one_pass(sigma: float, truncate: float, kind: Any) -> Filter:
    """Return the filter that keeps all rows, as scipy applies it, in the float type ``kind``."""
    half = even_gaussian(sigma, truncate).astype(kind)
    return Filter(half, half, np.array([[1, 0]], kind))


@lru_cache(maxsize=256)
def two_pass(sigma: float, truncate: float, kind: Any) -> Filter:
    """Return the filter with its vertical part split into two passes if it is wide, so that most work is on fewer rows.

    Two successive Gaussians of sigma / sqrt(2) equal one of sigma. After the first, the rows between the kept ones
    contain no additional information.
    """
    stride = int(sigma / SIGMA_PER_STRIDE)
    if stride < 2:
        return one_pass(sigma, truncate, kind)
    part = sigma / math.sqrt(2.0)
    reach = math.ceil(truncate * part / stride)
    far = np.empty((stride, 2 * reach))
    for phase in range(stride):
        indices = [phase - stride * k for k in range(1 - reach, reach + 1)]
        weights = np.array([exp(-0.5 * (position / part * (position / part))) for position in indices])
        far[phase] = weights / weights.sum()
    near, across = even_gaussian(part, truncate), even_gaussian(sigma, truncate)
    return Filter(near.astype(kind), across.astype(kind), far.astype(kind))


@inlined
def add_pair(total, left, right, weight):
    """Add (left + right) * weight to ``total``, for three rows of equal length."""
    for i in range(total.size):
        total[i] += (left[i] + right[i]) * weight


@inlined
def add_pairs(total, a, b, outer, c, d, inner):
    """Add (a + b) * outer + (c + d) * inner to ``total``. Two pairs at once halve the accesses to ``total``."""
    for i in range(total.size):
        total[i] += (a[i] + b[i]) * outer + (c[i] + d[i]) * inner


@inlined
def ring_indices(first, size, height, count):
    """Return the indices of the rows from ``first`` on in a ring buffer of ``count`` rows, uint64 (size,).

    Rows beyond an edge have the index of the edge row.
    """
    indices = np.empty(size, np.uint64)
    for i in range(size):
        indices[i] = min(max(first + i, 0), height - 1) % count
    return indices


@inlined
def smooth_vertical(ring, indices, at, half, row):
    """Write the row at ``indices[at]`` of a ring buffer, smoothed along y, to ``row``. The outermost pair is first."""
    centre = ring[indices[at]]
    for i in range(row.size):
        row[i] = centre[i] * half[0]
    for k in range(half.size - 1, 0, -2):
        above, below = ring[indices[at - k]], ring[indices[at + k]]
        nearer_above, nearer_below = ring[indices[at - k + 1]], ring[indices[at + k - 1]]
        add_pairs(row, above, below, half[k], nearer_above, nearer_below, half[k - 1])


@inlined
def smooth_horizontal(line, half, channels, row):
    """Fill the margins of ``line``, and write its middle, smoothed along x, to ``row`` (W * channels)."""
    width = row.size
    margin = (half.size - 1) * channels
    inner = line[margin : margin + width]
    for i in range(margin):
        line[i] = inner[i % channels]
        line[margin + width + i] = inner[width - channels + i % channels]
    for i in range(width):
        row[i] = inner[i] * half[0]
    for k in range(half.size - 1, 0, -2):
        start, end = margin - k * channels, margin + k * channels
        left, right = line[start : start + width], line[end : end + width]
        start, end = start + channels, end - channels
        add_pairs(row, left, right, half[k], line[start : start + width], line[end : end + width], half[k - 1])


@inlined
def combine_rows(rows, first, weights, row):
    """Write the weighted sum of the rows from ``first`` on to ``row``. Row k is ``rows[k % len(rows)]``."""
    count = rows.shape[0]
    row[:] = 0
    for k in range(0, count, 2):
        a, b = rows[(first + k) % count], rows[(first + k + 1) % count]
        for i in range(row.size):
            row[i] += a[i] * weights[k] + b[i] * weights[k + 1]


@inlined
def store_row(row, target):
    """Write ``row`` to ``target``, truncated if it is uint8. The conversion by way of 32 bits vectorises."""
    if target.itemsize == 1:
        for i in range(target.size):
            target[i] = np.uint8(np.int32(row[i]))
    else:
        copy(row, target)


@kernel
def smooth(source, near, across, far, channels, out):
    """Smooth (H, W * channels) by a :class:`Filter` in the type of its weights, and write it to ``out``.

    Integers are truncated. Only the rows needed for one output row are kept as floats, so that they stay in the cache.
    """
    height, width = source.shape
    stride, reach, radius = far.shape[0], far.shape[1] // 2, near.size - 1
    floats = scratch((2 * radius + 1) * width, far.dtype).reshape(2 * radius + 1, width)
    first = (1 - reach) * stride - radius
    indices = ring_indices(first, height + (2 * reach - 1) * stride + 2 * radius, height, floats.shape[0])
    margin = (across.size - 1) * channels
    rows = scratch(2 * reach * width, far.dtype).reshape(2 * reach, width)
    line, row = scratch(width + 2 * margin, far.dtype), scratch(width, far.dtype)
    ready, present = 1 - reach, 0
    for y in range(height):
        kept = y // stride
        while ready <= kept + reach:
            while present <= min(max(ready * stride + radius, 0), height - 1):
                copy(source[present], floats[indices[present - first]])
                present += 1
            inner = line[margin : margin + width]
            smooth_vertical(floats, indices, ready * stride - first, near, inner)
            if source.itemsize < 8 and far.itemsize == 8:  # scipy rounds to the type of the layer after each axis
                for i in range(width):
                    inner[i] = np.float32(inner[i])
            smooth_horizontal(line, across, channels, rows[ready % (2 * reach)])
            ready += 1
        if stride > 1:
            combine_rows(rows, kept + 1 - reach, far[y % stride], row)
        store_row(row if stride > 1 else rows[y % (2 * reach)], out[y])


@inlined
def weigh(values, befores, afters, half, out, first, stop):
    """Write weighted sums of values to out[first:stop], and up to BLOCK values more, in the order in which scipy adds.

    The order is the centre, then pairs from the outermost to the nearest. Pair k is at ``befores[k]`` and ``afters[k]``
    (uint64) of ``values``. Four vectors at once hide the latency of additions.
    """
    second = np.uint64(LINE // values.itemsize)
    third, fourth = second + second, second + second + second
    for x in range(np.uint64(first), np.uint64(stop), second + third + second):
        centre = befores[0] + x
        a, b = load(values, centre) * half[0], load(values, centre + second) * half[0]
        c, d = load(values, centre + third) * half[0], load(values, centre + fourth) * half[0]
        for k in range(half.size - 1, 0, -1):
            before, after, weight = befores[k] + x, afters[k] + x, half[k]
            a = a + (load(values, before) + load(values, after)) * weight
            b = b + (load(values, before + second) + load(values, after + second)) * weight
            c = c + (load(values, before + third) + load(values, after + third)) * weight
            d = d + (load(values, before + fourth) + load(values, after + fourth)) * weight
        store(out, x, a)
        store(out, x + second, b)
        store(out, x + third, c)
        store(out, x + fourth, d)


@inlined
def pair_positions(radius, step):
    """Return the positions of the pairs of :func:`weigh` around ``radius * step``, two uint64 (radius + 1,)."""
    befores, afters = np.empty(radius + 1, np.uint64), np.empty(radius + 1, np.uint64)
    for k in range(radius + 1):
        befores[k], afters[k] = (radius - k) * step, (radius + k) * step
    return befores, afters


@inlined
def extend(line, first, stop, channels):
    """Repeat the first and the last pixel of line[first:stop] up to both ends of ``line``."""
    for i in range(first - 1, -1, -1):
        line[i] = line[i + channels]
    for i in range(stop, line.size):
        line[i] = line[i - channels]


@kernel
def smooth_exactly(source, half, channels, y, first, stop, target):
    """Write a part of a smoothed row, computed in float64 in the published order, to ``target``.

    Args:
        source: uint8 (H, W * channels).
        half: One side of the filter, float64, centre first.
        channels: Number of channels.
        y: The row.
        first: First value of the part.
        stop: Value after the last one.
        target: uint8 (stop - first,).
    """
    height, width = source.shape
    radius = half.size - 1
    margin = radius * channels
    left, right = max(first - margin, 0), min(stop + margin, width)
    pitch = right - left + EXACT_BLOCK
    values = scratch((2 * radius + 1) * pitch, np.float64)
    for k in range(2 * radius + 1):
        levels, units = source[min(max(y + k - radius, 0), height - 1)][left:right], values[k * pitch :]
        for i in range(levels.size):
            units[i] = to_unit(levels[i], np.float64)
    size = stop - first + EXACT_BLOCK
    line, row = scratch(2 * margin + size + EXACT_BLOCK, np.float64), scratch(size, np.float64)
    start = left - (first - margin)
    above, below = pair_positions(radius, pitch)
    weigh(values, above, below, half, line[start:], 0, right - left)
    extend(line[: stop - first + 2 * margin], start, start + right - left, channels)
    befores, afters = pair_positions(radius, channels)
    weigh(line, befores, afters, half, row, 0, stop - first)
    for i in range(target.size):
        target[i] = np.uint8(np.int32(min(row[i], 1.0) * 255.0))


@kernel
def smooth_levels(source, half, fast_half, error, channels, out):
    """Smooth uint8 (H, W * channels) as published, and write it to ``out``.

    Args:
        source: uint8 (H, W * channels).
        half: One side of the filter, float64, centre first.
        fast_half: The same in float32.
        error: Bound of the error of levels smoothed in float32.
        channels: Number of channels.
        out: uint8 (H, W * channels).
    """
    height, width = source.shape
    radius = half.size - 1
    margin, pitch, count = radius * channels, -(-width // BLOCK) * BLOCK, 2 * radius + 1
    ring = scratch(count * pitch, np.float32)
    line, row = scratch(pitch + 2 * margin, np.float32), scratch(pitch, np.float32)
    befores, afters = pair_positions(radius, channels)
    above, below = np.empty(half.size, np.uint64), np.empty(half.size, np.uint64)
    present, least, most = 0, MIDDLE - error, MIDDLE + error
    for y in range(height):
        while present <= min(y + radius, height - 1):
            levels, floats = source[present], ring[present % count * pitch :]
            for i in range(width):
                floats[i] = np.float32(levels[i]) - MIDDLE
            present += 1
        for k in range(half.size):
            above[k], below[k] = max(y - k, 0) % count * pitch, min(y + k, height - 1) % count * pitch
        weigh(ring, above, below, fast_half, line[margin:], 0, width)
        extend(line[: width + 2 * margin], margin, margin + width, channels)
        weigh(line, befores, afters, fast_half, row, 0, width)
        target = out[y]
        if truncate(row, least, most, target):
            first, stop = width, 0
            for at in range(0, width, EXACT_BLOCK):
                end = min(at + EXACT_BLOCK, width)
                if truncate(row[at:end], least, most, target[at:end]):
                    first, stop = min(first, at), end
            smooth_exactly(source, half, channels, y, first, stop, target[first:stop])


@lru_cache(maxsize=256)
def image_filter(sigma: float, truncate: float) -> tuple[NDArray[np.float64], NDArray[np.float32], np.float32]:
    """Return the arguments ``half``, ``fast_half`` and ``error`` of :func:`smooth_levels`.

    The bound: let u = UNIT_ROUNDOFF, w0 ... wr the weights, and all values at most 128, as they are after MIDDLE is
    subtracted. In one pass, weights and products are rounded once each: 2 u * 128. The sum has r additions; after that
    of pair k, its amount is at most 128 (w0 + 2 (wk + ... + wr)), of which u is lost. Together this is
    128 u (2 + r w0 + 2 sum of k wk) for each of two passes. A hundredth is added for terms of u^2, and 2^-16 for the
    rounding of a level and for float64 itself, whose errors are below 1e-12.
    """
    half = half_gaussian(sigma, truncate)
    radius = half.size - 1
    amounts = 2 + radius * half[0] + 2 * math.fsum(k * half[k] for k in range(radius + 1))
    return half, half.astype(np.float32), np.float32(1.01 * 2 * 128 * UNIT_ROUNDOFF * amounts + 2.0**-16)


def smooth_plane(plane: NDArray[Any], sigma: float) -> NDArray[Any]:
    """Return a layer smoothed in its own precision. float64 uses scipy's single pass.

    Args:
        plane: float32 or float64 (H, W).
        sigma: Sigma in pixels.
    """
    out = np.empty_like(plane)
    steps = (
        one_pass(sigma, TRUNCATE, np.float64) if plane.dtype == np.float64 else two_pass(sigma, TRUNCATE, np.float32)
    )
    smooth(np.ascontiguousarray(plane), *steps, 1, out)
    return out


def smooth_units(plane: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    """Return a float32 layer (H, W) smoothed as by scipy, which sums in float64 and rounds after each axis."""
    out = np.empty_like(plane)
    smooth(plane, *one_pass(sigma, TRUNCATE, np.float64), 1, out)
    return out


def smooth_image(image: NDArray[np.uint8], sigma: float, truncate: float = TRUNCATE) -> NDArray[np.uint8]:
    """Return an image smoothed and truncated to the published levels.

    Filters wide enough for two passes, with a sigma of 2.4 and more, may differ by one level. The published sums would
    take twice to four times as long there.

    Args:
        image: uint8 (H, W, C).
        sigma: Sigma in pixels.
        truncate: Radius of the filter in sigmas.
    """
    if half_gaussian(sigma, truncate).size == 1:
        return IDENTITY_LEVELS[image]
    out = np.empty(image.shape, np.uint8)
    height, _, channels = image.shape
    if int(sigma / SIGMA_PER_STRIDE) < 2:
        smooth_levels(image.reshape(height, -1), *image_filter(sigma, truncate), channels, out.reshape(height, -1))
    else:
        weights = two_pass(sigma, truncate, np.float32)
        smooth(image.reshape(height, -1), *weights, channels, out.reshape(height, -1))
    return out
