"""scipy's linear zoom about the centre: sample grids as tables, and the kernels that read them."""

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
"""Of the interleaved values of a row, how many lie between a pixel and its right neighbour."""

BLOCK = 16
"""Values that are interpolated at once: as many as 16-bit numbers in vectors of 32 bytes."""

FRACTION = 8
"""Bits after the point of weights along a row: with a level's 8 bits they fill a 16-bit number."""

SHARE_BITS = np.uint32(16)
"""Bits after the point of weights along a column."""

OWN_SHIFT = np.uint32(SHARE_BITS - np.uint32(FRACTION))
"""From a level times its share to a level times 2 ** FRACTION."""


class Grid(NamedTuple):
    """Where each of N output positions reads along one axis."""

    lower: NDArray[np.int32]
    """(N,) index of the lower neighbour."""
    weight: NDArray[np.float64]
    """(N,) weight of the upper neighbour, 0..1."""


def crop_side(side: int, factor: float) -> tuple[int, int]:
    """Start and length of the centre part that, zoomed by ``factor``, covers ``side``."""
    length = math.ceil(side / factor)
    return (side - length) // 2, length


def centre(shape: tuple[int, int], factor: float) -> tuple[slice, slice]:
    """The part of a layer (H, W) that a zoom by ``factor`` about the centre reads."""
    (top, height), (left, width) = (crop_side(side, factor) for side in shape)
    return slice(top, top + height), slice(left, left + width)


@lru_cache(maxsize=1024)
def zoom_grid(side: int, factor: float) -> Grid:
    """The grid, counted within the crop, that fills ``side`` with its centre zoomed by ``factor``.

    scipy.ndimage.zoom (order 1) puts the first and last samples on the first and last pixels of the crop; what comes
    out larger than ``side`` is trimmed centrally.
    """
    _, length = crop_side(side, factor)
    zoomed = round(length * factor)
    trim = (zoomed - side) // 2
    step = (length - 1) / (zoomed - 1) if zoomed > 1 else 1.0
    position = np.arange(trim, trim + side) * step
    lower = np.minimum(position.astype(np.int32), max(length - 2, 0))
    # rounding may put the last sample an ulp past the last pixel; scipy then returns 0 there, at no published side
    grid = Grid(lower, np.minimum(position - lower, 1.0))
    for array in grid:
        array.flags.writeable = False
    return grid


class Stack(NamedTuple):
    """The grids of F factors along one axis, counted within the whole side."""

    lower: NDArray[np.int32]
    """(F, side): the lower neighbour."""
    weight: NDArray[np.float64]
    """(F, side): the weight of the upper neighbour, 0..1."""


@lru_cache(maxsize=128)
def stacked_grids(side: int, factors: tuple[float, ...]) -> Stack:
    """The grids of several factors along one axis of an image."""
    grids = [zoom_grid(side, factor) for factor in factors]
    starts = [crop_side(side, factor)[0] for factor in factors]
    index = np.stack([grid.lower + start for grid, start in zip(grids, starts, strict=True)]).astype(np.int32)
    return Stack(index, np.stack([grid.weight for grid in grids]))


class Average(NamedTuple):
    """How an image is averaged with its zooms, in integers."""

    rows: NDArray[np.int32]
    """(F, H): the upper of the two rows that each row of a zoom lies between."""
    shares: NDArray[np.uint16]
    """(F, H, 2): their shares of the average, times 2 ** SHARE_BITS."""
    blocks: NDArray[np.uint64]
    """(F, B, 2): where each block of a row of the zoom finds its left neighbours in a row of the image, and where it
    begins itself; in values, of which a pixel has three."""
    weights: NDArray[np.uint16]
    """(F, W * 3 + BLOCK): the weight of each value's right neighbour, times 2 ** FRACTION."""
    own: int
    """The image's own share, its zooms by 1 among it."""


