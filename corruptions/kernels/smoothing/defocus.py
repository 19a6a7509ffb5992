"""The smoothed disk of defocus blur: integer sums over the sharp disk, followed by smoothing of its edge."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.elementary import exp
from corruptions.kernels import copy, inlined, kernel, scratch
from corruptions.kernels.planes import CHANNELS
from corruptions.kernels.vectors import load, load_half, store, to_floats
from corruptions.margins import with_margins

SMALL_GRID = 8
"""Radius of the grid for all disks up to this radius."""

MAX_TERMS = 257
"""Number of 8-bit levels whose sum always fits into 16 bits."""

BLOCK = 16
"""Sums that are added at once: half a vector of 16 bits, or a vector of float32."""

MIN_SIDE_WEIGHT = 1e-7
"""The smoothing is left out if its side weights are smaller than this, relative to a sum of 1."""


class Disk(NamedTuple):
    """The filter as integer sums: a disk of ones, smoothed along both axes, plus a correction at the rim.

    Taps are int64 (T, 2), the (row, dx) of rows of 16-bit sums that are added.
    """

    margin: int
    """Radius of the filter in pixels."""
    main: float
    """Factor applied to the sum."""
    half: NDArray[np.float32]
    """One side of the smoothing filter, centre first: (3,), or (1,) without smoothing."""
    heights: NDArray[np.int64]
    """The distinct half heights of the disk's columns, which are runs of ones."""
    runs: NDArray[np.int64]
    """Taps of columns. ``row`` is an index into ``heights``."""
    group: int
    """Number of columns whose sum fits into 16 bits."""
    rim: NDArray[np.int64]
    """For a disk that reaches the edge of its grid: its radius, and indices in ``heights`` of its last two columns."""
    ends: NDArray[np.int64]
    """Taps of pixels above and below such a disk. Row 0: pixels to add, row 1: pixels to subtract."""


def sharp_disk(radius: float) -> NDArray[np.float32]:
    """Return a disk of ones on the published grid, float32 (N, N).

    Quirk: the grid of a large radius that is no integer begins at -radius. It may have an even number of points, and
    none of them in the centre.
    """
    axis = np.arange(-SMALL_GRID, SMALL_GRID + 1) if radius <= SMALL_GRID else np.arange(-radius, radius + 1)
    inside: NDArray[np.float32] = (axis[:, None] ** 2 + axis[None, :] ** 2 <= radius * radius).astype(np.float32)
    return inside


def edge_taps(radius: float, alias: float) -> list[np.float32]:
    """Return one side of the Gaussian of sigma ``alias`` that smooths the disk, centre first.

    The filter is 3 wide for small disks and 5 wide for large ones.
    """
    half = 1 if radius <= SMALL_GRID else 2
    bell = [exp(-(i * i) / (2.0 * alias * alias)) for i in range(half + 1)]
    total = math.fsum(bell + bell[1:])
    return [np.float32(weight / total) for weight in bell]


def smooth_rows(padded: NDArray[np.float32], taps: list[np.float32]) -> NDArray[np.float32]:
    """Return float32 (N, M) smoothed along its second axis, in OpenCV's order: the centre, then pairs outwards."""
    half = len(taps) - 1
    width = padded.shape[1] - 2 * half
    total = padded[:, half : half + width] * taps[0]
    for k in range(1, half + 1):
        left, right = padded[:, half - k : half - k + width], padded[:, half + k : half + k + width]
        total = total + (left + right) * taps[k]
    return total


def disk_weights(radius: float, alias: float) -> NDArray[np.float32]:
    """Return the published filter: a disk of sum 1 on a square grid, smoothed by a Gaussian of sigma ``alias``.

    Quirk: a disk as wide as its grid is reflected into itself by the smoothing, so the filters of radius 8 and 10 sum
    to 1.013 and 1.011 and brighten the image (published scripts, ``disk``).
    """
    inside, taps = sharp_disk(radius), edge_taps(radius, alias)
    padded = np.pad(inside / inside.sum(), len(taps) - 1, mode="reflect")
    return smooth_rows(smooth_rows(padded, taps).T, taps).T


