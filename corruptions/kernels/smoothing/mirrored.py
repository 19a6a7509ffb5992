"""Gaussian smoothing of fields that are mirrored at the edge, as by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import LINE, copy, inlined, kernel, scratch
from corruptions.kernels.smoothing.gaussian import add_pair, half_gaussian
from corruptions.kernels.smoothing.waves import mirror_index, smooth_long

LONG_RADIUS = 24
"""Filters with a larger radius are computed as a sum of cosines, in a time independent of the radius."""

BAND = 8
"""Rows that are smoothed together. The inner loops are long, and the rows still fit into the first-level cache."""


@kernel
def pad_mirrored(field, margin):
    """Return float32 (H, W) with ``margin`` mirrored rows and columns on every side. Rows begin at cache lines."""
    height, width = field.shape
    line = LINE // field.itemsize
    pitch = -(-(width + 2 * margin) // line) * line
    out = scratch((height + 2 * margin) * pitch, field.dtype).reshape(height + 2 * margin, pitch)
    mirrored = np.empty(pitch, np.uint64)
    for x in range(pitch):
        mirrored[x] = mirror_index(x - margin, width)
    for y in range(out.shape[0]):
        row, source = out[y], field[mirror_index(y - margin, height)]
        copy(source, row[margin : margin + width])
        for x in range(margin):
            row[x] = source[mirrored[x]]
        for x in range(margin + width, pitch):
            row[x] = source[mirrored[x]]
    return out


@inlined
def add_two_pairs(total, a, b, inner, c, d, outer):
    """Add (a + b) * inner and then (c + d) * outer to ``total``, with one pass over ``total``."""
    for i in range(total.size):
        total[i] = (total[i] + (a[i] + b[i]) * inner) + (c[i] + d[i]) * outer


@kernel
def correlate(total, source, half, step):
    """Write ``source`` correlated with a symmetric filter to ``total``. Arrays are flat, taps are ``step`` apart."""
    size, reach = total.size, (half.size - 1) * step
    centre = source[reach : reach + size]
    for i in range(size):
        total[i] = centre[i] * half[0]
    for k in range(1, half.size - 1, 2):
        near, far = k * step, (k + 1) * step
        a, b = source[reach - near : reach - near + size], source[reach + near :]
        c, d = source[reach - far : reach - far + size], source[reach + far :]
        add_two_pairs(total, a, b, half[k], c, d, half[k + 1])
    if half.size % 2 == 0:
        add_pair(total, source[:size], source[2 * reach :], half[half.size - 1])


@kernel
def smooth_mirrored(field, half):
    """Return float32 (H, W) correlated with a symmetric filter along both axes. ``half`` is one side of it."""
    height, width = field.shape
    margin = half.size - 1
    wide = pad_mirrored(field, margin)
    pitch = wide.shape[1]
    flat = wide.reshape(-1)
    out = np.empty_like(field)
    columns, rows = scratch(BAND * pitch, field.dtype), scratch(BAND * pitch, field.dtype)
    for start in range(0, height, BAND):
        count = min(BAND, height - start)
        size = count * pitch
        correlate(columns[:size], flat[start * pitch :], half, pitch)
        # The rows of the band are contiguous. Sums that mix two rows are in the margins, which are not copied.
        correlate(rows[: size - 2 * margin], columns, half, 1)
        for y in range(count):
            copy(rows[y * pitch : y * pitch + width], out[start + y])
    return out


def smooth_field(field: NDArray[Any], sigma: float, truncate: float) -> NDArray[np.float32]:
    """Return a layer smoothed by a Gaussian, with mirrored edges.

    Args:
        field: Layer (H, W).
        sigma: Sigma in pixels.
        truncate: Radius of the filter in sigmas.

    Returns:
        float32 (H, W).
    """
    field = field.astype(np.float32, copy=False)
    half = half_gaussian(sigma, truncate)
    if half.size - 1 <= LONG_RADIUS:
        smoothed: NDArray[np.float32] = smooth_mirrored(field, half.astype(np.float32))
        return smoothed
    return smooth_long(field, sigma, truncate)


def smooth_exact(field: NDArray[np.float64], half: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64 (H, W) correlated with a symmetric filter along both axes. ``half`` is one side of it."""
    margin = half.size - 1
    for _ in range(2):
        side, step = field.shape
        rows = [mirror_index(y, side) for y in range(-margin, side + margin)]
        total = np.empty_like(field)
        correlate(total.reshape(-1), field[rows].reshape(-1), half, step)
        field = np.ascontiguousarray(total.T)
    return field


def displacements(field: NDArray[Any], sigma: float, truncate: float, gain: float) -> NDArray[np.float32]:
    """Return a layer (H, W) smoothed by a Gaussian with mirrored edges, times ``gain``, float32.

    Numbers in float64 are smoothed in float64, as published, and numbers in float32 faster.
    """
    if field.dtype == np.float64:
        return (smooth_exact(field, half_gaussian(sigma, truncate)) * gain).astype(np.float32)
    return smooth_field(field, sigma, truncate) * np.float32(gain)
