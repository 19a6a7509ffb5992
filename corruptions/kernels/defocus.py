"""The smoothed disk of defocus blur: sums over the sharp disk, in integers, and then the smoothing of its edge."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import copy, inlined, kernel, scratch
from corruptions.kernels.smoothing import add_pairs

SMALL_GRID = 8
"""Radius of the grid on which every disk up to that radius is drawn."""

EXACT = 257
"""So many levels add up to 16 bits at most."""

NEGLIGIBLE = 1e-7
"""A smoothing whose side weights are below this part of the whole is left out."""


class Disk(NamedTuple):
    """The kernel in units of the disk's weight: a disk of ones, smoothed along both axes, plus what its rim gains.

    Quads are (Q, 4, 2): (row, dx) of four rows that are added in one pass; what does not fill the last quad is a row
    of zeros.
    """

    margin: int
    """How far it reaches."""
    main: float
    """What all of it is multiplied with."""
    half: NDArray[np.float32]
    """One side of the smoothing, centre first: (3,), or (1,) where there is none."""
    heights: NDArray[np.int64]
    """The distinct half heights of the disk's columns, runs of ones."""
    runs: NDArray[np.int64]
    """Quads of columns; row counts in ``heights``."""
    group: int
    """So many quads of columns are added in 16 bits."""
    rim: NDArray[np.int64]
    """Of a disk that reaches the edge of its grid: where that is, and which ``heights`` its last two columns have."""
    ends: NDArray[np.int64]
    """Quads of pixels above and below such a disk: row 0 what its upper and lower ends gain, row 1 what they lose."""


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


@lru_cache(maxsize=64)
def split_disk(radius: float, alias: float) -> Disk:
    """The kernel of :func:`disk_weights` in the form that the compiled loop reads.

    Where a disk reaches the edge of its grid, the mirror brings the last column but one beyond the last, whence the
    smoothing brings a part of it back, and what is smoothed off the last column is cut; likewise along y. That is the
    rim's gain. What the second taps of a 5 x 5 Gaussian would add to it is left out: under 0.04 levels in any image.
    """
    inside, edge = sharp_disk(radius), edge_taps(radius, alias)
    reach = inside.shape[0] // 2
    columns = (inside.sum(axis=0).astype(np.int64) + 1) // 2 - 1
    heights = np.unique(columns[columns >= 0])
    runs = np.argwhere(heights[:, None] == columns[None, :]) - (0, reach)
    half = np.array([*edge, 0][:3] if edge[1] > NEGLIGIBLE else [1], np.float32)
    across = 2.0 * float(half.astype(np.float64).sum()) - float(half[0])
    total = float(inside.sum()) * across**2
    rim, ends = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    if columns[-2] >= 0 and half.size > 1:
        near, far = columns[[-2, -1]].tolist()
        rim = np.array(
            [reach, np.searchsorted(heights, near), np.searchsorted(heights, far) if far >= 0 else heights.size]
        )
        gained, lost = ([(row, dx) for dx in range(-height, height + 1)] for row, height in ((0, near), (1, far)))
        ends = np.array(gained + lost)
        total += 4.0 * float(half[1]) * across * (len(gained) - len(lost))
    return Disk(
        margin=int(heights.max()) + half.size - 1,
        main=float(disk_weights(radius, alias).astype(np.float64).sum()) / total,  # keeps the sum
        half=half,
        heights=heights,
        runs=quads(runs, heights.size),
        group=EXACT // (4 * (2 * int(heights.max()) + 1)),
        rim=rim,
        ends=quads(ends, 2),
    )


def quads(taps: NDArray[np.int64], zeros: int) -> NDArray[np.int64]:
    """(T, 2) taps four by four, (Q, 4, 2), filled up with taps in row ``zeros``."""
    missing = -len(taps) % 4
    return np.ascontiguousarray(np.concatenate([taps, np.tile((zeros, 0), (missing, 1))])).reshape(-1, 4, 2)


@lru_cache(maxsize=256)
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
        left, middle, right = target[:reach], target[reach : reach + width], target[reach + width :]
        copy(source, middle)
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
def add_quad(rows, quad, start, channels, total):
    """total (uint16) += four taps in ``rows`` (uint16), whose dx = 0 begins at ``start``."""
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
        total[i] += a[i] + b[i] + c[i] + d[i]


@inlined
def add_runs(sums, runs, group, start, channels, part, disk):
    """``disk`` (float32) = the sum of all columns' runs, by way of ``part`` (uint16)."""
    disk[:] = 0
    for first in range(0, runs.shape[0], group):
        part[:] = 0
        for k in range(first, min(first + group, runs.shape[0])):
            add_quad(sums, runs[k], start, channels, part)
        for i in range(disk.size):
            disk[i] += np.float32(np.int32(part[i]))


