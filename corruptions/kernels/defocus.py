"""The smoothed disk of defocus blur: few distinct weights, so pixels that share one are summed as integers first."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel

SMALL_GRID = 8
"""Radius of the grid on which every disk up to that radius is drawn."""


RESOLUTION = 1000
"""Weights within a thousandth of the largest are taken as one, their mean: under 0.02 levels, the sum is kept."""

NEGLIGIBLE = 1e-7
"""Weights below this part of the largest are left out."""

FRACTION_BITS = 23
"""Bits after the point of all weights but the largest: their products with sums of pixels fit 32 bits."""

REST_UNIT = 2.0**-FRACTION_BITS


class Disk(NamedTuple):
    """A symmetric kernel split by weight: runs along y of the largest weight, and the taps of all other weights.

    Quads are (Q, 4, 2): (row, dx) of four rows that are added in one pass; a group that does not fill its last quad
    ends with a row of zeros.
    """

    main: float
    heights: NDArray[np.int64]
    """The distinct half heights of the runs."""
    runs: NDArray[np.int64]
    """Quads of runs; row counts in ``heights``."""
    taps: NDArray[np.int64]
    """Quads of taps of one weight; row is dy >= 0 and stands for -dy too."""
    weights: NDArray[np.int32]
    """(Q,): the weight of each quad in ``taps``, times 2 ** FRACTION_BITS."""


def disk_weights(radius: float, alias: float) -> NDArray[np.float32]:
    """The published kernel: a disk of sum 1 on a square grid, smoothed by a 3 x 3 or 5 x 5 Gaussian of sigma ``alias``.

    Quirk: a disk as wide as its grid is mirrored into itself by the smoothing, so the kernels of radius 8 and 10 sum
    to 1.013 and 1.011 and their images brighten (published scripts, ``disk``).
    """
    reach, half = (SMALL_GRID, 1) if radius <= SMALL_GRID else (int(radius), 2)
    axis = np.arange(-reach, reach + 1)
    inside = (axis[:, None] ** 2 + axis[None, :] ** 2 <= radius**2).astype(np.float32)
    bell = [math.exp(-(i * i) / (2.0 * alias * alias)) for i in range(-half, half + 1)]
    tap = [np.float32(weight / math.fsum(bell)) for weight in bell]
    padded = np.pad(inside / inside.sum(), half, mode="reflect")
    across = smooth_across(padded, tap)
    return smooth_across(across.T, tap).T


def smooth_across(padded: NDArray[np.float32], taps: list[np.float32]) -> NDArray[np.float32]:
    """(N, M) smoothed along its second axis in float32, the centre first and then pairs outwards, as OpenCV does it."""
    half = len(taps) // 2
    width = padded.shape[1] - 2 * half
    total = padded[:, half : half + width] * taps[half]
    for k in range(1, half + 1):
        left, right = padded[:, half - k : half - k + width], padded[:, half + k : half + k + width]
        total = total + (left + right) * taps[half + k]
    return total


@lru_cache(maxsize=64)
def split_disk(radius: float, alias: float) -> Disk:
    """The kernel of :func:`disk_weights` in the form that the compiled loop reads."""
    weights = disk_weights(radius, alias).astype(np.float64)
    relative = weights / weights.max()
    level = np.where(relative > NEGLIGIBLE, np.maximum(np.rint(relative * RESOLUTION), 1), 0).astype(np.int64)
    reach = int(np.abs(np.argwhere(level) - weights.shape[0] // 2).max())
    inner = slice(weights.shape[0] // 2 - reach, weights.shape[0] // 2 + reach + 1)
    main = level[inner, inner] == RESOLUTION
    others = np.unique(level[(level > 0) & (level < RESOLUTION)])
    rounded = [round(float(weights[level == value].mean()) * 2**FRACTION_BITS) for value in others]
    rest = sum(weight * int((level == value).sum()) for weight, value in zip(rounded, others, strict=True))
    half_heights = (main.sum(axis=0) + 1) // 2 - 1
    heights = np.unique(half_heights[half_heights >= 0])
    runs = np.argwhere(heights[:, None] == half_heights[None, :]) - (0, reach)
    taps = [quads(np.argwhere(level[inner, inner][reach:] == value) - (0, reach), reach + 1) for value in others]
    return Disk(
        main=(float(weights.sum()) - rest / 2**FRACTION_BITS) / int(main.sum()),  # keeps the sum of the kernel
        heights=heights,
        runs=quads(runs, heights.size),
        taps=np.concatenate([np.zeros((0, 4, 2), np.int64), *taps]),
        weights=np.repeat(np.array(rounded, np.int32), [len(quad) for quad in taps]),
    )


def quads(taps: NDArray[np.int64], zeros: int) -> NDArray[np.int64]:
    """(T, 2) taps four by four, (Q, 4, 2), filled up with taps in row ``zeros``."""
    missing = -len(taps) % 4
    return np.concatenate([taps, np.tile((zeros, 0), (missing, 1))]).reshape(-1, 4, 2)


def mirrored(size: int, margin: int) -> NDArray[np.int64]:
    """Indices -margin..size + margin - 1 mirrored about the first and last pixel as often as needed (reflect-101)."""
    period = 2 * (size - 1)
    index = np.arange(-margin, size + margin) % period
    return np.minimum(index, period - index)


@kernel
def pad_mirrored(pixels, rows, columns, margin, channels):
    """(H, W * channels) uint8 read at the rows and columns of :func:`mirrored`."""
    width = pixels.shape[1]
    out = np.empty((rows.size, columns.size * channels), np.uint8)
    for y in range(rows.size):
        source, target = pixels[rows[y]], out[y]
        target[margin * channels : margin * channels + width] = source
        for k in range(margin):
            for x in (k, columns.size - 1 - k):
                for c in range(channels):
                    target[x * channels + c] = source[columns[x] * channels + c]
    return out


@kernel
def start_runs(padded, y, heights, sums):
    """Sums (len(heights), width) uint16 over the columns' runs of 2 * height + 1 rows about row ``y``."""
    sums[:] = 0
    for k in range(heights.size):
        column = sums[k]
        for row in range(y - heights[k], y + heights[k] + 1):
            source = padded[row]
            for i in range(column.size):
                column[i] += source[i]


