"""ImageMagick's motion blur: one-sided Gaussian weights along a line of whole-pixel steps, edges replicated."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel

QUANTUM = 257
"""A level in ImageMagick's 16-bit quanta."""

ROUNDING = 0.5 / QUANTUM
"""Q16 without HDRI rounds in 16 bits, then cuts to 8: floor(floor(257 s + 0.5) / 257) = floor(s + 0.5 / 257)."""


@lru_cache(maxsize=256)
def one_sided_weights(radius: int, sigma: float) -> tuple[float, ...]:
    """Weights of the 2 * radius + 1 taps, from the pixel itself on; they sum to 1."""
    weights = [math.exp(-(i * i) / (2.0 * sigma * sigma)) for i in range(2 * radius + 1)]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def tap_offset(i: int, width: int, angle: float) -> tuple[int, int]:
    """(dx, dy) of tap ``i`` at ``angle`` degrees, in ImageMagick's order of operations, which decides the ties."""
    turn = math.pi * angle / 180.0
    px, py = width * math.sin(turn), width * math.cos(turn)
    length = math.hypot(px, py)
    return math.ceil(i * py / length - 0.5), math.ceil(i * px / length - 0.5)


def taps(radius: int, sigma: float, angle: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Offsets (T, 2) as (dx, dy) and weights (T,) of a blur; taps that fall on one pixel are merged."""
    merged: dict[tuple[int, int], float] = {}
    for i, weight in enumerate(one_sided_weights(radius, sigma)):
        offset = tap_offset(i, 2 * radius + 1, angle)
        merged[offset] = merged.get(offset, 0.0) + weight
    return np.array(list(merged), np.int64), np.array(list(merged.values()), np.float32)


@kernel
def widen_rows(pixels, channels, left, right):
    """(H, W * channels) uint8 as float32 with its first and last pixel repeated ``left`` and ``right`` times."""
    height, width = pixels.shape
    out = np.empty((height, width + (left + right) * channels), np.float32)
    start, end = left * channels, left * channels + width
    for y in range(height):
        row, source = out[y], pixels[y]
        middle = row[start:end]
        for i in range(width):
            middle[i] = source[i]
        for i in range(start):
            row[i] = source[i % channels]
        for i in range(right * channels):
            row[end + i] = source[width - channels + i % channels]
    return out


@kernel
def sum_taps(wide, width, channels, left, offsets, weights, rounding):
    """(H, width) uint8: for every value the weighted sum of its taps in ``wide``, plus ``rounding``, truncated."""
    height = wide.shape[0]
    out = np.empty((height, width), np.uint8)
    total = np.empty(width, np.float32)
    for y in range(height):
        total[:] = rounding
        for k in range(weights.size):
            start = (left + offsets[k, 0]) * channels
            source = wide[min(max(y + offsets[k, 1], 0), height - 1)][start : start + width]
            weight = weights[k]
            for i in range(width):
                total[i] += source[i] * weight
        target = out[y]
        for i in range(width):
            target[i] = np.uint8(np.int32(min(total[i], np.float32(255.0))))
    return out


def motion_blur(image: NDArray[np.uint8], radius: int, sigma: float, angle: float) -> NDArray[np.uint8]:
    """(H, W) or (H, W, C) uint8, blurred along ``angle`` (degrees, any quadrant)."""
    offsets, weights = taps(radius, sigma, angle)
    channels = math.prod(image.shape[2:])
    pixels = np.ascontiguousarray(image).reshape(image.shape[0], -1)
    left, right = max(0, int(-offsets[:, 0].min())), max(0, int(offsets[:, 0].max()))
    wide = widen_rows(pixels, channels, left, right)
    blurred: NDArray[np.uint8] = sum_taps(wide, pixels.shape[1], channels, left, offsets, weights, np.float32(ROUNDING))
    return blurred.reshape(image.shape)
