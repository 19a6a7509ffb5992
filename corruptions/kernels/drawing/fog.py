"""Fog: a diamond-square height map, blended with an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.doubts import marks_for, truncate_marked
from corruptions.kernels.drawing.blend import repeat_channels
from corruptions.kernels.planes import to_unit

FIRST_ROUGHNESS = 100.0
"""Roughness of the first, coarsest step."""


def count_draws(side: int) -> int:
    """Return how many uniform numbers a map of this side needs: one for each point except the first corner."""
    return side * side - 1


@inlined
def displaced(total, roughness, u):
    """Return the height of a point: the mean of four points plus a random part. ``u`` is uniform in 0..1.

    Quirk: the random part is uniform in -roughness..roughness and then multiplied by the roughness again, so it
    decreases with its square (published scripts, ``plasma_fractal``).
    """
    return total / type(roughness)(4) + roughness * (-roughness + (roughness + roughness) * u)


@kernel
def centre_points(grid, draws, roughness):
    """Return the centres of the squares of a periodic grid, (n + 1, n + 1).

    The centre of the square at (row, column) is stored at (row + 1, column + 1).
    """
    n = grid.shape[0] - 1
    out = np.empty_like(grid)
    for i in range(n):
        row, below, u, target = grid[i], grid[i + 1], draws[i * n : (i + 1) * n], out[i + 1][1:]
        right, below_right = row[1:], below[1:]
        for j in range(n):
            target[j] = displaced((row[j] + below[j]) + (right[j] + below_right[j]), roughness, u[j])
        out[i + 1, 0] = out[i + 1, n]
    out[0] = out[n]
    return out


@kernel
def refine(grid, draws, roughness):
    """Return a periodic map on a grid twice as fine.

    Args:
        grid: Heights (n + 1, n + 1), with the first row and column repeated at the end.
        draws: Uniform numbers in 0..1; the first 3 n^2 are used. Their float type is used for the computation.
        roughness: Roughness of this step.
    """
    n = grid.shape[0] - 1
    out = np.empty((2 * n + 1, 2 * n + 1), draws.dtype)
    centres = centre_points(grid, draws, roughness)
    for i in range(n):
        row, right, below, above, centre = grid[i], grid[i][1:], grid[i + 1], centres[i][1:], centres[i + 1][1:]
        before = centres[i + 1]
        u, v = draws[(n + i) * n : (n + i + 1) * n], draws[(2 * n + i) * n : (2 * n + i + 1) * n]
        even, odd = out[2 * i], out[2 * i + 1]
        for j in range(n):
            even[2 * j] = row[j]
            even[2 * j + 1] = displaced((centre[j] + above[j]) + (row[j] + right[j]), roughness, u[j])
        for j in range(n):
            odd[2 * j] = displaced((centre[j] + before[j]) + (row[j] + below[j]), roughness, v[j])
            odd[2 * j + 1] = centre[j]
        even[2 * n], odd[2 * n] = even[0], odd[0]
    out[2 * n] = out[0]
    return out


@kernel
def height_map(draws, side, decay):
    """Return a diamond-square height map, (side + 1, side + 1), with the first row and column repeated at the end.

    Each step stores its points contiguously. In place, the last step would read them at the stride of the coarse grid.

    Args:
        draws: Uniform floats in 0..1, ``count_draws(side)`` of them.
        side: A power of two.
        decay: Factor by which the roughness decreases from step to step.
    """
    grid = np.zeros((2, 2), draws.dtype)
    roughness = FIRST_ROUGHNESS
    used = 0
    while grid.shape[0] - 1 < side:
        points = (grid.shape[0] - 1) ** 2
        grid = refine(grid, draws[used:], draws.dtype.type(roughness))
        used += 3 * points
        roughness /= decay
    return grid


@kernel
def min_max(rows):
    """Return the smallest and largest value of a 2D array, per column first, which vectorises."""
    smallest, largest = rows[0].copy(), rows[0].copy()
    for y in range(1, rows.shape[0]):
        row = rows[y]
        for x in range(row.size):  # comparisons vectorise; min and max of floats do not, because they handle NaN
            smallest[x] = row[x] if row[x] < smallest[x] else smallest[x]
            largest[x] = row[x] if row[x] > largest[x] else largest[x]
    return smallest.min(), largest.max()


@kernel
def blend_fog(pixels, heights, amount):
    """Return the image blended with fog, uint8 (H, W * 3): (x + amount * map) * b / (b + amount), in 0..1.

    ``map`` is the top left part of the heights, scaled so that all of them are in 0..1, and b is the largest x. All
    levels are first computed in float32. With u = 2**-24, the haze has a relative error of 5 u (two factors of its
    scale, their product, the height and the product), the scaled x one of 2 u, and their sum is at most 255. It is
    rounded by at most 2**-17, and so are two sums with this bound. Levels within it of a whole number are computed
    again in float64.

    Args:
        pixels: uint8 (H, W * 3).
        heights: Height map, float32 or float64.
        amount: Thickness of the fog.
    """
    smallest, largest = min_max(heights)
    lowest, extent = np.float64(smallest), np.float64(largest) - np.float64(smallest)
    brightest = min_max(pixels)[1] / 255.0
    gain = np.float32(brightest / (brightest + amount))
    scale = np.float32(amount * 255.0 / extent) * gain
    bound = np.float32(5 * 255 * 2.0**-24 + 3 * 2.0**-17)
    out = np.empty_like(pixels)
    levels, haze = np.empty(pixels.shape[1] // 3, np.float32), np.empty(pixels.shape[1], np.float32)
    marks, found = marks_for(haze.size)
    for y in range(pixels.shape[0]):
        row = heights[y]
        for x in range(levels.size):
            levels[x] = np.float32(row[x] - smallest) * scale
        repeat_channels(levels, haze)
        source, target = pixels[y], out[y]
        for i in range(haze.size):
            haze[i] = source[i] * gain + haze[i]
        for k in range(truncate_marked(haze, -bound, bound, target, marks, found)):
            i = found[k]
            value = to_unit(source[i], np.float64) + amount * ((np.float64(row[i // 3]) - lowest) / extent)
            target[i] = np.uint8(np.int32(min(value * brightest / (brightest + amount), 1.0) * 255.0))
    return out


def fog(image: NDArray[np.uint8], draws: NDArray[Any], side: int, amount: float, decay: float) -> NDArray[np.uint8]:
    """Return the image blended with fog.

    Args:
        image: uint8 (H, W, 3).
        draws: Uniform floats in 0..1, (side * side - 1,).
        side: Side of the height map in pixels, a power of two, at least H and W.
        amount: Thickness of the fog.
        decay: Factor by which the roughness of the height map decreases from step to step.

    Returns:
        A new uint8 array (H, W, 3).
    """
    heights = height_map(draws, side, float(decay))
    return blend_fog(image.reshape(image.shape[0], -1), heights, float(amount)).reshape(image.shape)
