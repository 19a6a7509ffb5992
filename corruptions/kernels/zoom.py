"""scipy's linear zoom about the centre: sample grids as tables, and the kernels that read them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel
from corruptions.kernels.lanes import LANES, add_between

UNIT = (np.arange(256) / 255.0).astype(np.float32)
"""Every 8-bit level in 0..1, float32."""


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


@lru_cache(maxsize=128)
def stacked_grids(side: int, factors: tuple[float, ...]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The grids of several factors along one axis of an image, counted within the whole side: two (F, side) arrays."""
    grids = [zoom_grid(side, factor) for factor in factors]
    starts = [crop_side(side, factor)[0] for factor in factors]
    index = np.stack([grid.lower + start for grid, start in zip(grids, starts, strict=True)]).astype(np.int32)
    return index, np.stack([grid.weight for grid in grids]).astype(np.float32)


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


@kernel
def spread_pixels(image, unit):
    """(H, W, 3) uint8 as (H, W * LANES) float32 on 0..1."""
    height, width, _ = image.shape
    out = np.zeros((height, width * LANES), np.float32)
    for y in range(height):
        for x in range(width):
            for c in range(3):
                out[y, x * LANES + c] = unit[image[y, x, c]]
    return out


@kernel
def average_zooms(image, unit, rows, row_weights, columns, column_weights):
    """(H, W, 3) uint8 averaged with its zooms by F factors, in float32; the grids are (F, H) and (F, W)."""
    height, width, _ = image.shape
    pixels = spread_pixels(image, unit)
    out = np.empty_like(image)
    line = np.empty(pixels.shape[1], np.float32)
    count = np.float32(rows.shape[0] + 1)
    total = np.empty(pixels.shape[1], np.float32)
    for y in range(height):
        total[:] = np.float32(0.0)
        for f in range(rows.shape[0]):
            upper, lower = pixels[rows[f, y]], pixels[rows[f, y] + 1]
            weight = row_weights[f, y]
            for i in range(line.size):
                line[i] = upper[i] + weight * (lower[i] - upper[i])
            for x in range(width):
                add_between(  # type: ignore[call-arg]
                    total, x * LANES, line, columns[f, x] * LANES, column_weights[f, x]
                )
        for i in range(total.size):
            total[i] = (pixels[y, i] + total[i]) / count * np.float32(255.0)
        for x in range(width):
            for c in range(3):
                out[y, x, c] = np.uint8(np.int32(total[x * LANES + c]))
    return out


def zoom_blur(image: NDArray[np.uint8], factors: tuple[float, ...]) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 averaged with its centre zoomed by each factor."""
    rows, row_weights = stacked_grids(image.shape[0], factors)
    columns, column_weights = stacked_grids(image.shape[1], factors)
    blurred: NDArray[np.uint8] = average_zooms(image, UNIT, rows, row_weights, columns, column_weights)
    return blurred
