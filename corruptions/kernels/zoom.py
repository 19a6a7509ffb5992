"""scipy's linear zoom about the centre: sample grids as tables, and the kernels that read them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch

LANES = 4
"""16-bit numbers in a 64-bit word: the three channels of a pixel, and one unused."""

FRACTION = np.uint64(8)
"""Bits after the point of weights along a row: 8 and 8 bits fill a lane."""

SHARE_BITS = np.uint32(16)
"""Bits after the point of weights along a column."""

OWN_SHIFT = np.uint32(SHARE_BITS - np.uint32(FRACTION))
"""From a level times its share to a lane."""


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


def centre(layer: NDArray[Any], factor: float) -> NDArray[Any]:
    """The part of a layer (H, W) that a zoom by ``factor`` about the centre reads, as a view."""
    (top, height), (left, width) = (crop_side(side, factor) for side in layer.shape)
    return layer[top : top + height, left : left + width]


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
    columns: NDArray[np.uint32]
    """(F, W): the left of the two pixels."""
    weights: NDArray[np.uint64]
    """(F, W): the weight of the right one, times 2 ** FRACTION."""
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
    return Average(
        down.lower,
        np.stack([share - lower, lower], axis=-1).astype(np.uint16),
        across.lower.astype(np.uint32),
        np.rint(across.weight * 2 ** int(FRACTION)).astype(np.uint64),
        one - share * len(real),
    )


@kernel
def zoom_layer(crop, rows, row_weights, columns, column_weights):
    """(h, w) float crop zoomed to (H, W) in its own type; columns first, as there are fewer rows before than after."""
    out = np.empty((rows.size, columns.size), crop.dtype)
    wide = np.empty((crop.shape[0], columns.size), crop.dtype)
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
    weights = row_weights.astype(crop.dtype), column_weights.astype(crop.dtype)
    zoomed: NDArray[Any] = zoom_layer(np.ascontiguousarray(crop), rows, weights[0], columns, weights[1])
    return zoomed


@inlined
def pack(row, lanes):
    """A row of pixels (3 W,) as four 16-bit lanes each. Written out: the compiler then shuffles whole vectors."""
    for x in range(lanes.size // LANES):
        lanes[4 * x] = row[3 * x]
        lanes[4 * x + 1] = row[3 * x + 1]
        lanes[4 * x + 2] = row[3 * x + 2]
        lanes[4 * x + 3] = 0


@inlined
def unpack(lanes, row):
    """The whole parts of the first three of every four lanes, as a row of pixels (3 W,)."""
    for x in range(row.size // 3):
        row[3 * x] = np.uint8(lanes[4 * x] >> np.uint16(FRACTION))
        row[3 * x + 1] = np.uint8(lanes[4 * x + 1] >> np.uint16(FRACTION))
        row[3 * x + 2] = np.uint8(lanes[4 * x + 2] >> np.uint16(FRACTION))


@inlined
def stretch_row(source, columns, weights, out):
    """``out`` = a row of packed pixels between ``columns`` and their right neighbours, lanes times 2 ** FRACTION.

    All lanes in one multiplication: what it borrows from lane to lane for negative differences, the sum gives back.
    """
    for x in range(out.size):
        left, right = source[columns[x]], source[columns[x] + np.uint32(1)]
        out[x] = (left << FRACTION) + (right - left) * weights[x]


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
def average_zooms(image, rows, shares, columns, weights, own):
    """(H, W * 3) uint8 averaged with its zooms, see :class:`Average`, truncated.

    A zoom's rows are stretched once each, as they come up: two of them are kept for every factor.
    """
    height, factors, width = image.shape[0], rows.shape[0], columns.shape[1]
    out = np.empty_like(image)
    pixels = scratch(height * width, np.uint64).reshape(height, width)
    source = pixels.view(np.uint16)
    for y in range(height):
        pack(image[y], source[y])
    stretched = scratch(factors * 2 * width, np.uint64).reshape(factors, 2, width)
    lanes = stretched.view(np.uint16)
    upper_share, lower_share = scratch(width * LANES, np.uint16), scratch(width * LANES, np.uint16)
    ready = np.full(factors, -1)
    total = scratch(width * LANES, np.uint16)
    for y in range(height):
        mine = source[y]
        for i in range(total.size):
            total[i] = np.uint16((np.uint32(mine[i]) * np.uint32(own)) >> OWN_SHIFT) + np.uint16(factors)
        for f in range(factors):
            top = rows[f, y]
            for row in range(max(ready[f] + 1, top), top + 2):
                stretch_row(pixels[row], columns[f], weights[f], stretched[f, row % 2])
                ready[f] = row
            upper_share[:] = shares[f, y, 0]
            lower_share[:] = shares[f, y, 1]
            add_shares(total, lanes[f, top % 2], lanes[f, (top + 1) % 2], upper_share, lower_share)
        unpack(total, out[y])
    return out


def zoom_blur(image: NDArray[np.uint8], factors: tuple[float, ...]) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 averaged with its centre zoomed by each factor."""
    height, width, _ = image.shape
    blurred: NDArray[np.uint8] = average_zooms(image.reshape(height, -1), *average_of(height, width, factors))
    return blurred.reshape(image.shape)
