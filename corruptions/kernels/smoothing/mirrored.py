"""Gaussian smoothing of fields that are mirrored at the edge, as by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import LINE, copy, kernel, scratch
from corruptions.kernels.smoothing.gaussian import add_pair, half_gaussian
from corruptions.kernels.smoothing.waves import mirror_index, smooth_long
from corruptions.kernels.vectors import load, store

LONG_RADIUS = 24
"""Filters with a larger radius are computed as a sum of cosines, in a time independent of the radius."""

BAND = 8
"""Rows that are smoothed together. The inner loops are long, and the rows still fit into the first-level cache."""


@kernel
def pad_mirrored(field, above, margin):
    """Return float32 (H, W) with mirrored rows ``above`` and below, and ``margin`` columns at both sides.

    Rows begin at cache lines.
    """
    height, width = field.shape
    line = LINE // field.itemsize
    pitch = -(-(width + 2 * margin) // line) * line
    out = scratch((height + 2 * above) * pitch, field.dtype).reshape(height + 2 * above, pitch)
    mirrored = np.empty(pitch, np.uint64)
    for x in range(pitch):
        mirrored[x] = mirror_index(x - margin, width)
    for y in range(out.shape[0]):
        row, source = out[y], field[mirror_index(y - above, height)]
        copy(source, row[margin : margin + width])
        for x in range(margin):
            row[x] = source[mirrored[x]]
        for x in range(margin + width, pitch):
            row[x] = source[mirrored[x]]
    return out


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
        inner, outer = half[k], half[k + 1]
        for i in range(size):
            total[i] = (total[i] + (a[i] + b[i]) * inner) + (c[i] + d[i]) * outer
    if half.size % 2 == 0:
        add_pair(total, source[:size], source[2 * reach :], half[half.size - 1])


@kernel
def correlate_columns(total, source, half, pitch):
    """Write an even number of rows of ``source``, correlated as by :func:`correlate` with steps of a row, to ``total``.

    Two rows at once halve the reads: pair k of the second one and pair k + 1 of the first one share the lower row, and
    pair k of the first one and pair k + 1 of the second one the upper row.
    """
    step, lanes = np.uint64(pitch), np.uint64(LINE // total.itemsize)
    for first in range(np.uint64(0), np.uint64(total.size), step + step):
        for x in range(first, first + step, lanes):
            at = x + np.uint64(half.size - 1) * step
            upper, lower = load(source, at), load(source, at + step)
            a, b = upper * half[0], lower * half[0]
            for k in range(1, half.size):
                far = np.uint64(k) * step
                above, below = load(source, at - far), load(source, at + step + far)
                a, b = a + (above + lower) * half[k], b + (upper + below) * half[k]
                upper, lower = above, below
            store(total, x, a)
            store(total, x + step, b)


@kernel
def smooth_mirrored(field, down, across):
    """Return float32 (H, W) correlated with symmetric filters along columns and rows, of which one side is given."""
    height, width = field.shape
    above, margin = down.size - 1, across.size - 1
    wide = pad_mirrored(field, above + 1, margin)  # the last row may be smoothed with one that does not exist
    pitch = wide.shape[1]
    flat = wide[1:].reshape(-1)
    out = np.empty_like(field)
    columns, rows = scratch(BAND * pitch, field.dtype), scratch(BAND * pitch, field.dtype)
    for start in range(0, height, BAND):
        count = min(BAND, height - start)
        size = count * pitch
        correlate_columns(columns[: size + count % 2 * pitch], flat[start * pitch :], down, pitch)
        # The rows of the band are contiguous. Sums that mix two rows are in the margins, which are not copied.
        correlate(rows[: size - 2 * margin], columns, across, 1)
        for y in range(count):
            copy(rows[y * pitch : y * pitch + width], out[start + y])
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


def smooth_exact(field: NDArray[np.float64], *halves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64 (H, W) correlated with symmetric filters along columns and rows, of which one side is given."""
    for half in halves:
        margin = half.size - 1
        side, step = field.shape
        rows = [mirror_index(y, side) for y in range(-margin, side + margin)]
        total = np.empty_like(field)
        correlate(total.reshape(-1), field[rows].reshape(-1), half, step)
        field = np.ascontiguousarray(total.T)
    return field


def displacements(
    field: NDArray[Any], sigmas: tuple[float, float], truncate: float, gain: float
) -> NDArray[np.float32]:
    """Return a layer (H, W) smoothed by a Gaussian with mirrored edges, times ``gain``, float32.

    Numbers in float64 are smoothed in float64, as published, and numbers in float32 faster.
    """
    if field.dtype == np.float64:
        return (smooth_exact(field, *(half_gaussian(sigma, truncate) for sigma in sigmas)) * gain).astype(np.float32)
    smooth = smooth_field(field, sigmas, truncate)
    return np.multiply(smooth, np.float32(gain), out=smooth)
