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

    Two successive Gaussians of sigma / sqrt(2) equal one of sigma. After the first, the rows between the kept ones
    contain no additional information. A filter that is not wide keeps all rows and has no pass ``far``.
    """

    near: NDArray[Any]
    """One side of a symmetric filter of an even radius, centre first."""
    across: NDArray[Any]
    """The same."""
    far: NDArray[Any]
    """(stride, taps), for each position between two kept rows, the weights of an even number of kept rows around it."""


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


@lru_cache(maxsize=256)
def layer_filter(sigma: float, kind: Any) -> Filter:
    """Return the filter of :func:`smooth` in the float type ``kind``. That in float64 keeps all rows, as scipy does."""

    def even(part: float) -> NDArray[Any]:
        half = half_gaussian(part)
        return np.append(half, np.zeros(1 - half.size % 2)).astype(kind)

    stride = int(sigma / SIGMA_PER_STRIDE) if kind == np.float32 else 1
    if stride < 2:
        return Filter(even(sigma), even(sigma), np.array([[1, 0]], kind))
    part = sigma / math.sqrt(2.0)
    reach = math.ceil(TRUNCATE * part / stride)
    far = np.empty((stride, 2 * reach))
    for phase in range(stride):
        positions = [(phase - stride * k) / part for k in range(1 - reach, reach + 1)]
        weights = np.array([exp(-0.5 * (position * position)) for position in positions])
        far[phase] = weights / weights.sum()
    return Filter(even(part), even(sigma), far.astype(kind))


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
def smooth_vertical(source, y, half, row):
    """Write row ``y`` of a layer, also beyond its edges, smoothed along y, to ``row``. The outermost pair is first."""
    bottom = source.shape[0] - 1
    centre = source[min(max(y, 0), bottom)]
    for i in range(row.size):
        row[i] = centre[i] * half[0]
    for k in range(half.size - 1, 0, -2):
        above, below = source[min(max(y - k, 0), bottom)], source[min(max(y + k, 0), bottom)]
        nearer_above, nearer_below = source[min(max(y - k + 1, 0), bottom)], source[min(max(y + k - 1, 0), bottom)]
        add_pairs(row, above, below, half[k], nearer_above, nearer_below, half[k - 1])


@inlined
def extend(line, first, stop, channels):
    """Repeat the first and the last pixel of line[first:stop] up to both ends of ``line``."""
    for channel in range(channels):
        before, after = line[first + channel], line[stop - channels + channel]
        for i in range(channel, first, channels):
            line[i] = before
        for i in range(stop + channel, line.size, channels):
            line[i] = after


@inlined
def smooth_horizontal(line, half, row):
    """Fill the margins of ``line``, and write its middle, smoothed along x, to ``row``. The outermost pair is first."""
    width, margin = row.size, half.size - 1
    extend(line, margin, margin + width, 1)
    centre = line[margin : margin + width]
    for i in range(width):
        row[i] = centre[i] * half[0]
    for k in range(margin, 0, -2):
        left, right = line[margin - k :], line[margin + k :]
        add_pairs(row, left, right, half[k], left[1:], line[margin + k - 1 :], half[k - 1])


@kernel
def smooth(source, near, across, far, out):
    """Smooth a layer (H, W), in the type of a :class:`Filter`, and write it to ``out``."""
    height, width = source.shape
    stride, reach, margin = far.shape[0], far.shape[1] // 2, across.size - 1
    kept = scratch(((height - 1) // stride + 2 * reach) * width, far.dtype).reshape(-1, width)
    line, row = scratch(width + 2 * margin, far.dtype), scratch(width, far.dtype)
    inner = line[margin : margin + width]
    for k in range(kept.shape[0]):
        smooth_vertical(source, (k + 1 - reach) * stride, near, inner)
        if out.itemsize < far.itemsize:  # scipy rounds to the type of the layer after each axis
            for i in range(width):
                inner[i] = np.float32(inner[i])
        smooth_horizontal(line, across, kept[k])
    for y in range(height):
        weights, rows = far[y % stride], kept[y // stride :]
        if stride == 1:
            copy(rows[0], out[y])
            continue
        row[:] = 0
        for k in range(0, weights.size, 2):
            a, b = rows[k], rows[k + 1]
            for i in range(width):
                row[i] += a[i] * weights[k] + b[i] * weights[k + 1]
        copy(row, out[y])


def smooth_plane(plane: NDArray[Any], sigma: float, kind: Any = None) -> NDArray[Any]:
    """Return a layer smoothed in its own precision, or in that of ``kind``, and rounded to its own.

    float64 is summed in one pass per axis, as by scipy.

    Args:
        plane: float32 or float64 (H, W).
        sigma: Sigma in pixels.
        kind: Type of the sums.
    """
    kind, out = np.dtype(kind or plane.dtype), np.empty_like(plane)
    smooth(np.ascontiguousarray(plane, kind), *layer_filter(sigma, kind), out)
    return out
