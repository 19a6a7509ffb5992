"""Separable Gaussian smoothing of layers, with replicated edges."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.elementary import exp
from corruptions.kernels import copy, inlined, kernel, scratch

TRUNCATE = 4.0
"""Radius of the filter in sigmas, scikit-image's default."""

SIGMA_PER_STRIDE = 1.2
"""Smallest sigma in pixels per row of the stride of a wide filter. It keeps the error below 1e-6."""


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
def extend(line, first, stop, channels):
    """Repeat the first and the last pixel of line[first:stop] up to both ends of ``line``."""
    for i in range(first - 1, -1, -1):
        line[i] = line[i + channels]
    for i in range(stop, line.size):
        line[i] = line[i - channels]


@inlined
def smooth_horizontal(line, half, row):
    """Fill the margins of ``line``, and write its middle, smoothed along x, to ``row``."""
    width, margin = row.size, half.size - 1
    extend(line, margin, margin + width, 1)
    inner = line[margin : margin + width]
    for i in range(width):
        row[i] = inner[i] * half[0]
    for k in range(margin, 0, -2):
        left, right, nearer_left, nearer_right = (
            line[margin - k :],
            line[margin + k :],
            line[margin - k + 1 :],
            line[margin + k - 1 :],
        )
        add_pairs(row, left, right, half[k], nearer_left, nearer_right, half[k - 1])


@inlined
def combine_rows(rows, first, weights, row):
    """Write the weighted sum of the rows from ``first`` on to ``row``. Row k is ``rows[k % len(rows)]``."""
    count = rows.shape[0]
    row[:] = 0
    for k in range(0, count, 2):
        a, b = rows[(first + k) % count], rows[(first + k + 1) % count]
        for i in range(row.size):
            row[i] += a[i] * weights[k] + b[i] * weights[k + 1]


@kernel
def smooth(source, near, across, far, out):
    """Smooth a layer (H, W) by a :class:`Filter` in the type of its weights, and write it to ``out``.

    Only the rows needed for one output row are kept as floats, so that they stay in the cache.
    """
    height, width = source.shape
    stride, reach, radius = far.shape[0], far.shape[1] // 2, near.size - 1
    floats = scratch((2 * radius + 1) * width, far.dtype).reshape(2 * radius + 1, width)
    first = (1 - reach) * stride - radius
    indices = ring_indices(first, height + (2 * reach - 1) * stride + 2 * radius, height, floats.shape[0])
    margin = across.size - 1
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
            smooth_horizontal(line, across, rows[ready % (2 * reach)])
            ready += 1
        if stride > 1:
            combine_rows(rows, kept + 1 - reach, far[y % stride], row)
        copy(row if stride > 1 else rows[y % (2 * reach)], out[y])


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
    smooth(np.ascontiguousarray(plane), *steps, out)
    return out


def smooth_units(plane: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    """Return a float32 layer (H, W) smoothed as by scipy, which sums in float64 and rounds after each axis."""
    out = np.empty_like(plane)
    smooth(plane, *one_pass(sigma, TRUNCATE, np.float64), out)
    return out