@lru_cache(maxsize=64)
def decompose_disk(radius: float, alias: float) -> Disk:
    """Return the filter of :func:`disk_weights` in the form that the compiled loop reads.

    If a disk reaches the edge of its grid, reflection padding repeats the second-to-last column beyond the last. The
    smoothing then adds part of it back at the rim, while the part that it moves out of the grid is cut off. The rows
    behave likewise. The rim correction contains both. It leaves out what the outermost taps of a 5 x 5 Gaussian would
    add, which changes a pixel by less than 0.04 levels.
    """
    inside, edge = sharp_disk(radius), edge_taps(radius, alias)
    reach = inside.shape[0] // 2
    columns = (inside.sum(axis=0).astype(np.int64) + 1) // 2 - 1
    heights = np.unique(columns[columns >= 0])
    runs = np.argwhere(heights[:, None] == columns[None, :]) - (0, reach)
    half = np.array([*edge, 0][:3] if edge[1] > MIN_SIDE_WEIGHT else [1], np.float32)
    across = 2.0 * float(half.astype(np.float64).sum()) - float(half[0])
    total = float(inside.sum()) * (across * across)
    rim, ends = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    if columns[-2] >= 0 and half.size > 1:
        near, far = columns[[-2, -1]].tolist()
        rim = np.array(
            [reach, np.searchsorted(heights, near), np.searchsorted(heights, far) if far >= 0 else heights.size]
        )
        added, subtracted = ([(row, dx) for dx in range(-height, height + 1)] for row, height in ((0, near), (1, far)))
        ends = np.array(added + subtracted)
        total += 4.0 * float(half[1]) * across * (len(added) - len(subtracted))
    return Disk(
        margin=int(heights.max()) + half.size - 1,
        # The sum is that of the published filter.
        main=float(disk_weights(radius, alias).astype(np.float64).sum()) / total,
        half=half,
        heights=heights,
        runs=runs,
        group=MAX_TERMS // (2 * int(heights.max()) + 1),
        rim=rim,
        ends=ends,
    )


@inlined
def init_runs(padded, y, heights, sums):
    """Write the sums of the columns' runs, 2 * height + 1 rows around row ``y``, to ``sums``, uint16 (heights, W)."""
    sums[:] = 0
    for k in range(heights.size):
        column = sums[k][: padded.shape[1]]
        for row in range(y - heights[k], y + heights[k] + 1):
            source = padded[row]
            for i in range(column.size):
                column[i] += source[i]


@inlined
def slide_runs(padded, y, heights, sums):
    """Update the sums of :func:`init_runs` from row ``y - 1`` to row ``y``."""
    for k in range(heights.size):
        column, entering, leaving = sums[k][: padded.shape[1]], padded[y + heights[k]], padded[y - heights[k] - 1]
        for i in range(column.size):
            column[i] += np.uint16(entering[i]) - np.uint16(leaving[i])


@inlined
def places(taps, pitch, start):
    """Return the positions, uint64, of the first values that taps read of rows of ``pitch`` values."""
    return (taps[:, 0] * pitch + start + taps[:, 1] * CHANNELS).astype(np.uint64)


@inlined
def sum_taps(values, starts, first, stop, x):
    """Return the sum of taps first..stop - 1, half a vector of 16-bit integers, ``x`` values right of their starts."""
    total = load_half(values, starts[first] + x)
    for k in range(first + 1, stop):
        total = total + load_half(values, starts[k] + x)
    return total


@inlined
def add_runs(sums, starts, group, disk):
    """Write the sum of all columns' runs (uint16), of which ``group`` fit into 16 bits, to ``disk`` (float32)."""
    for x in range(np.uint64(0), np.uint64(disk.size), np.uint64(BLOCK)):
        total = to_floats(sum_taps(sums, starts, 0, min(group, starts.size), x))
        for first in range(group, starts.size, group):
            total = total + to_floats(sum_taps(sums, starts, first, min(first + group, starts.size), x))
        store(disk, x, total)


