"""scipy's linear zoom about the centre: tables of sample positions, and the kernels that read them.

The mean of an image and its zooms has the levels of the published scripts: it is computed in float32 levels, with a
bound of the error, and again in the published order where an integer is within the bound.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.doubts import MANY, UNIT_ROUNDOFF, block_of, truncate_decided
from corruptions.kernels.planes import CHANNELS, equal_pixels, to_unit
from corruptions.kernels.vectors import load, load_half, store

BLOCK = 8
"""Values interpolated at once: the number of float32 in half a vector."""

PAIR = 32
"""Values in two vectors of float32."""

RING = 4
"""Rows of each zoom that are kept: two around an output row, and one or two for the next ones."""


class Grid(NamedTuple):
    """The sample positions of N outputs along one axis: of one zoom (N,), or of F zooms (N, F)."""

    lower: NDArray[np.int32]
    """Index of the lower neighbour."""
    weight: NDArray[np.float64]
    """Weight of the upper neighbour, 0..1. More than 1: the position is beyond the last pixel, the sample is black."""


def crop_side(side: int, factor: float) -> tuple[int, int]:
    """Return start and length of the central part that covers ``side`` when it is zoomed by ``factor``."""
    length = math.ceil(side / factor)
    return (side - length) // 2, length


def centre_crop(shape: tuple[int, int], factor: float) -> tuple[slice, slice]:
    """Return the part of a layer (H, W) that a zoom by ``factor`` about the centre reads."""
    (top, height), (left, width) = (crop_side(side, factor) for side in shape)
    return slice(top, top + height), slice(left, left + width)


@lru_cache(maxsize=1024)
def zoom_grid(side: int, factor: float, whole: bool = False) -> Grid:
    """Return the grid for ``side`` outputs of the centre zoomed by ``factor``. Indices begin at the crop.

    scipy.ndimage.zoom (order 1) places the first and last samples on the first and last pixels of the crop. A result
    larger than ``side`` is cropped centrally; ``whole`` keeps all of it, and black samples.
    """
    _, length = crop_side(side, factor)
    zoomed = round(length * factor)
    trim = (zoomed - side) // 2
    step = (length - 1) / (zoomed - 1) if zoomed > 1 else 1.0
    first, stop = (0, zoomed) if whole else (trim, trim + side)
    position = np.arange(first, stop, dtype=np.float64) * np.float64(step)
    lower = np.minimum(position.astype(np.int32), max(length - 2, 0))
    # Rounding may place the last sample beyond the last pixel, where scipy returns 0. None of ImageNet-C is affected.
    grid = Grid(lower, position - lower if whole else np.minimum(position - lower, 1.0))
    for array in grid:
        array.flags.writeable = False
    return grid


@lru_cache(maxsize=128)
def stacked_grids(side: int, factors: tuple[float, ...], black_ends: bool) -> Grid:
    """Return the grids of several factors along one axis of an image. Indices begin at its edge.

    With ``black_ends``, zooms are cut after ``side`` samples. Those of zoom blur have at most one more.
    """
    grids = [zoom_grid(side, factor, black_ends) for factor in factors]
    starts = [crop_side(side, factor)[0] for factor in factors]
    index = [grid.lower[:side] + start for grid, start in zip(grids, starts, strict=True)]
    return Grid(np.stack(index, axis=1).astype(np.int32), np.stack([grid.weight[:side] for grid in grids], axis=1))


class ZoomTables(NamedTuple):
    """Tables for the mean in float32. A zoom by factor 1 is the image itself."""

    rows: NDArray[np.int32]
    """(F, H) index of the upper of the two rows around each row of a zoom."""
    shares: NDArray[np.float32]
    """(F, H, 2) weights of both rows in the mean."""
    blocks: NDArray[np.uint64]
    """(F, B, 2) positions at which each block of a zoomed row reads and writes, in values (three per pixel)."""
    weights: NDArray[np.float32]
    """(F, W * 3 + BLOCK) weight of each value's right neighbour."""
    own: np.float32
    """Weight of the image itself, including the zoom by factor 1."""
    error: np.float32
    """Bound of the error of levels in float32."""


