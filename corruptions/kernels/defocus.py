"""The smoothed disk of defocus blur: sums over the sharp disk, in integers, and then the smoothing of its edge."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.smoothing import add_pairs

SMALL_GRID = 8
"""Radius of the grid on which every disk up to that radius is drawn."""

RESOLUTION = 1000
"""Corrections within a thousandth of a disk's weight are taken as one, their mean: under 0.02 levels."""

NEGLIGIBLE = 1e-7
"""A smoothing whose side weights are below this part of the whole is left out."""


class Disk(NamedTuple):
    """The kernel in units of the disk's weight: a disk of ones, smoothed along both axes, plus corrections.

    Quads are (Q, 4, 2): (row, dx) of four rows that are added in one pass; a group that does not fill its last quad
    ends with a row of zeros.
    """

    main: float
    """What all of it is multiplied with."""
    half: NDArray[np.float32]
    """One side of the smoothing, centre first: (3,), or (1,) where there is none."""
    heights: NDArray[np.int64]
    """The distinct half heights of the disk's columns, runs of ones."""
    runs: NDArray[np.int64]
    """Quads of columns; row counts in ``heights``."""
    taps: NDArray[np.int64]
    """Quads of corrections of one weight; row is dy >= 0 and stands for -dy too."""
    weights: NDArray[np.float32]
    """(Q,): the weight of each quad in ``taps``."""


def sharp_disk(radius: float) -> NDArray[np.float32]:
    """Ones inside, zeros outside, on the published grid."""
    reach = SMALL_GRID if radius <= SMALL_GRID else int(radius)
    axis = np.arange(-reach, reach + 1)
    inside: NDArray[np.float32] = (axis[:, None] ** 2 + axis[None, :] ** 2 <= radius**2).astype(np.float32)
    return inside


def edge_taps(radius: float, alias: float) -> list[np.float32]:
    """One side of the Gaussian of sigma ``alias`` that smooths the disk, centre first: 3 wide, for large disks 5."""
    half = 1 if radius <= SMALL_GRID else 2
    bell = [math.exp(-(i * i) / (2.0 * alias * alias)) for i in range(half + 1)]
    total = math.fsum(bell + bell[1:])
    return [np.float32(weight / total) for weight in bell]


def smooth_across(padded: NDArray[np.float32], taps: list[np.float32]) -> NDArray[np.float32]:
    """(N, M) smoothed along its second axis in float32, the centre first and then pairs outwards, as OpenCV does it."""
    half = len(taps) - 1
    width = padded.shape[1] - 2 * half
    total = padded[:, half : half + width] * taps[0]
    for k in range(1, half + 1):
        left, right = padded[:, half - k : half - k + width], padded[:, half + k : half + k + width]
        total = total + (left + right) * taps[k]
    return total


def smooth_both_ways(padded: NDArray[np.float32], taps: list[np.float32]) -> NDArray[np.float32]:
    """:func:`smooth_across` along both axes."""
    return smooth_across(smooth_across(padded, taps).T, taps).T


def disk_weights(radius: float, alias: float) -> NDArray[np.float32]:
    """The published kernel: a disk of sum 1 on a square grid, smoothed by a 3 x 3 or 5 x 5 Gaussian of sigma ``alias``.

    Quirk: a disk as wide as its grid is mirrored into itself by the smoothing, so the kernels of radius 8 and 10 sum
    to 1.013 and 1.011 and their images brighten (published scripts, ``disk``).
    """
    inside, taps = sharp_disk(radius), edge_taps(radius, alias)
    return smooth_both_ways(np.pad(inside / inside.sum(), len(taps) - 1, mode="reflect"), taps)


def corrections(radius: float, alias: float) -> NDArray[np.float64]:
    """What the published kernel has more than the smoothed disk, in units of the disk's weight.

    Zero but at the edge of the grid: :func:`disk_weights` is mirrored there and cut.
    """
    inside, taps = sharp_disk(radius), edge_taps(radius, alias)
    published = np.pad(disk_weights(radius, alias).astype(np.float64), len(taps) - 1) * float(inside.sum())
    difference: NDArray[np.float64] = published - smooth_both_ways(np.pad(inside, 2 * (len(taps) - 1)), taps)
    return difference


