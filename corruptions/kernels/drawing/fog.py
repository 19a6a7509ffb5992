"""Fog: a diamond-square height map, blended with an image."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import copy, inlined, kernel
from corruptions.kernels.doubts import truncate_decided
from corruptions.kernels.drawing.blend import repeat_channels
from corruptions.kernels.planes import to_unit

FIRST_ROUGHNESS = 100.0
"""Roughness of the first, coarsest step."""


@inlined
def displaced(total, roughness, u):
    """Return the height of a point: the mean of four points plus a random part. ``u`` is uniform in 0..1.

    Quirk: the random part is uniform in -roughness..roughness and then multiplied by the roughness again, so it
    decreases with its square (published scripts, ``plasma_fractal``).
    """
    return total / type(roughness)(4) + roughness * (-roughness + (roughness + roughness) * u)


@inlined
def widen(row, next_row, lowest, highest):
    """Lower and raise two arrays to the values of two rows where these are beyond them.

    Comparisons vectorise; min and max of floats do not, because they handle NaN.
    """
    for i in range(row.size):
        least = row[i] if row[i] < next_row[i] else next_row[i]
        most = row[i] if row[i] > next_row[i] else next_row[i]
        lowest[i] = least if least < lowest[i] else lowest[i]
        highest[i] = most if most > highest[i] else highest[i]


@inlined
def centre_row(row, below, u, roughness, centres):
    """Write the centres of the squares below a row of a periodic grid to ``centres`` (n + 1,), from its second on."""
    n = u.size
    right, below_right, target = row[1:], below[1:], centres[1:]
    for j in range(n):
        target[j] = displaced((row[j] + below[j]) + (right[j] + below_right[j]), roughness, u[j])
    centres[0] = centres[n]


@kernel
def refine(grid, draws, roughness, rows, lowest, highest):
    """Return the upper rows of a periodic map on a grid twice as fine.

    Args:
        grid: Heights (n + 1, n + 1) or more, with the first row and column repeated at the end.
        draws: Uniform numbers in 0..1; the first 3 n^2 are used. Their float type is used for the computation.
        roughness: Roughness of this step.
        rows: Number of rows, even, at most 2 n. Two more follow: the first one again if all are kept, and a spare one.
        lowest: Smallest heights, (2 n + 1,) or more, to which those of this step are added.
        highest: Largest heights, likewise.
    """
    n = grid.shape[1] - 1
    out = np.empty((rows + 2, 2 * n + 1), draws.dtype)
    centre, above = np.empty(n + 1, draws.dtype), np.empty(n + 1, draws.dtype)
    centre_row(grid[n - 1], grid[n], draws[(n - 1) * n : n * n], roughness, centre)
    for i in range(n):
        centre, above = above, centre
        row, below, right, middle, upper = grid[i], grid[i + 1], grid[i][1:], centre[1:], above[1:]
        centre_row(row, below, draws[i * n : (i + 1) * n], roughness, centre)
        u, v = draws[(n + i) * n : (n + i + 1) * n], draws[(2 * n + i) * n : (2 * n + i + 1) * n]
        even, odd = out[min(2 * i, rows)], out[min(2 * i, rows) + 1]
        for j in range(n):
            even[2 * j] = row[j]
            even[2 * j + 1] = displaced((middle[j] + upper[j]) + (row[j] + right[j]), roughness, u[j])
        for j in range(n):
            odd[2 * j] = displaced((middle[j] + centre[j]) + (row[j] + below[j]), roughness, v[j])
            odd[2 * j + 1] = middle[j]
        even[2 * n], odd[2 * n] = even[0], odd[0]
        widen(even, odd, lowest, highest)
    copy(out[0], out[rows])  # the map is periodic
    return out


@kernel
def height_map(draws, side, decay, height):
    """Return the upper rows of a diamond-square height map, and the lowest and highest point of the whole map.

    Each step stores its points contiguously. In place, the last step would read them at the stride of the coarse grid.

    Args:
        draws: Uniform floats in 0..1, ``side * side - 1`` of them, one for each point except the first corner.
        side: A power of two.
        decay: Factor by which the roughness decreases from step to step.
        height: Number of rows that are needed. A few more follow.
    """
    grid = np.zeros((2, 2), draws.dtype)
    lowest, highest = np.zeros(side + 1, draws.dtype), np.zeros(side + 1, draws.dtype)
    roughness, used, n = FIRST_ROUGHNESS, 0, 1
    while n < side:
        rows = height + height % 2 if 2 * n == side else 2 * n
        grid = refine(grid, draws[used:], draws.dtype.type(roughness), rows, lowest, highest)
        used += 3 * n * n
        roughness /= decay
        n *= 2
    return grid, lowest.min(), highest.max()


@kernel
def blend_fog(pixels, heights, smallest, largest, amount):
    """Return the image blended with fog, uint8 (H, W * 3): (x + amount * map) * b / (b + amount), in 0..1.

    ``map`` is the top left part of the heights, scaled so that all of them are in 0..1, and b is the largest x. All
    levels are first computed in float32. With u = 2**-24, the haze has a relative error of 5 u (two factors of its
    scale, their product, the height and the product), the scaled x one of 2 u, and their sum is at most 255. It is
    rounded by at most 2**-17, and so are two sums with this bound. Levels within it of a whole number are computed
    again in float64.

    Args:
        pixels: uint8 (H, W * 3).
        heights: Height map, float32 or float64.
        smallest: Lowest point of the whole map.
        largest: Its highest point.
        amount: Thickness of the fog.
    """
    lowest, extent = np.float64(smallest), np.float64(largest) - np.float64(smallest)
    white = np.uint8(0)
    for y in range(pixels.shape[0]):
        for level in pixels[y]:
            white = max(white, level)
    brightest = white / 255.0
    gain = np.float32(brightest / (brightest + amount))
    scale = np.float32(amount * 255.0 / extent) * gain
    bound = np.float32(5 * 255 * 2.0**-24 + 3 * 2.0**-17)
    out = np.empty_like(pixels)
    levels, haze = np.empty(pixels.shape[1] // 3, np.float32), np.empty(pixels.shape[1], np.float32)
    found = np.empty(haze.size, np.int64)
    for y in range(pixels.shape[0]):
        row = heights[y]
        for x in range(levels.size):
            levels[x] = np.float32(row[x] - smallest) * scale
        repeat_channels(levels, haze)
        source, target = pixels[y], out[y]
        for i in range(haze.size):
            haze[i] = source[i] * gain + haze[i]
        for k in range(truncate_decided(haze, -bound, bound, target, found)):
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
    height = image.shape[0]
    heights = height_map(draws, side, float(decay), height)
    return blend_fog(image.reshape(height, -1), *heights, float(amount)).reshape(image.shape)
