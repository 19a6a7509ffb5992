"""scipy's linear zoom about the centre: tables of sample positions, and the kernels that read them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch

CHANNELS = 3
"""Distance in a row between a value and that of the right neighbour pixel."""

BLOCK = 16
"""Values interpolated at once: the number of 16-bit numbers in a 32-byte vector."""

FRACTION = 8
"""Fraction bits of weights along a row. Together with the 8 bits of a level they fill a 16-bit number."""

SHARE_BITS = np.uint32(16)
"""Fraction bits of weights along a column."""

OWN_SHIFT = np.uint32(SHARE_BITS - np.uint32(FRACTION))
"""Shift from a level times its column weight to a level times 2 ** FRACTION."""


class Grid(NamedTuple):
    """The sample positions of N outputs along one axis."""

    lower: NDArray[np.int32]
    """(N,) index of the lower neighbour."""
    weight: NDArray[np.float64]
    """(N,) weight of the upper neighbour, 0..1."""


def crop_side(side: int, factor: float) -> tuple[int, int]:
    """Return start and length of the central part that covers ``side`` when it is zoomed by ``factor``."""
    length = math.ceil(side / factor)
    return (side - length) // 2, length


def centre_crop(shape: tuple[int, int], factor: float) -> tuple[slice, slice]:
    """Return the part of a layer (H, W) that a zoom by ``factor`` about the centre reads."""
    (top, height), (left, width) = (crop_side(side, factor) for side in shape)
    return slice(top, top + height), slice(left, left + width)


@lru_cache(maxsize=1024)
def zoom_grid(side: int, factor: float) -> Grid:
    """Return the grid for ``side`` outputs of the centre zoomed by ``factor``. Indices begin at the crop.

    scipy.ndimage.zoom (order 1) places the first and last samples on the first and last pixels of the crop. A result
    larger than ``side`` is cropped centrally.
    """
    _, length = crop_side(side, factor)
    zoomed = round(length * factor)
    trim = (zoomed - side) // 2
    step = (length - 1) / (zoomed - 1) if zoomed > 1 else 1.0
    position = np.arange(trim, trim + side) * step
    lower = np.minimum(position.astype(np.int32), max(length - 2, 0))
    # Rounding may place the last sample beyond the last pixel, where scipy returns 0. No published side is affected.
    grid = Grid(lower, np.minimum(position - lower, 1.0))
    for array in grid:
        array.flags.writeable = False
    return grid


class Stack(NamedTuple):
    """The grids of F factors along one axis. Indices begin at the edge of the image."""

    lower: NDArray[np.int32]
    """(F, side) index of the lower neighbour."""
    weight: NDArray[np.float64]
    """(F, side) weight of the upper neighbour, 0..1."""


@lru_cache(maxsize=128)
def stacked_grids(side: int, factors: tuple[float, ...]) -> Stack:
    """Return the grids of several factors along one axis of an image."""
    grids = [zoom_grid(side, factor) for factor in factors]
    starts = [crop_side(side, factor)[0] for factor in factors]
    index = np.stack([grid.lower + start for grid, start in zip(grids, starts, strict=True)]).astype(np.int32)
    return Stack(index, np.stack([grid.weight for grid in grids]))


class ZoomTables(NamedTuple):
    """Tables for the integer average of an image and its zooms."""

    rows: NDArray[np.int32]
    """(F, H) index of the upper of the two rows around each row of a zoom."""
    shares: NDArray[np.uint16]
    """(F, H, 2) weights of both rows in the average, times 2 ** SHARE_BITS."""
    blocks: NDArray[np.uint64]
    """(F, B, 2) positions at which each block of a zoomed row reads and writes, in values (three per pixel)."""
    weights: NDArray[np.uint16]
    """(F, W * 3 + BLOCK) weight of each value's right neighbour, times 2 ** FRACTION."""
    own: int
    """Weight of the image itself, including the zoom by factor 1."""


@lru_cache(maxsize=128)
def zoom_tables(height: int, width: int, factors: tuple[float, ...]) -> ZoomTables:
    """Return the tables for an image of this size. A zoom by factor 1 is the image itself."""
    real = tuple(factor for factor in factors if factor != 1.0)
    down, across = stacked_grids(height, real), stacked_grids(width, real)
    one = 2 ** int(SHARE_BITS)
    share = round(one / (len(factors) + 1))
    lower = np.rint(down.weight * share).astype(np.uint16)
    cut = [split_blocks(columns) for columns in across.lower]
    most = max(map(len, cut))
    weights = np.rint(across.weight * 2**FRACTION).astype(np.uint16)
    return ZoomTables(
        down.lower,
        np.stack([share - lower, lower], axis=-1).astype(np.uint16),
        np.stack([np.pad(blocks, ((0, most - len(blocks)), (0, 0)), mode="edge") for blocks in cut]),
        np.pad(np.repeat(weights, CHANNELS, axis=1), ((0, 0), (0, BLOCK))),
        one - share * len(real),
    )


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


