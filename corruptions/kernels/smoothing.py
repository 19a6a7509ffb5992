"""Separable Gaussian smoothing with replicated edges."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import copy, inlined, kernel, scratch

TRUNCATE = 4.0
"""Reach of the filter in sigmas: scikit-image's default."""

SIGMA_PER_STRIDE = 1.2
"""Least sigma, in pixels, for each row that a wide filter steps on: what it drops then is below 1e-6."""


UNSMOOTHED = (np.arange(256) / 255.0 * 255).astype(np.uint8)
"""Quirk: what a filter of one tap leaves of each level. Some come out one lower, since the published scripts divide,
multiply and truncate in float64."""


class Filter(NamedTuple):
    """A Gaussian as three passes: ``near`` down to every stride-th row, ``across`` these, ``far`` down to all rows.

    ``near`` and ``across`` are one side of a symmetric filter, centre first, of an even radius. ``far`` is (stride,
    taps), an even number of taps: weights of the kept rows about each of the places from one kept row to the next.
    """

    near: NDArray[Any]
    across: NDArray[Any]
    far: NDArray[Any]


@lru_cache(maxsize=256)
def half_gaussian(sigma: float, truncate: float = TRUNCATE) -> NDArray[np.float64]:
    """Weights of one side of a Gaussian, (radius + 1,), centre first; the whole filter sums to 1."""
    radius = int(truncate * sigma + 0.5)
    if radius == 0:
        return np.ones(1)
    variance = sigma * sigma
    weights = np.array([math.exp(-0.5 / variance * (i * i)) for i in range(-radius, radius + 1)])
    half: NDArray[np.float64] = (weights / weights.sum())[radius:]
    return half


def even_gaussian(sigma: float, truncate: float) -> NDArray[np.float64]:
    """:func:`half_gaussian`, its radius made even by a weight of 0."""
    half: NDArray[np.float64] = half_gaussian(sigma, truncate)
    return np.append(half, np.zeros(1 - half.size % 2))


@lru_cache(maxsize=256)
def single_step(sigma: float, truncate: float, kind: Any) -> Filter:
    """The filter that keeps all rows, as scipy applies it, in a float type ``kind``."""
    half = even_gaussian(sigma, truncate).astype(kind)
    return Filter(half, half, np.array([[1, 0]], kind))


@lru_cache(maxsize=256)
def two_steps(sigma: float, truncate: float, kind: Any) -> Filter:
    """The filter with its vertical part in two steps, where it is wide enough: most of the work falls on fewer rows.

    Two Gaussians of sigma / sqrt(2) one after the other are one of sigma; after the first, the rows in between hold
    nothing that the kept ones do not.
    """
    stride = int(sigma / SIGMA_PER_STRIDE)
    if stride < 2:
        return single_step(sigma, truncate, kind)
    part = sigma / math.sqrt(2.0)
    reach = math.ceil(truncate * part / stride)
    far = np.empty((stride, 2 * reach))
    for phase in range(stride):
        places = [phase - stride * k for k in range(1 - reach, reach + 1)]
        weights = np.array([math.exp(-0.5 * (place / part) ** 2) for place in places])
        far[phase] = weights / weights.sum()
    near, across = even_gaussian(part, truncate), even_gaussian(sigma, truncate)
    return Filter(near.astype(kind), across.astype(kind), far.astype(kind))


@inlined
def add_pair(total, left, right, weight):
    """total += (left + right) * weight for three rows of equal length."""
    for i in range(total.size):
        total[i] += (left[i] + right[i]) * weight


@inlined
def add_pairs(total, a, b, outer, c, d, inner):
    """total += (a + b) * outer + (c + d) * inner: two pairs at a time, so that ``total`` is read half as often."""
    for i in range(total.size):
        total[i] += (a[i] + b[i]) * outer + (c[i] + d[i]) * inner


@inlined
def ring_places(first, size, height, count):
    """(size,) places of the rows from ``first`` on in a ring of ``count``; beyond the edges those of the edge rows."""
    places = np.empty(size, np.uint64)
    for i in range(size):
        places[i] = min(max(first + i, 0), height - 1) % count
    return places


