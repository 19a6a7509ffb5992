"""Fog: a diamond-square height map, and the veil it lays over an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel

FIRST_WIBBLE = 100.0
"""Roughness of the first, coarsest step."""


def map_draws(side: int) -> int:
    """How many uniform numbers a map of this side takes: one for every point but the first corner."""
    return side * side - 1


@kernel
def wobble(base, wibble, u):
    """A point: the mean of four plus its random part; ``u`` in 0..1 is spread over -wibble..wibble.

    Quirk: that is multiplied by wibble once more, so the roughness falls with its square (published scripts,
    ``plasma_fractal``).
    """
    return base / 4.0 + wibble * (-wibble + (wibble + wibble) * u)


@kernel
def refine(grid, draws, first, wibble):
    """A (n, n) periodic map on a grid twice as fine, (2n, 2n) float64; uses 3 n^2 of ``draws`` from ``first`` on."""
    n = grid.shape[0]
    out = np.empty((2 * n, 2 * n))
    right, below = first + n * n, first + 2 * n * n
    centres = np.empty((n, n))
    for i in range(n):
        row, next_row, u = grid[i], grid[(i + 1) % n], draws[first + i * n : first + i * n + n]
        for j in range(n):
            k = j + 1 if j + 1 < n else 0
            centres[i, j] = wobble((row[j] + next_row[j]) + (row[k] + next_row[k]), wibble, u[j])
    for i in range(n):
        row, next_row, centre, above = grid[i], grid[(i + 1) % n], centres[i], centres[i - 1]
        u, v = draws[right + i * n : right + i * n + n], draws[below + i * n : below + i * n + n]
        even, odd = out[2 * i], out[2 * i + 1]
        for j in range(n):
            k, before = j + 1 if j + 1 < n else 0, j - 1 if j > 0 else n - 1
            even[2 * j] = row[j]
            even[2 * j + 1] = wobble((centre[j] + above[j]) + (row[j] + row[k]), wibble, u[j])
            odd[2 * j] = wobble((centre[j] + centre[before]) + (row[j] + next_row[j]), wibble, v[j])
            odd[2 * j + 1] = centre[j]
    return out


@kernel
def height_map(draws, side, decay):
    """(side, side) float64 diamond-square map; ``side`` is a power of two, ``draws`` holds map_draws(side) in 0..1.

    Each step keeps its points side by side: the last one would otherwise touch them at strides of the coarse grid.
    """
    grid = np.zeros((1, 1))
    wibble = FIRST_WIBBLE
    used = 0
    while grid.shape[0] < side:
        points = grid.size
        grid = refine(grid, draws, used, wibble)
        used += 3 * points
        wibble /= decay
    return grid


@kernel
def veil(pixels, heights, channels, amount):
    """(H, W * channels) uint8 under fog of the top left of a height map, which is scaled to 0..``amount`` first."""
    low, top = heights.min(), heights.max()
    brightest = pixels.max() / 255.0
    scale = amount * 255.0 / (top - low)
    gain = brightest / (brightest + amount)
    out = np.empty_like(pixels)
    haze = np.empty(pixels.shape[1])
    for y in range(pixels.shape[0]):
        row = heights[y]
        for x in range(haze.size // channels):
            for c in range(channels):
                haze[x * channels + c] = (row[x] - low) * scale
        source, target = pixels[y], out[y]
        for i in range(haze.size):
            target[i] = np.uint8(np.int32(min((source[i] + haze[i]) * gain, 255.0)))
    return out


def fog(image: NDArray[np.uint8], draws: NDArray[Any], side: int, amount: float, decay: float) -> NDArray[np.uint8]:
    """(H, W, C) uint8 under fog; ``side`` is at least H and W, ``draws`` (side * side - 1,) uniform in 0..1."""
    heights = height_map(draws, side, float(decay))
    veiled: NDArray[np.uint8] = veil(image.reshape(image.shape[0], -1), heights, image.shape[2], float(amount))
    return veiled.reshape(image.shape)
