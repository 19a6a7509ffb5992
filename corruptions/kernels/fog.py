"""Fog: a diamond-square height map, and the veil it lays over an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.blend import spread

FIRST_WIBBLE = 100.0
"""Roughness of the first, coarsest step."""


def map_draws(side: int) -> int:
    """How many uniform numbers a map of this side takes: one for every point but the first corner."""
    return side * side - 1


@inlined
def wobble(base, wibble, u):
    """A point: the mean of four plus its random part; ``u`` in 0..1 is spread over -wibble..wibble.

    Quirk: that is multiplied by wibble once more, so the roughness falls with its square (published scripts,
    ``plasma_fractal``).
    """
    return base / type(wibble)(4) + wibble * (-wibble + (wibble + wibble) * u)


@kernel
def centre_points(grid, draws, wibble):
    """(n + 1, n + 1): the centres of the squares of a grid, each at (row + 1, column + 1), periodic."""
    n = grid.shape[0] - 1
    out = np.empty_like(grid)
    for i in range(n):
        row, below, u, target = grid[i], grid[i + 1], draws[i * n : (i + 1) * n], out[i + 1][1:]
        right, below_right = row[1:], below[1:]
        for j in range(n):
            target[j] = wobble((row[j] + below[j]) + (right[j] + below_right[j]), wibble, u[j])
        out[i + 1, 0] = out[i + 1, n]
    out[0] = out[n]
    return out


@kernel
def refine(grid, draws, wibble):
    """A periodic map, (n + 1, n + 1) with its first row and column once more at the end, on a grid twice as fine.

    Uses the first 3 n^2 of ``draws``, in whose float type it calculates.
    """
    n = grid.shape[0] - 1
    out = np.empty((2 * n + 1, 2 * n + 1), draws.dtype)
    centres = centre_points(grid, draws, wibble)
    for i in range(n):
        row, right, below, above, centre = grid[i], grid[i][1:], grid[i + 1], centres[i][1:], centres[i + 1][1:]
        before = centres[i + 1]
        u, v = draws[(n + i) * n : (n + i + 1) * n], draws[(2 * n + i) * n : (2 * n + i + 1) * n]
        even, odd = out[2 * i], out[2 * i + 1]
        for j in range(n):
            even[2 * j] = row[j]
            even[2 * j + 1] = wobble((centre[j] + above[j]) + (row[j] + right[j]), wibble, u[j])
        for j in range(n):
            odd[2 * j] = wobble((centre[j] + before[j]) + (row[j] + below[j]), wibble, v[j])
            odd[2 * j + 1] = centre[j]
        even[2 * n], odd[2 * n] = even[0], odd[0]
    out[2 * n] = out[0]
    return out


@kernel
def height_map(draws, side, decay):
    """A diamond-square map, (side + 1, side + 1) with its first row and column once more at the end.

    ``side`` is a power of two, ``draws`` holds map_draws(side) floats in 0..1. Each step keeps its points side by
    side: the last one would otherwise touch them at strides of the coarse grid.
    """
    grid = np.zeros((2, 2), draws.dtype)
    wibble = FIRST_WIBBLE
    used = 0
    while grid.shape[0] - 1 < side:
        points = (grid.shape[0] - 1) ** 2
        grid = refine(grid, draws[used:], draws.dtype.type(wibble))
        used += 3 * points
        wibble /= decay
    return grid


@kernel
def extremes(rows):
    """Least and largest value of a 2D array: column by column first, since that vectorises."""
    low, top = rows[0].copy(), rows[0].copy()
    for y in range(1, rows.shape[0]):
        row = rows[y]
        for x in range(row.size):  # compared, since min and max of floats look after NaN, value by value
            low[x] = row[x] if row[x] < low[x] else low[x]
            top[x] = row[x] if row[x] > top[x] else top[x]
    return low.min(), top.max()


@kernel
def veil(pixels, heights, amount):
    """(H, W * 3) uint8 under fog of the top left of a height map, which is scaled to 0..``amount`` first."""
    low, top = extremes(heights)  # what is there twice does not matter
    brightest = extremes(pixels)[1] / 255.0
    gain = np.float32(brightest / (brightest + amount))
    scale = np.float32(amount * 255.0 / (top - low)) * gain
    out = np.empty_like(pixels)
    levels, haze = np.empty(pixels.shape[1] // 3, np.float32), np.empty(pixels.shape[1], np.float32)
    for y in range(pixels.shape[0]):
        row = heights[y]
        for x in range(levels.size):
            levels[x] = np.float32(row[x] - low) * scale
        spread(levels, haze)
        source, target = pixels[y], out[y]
        for i in range(haze.size):
            target[i] = np.uint8(np.int32(min(source[i] * gain + haze[i], np.float32(255))))
    return out


def fog(image: NDArray[np.uint8], draws: NDArray[Any], side: int, amount: float, decay: float) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 under fog; ``side`` is at least H and W, ``draws`` (side * side - 1,) uniform in 0..1."""
    heights = height_map(draws, side, float(decay))
    veiled: NDArray[np.uint8] = veil(image.reshape(image.shape[0], -1), heights, float(amount))
    return veiled.reshape(image.shape)