@lru_cache(maxsize=128)
def average_of(height: int, width: int, factors: tuple[float, ...]) -> Average:
    """The tables for an image of a size and its zooms; the zoom by 1 is the image itself."""
    real = tuple(factor for factor in factors if factor != 1.0)
    down, across = stacked_grids(height, real), stacked_grids(width, real)
    one = 2 ** int(SHARE_BITS)
    share = round(one / (len(factors) + 1))
    lower = np.rint(down.weight * share).astype(np.uint16)
    cut = [blocks_of(columns) for columns in across.lower]
    most = max(map(len, cut))
    weights = np.rint(across.weight * 2**FRACTION).astype(np.uint16)
    return Average(
        down.lower,
        np.stack([share - lower, lower], axis=-1).astype(np.uint16),
        np.stack([np.pad(blocks, ((0, most - len(blocks)), (0, 0)), mode="edge") for blocks in cut]),
        np.pad(np.repeat(weights, CHANNELS, axis=1), ((0, 0), (0, BLOCK))),
        one - share * len(real),
    )


def blocks_of(columns: NDArray[np.int32]) -> NDArray[np.uint64]:
    """(B, 2): where the blocks of a zoomed row read and begin, given the left neighbours of its pixels.

    A zoom repeats a pixel now and then; up to the next repetition neighbours read neighbours, so that whole vectors
    can be loaded. What of the last block of such a run lies beyond its end is filled again by the next run.
    """
    ahead = columns - np.arange(columns.size)
    ends = [*np.flatnonzero(np.diff(ahead)) + 1, columns.size]
    runs = zip([0, *ends[:-1]], ends, strict=True)
    places = np.concatenate([np.arange(CHANNELS * begin, CHANNELS * end, BLOCK) for begin, end in runs])
    return np.stack([places + CHANNELS * ahead[places // CHANNELS], places], axis=1).astype(np.uint64)


@kernel
def zoom_layer(crop, rows, row_weights, columns, column_weights):
    """(h, w) float crop zoomed to (H, W) in its own type; columns first, as there are fewer rows before than after."""
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
    """A float layer's :func:`centre` zoomed by ``factor`` to ``shape`` (H, W)."""
    (rows, row_weights), (columns, column_weights) = (zoom_grid(side, factor) for side in shape)
    zoomed: NDArray[Any] = zoom_layer(np.ascontiguousarray(crop), rows, row_weights, columns, column_weights)
    return zoomed


@intrinsic
def stretch_block(typing, source, read, weights, out, place):
    """out[place:] = BLOCK values between source[read:] and their right neighbours, times 2 ** FRACTION.

    As a loop this would take five times as long: the compiler cannot know that ``out`` is none of the others.
    What the differences borrow where they are negative, the sums give back.
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
    """``out`` = a row of the zoom, times 2 ** FRACTION."""
    for i in range(blocks.shape[0]):
        stretch_block(source, blocks[i, 0], weights, out, blocks[i, 1])  # type: ignore[call-arg]  # typing is numba's


@inlined
def add_shares(total, upper, lower, upper_share, lower_share):
    """total += both rows, each times its share: the upper halves of 16-bit products.

    The shares come as rows, since the compiler finds the instruction for upper halves only between loaded values.
    """
    for i in range(total.size):
        above = np.uint16((np.uint32(upper[i]) * np.uint32(upper_share[i])) >> SHARE_BITS)
        below = np.uint16((np.uint32(lower[i]) * np.uint32(lower_share[i])) >> SHARE_BITS)
        total[i] += above + below


@kernel
def average_zooms(image, rows, shares, blocks, weights, own):
    """(H, W * 3) uint8 averaged with its zooms, see :class:`Average`, truncated.

    Each row of a zoom is stretched once, as it comes up, and used for all output rows that lie beside it.
    """
    height, width = image.shape
    pitch = -(-(width + BLOCK + CHANNELS) // BLOCK) * BLOCK
    source = scratch(height * pitch, np.uint16).reshape(height, pitch)
    totals = scratch(height * width, np.uint16).reshape(height, width)
    for y in range(height):
        row, mine, total = image[y], source[y], totals[y]
        for i in range(width):
            mine[i] = row[i]
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
    """(H, W, 3) uint8 averaged with its centre zoomed by each factor."""
    height, width, _ = image.shape
    blurred: NDArray[np.uint8] = average_zooms(image.reshape(height, -1), *average_of(height, width, factors))
    return blurred.reshape(image.shape)