@lru_cache(maxsize=128)
def zoom_tables(height: int, width: int, factors: tuple[float, ...], black_ends: bool) -> tuple[Grid, Grid, ZoomTables]:
    """Return the grids of all factors down and across an image, and the tables for its mean.

    The bound for n factors: let u = UNIT_ROUNDOFF and all levels at most 255. Here, a value of a row has an error of
    3 u * 255 (weight, product, sum), its share in the mean of three roundings more, and a partial sum of k shares loses
    at most 255 u k / (n + 1), together 255 u (7 + n / 2). As published, levels, zoomed values, the sum, the mean and
    its levels are rounded once each, and a partial sum of k values loses u k: 255 u (5 + n / 2). A hundredth is added
    for terms of u^2, and 2^-16 for the rounding of a level.
    """
    down, across = (stacked_grids(side, factors, black_ends) for side in (height, width))
    real = [index for index, factor in enumerate(factors) if factor != 1.0]
    one, count = 1.0 / (len(factors) + 1), len(factors)
    cut = [split_blocks(across.lower[:, index]) for index in real]
    most, low = max(map(len, cut)), down.weight[:, real].T
    tables = ZoomTables(
        down.lower[:, real].T.copy(),
        np.stack([(1.0 - low) * one, low * one], axis=-1).astype(np.float32),
        np.stack([np.pad(blocks, ((0, most - len(blocks)), (0, 0)), mode="edge") for blocks in cut]),
        np.pad(np.repeat(across.weight[:, real].T.astype(np.float32), CHANNELS, axis=1), ((0, 0), (0, BLOCK))),
        np.float32((1 + count - len(real)) * one),
        np.float32(1.01 * 255 * UNIT_ROUNDOFF * (12 + count) + 2.0**-16),
    )
    return down, across, tables