def zoom_centre(crop: NDArray[Any], shape: tuple[int, int], factor: float) -> NDArray[Any]:
    """Return a float layer's :func:`centre_crop` zoomed by ``factor`` to ``shape`` (H, W)."""
    (rows, row_weights), (columns, column_weights) = (zoom_grid(side, factor) for side in shape)
    zoomed: NDArray[Any] = zoom_layer(np.ascontiguousarray(crop), rows, row_weights, columns, column_weights)
    return zoomed


@intrinsic
def stretch_block(typing, source, read, weights, out, position):
    """Write BLOCK interpolated values, times 2 ** FRACTION, to out[position:].

    Each value is between one of source[read:] and its right neighbour. A loop would not vectorise, because the
    compiler cannot know that ``out`` does not overlap the inputs. Negative differences wrap around, and the sums wrap
    back.
    """

    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(ir.IntType(16), BLOCK)

        def pointer(argument, index):
            array = make_array(signature.args[argument])(context, builder, arguments[argument])
            return builder.bitcast(builder.gep(array.data, [index]), vector.as_pointer())

        left_at, block_at = arguments[1], arguments[4]
        right_at = builder.add(left_at, ir.Constant(left_at.type, CHANNELS))
        left, right = (builder.load(pointer(0, index), align=2) for index in (left_at, right_at))
        weight = builder.load(pointer(2, block_at), align=2)
        scaled = builder.shl(left, ir.Constant(vector, [FRACTION] * BLOCK))
        between = builder.add(scaled, builder.mul(builder.sub(right, left), weight))
        builder.store(between, pointer(3, block_at), align=2)
        return context.get_dummy_value()

    return types.void(source, types.uint64, weights, out, types.uint64), generate


@inlined
def stretch_row(source, blocks, weights, out):
    """Write a row of the zoom, times 2 ** FRACTION, to ``out``."""
    for i in range(blocks.shape[0]):
        stretch_block(source, blocks[i, 0], weights, out, blocks[i, 1])  # type: ignore[call-arg]  # numba passes typing


@inlined
def add_shares(total, upper, lower, upper_share, lower_share):
    """Add both rows, each times its weight, to ``total``: the upper halves of 16-bit products.

    The weights are given as rows, because the compiler uses the instruction for upper halves only for loaded values.
    """
    for i in range(total.size):
        above = np.uint16((np.uint32(upper[i]) * np.uint32(upper_share[i])) >> SHARE_BITS)
        below = np.uint16((np.uint32(lower[i]) * np.uint32(lower_share[i])) >> SHARE_BITS)
        total[i] += above + below


@kernel
def average_zooms(image, rows, shares, blocks, weights, own):
    """Return the truncated average of an image and its zooms, uint8 (H, W * 3).

    ``rows`` to ``own`` are the fields of :class:`ZoomTables`. Each row of a zoom is stretched once and used for all
    output rows next to it.
    """
    height, width = image.shape
    pitch = -(-(width + BLOCK + CHANNELS) // BLOCK) * BLOCK
    source = scratch(height * pitch, np.uint16).reshape(height, pitch)
    totals = scratch(height * width, np.uint16).reshape(height, width)
    for y in range(height):
        row, levels, total = image[y], source[y], totals[y]
        for i in range(width):
            levels[i] = row[i]
            total[i] = np.uint16((np.uint32(row[i]) * np.uint32(own)) >> OWN_SHIFT) + np.uint16(rows.shape[0])
    stretched = scratch(2 * pitch, np.uint16).reshape(2, pitch)
    upper_share, lower_share = scratch(width, np.uint16), scratch(width, np.uint16)
    for f in range(rows.shape[0]):
        ready = -1
        for y in range(height):
            top = rows[f, y]
            for row in range(max(ready + 1, top), top + 2):
                stretch_row(source[row], blocks[f], weights[f], stretched[row % 2])
                ready = row
            upper_share[:] = shares[f, y, 0]
            lower_share[:] = shares[f, y, 1]
            add_shares(totals[y], stretched[top % 2], stretched[(top + 1) % 2], upper_share, lower_share)
    out = np.empty_like(image)
    for y in range(height):
        for i in range(width):
            out[y, i] = np.uint8(totals[y, i] >> np.uint16(FRACTION))
    return out


def zoom_blur(image: NDArray[np.uint8], factors: tuple[float, ...]) -> NDArray[np.uint8]:
    """Return the mean of an image and its centre zoomed by each factor.

    Args:
        image: uint8 (H, W, 3).
        factors: Zoom factors, at least 1.

    Returns:
        A new uint8 array (H, W, 3).
    """
    height, width, _ = image.shape
    blurred: NDArray[np.uint8] = average_zooms(image.reshape(height, -1), *zoom_tables(height, width, factors))
    return blurred.reshape(image.shape)