@inlined
def side_gain(sums, rim, start, channels, gain):
    """``gain`` (float32) = the runs that the rim's left and right sides gain, less those that they lose."""
    inner, outer = sums[rim[1]], sums[rim[2]]
    near, far = rim[0] * channels, (rim[0] + 1) * channels
    a, b = inner[start - near :][: gain.size], inner[start + near :][: gain.size]
    c, d = outer[start - far :][: gain.size], outer[start + far :][: gain.size]
    for i in range(gain.size):
        gain[i] = np.float32(np.int32(np.int16(a[i] + b[i] - c[i] - d[i])))


@inlined
def end_rows(padded, y, reach, rows):
    """rows[0] (uint16) = the image's rows ``reach`` above and below row ``y``; rows[1] = minus those beyond them."""
    a, b, c, d = padded[y - reach], padded[y + reach], padded[y - reach - 1], padded[y + reach + 1]
    gained, lost = rows[0], rows[1]
    for i in range(gained.size):
        gained[i] = np.uint16(a[i]) + np.uint16(b[i])
        lost[i] = -(np.uint16(c[i]) + np.uint16(d[i]))


@inlined
def spread_down(ring, y, half, line):
    """``line`` = row ``y`` of the rows in a ring (float32) smoothed along y."""
    count = ring.shape[0]
    centre = ring[y % count]
    for i in range(line.size):
        line[i] = centre[i] * half[0]
    if half.size > 1:
        far, near = (ring[(y - 2) % count], ring[(y + 2) % count]), (ring[(y - 1) % count], ring[(y + 1) % count])
        add_pairs(line, far[0], far[1], half[2], near[0], near[1], half[1])


@inlined
def spread_across(line, half, channels, row):
    """``row`` = the middle of ``line`` smoothed along x."""
    width, start = row.size, (half.size - 1) * channels
    middle = line[start : start + width]
    for i in range(width):
        row[i] = middle[i] * half[0]
    if half.size > 1:
        left, right = line[start - channels :][:width], line[start + channels :][:width]
        add_pairs(row, line[:width], line[2 * start :], half[2], left, right, half[1])


@inlined
def add_signed(total, values, factor):
    """total (float32) += values (uint16, but signed) * factor."""
    for i in range(total.size):
        total[i] += np.float32(np.int32(np.int16(values[i]))) * factor


@inlined
def add_scaled(total, values, factor):
    """total (float32) += values * factor."""
    for i in range(total.size):
        total[i] += values[i] * factor


@kernel
def blur_disk(padded, channels, margin, main, half, heights, runs, group, rim, ends):
    """(H, W * channels) uint8: the mirrored image correlated with a split kernel, cut at 255, truncated."""
    height, width = padded.shape[0] - 2 * margin, padded.shape[1] - 2 * margin * channels
    out = np.empty((height, width), np.uint8)
    spread, start = half.size - 1, margin * channels
    wide, before = width + 2 * spread * channels, start - spread * channels
    sums = np.zeros((heights.size + 1, padded.shape[1]), np.uint16)
    disks, sides = np.empty((2 * spread + 1, wide), np.float32), np.empty((2 * spread + 1, width), np.float32)
    part, rows = scratch(wide, np.uint16), np.zeros((3, padded.shape[1]), np.uint16)
    line, row, gain = scratch(wide, np.float32), scratch(width, np.float32), scratch(width, np.float32)
    start_runs(padded, margin - spread, heights, sums)
    for ready in range(-spread, height + spread):
        if ready > -spread:
            slide_runs(padded, ready + margin, heights, sums)
        add_runs(sums, runs, group, before, channels, part, disks[ready % disks.shape[0]])
        if rim.size > 0:
            side_gain(sums, rim, start, channels, sides[ready % sides.shape[0]])
        y = ready - spread
        if y < 0:
            continue
        spread_down(disks, y, half, line)
        if rim.size > 0:
            end_rows(padded, y + margin, rim[0], rows)
            part[:] = 0
            for k in range(ends.shape[0]):
                add_quad(rows, ends[k], before, channels, part)
            add_signed(line, part, half[1])
        spread_across(line, half, channels, row)
        if rim.size > 0:
            spread_down(sides, y, half, gain)
            add_scaled(row, gain, half[1])
        target = out[y]
        for i in range(width):
            target[i] = np.uint8(np.int32(min(row[i] * main, 255.0)))
    return out


def defocus(image: NDArray[np.uint8], radius: float, alias: float) -> NDArray[np.uint8]:
    """(H, W, C) uint8 correlated with the smoothed disk."""
    disk = split_disk(radius, alias)
    height, width, channels = image.shape
    rows, columns = mirrored(height, disk.margin), mirrored(width, disk.margin)
    padded = pad_mirrored(image.reshape(height, -1), rows, columns, disk.margin, channels)
    blurred: NDArray[np.uint8] = blur_disk(padded, channels, *disk)
    return blurred.reshape(image.shape)
