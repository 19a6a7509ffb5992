"""The smoothed disk of defocus blur: integer sums over the sharp disk, followed by smoothing of its edge.

The error has a bound. Values near an integer are computed again as the sum of the products of the published filter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.elementary import exp
from corruptions.kernels import copy, inlined, kernel, scratch
from corruptions.kernels.planes import equal_pixels
from corruptions.kernels.smoothing import UNIT_ROUNDOFF, add_pairs

SMALL_GRID = 8
"""Radius of the grid for all disks up to this radius."""

MAX_TERMS = 257
"""Number of 8-bit levels whose sum always fits into 16 bits."""

FUSED_COLUMNS = 8
"""OpenCV fuses products and sums of columns only in whole vectors of this many columns."""

EXACT_BLOCK = 48
"""Values that are examined together, whole pixels."""

HIGHEST = np.int32(255)
"""The highest level."""

NEGLIGIBLE = 1e-12
"""Weights of the published filter below this do not change any level."""

MIN_SIDE_WEIGHT = 1e-7
"""The smoothing is left out if its side weights are smaller than this, relative to a sum of 1."""


class Disk(NamedTuple):
    """The filter as integer sums: a disk of ones, smoothed along both axes, plus a correction at the rim.

    Quads are int64 (Q, 4, 2): the (row, dx) of four rows that are added in one pass. The last quad is padded with a row
    of zeros.
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
    """Quads of columns. ``row`` is an index into ``heights``."""
    group: int
    """Number of quads of columns whose sum fits into 16 bits."""
    rim: NDArray[np.int64]
    """(E, 4) columns of a disk that reaches the edge of its grid, which are added to or subtracted from both sides: tap
    (1 or 2) by which they are multiplied, distance from the centre, index in ``heights``, and sign."""
    ends: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Quads of pixels above and below such a disk, for each tap. ``row`` is an index into ``rim``."""
    error: float
    """Bound of the error of levels."""
    taps: NDArray[np.int64]
    """(T, 2) distances (dy, dx) of the published filter."""
    weights: NDArray[np.float64]
    """(T,) the published filter."""


def sharp_disk(radius: float) -> NDArray[np.float32]:
    """Return a disk of ones on the published grid, float32 (N, N)."""
    reach = SMALL_GRID if radius <= SMALL_GRID else int(radius)
    axis = np.arange(-reach, reach + 1)
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


def fused(values: NDArray[np.floating], tap: np.floating, sums: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return ``values * tap + sums``, of float32 rounded once, as CPUs with fused multiply-add do."""
    return (values.astype(np.float64) * np.float64(tap) + sums).astype(sums.dtype)


def smooth_rows(padded: NDArray[np.floating], taps: Sequence[np.floating], whole: int = 0) -> NDArray[np.floating]:
    """Return (N, M) smoothed along its second axis: the centre, then pairs, fused in ``whole`` rows."""
    half = len(taps) - 1
    width = padded.shape[1] - 2 * half
    total = padded[:, half : half + width] * taps[0]
    for k in range(1, half + 1):
        pairs = padded[:, half - k : half - k + width] + padded[:, half + k : half + k + width]
        total = np.append(fused(pairs[:whole], taps[k], total[:whole]), total[whole:] + pairs[whole:] * taps[k], axis=0)
    return total