@kernel
def slide_runs(padded, y, heights, sums):
    """Move the sums of :func:`start_runs` from row ``y - 1`` to ``y``."""
    for k in range(heights.size):
        column, entering, leaving = sums[k], padded[y + heights[k]], padded[y - heights[k] - 1]
        for i in range(column.size):
            column[i] += np.uint16(entering[i]) - np.uint16(leaving[i])


@kernel
def pair_rows(padded, y, margin, pairs):
    """pairs[k] (uint16) = row ``y - k`` + row ``y + k``: the kernel is symmetric, so half of the additions remain."""
    pairs[0] = padded[y]
    for k in range(1, margin + 1):
        pair, above, below = pairs[k], padded[y - k], padded[y + k]
        for i in range(pair.size):
            pair[i] = np.uint16(above[i]) + np.uint16(below[i])


@kernel
def add_quad(rows, quad, margin, channels, weight, total):
    """total (int32) += weight * the sum of four taps in ``rows`` (uint16)."""
    width = total.size
    at = (quad[0, 1] + margin) * channels
    a = rows[quad[0, 0]][at : at + width]
    at = (quad[1, 1] + margin) * channels
    b = rows[quad[1, 0]][at : at + width]
    at = (quad[2, 1] + margin) * channels
    c = rows[quad[2, 0]][at : at + width]
    at = (quad[3, 1] + margin) * channels
    d = rows[quad[3, 0]][at : at + width]
    for i in range(width):
        total[i] += np.int32(np.uint16(a[i] + b[i] + c[i] + d[i])) * weight


@kernel
def blur_disk(padded, margin, channels, main, heights, runs, taps, weights):
    """(H, W * channels) uint8: the mirrored image correlated with a split kernel, cut at 255, truncated."""
    height, width = padded.shape[0] - 2 * margin, padded.shape[1] - 2 * margin * channels
    out = np.empty((height, width), np.uint8)
    sums = np.zeros((heights.size + 1, padded.shape[1]), np.uint16)
    pairs = np.zeros((margin + 2, padded.shape[1]), np.uint16)
    largest, rest = np.empty(width, np.int32), np.empty(width, np.int32)
    start_runs(padded, margin, heights, sums)
    for y in range(height):
        if y > 0:
            slide_runs(padded, y + margin, heights, sums)
        largest[:] = 0
        for k in range(runs.shape[0]):
            add_quad(sums, runs[k], margin, channels, np.int32(1), largest)
        rest[:] = 0
        if weights.size > 0:
            pair_rows(padded, y + margin, margin, pairs)
        for k in range(weights.size):
            add_quad(pairs, taps[k], margin, channels, weights[k], rest)
        target = out[y]
        for i in range(width):
            target[i] = np.uint8(np.int32(min(largest[i] * main + rest[i] * REST_UNIT, 255.0)))
    return out


def defocus(image: NDArray[np.uint8], radius: float, alias: float) -> NDArray[np.uint8]:
    """(H, W, C) uint8 correlated with the smoothed disk."""
    disk = split_disk(radius, alias)
    height, width, channels = image.shape
    margin = int(np.abs(disk.taps[..., 1]).max(initial=int(disk.heights.max())))
    rows, columns = mirrored(height, margin), mirrored(width, margin)
    padded = pad_mirrored(image.reshape(height, -1), rows, columns, margin, channels)
    blurred: NDArray[np.uint8] = blur_disk(padded, margin, channels, *disk)
    return blurred.reshape(image.shape)