@inlined
def rim_columns(sums, rim, start, gain):
    """Write the runs to add at the rim's left and right, minus those to subtract, to ``gain`` (float32)."""
    inner, outer = sums[rim[1]], sums[rim[2]]
    near, far = rim[0] * CHANNELS, (rim[0] + 1) * CHANNELS
    a, b = inner[start - near :][: gain.size], inner[start + near :][: gain.size]
    c, d = outer[start - far :][: gain.size], outer[start + far :][: gain.size]
    for i in range(gain.size):
        gain[i] = np.float32(np.int32(np.int16(a[i] + b[i] - c[i] - d[i])))


@inlined
def rim_rows(padded, y, reach, rows):
    """Write the image rows at the upper and lower rim to ``rows`` (int16).

    rows[0] is the sum of the rows ``reach`` above and below row ``y``, rows[1] minus the sum of the rows beyond them.
    """
    a, b, c, d = padded[y - reach], padded[y + reach], padded[y - reach - 1], padded[y + reach + 1]
    added, subtracted = rows[0][: a.size], rows[1][: a.size]
    for i in range(added.size):
        added[i] = np.int16(a[i]) + np.int16(b[i])
        subtracted[i] = -(np.int16(c[i]) + np.int16(d[i]))


@inlined
def weigh_five(total, centre, half, near, other_near, far, other_far):
    """Write the sum of five rows weighted by one side of a filter, of which only the centre counts if it has one."""
    if half.size == 1:
        for i in range(total.size):
            total[i] = centre[i] * half[0]
        return
    for i in range(total.size):
        pairs = (far[i] + other_far[i]) * half[2] + (near[i] + other_near[i]) * half[1]
        total[i] = centre[i] * half[0] + pairs


@inlined
def smooth_vertical(ring, y, half, line):
    """Write row ``y`` of a ring buffer of rows (float32), smoothed along y, to ``line``."""
    count = ring.shape[0]
    near, other_near = ring[(y - 1) % count], ring[(y + 1) % count]
    far, other_far = ring[(y - 2) % count], ring[(y + 2) % count]
    weigh_five(line, ring[y % count], half, near, other_near, far, other_far)


@inlined
def smooth_horizontal(line, half, row):
    """Write the middle of ``line``, smoothed along x, to ``row``."""
    start = (half.size - 1) * CHANNELS
    near, other_near = line[start - CHANNELS :], line[start + CHANNELS :]
    weigh_five(row, line[start:], half, near, other_near, line, line[2 * start :])


@inlined
def add_signed(total, values, starts, factor):
    """Add the sums of the taps of ``values`` (int16) times ``factor`` to ``total`` (float32)."""
    for x in range(np.uint64(0), np.uint64(total.size), np.uint64(BLOCK)):
        store(total, x, load(total, x) + to_floats(sum_taps(values, starts, 0, starts.size, x)) * factor)


@inlined
def add_scaled(total, values, factor):
    """Add ``values`` times ``factor`` to ``total`` (float32)."""
    for i in range(total.size):
        total[i] += values[i] * factor