@inlined
def smooth_down(ring, places, at, half, row):
    """``row`` = the row at ``places[at]`` of a ring, smoothed along y, from the outermost pair inwards."""
    centre = ring[places[at]]
    for i in range(row.size):
        row[i] = centre[i] * half[0]
    for k in range(half.size - 1, 0, -2):
        above, below = ring[places[at - k]], ring[places[at + k]]
        nearer_above, nearer_below = ring[places[at - k + 1]], ring[places[at + k - 1]]
        add_pairs(row, above, below, half[k], nearer_above, nearer_below, half[k - 1])


@inlined
def smooth_across(line, half, channels, row):
    """``row`` (W * channels) = the middle of ``line`` smoothed along x, after filling the margins of ``line``."""
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
def mix_rows(rows, first, weights, row):
    """``row`` = the weighted sum of the rows from ``first`` on; row k is ``rows[k % len(rows)]``."""
    count = rows.shape[0]
    row[:] = 0
    for k in range(0, count, 2):
        a, b = rows[(first + k) % count], rows[(first + k + 1) % count]
        for i in range(row.size):
            row[i] += a[i] * weights[k] + b[i] * weights[k + 1]


@inlined
def store(row, target):
    """``target`` = ``row``, truncated if it is of levels: by way of 32 bits, which takes half the time."""
    if target.itemsize == 1:
        for i in range(target.size):
            target[i] = np.uint8(np.int32(row[i]))
    else:
        copy(row, target)


@kernel
def smooth(source, near, across, far, channels, out):
    """(H, W * channels) smoothed by a :class:`Filter`, in the type of its weights, into ``out``, truncated if integer.

    Only the rows (as floats) and the kept rows that one row needs are there at a time: they stay in the cache.
    """
    height, width = source.shape
    stride, reach, radius = far.shape[0], far.shape[1] // 2, near.size - 1
    floats = scratch((2 * radius + 1) * width, far.dtype).reshape(2 * radius + 1, width)
    first = (1 - reach) * stride - radius
    places = ring_places(first, height + (2 * reach - 1) * stride + 2 * radius, height, floats.shape[0])
    margin = (across.size - 1) * channels
    rows = scratch(2 * reach * width, far.dtype).reshape(2 * reach, width)
    line, row = scratch(width + 2 * margin, far.dtype), scratch(width, far.dtype)
    ready, present = 1 - reach, 0
    for y in range(height):
        kept = y // stride
        while ready <= kept + reach:
            while present <= min(max(ready * stride + radius, 0), height - 1):
                copy(source[present], floats[places[present - first]])
                present += 1
            smooth_down(floats, places, ready * stride - first, near, line[margin : margin + width])
            smooth_across(line, across, channels, rows[ready % (2 * reach)])
            ready += 1
        if stride > 1:
            mix_rows(rows, kept + 1 - reach, far[y % stride], row)
        store(row if stride > 1 else rows[y % (2 * reach)], out[y])


def smooth_plane(plane: NDArray[Any], sigma: float) -> NDArray[Any]:
    """A float32 or float64 layer (H, W), smoothed in its own precision; float64 takes scipy's single step."""
    out = np.empty_like(plane)
    steps = (
        single_step(sigma, TRUNCATE, np.float64)
        if plane.dtype == np.float64
        else two_steps(sigma, TRUNCATE, np.float32)
    )
    smooth(np.ascontiguousarray(plane), *steps, 1, out)
    return out


def smooth_image(image: NDArray[np.uint8], sigma: float, truncate: float = TRUNCATE) -> NDArray[np.uint8]:
    """(H, W, C) uint8, smoothed in float32 and truncated."""
    if half_gaussian(sigma, truncate).size == 1:
        return UNSMOOTHED[image]
    out = np.empty(image.shape, np.uint8)
    height, _, channels = image.shape
    weights = two_steps(sigma, truncate, np.float32)
    smooth(image.reshape(height, -1), *weights, channels, out.reshape(height, -1))
    return out