def split_blocks(columns: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return the positions (B, 2) at which the blocks of a zoomed row read and write.

    ``columns`` are the left neighbours of the zoomed row's pixels. A zoom repeats a pixel at intervals. Between two
    repetitions, neighbouring outputs read neighbouring inputs, so that complete vectors can be loaded. The last block
    of such a run may extend beyond its end; the next run overwrites the excess.
    """
    ahead = columns - np.arange(columns.size)
    ends = [*np.flatnonzero(np.diff(ahead)) + 1, columns.size]
    runs = zip([0, *ends[:-1]], ends, strict=True)
    positions = np.concatenate([np.arange(CHANNELS * begin, CHANNELS * end, BLOCK) for begin, end in runs])
    return np.stack([positions + CHANNELS * ahead[positions // CHANNELS], positions], axis=1).astype(np.uint64)


@kernel
def zoom_layer(crop, rows, row_weights, columns, column_weights):
    """Return a float crop (h, w) zoomed to (H, W) in its own type.

    Columns are zoomed first, because the input has fewer rows than the output.
    """
    out = np.empty((rows.size, columns.size), crop.dtype)
    wide = np.empty((crop.shape[0], columns.size), crop.dtype)
    row_weights, column_weights = row_weights.astype(crop.dtype), column_weights.astype(crop.dtype)
    for y in range(crop.shape[0]):
        source, target = crop[y], wide[y]
        for x in range(columns.size):
            low = source[columns[x]]
            target[x] = low + column_weights[x] * (source[columns[x] + 1] - low)
    for y in range(rows.size):
        upper, lower, target = wide[rows[y]], wide[rows[y] + 1], out[y]
        weight = row_weights[y]
        for x in range(columns.size):
            target[x] = upper[x] + weight * (lower[x] - upper[x])
    return out


def zoom_centre(crop: NDArray[Any], shape: tuple[int, int], factor: float, whole: bool = False) -> NDArray[Any]:
    """Return a float layer's :func:`centre_crop` zoomed by ``factor`` to ``shape`` (H, W), or the whole zoom."""
    (rows, row_weights), (columns, column_weights) = (zoom_grid(side, factor, whole) for side in shape)
    layer: NDArray[Any] = zoom_layer(np.ascontiguousarray(crop), rows, row_weights, columns, column_weights)
    layer[row_weights > 1] = 0
    layer[:, column_weights > 1] = 0
    return layer


@inlined
def unit(level):
    """Return ``level / 255`` as the published float32."""
    return np.float32(to_unit(level, np.float64))


@inlined
def stretch_rows(source, below, blocks, weights, out, out_below):
    """Write two rows of a zoom (float32): a value is between one of ``source`` or ``below`` and that of the next pixel.

    Two rows at once halve the accesses to weights and positions.
    """
    for k in range(blocks.shape[0]):
        read, position = blocks[k, 0], blocks[k, 1]
        right, weight = read + np.uint64(CHANNELS), load_half(weights, position)
        value, value_below = load_half(source, read), load_half(below, read)
        store(out, position, value + (load_half(source, right) - value) * weight)
        store(out_below, position, value_below + (load_half(below, right) - value_below) * weight)


@inlined
def add_zooms(total, zooms, uppers, lowers, shares, y):
    """Add row ``y`` of all zooms to ``total``. Their rows around it begin at ``uppers`` and ``lowers`` of ``zooms``."""
    second = np.uint64(PAIR // 2)
    for x in range(np.uint64(0), np.uint64(total.size), second + second):
        a, b = load(total, x), load(total, x + second)
        for f in range(uppers.size):
            upper, lower, high, low = uppers[f] + x, lowers[f] + x, shares[f, y, 0], shares[f, y, 1]
            a = a + (load(zooms, upper) * high + load(zooms, lower) * low)
            b = b + (load(zooms, upper + second) * high + load(zooms, lower + second) * low)
        store(total, x, a)
        store(total, x + second, b)


@inlined
def zooms_are_equal(image, y, first, last, down, across):
    """Return whether the pixels first..last of a row and their zooms are in a rectangle of equal pixels."""
    top, bottom = min(y, down.lower[y].min()), max(y + 1, down.lower[y].max() + 2)
    left, right = min(first, across.lower[first].min()), max(last + 1, across.lower[last].max() + 2)
    return equal_pixels(image, top, bottom, CHANNELS * left, CHANNELS * right)


@kernel
def published_level(image, y, place, down, across):
    """Return one value of the mean in the published order: zooms in float64, their sum and mean in float32.

    A zoomed value between four equal ones is equal to them, because float64 is much more precise than they are.
    """
    total, x, channel = np.float32(0), place // CHANNELS, place % CHANNELS
    for f in range(down.lower.shape[1]):
        if max(down.weight[y, f], across.weight[x, f]) > 1.0:
            continue
        row, left = down.lower[y, f], CHANNELS * across.lower[x, f] + channel
        a, b = image[row, left], image[row, left + CHANNELS]
        c, d = image[row + 1, left], image[row + 1, left + CHANNELS]
        if a == b and a == c and a == d:
            total += unit(a)
        else:
            low, far = down.weight[y, f], across.weight[x, f]
            high, near = 1.0 - low, 1.0 - far
            total += np.float32(
                unit(a) * high * near + unit(b) * high * far + unit(c) * low * near + unit(d) * low * far
            )
    mean = (unit(image[y, place]) + total) / np.float32(down.lower.shape[1] + 1)
    return np.uint8(np.int32(min(mean, np.float32(1)) * np.float32(255)))


@kernel
def publish_values(image, y, found, down, across, target):
    """Replace the values at the positions ``found`` of row ``y`` by the published ones.

    In a flat area, all are undecided, and a pixel equals the one before it.

    Args:
        image: uint8 (H, W * 3).
        y: The row.
        found: Positions.
        down: The :class:`Grid` of all zooms down the image.
        across: That across the image.
        target: uint8 (W * 3).
    """
    k = 0
    while k < found.size:
        first, stop = block_of(found, k)
        is_flat = stop - k > MANY and zooms_are_equal(image, y, first // 3, found[stop - 1] // 3, down, across)
        for i in found[k:stop]:
            is_copy = is_flat and i >= first + CHANNELS
            target[i] = target[i - CHANNELS] if is_copy else published_level(image, y, i, down, across)
        k = stop


@kernel
def average_zooms(image, down, across, rows, shares, blocks, weights, own, error):
    """Return the truncated mean of an image and its zooms, uint8 (H, W * 3).

    ``down`` and ``across`` are from :func:`zoom_tables`, the others are the fields of :class:`ZoomTables`. Each row of
    a zoom is stretched once and used for all output rows next to it.
    """
    height, width = image.shape
    count, pitch = rows.shape[0], -(-(width + BLOCK + CHANNELS) // PAIR) * PAIR
    source = scratch((height + 1) * pitch, np.float32).reshape(height + 1, pitch)
    for y in range(height):
        levels, row = image[y], source[y]
        for i in range(width):
            row[i] = levels[i]
    zooms, total = scratch(RING * count * pitch, np.float32), scratch(pitch, np.float32)
    uppers, lowers, ready = np.empty(count, np.uint64), np.empty(count, np.uint64), np.full(count, -1)
    out, found = np.empty_like(image), np.empty(width, np.int64)
    for y in range(height):
        for f in range(count):
            top = rows[f, y]
            ring = zooms[RING * f * pitch : RING * (f + 1) * pitch]
            for row in range(max(ready[f] + 1, top), top + 2, 2):
                at, at_below = row % RING * pitch, (row + 1) % RING * pitch
                stretch_rows(source[row], source[row + 1], blocks[f], weights[f], ring[at:], ring[at_below:])
                ready[f] = row + 1
            uppers[f], lowers[f] = (RING * f + top % RING) * pitch, (RING * f + (top + 1) % RING) * pitch
        levels, target = source[y], out[y]
        for i in range(width):
            total[i] = levels[i] * own
        add_zooms(total[: -(-width // PAIR) * PAIR], zooms, uppers, lowers, shares, y)
        near = truncate_decided(total[:width], -error, error, target, found)
        publish_values(image, y, found[:near], down, across, target)
    return out


@kernel
def publish_ends(image, down, across, out):
    """Replace the last row, the last column or both, where a zoom is black there, by the published values."""
    height, width = image.shape
    for i in range(width if down.weight[-1].max() > 1.0 else 0):
        out[height - 1, i] = published_level(image, height - 1, i, down, across)
    for y in range(height if across.weight[-1].max() > 1.0 else 0):
        for i in range(width - CHANNELS, width):
            out[y, i] = published_level(image, y, i, down, across)


def zoom_blur(image: NDArray[np.uint8], factors: tuple[float, ...], black_ends: bool = False) -> NDArray[np.uint8]:
    """Return the mean of an image and its centre zoomed by each factor.

    Args:
        image: uint8 (H, W, 3).
        factors: Zoom factors, at least 1.
        black_ends: Whether samples that rounding places beyond the last pixel are black, as by scipy.

    Returns:
        A new uint8 array (H, W, 3).
    """
    height, width, _ = image.shape
    down, across, tables = zoom_tables(height, width, factors, black_ends)
    pixels = image.reshape(height, -1)
    out: NDArray[np.uint8] = average_zooms(pixels, down, across, *tables)
    if black_ends:
        publish_ends(pixels, down, across, out)
    return out.reshape(image.shape)