def disk_weights(radius: float, alias: float) -> NDArray[np.float32]:
    """Return the published filter: a disk of sum 1 on a square grid, smoothed by a Gaussian of sigma ``alias``.

    The last bit of its weights is that of OpenCV on CPUs with fused multiply-add: along rows, three taps begin with the
    pair; along columns, those beyond the last whole vector are not fused.

    Quirk: a disk as wide as its grid is reflected into itself by the smoothing, so the filters of radius 8 and 10 sum
    to 1.013 and 1.011 and brighten the image (published scripts, ``disk``).
    """
    inside, taps = sharp_disk(radius), edge_taps(radius, alias)
    half, size = len(taps) - 1, inside.shape[0]
    padded = np.pad(inside / inside.sum(), half, mode="reflect")
    if half == 1:
        rows = fused(padded[:, 1:-1], taps[0], (padded[:, :-2] + padded[:, 2:]) * taps[1])
    else:
        rows = smooth_rows(padded, taps, padded.shape[0])
    return np.asarray(smooth_rows(rows.T, taps, size // FUSED_COLUMNS * FUSED_COLUMNS).T, np.float32)


@lru_cache(maxsize=64)
def decompose_disk(radius: float, alias: float) -> Disk:
    """Return the filter of :func:`disk_weights` in the form that the compiled loop reads.

    If a disk reaches the edge of its grid, reflection padding repeats its columns beyond the last. The smoothing then
    adds part of them back at the rim, while the part that it moves out of the grid is cut off. The rows behave
    likewise. The rim correction contains both. With columns c0, c1, c2 from the edge inwards, tap k adds column k - j
    to column j and subtracts column j from column j - k, which is outside, for j below k.

    The bound: the filters differ by the sum of the differences of their weights, times 255 levels. The sums of the disk
    are exact. Each level then passes at most ten roundings of float32 of its own size, which is below 259 levels.
    """
    inside, edge = sharp_disk(radius), edge_taps(radius, alias)
    reach = inside.shape[0] // 2
    columns = (inside.sum(axis=0).astype(np.int64) + 1) // 2 - 1
    heights = np.unique(columns[columns >= 0])
    runs = np.argwhere(heights[:, None] == columns[None, :]) - (0, reach)
    half = np.array([*edge, 0][:3] if edge[1] > MIN_SIDE_WEIGHT else [1], np.float32)
    moved = [
        side
        for k in range(1, len(edge) if half.size > 1 else 1)
        for j in range(k)
        for side in ((k, reach - j, columns[j - k - 1], 1), (k, reach + k - j, columns[-1 - j], -1))
        if side[2] >= 0
    ]
    first, second = (
        [(row, dx) for row, (k, _, height, _) in enumerate(moved) if k == tap for dx in range(-height, height + 1)]
        for tap in (1, 2)
    )
    smoothing = [np.float64(tap) for tap in half]
    spread = half.size - 1
    complete = smooth_rows(np.pad(inside.astype(np.float64), spread, mode="reflect"), smoothing)
    complete = smooth_rows(complete.T, smoothing).T
    weights = disk_weights(radius, alias).astype(np.float64)
    main = float(weights.sum()) / float(complete.sum())  # the sum is that of the published filter
    taps = np.argwhere(weights > NEGLIGIBLE)
    difference = 255.0 * float(abs(weights - main * complete).sum())
    return Disk(
        margin=int(heights.max()) + spread,
        main=main,
        half=half,
        heights=heights,
        runs=quads(runs, heights.size),
        group=MAX_TERMS // (4 * (2 * int(heights.max()) + 1)),
        rim=np.array(
            [(k, far, np.searchsorted(heights, height), sign) for k, far, height, sign in moved], np.int64
        ).reshape(-1, 4),
        ends=(quads(np.array(first), len(moved)), quads(np.array(second), len(moved))),
        error=1.01 * difference + (10 * UNIT_ROUNDOFF * 259 if spread else 0.0) + NEGLIGIBLE,
        taps=taps - reach,
        weights=weights[tuple(taps.T)],
    )


def quads(taps: NDArray[np.int64], zeros: int) -> NDArray[np.int64]:
    """Return (T, 2) taps as (Q, 4, 2), padded with taps that read row ``zeros``."""
    missing = -len(taps) % 4
    return np.ascontiguousarray(
        np.concatenate([taps.astype(np.int64).reshape(-1, 2), np.tile((zeros, 0), (missing, 1))])
    ).reshape(-1, 4, 2)


@lru_cache(maxsize=256)
def mirror_indices(size: int, margin: int) -> NDArray[np.int64]:
    """Return indices -margin..size + margin - 1 mirrored about the first and last pixel, repeatedly (reflect-101)."""
    period = 2 * (size - 1)
    index = np.arange(-margin, size + margin) % period
    return np.minimum(index, period - index)


@kernel
def pad_mirrored(pixels, rows, columns, margin, channels):
    """Return uint8 (H, W * channels) indexed by the rows and columns of :func:`mirror_indices`."""
    width, reach = pixels.shape[1], margin * channels
    out = np.empty((rows.size, columns.size * channels), np.uint8)
    # Source columns of both margins. numba does not check unsigned indices for negative values.
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
def init_runs(padded, y, heights, sums):
    """Write the sums of the columns' runs, 2 * height + 1 rows around row ``y``, to ``sums``, uint16 (heights, W)."""
    sums[:] = 0
    for k in range(heights.size):
        column = sums[k]
        for row in range(y - heights[k], y + heights[k] + 1):
            source = padded[row]
            for i in range(column.size):
                column[i] += source[i]


@inlined
def slide_runs(padded, y, heights, sums):
    """Update the sums of :func:`init_runs` from row ``y - 1`` to row ``y``."""
    for k in range(heights.size):
        column, entering, leaving = sums[k], padded[y + heights[k]], padded[y - heights[k] - 1]
        for i in range(column.size):
            column[i] += np.uint16(entering[i]) - np.uint16(leaving[i])


@inlined
def add_quad(rows, quad, start, channels, total):
    """Add four taps to ``total`` (uint16). ``rows`` is uint16, and its column ``start`` is dx = 0."""
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
    """Write the sum of all columns' runs to ``disk`` (float32). ``part`` is a uint16 buffer."""
    disk[:] = 0
    for first in range(0, runs.shape[0], group):
        part[:] = 0
        for k in range(first, min(first + group, runs.shape[0])):
            add_quad(sums, runs[k], start, channels, part)
        for i in range(disk.size):
            disk[i] += np.float32(np.int32(part[i]))


@inlined
def rim_columns(sums, rim, half, start, channels, parts, gain):
    """Write the runs to add at the left and right of the rim, times their taps, to ``gain`` (float32)."""
    parts[:] = 0
    for e in range(rim.shape[0]):
        column, far, part = sums[rim[e, 2]], rim[e, 1] * channels, parts[rim[e, 0] - 1]
        left, right = column[start - far :][: gain.size], column[start + far :][: gain.size]
        if rim[e, 3] > 0:
            for i in range(gain.size):
                part[i] += left[i] + right[i]
        else:
            for i in range(gain.size):
                part[i] -= left[i] + right[i]
    gain[:] = 0
    add_signed(gain, parts[0], parts[1], half)


@inlined
def rim_rows(padded, y, rim, rows):
    """Write the sums of the image rows above and below that belong to the rim, times their signs, to ``rows``."""
    for e in range(rim.shape[0]):
        above, below, row = padded[y - rim[e, 1]], padded[y + rim[e, 1]], rows[e]
        if rim[e, 3] > 0:
            for i in range(row.size):
                row[i] = np.uint16(above[i]) + np.uint16(below[i])
        else:
            for i in range(row.size):
                row[i] = -(np.uint16(above[i]) + np.uint16(below[i]))


@inlined
def smooth_vertical(ring, y, half, line):
    """Write row ``y`` of a ring buffer of rows (float32), smoothed along y, to ``line``."""
    count = ring.shape[0]
    centre = ring[y % count]
    for i in range(line.size):
        line[i] = centre[i] * half[0]
    if half.size > 1:
        far, near = (ring[(y - 2) % count], ring[(y + 2) % count]), (ring[(y - 1) % count], ring[(y + 1) % count])
        add_pairs(line, far[0], far[1], half[2], near[0], near[1], half[1])


@inlined
def smooth_horizontal(line, half, channels, row):
    """Write the middle of ``line``, smoothed along x, to ``row``."""
    width, start = row.size, (half.size - 1) * channels
    middle = line[start : start + width]
    for i in range(width):
        row[i] = middle[i] * half[0]
    if half.size > 1:
        left, right = line[start - channels :][:width], line[start + channels :][:width]
        add_pairs(row, line[:width], line[2 * start :], half[2], left, right, half[1])


@inlined
def add_signed(total, near, far, half):
    """Add ``near`` and ``far`` (signed, stored as uint16), times their taps, to ``total`` (float32)."""
    first, second = half[1], half[2]
    for i in range(total.size):
        inner, outer = np.float32(np.int32(np.int16(near[i]))), np.float32(np.int32(np.int16(far[i])))
        total[i] += inner * first + outer * second


@kernel
def filtered_level(padded, y, at, channels, taps, weights):
    """Return one level, filtered in float64 by the published filter. Its centre is at row ``y``, value ``at``."""
    total = 0.0
    for k in range(weights.size):
        total += padded[y + taps[k, 0], at + taps[k, 1] * channels] * weights[k]
    return np.uint8(np.int32(min(total, 255.0)))


@inlined
def truncate_filtered(row, main, error, target):
    """Write ``row * main``, truncated and clipped, to ``target``. Return how many have an integer within the error."""
    count = np.int32(0)
    for i in range(target.size):
        value = row[i] * main
        lower, upper = np.int32(value - error), np.int32(value + error)
        target[i] = np.uint8(min(lower, HIGHEST))
        count += np.int32(upper - lower)
    return count


@inlined
def filter_again(padded, y, first, channels, margin, taps, weights, values, main, error, near, flats, target):
    """Replace the values of a block that are within the error of an integer. ``near`` is their number.

    ``flats`` are the results for flat areas of each level, or -1 where they are not known yet.
    """
    row, at, reach = y + margin, margin * channels + first, margin * channels
    window = (y, row + margin + 1, at - reach, at + target.size + reach)
    is_flat = near > target.size // 2 and equal_pixels(padded, *window)
    for i in range(target.size):
        level = padded[row, at + i]
        if is_flat and flats[level] >= 0:
            target[i] = flats[level]
        elif np.int32(values[i] * main + error) != np.int32(values[i] * main - error):
            target[i] = filtered_level(padded, row, at + i, channels, taps, weights)
            if is_flat:
                flats[level] = target[i]


@kernel
def blur_disk(padded, channels, margin, main, half, heights, runs, group, rim, ends, error, taps, weights):
    """Return the image correlated with a decomposed filter, clipped at 255 and truncated, uint8 (H, W * channels).

    ``padded`` is the mirrored image. ``margin`` to ``weights`` are the fields of :class:`Disk`.
    """
    height, width = padded.shape[0] - 2 * margin, padded.shape[1] - 2 * margin * channels
    out = np.empty((height, width), np.uint8)
    spread, start = half.size - 1, margin * channels
    wide, before = width + 2 * spread * channels, start - spread * channels
    sums = np.zeros((heights.size + 1, padded.shape[1]), np.uint16)
    disks, sides = np.empty((2 * spread + 1, wide), np.float32), np.empty((2 * spread + 1, width), np.float32)
    part, parts = scratch(wide, np.uint16), scratch(2 * wide, np.uint16).reshape(2, wide)
    rows = np.zeros((rim.shape[0] + 1, padded.shape[1]), np.uint16)
    line, row, gain = scratch(wide, np.float32), scratch(width, np.float32), scratch(width, np.float32)
    flats = np.full(256, -1)
    init_runs(padded, margin - spread, heights, sums)
    for ready in range(-spread, height + spread):
        if ready > -spread:
            slide_runs(padded, ready + margin, heights, sums)
        add_runs(sums, runs, group, before, channels, part, disks[ready % disks.shape[0]])
        if rim.shape[0] > 0:
            rim_columns(sums, rim, half, start, channels, parts, sides[ready % sides.shape[0]])
        y = ready - spread
        if y < 0:
            continue
        smooth_vertical(disks, y, half, line)
        if rim.shape[0] > 0:
            rim_rows(padded, y + margin, rim, rows)
            parts[:] = 0
            for k in range(2):
                for q in range(ends[k].shape[0]):
                    add_quad(rows, ends[k][q], before, channels, parts[k])
            add_signed(line, parts[0], parts[1], half)
        smooth_horizontal(line, half, channels, row)
        if rim.shape[0] > 0:
            smooth_vertical(sides, y, half, gain)
            for i in range(width):
                row[i] += gain[i]
        if truncate_filtered(row, main, error, out[y]):
            for first in range(0, width, EXACT_BLOCK):
                values, target = row[first:][:EXACT_BLOCK], out[y][first:][:EXACT_BLOCK]
                near = truncate_filtered(values, main, error, target)
                if near:
                    filter_again(
                        padded, y, first, channels, margin, taps, weights, values, main, error, near, flats, target
                    )
    return out


def defocus(image: NDArray[np.uint8], radius: float, alias: float) -> NDArray[np.uint8]:
    """Return an image correlated with the smoothed disk.

    Args:
        image: uint8 (H, W, C).
        radius: Radius of the disk in pixels.
        alias: Sigma in pixels of the Gaussian that smooths the disk's edge.

    Returns:
        A new uint8 array (H, W, C).
    """
    disk = decompose_disk(radius, alias)
    height, width, channels = image.shape
    rows, columns = mirror_indices(height, disk.margin), mirror_indices(width, disk.margin)
    padded = pad_mirrored(image.reshape(height, -1), rows, columns, disk.margin, channels)
    blurred: NDArray[np.uint8] = blur_disk(padded, channels, *disk)
    return blurred.reshape(image.shape)