@kernel
def blur_disk(padded, margin, main, half, heights, runs, group, rim, ends):
    """Return the image correlated with a decomposed filter, clipped at 255 and truncated, uint8 (H, W * 3).

    ``padded`` is the mirrored image. ``margin`` to ``ends`` are the fields of :class:`Disk`.
    """
    height, width = padded.shape[0] - 2 * margin, padded.shape[1] - 2 * margin * CHANNELS
    out = np.empty((height, width), np.uint8)
    spread, start = half.size - 1, margin * CHANNELS
    wide, before, pitch = width + 2 * spread * CHANNELS, start - spread * CHANNELS, padded.shape[1] + BLOCK
    size = -(-wide // BLOCK) * BLOCK
    sums, rows = np.zeros((heights.size + 1, pitch), np.uint16), np.zeros((2, pitch), np.int16)
    disks = scratch((2 * spread + 1) * size, np.float32).reshape(2 * spread + 1, size)
    sides = np.empty((2 * spread + 1, width), np.float32)
    runs, ends = places(runs, pitch, before), places(ends, pitch, before)
    line, row, gain = scratch(size, np.float32), scratch(width, np.float32), scratch(width, np.float32)
    init_runs(padded, margin - spread, heights, sums)
    for ready in range(-spread, height + spread):
        if ready > -spread:
            slide_runs(padded, ready + margin, heights, sums)
        add_runs(sums.reshape(-1), runs, group, disks[ready % disks.shape[0]])
        if rim.size > 0:
            rim_columns(sums, rim, start, sides[ready % sides.shape[0]])
        y = ready - spread
        if y < 0:
            continue
        smooth_vertical(disks, y, half, line)
        if rim.size > 0:
            rim_rows(padded, y + margin, rim[0], rows)
            add_signed(line, rows.reshape(-1), ends, half[1])
        smooth_horizontal(line, half, row)
        if rim.size > 0:
            smooth_vertical(sides, y, half, gain)
            add_scaled(row, gain, half[1])
        target = out[y]
        for i in range(width):
            target[i] = np.uint8(np.int32(min(row[i] * main, 255.0)))
    return out


@kernel
def correlate_dense(padded, weights, out):
    """Write an image correlated with a filter, clipped at 255 and truncated, to ``out``, uint8 (H, W * 3).

    Args:
        padded: uint8 (H + N, (W + N) * 3), with N // 2 mirrored pixels before the image.
        weights: float32 (N, M), where M is N or larger, a multiple of 4, and the additional columns are 0.
        out: uint8 (H, W * 3).
    """
    width, (rows, columns) = out.shape[1], weights.shape
    wide = np.zeros((padded.shape[0], width + columns * CHANNELS), np.float32)
    for y in range(padded.shape[0]):
        copy(padded[y], wide[y][: padded.shape[1]])
    total = scratch(width, np.float32)
    for y in range(out.shape[0]):
        total[:] = 0
        for i in range(rows):
            row, half = wide[y + i], weights[i]
            for j in range(0, columns, 4):
                a, b = row[j * CHANNELS :][:width], row[(j + 1) * CHANNELS :][:width]
                c, d = row[(j + 2) * CHANNELS :][:width], row[(j + 3) * CHANNELS :][:width]
                for x in range(width):
                    total[x] += (a[x] * half[j] + b[x] * half[j + 1]) + (c[x] * half[j + 2] + d[x] * half[j + 3])
        target = out[y]
        for x in range(width):
            target[x] = np.uint8(np.int32(min(total[x], 255.0)))


@lru_cache(maxsize=64)
def dense_weights(radius: float, alias: float) -> NDArray[np.float32]:
    """Return :func:`disk_weights` with columns of zeros up to a multiple of 4."""
    weights = disk_weights(radius, alias)
    return np.ascontiguousarray(np.pad(weights, ((0, 0), (0, -len(weights) % 4))))


def defocus(image: NDArray[np.uint8], radius: float, alias: float) -> NDArray[np.uint8]:
    """Return an image correlated with the smoothed disk.

    Args:
        image: uint8 (H, W, 3).
        radius: Radius of the disk in pixels.
        alias: Sigma in pixels of the Gaussian that smooths the disk's edge.

    Returns:
        A new uint8 array (H, W, 3).
    """
    height, width, _ = image.shape
    if radius > SMALL_GRID and radius != int(radius):  # the disk is not symmetric about a pixel
        out, weights = np.empty((height, width * CHANNELS), np.uint8), dense_weights(radius, alias)
        correlate_dense(with_margins(image, len(weights) // 2, len(weights) // 2), weights, out)
        return out.reshape(image.shape)
    disk = decompose_disk(radius, alias)
    return blur_disk(with_margins(image, disk.margin, disk.margin), *disk).reshape(image.shape)