@lru_cache(maxsize=64)
def split_disk(radius: float, alias: float) -> Disk:
    """The kernel of :func:`disk_weights` in the form that the compiled loop reads."""
    inside, edge = sharp_disk(radius), edge_taps(radius, alias)
    reach = inside.shape[0] // 2
    columns = (inside.sum(axis=0).astype(np.int64) + 1) // 2 - 1
    heights = np.unique(columns[columns >= 0])
    runs = np.argwhere(heights[:, None] == columns[None, :]) - (0, reach)
    half = np.array([*edge, 0][:3] if edge[1] > NEGLIGIBLE else [1], np.float32)
    correction = corrections(radius, alias)
    level = np.rint(correction * RESOLUTION).astype(np.int64)
    middle = level.shape[0] // 2
    others = np.unique(level[level != 0])
    means = np.array([correction[level == value].mean() for value in others], np.float32)
    rest = sum(float(mean) * int((level == value).sum()) for mean, value in zip(means, others, strict=True))
    smoothed = float(inside.sum()) * (2.0 * half.astype(np.float64).sum() - float(half[0])) ** 2
    taps = [quads(np.argwhere(level[middle:] == value) - (0, middle), middle + 1) for value in others]
    return Disk(
        main=float(disk_weights(radius, alias).astype(np.float64).sum()) / (smoothed + rest),  # keeps the sum
        half=half,
        heights=heights,
        runs=quads(runs, heights.size),
        taps=np.concatenate([np.zeros((0, 4, 2), np.int64), *taps]),
        weights=np.repeat(means, [len(quad) for quad in taps]),
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
    width, reach = pixels.shape[1], margin * channels
    out = np.empty((rows.size, columns.size * channels), np.uint8)
    # The places that the two margins read, as numbers that need no test for a negative index.
    before, after = np.empty(reach, np.uint32), np.empty(reach, np.uint32)
    for i in range(reach):
        before[i] = columns[i // channels] * channels + i % channels
        after[i] = columns[columns.size - margin + i // channels] * channels + i % channels
    for y in range(rows.size):
        source, target = pixels[rows[y]], out[y]
        left, right = target[:reach], target[reach + width :]
        target[reach : reach + width] = source
        for i in range(reach):
            left[i], right[i] = source[before[i]], source[after[i]]
    return out


@inlined
def start_runs(padded, y, heights, sums):
    """Sums (len(heights), width) uint16 over the columns' runs of 2 * height + 1 rows about row ``y``."""
    sums[:] = 0
    for k in range(heights.size):
        column = sums[k]
        for row in range(y - heights[k], y + heights[k] + 1):
            source = padded[row]
            for i in range(column.size):
                column[i] += source[i]


@inlined
def slide_runs(padded, y, heights, sums):
    """Move the sums of :func:`start_runs` from row ``y - 1`` to ``y``."""
    for k in range(heights.size):
        column, entering, leaving = sums[k], padded[y + heights[k]], padded[y - heights[k] - 1]
        for i in range(column.size):
            column[i] += np.uint16(entering[i]) - np.uint16(leaving[i])


@inlined
def pair_rows(padded, y, pairs):
    """pairs[k] (uint16) = row ``y - k`` + row ``y + k`` but for the last, which is zero: the kernel is symmetric."""
    pairs[0] = padded[y]
    for k in range(1, pairs.shape[0] - 1):
        pair, above, below = pairs[k], padded[y - k], padded[y + k]
        for i in range(pair.size):
            pair[i] = np.uint16(above[i]) + np.uint16(below[i])


@inlined
def add_quad(rows, quad, start, channels, weight, total):
    """total (float32) += weight * the sum of four taps in ``rows`` (uint16), whose dx = 0 begins at ``start``."""
    width = total.size
    at = start + quad[0, 1] * channels
    a = rows[quad[0, 0]][at : at + width]
    at = start + quad[1, 1] * channels
    b = rows[quad[1, 0]][at : at + width]
    at = start + quad[2, 1] * channels
    c = rows[quad[2, 0]][at : at + width]
    at = start + quad[3, 1] * channels
    d = rows[quad[3, 0]][at : at + width]
    for i in range(width):
        total[i] += np.float32(np.int32(np.uint16(a[i] + b[i] + c[i] + d[i]))) * weight


@inlined
def smooth_edge(disks, y, half, channels, line, row):
    """``row`` = row ``y`` of the ring ``disks`` smoothed along y, into ``line``, and then along x."""
    width, count = row.size, disks.shape[0]
    centre = disks[y % count]
    for i in range(line.size):
        line[i] = centre[i] * half[0]
    if half.size > 1:
        far, near = (disks[(y - 2) % count], disks[(y + 2) % count]), (disks[(y - 1) % count], disks[(y + 1) % count])
        add_pairs(line, far[0], far[1], half[2], near[0], near[1], half[1])
    start = (half.size - 1) * channels
    middle = line[start : start + width]
    for i in range(width):
        row[i] = middle[i] * half[0]
    if half.size > 1:
        left, right = line[start - channels :][:width], line[start + channels :][:width]
        add_pairs(row, line[:width], line[2 * start :], half[2], left, right, half[1])


@kernel
def blur_disk(padded, margin, channels, main, half, heights, runs, taps, weights):
    """(H, W * channels) uint8: the mirrored image correlated with a split kernel, cut at 255, truncated."""
    height, width = padded.shape[0] - 2 * margin, padded.shape[1] - 2 * margin * channels
    out = np.empty((height, width), np.uint8)
    spread, start = half.size - 1, margin * channels
    sums = np.zeros((heights.size + 1, padded.shape[1]), np.uint16)
    pairs = np.zeros((margin + 2, padded.shape[1]), np.uint16)
    disks = np.empty((2 * spread + 1, width + 2 * spread * channels), np.float32)
    line, row = scratch(disks.shape[1], np.float32), scratch(width, np.float32)
    start_runs(padded, margin - spread, heights, sums)
    for ready in range(-spread, height + spread):
        if ready > -spread:
            slide_runs(padded, ready + margin, heights, sums)
        disk = disks[ready % disks.shape[0]]
        disk[:] = 0
        for k in range(runs.shape[0]):
            add_quad(sums, runs[k], start - spread * channels, channels, np.float32(1), disk)
        y = ready - spread
        if y >= 0:
            smooth_edge(disks, y, half, channels, line, row)
            if weights.size > 0:
                pair_rows(padded, y + margin, pairs)
            for k in range(weights.size):
                add_quad(pairs, taps[k], start, channels, weights[k], row)
            target = out[y]
            for i in range(width):
                target[i] = np.uint8(np.int32(min(row[i] * main, 255.0)))
    return out


def defocus(image: NDArray[np.uint8], radius: float, alias: float) -> NDArray[np.uint8]:
    """(H, W, C) uint8 correlated with the smoothed disk."""
    disk = split_disk(radius, alias)
    height, width, channels = image.shape
    margin = int(disk.heights.max()) + disk.half.size - 1
    rows, columns = mirrored(height, margin), mirrored(width, margin)
    padded = pad_mirrored(image.reshape(height, -1), rows, columns, margin, channels)
    blurred: NDArray[np.uint8] = blur_disk(padded, margin, channels, *disk)
    return blurred.reshape(image.shape)
