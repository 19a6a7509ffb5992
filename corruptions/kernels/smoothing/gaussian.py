"""Separable Gaussian smoothing of layers, with replicated edges."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.elementary import exp
from corruptions.kernels import copy, inlined, kernel, scratch
from corruptions.kernels.vectors import fill, lanes_of, load, store

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
def extend(line, first, stop, channels):
    """Repeat the first and the last pixel of line[first:stop] up to both ends of ``line``."""
    for channel in range(channels):
        before, after = line[first + channel], line[stop - channels + channel]
        for i in range(channel, first, channels):
            line[i] = before
        for i in range(stop + channel, line.size, channels):
            line[i] = after


@inlined
def two_pairs(values, at, far, near, outer, inner):
    """Return the vector at ``at`` of the sum of two symmetric pairs of taps times their weights."""
    outer_pair = load(values, at - far) + load(values, at + far)
    return outer_pair * outer + (load(values, at - near) + load(values, at + near)) * inner


@inlined
def correlate(values, first, step, half, row):
    """Write a symmetric filter of ``values``, at ``first`` and after it, to ``row``. Its taps are ``step`` apart.

    The outermost pair is added first. ``row`` is a multiple of two cache lines long.
    """
    lanes = np.uint64(lanes_of(row))
    for x in range(np.uint64(0), np.uint64(row.size), lanes + lanes):
        left, right = np.uint64(first) + x, np.uint64(first) + x + lanes
        total, other = load(values, left) * half[0], load(values, right) * half[0]
        for k in range(half.size - 1, 0, -2):
            far, near = np.uint64(k * step), np.uint64((k - 1) * step)
            total = total + two_pairs(values, left, far, near, half[k], half[k - 1])
            other = other + two_pairs(values, right, far, near, half[k], half[k - 1])
        store(row, x, total)
        store(row, x + lanes, other)


@kernel
def smooth(source, near, across, far, out):
    """Smooth a layer (H, W), in the type of a :class:`Filter`, and write it to ``out``.

    Rows of the copy of the layer and of its kept rows are padded to pairs of cache lines.
    """
    height, width = source.shape
    stride, reach, top = far.shape[0], far.shape[1] // 2, near.size - 1
    lanes = lanes_of(far)
    pitch, side = -(-width // (2 * lanes)) * 2 * lanes, -(-across.size // lanes) * lanes
    count = (height - 1) // stride + 2 * reach if stride > 1 else height
    layer = scratch(((count - 1) * stride + 2 * top + 1) * pitch, far.dtype)
    for y in range(layer.size // pitch):
        copy(source[min(max(y - top - (reach - 1) * stride, 0), height - 1)], layer[y * pitch :][:width])
    kept = scratch((count if stride > 1 else 1) * pitch, far.dtype)
    line, row = scratch(pitch + 2 * side, far.dtype), kept[:pitch]
    inner = line[side : side + pitch]
    for k in range(count):
        correlate(layer, (top + k * stride) * pitch, pitch, near, inner)
        if out.itemsize < far.itemsize:  # scipy rounds to the type of the layer after each axis
            for i in range(width):
                inner[i] = np.float32(inner[i])
        for i in range(across.size - 1):
            line[side - 1 - i], line[side + width + i] = line[side], line[side + width - 1]
        if stride > 1:
            correlate(line, side, 1, across, kept[k * pitch :][:pitch])
        else:
            correlate(line, side, 1, across, row)
            copy(row[:width], out[k])
    for y in range(height if stride > 1 else 0):
        weights = far[y % stride]
        for x in range(np.uint64(0), np.uint64(pitch), np.uint64(lanes)):
            total = fill(weights.dtype.type(0))
            for k in range(0, weights.size, 2):
                at = np.uint64((y // stride + k) * pitch) + x
                total = total + (load(kept, at) * weights[k] + load(kept, at + np.uint64(pitch)) * weights[k + 1])
            store(inner, x, total)
        copy(inner[:width], out[y])


def smooth_plane(plane: NDArray[Any], sigma: float, kind: Any = None) -> NDArray[Any]:
    """Return a layer smoothed in its own precision, or in that of ``kind``, and rounded to its own.

    float64 is summed in one pass per axis, as by scipy.

    Args:
        plane: float32 or float64 (H, W), or bool, which is smoothed like float32.
        sigma: Sigma in pixels.
        kind: Type of the sums.
    """
    dtype = np.dtype(np.float32) if plane.dtype == bool else plane.dtype
    out = np.empty(plane.shape, dtype)
    smooth(np.ascontiguousarray(plane), *layer_filter(sigma, np.dtype(kind or dtype)), out)
    return out
