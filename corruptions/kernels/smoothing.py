"""Separable Gaussian smoothing with replicated edges, in scikit-image's order of operations."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel

TRUNCATE = 4.0
"""Reach of the filter in sigmas: scikit-image's default."""


@lru_cache(maxsize=256)
def half_gaussian(sigma: float, truncate: float = TRUNCATE) -> NDArray[np.float64]:
    """Weights of one side of a Gaussian, (radius + 1,), centre first; the whole filter sums to 1."""
    radius = int(truncate * sigma + 0.5)
    if radius == 0:
        return np.ones(1)
    variance = sigma * sigma
    weights = np.array([math.exp(-0.5 / variance * (i * i)) for i in range(-radius, radius + 1)])
    half: NDArray[np.float64] = (weights / weights.sum())[radius:]
    return half


@kernel
def add_pair(total, left, right, weight):
    """total += (left + right) * weight for three rows of equal length."""
    for i in range(total.size):
        total[i] += (left[i] + right[i]) * weight


@kernel
def smooth_down(rows, y, last, half, row):
    """Row ``y`` of an image with rows 0..``last``, smoothed along y, into ``row``; row k is ``rows[k % len(rows)]``.

    The pairs are added from the outermost to the innermost, as scipy does: in float64 this is bit-exact.
    """
    count, centre = rows.shape[0], rows[y % rows.shape[0]]
    for i in range(row.size):
        row[i] = centre[i] * half[0]
    for k in range(half.size - 1, 0, -1):
        add_pair(row, rows[max(y - k, 0) % count], rows[min(y + k, last) % count], half[k])


@kernel
def smooth_across(line, half, channels, row):
    """``row`` (W * channels) = the middle of ``line`` smoothed along x, after filling the margins of ``line``."""
    width = row.size
    margin = (half.size - 1) * channels
    inner = line[margin : margin + width]
    for i in range(margin):
        line[i] = inner[i % channels]
        line[margin + width + i] = inner[width - channels + i % channels]
    for i in range(width):
        row[i] = inner[i] * half[0]
    for k in range(half.size - 1, 0, -1):
        start, end = margin - k * channels, margin + k * channels
        add_pair(row, line[start : start + width], line[end : end + width], half[k])


@kernel
def smooth_rows(source, half, stored):
    """(H, W) of a float type, smoothed in that type; each of the two passes is rounded to the type of ``stored``."""
    height, width = source.shape
    margin = half.size - 1
    out = np.empty((height, width), stored.dtype)
    line = np.empty(width + 2 * margin, source.dtype)
    row, rounded = np.empty(width, source.dtype), np.empty(width, stored.dtype)
    for y in range(height):
        smooth_down(source, y, height - 1, half, row)
        rounded[:] = row
        line[margin : margin + width] = rounded
        smooth_across(line, half, 1, row)
        out[y] = row
    return out


@kernel
def smooth_levels(pixels, half, channels):
    """(H, W * channels) uint8 smoothed on 0..1 in float64, times 255, truncated.

    Only the rows within reach are kept as floats: they stay in the cache.
    """
    height, width = pixels.shape
    reach = half.size - 1
    margin = reach * channels
    out = np.empty((height, width), np.uint8)
    rows = np.empty((min(2 * reach + 1, height), width))
    line = np.empty(width + 2 * margin)
    row = np.empty(width)
    ready = 0
    for y in range(height):
        while ready <= min(y + reach, height - 1):
            target, source = rows[ready % rows.shape[0]], pixels[ready]
            for i in range(width):
                target[i] = source[i] / 255.0
            ready += 1
        smooth_down(rows, y, height - 1, half, line[margin : margin + width])
        smooth_across(line, half, channels, row)
        levels = out[y]
        for i in range(width):
            levels[i] = np.uint8(np.int32(row[i] * 255.0))
    return out


def smooth_plane(plane: NDArray[Any], sigma: float) -> NDArray[Any]:
    """A float32 or float64 layer (H, W), smoothed in its own precision."""
    smooth: NDArray[Any] = smooth_rows(np.ascontiguousarray(plane), half_gaussian(sigma).astype(plane.dtype), plane[:0])
    return smooth


def smooth_mask(mask: NDArray[np.bool_], sigma: float) -> NDArray[np.float32]:
    """A mask (H, W) smoothed as scipy smooths float32: sums in float64, each pass stored in float32."""
    kind = np.empty(0, np.float32)
    smooth: NDArray[np.float32] = smooth_rows(mask.astype(np.float64), half_gaussian(sigma), kind)
    return smooth


def smooth_image(image: NDArray[np.uint8], sigma: float, truncate: float = TRUNCATE) -> NDArray[np.uint8]:
    """(H, W, C) uint8, smoothed and truncated as the published script does it, bit for bit."""
    pixels = image.reshape(image.shape[0], -1)
    smooth: NDArray[np.uint8] = smooth_levels(pixels, half_gaussian(sigma, truncate), image.shape[2])
    return smooth.reshape(image.shape)
