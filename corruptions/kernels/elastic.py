"""Elastic distortion: smooth random displacements, an affine map and bilinear sampling, on levels 0..255 in float32."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.smoothing import add_pair, half_gaussian

LONG_RADIUS = 24
"""Filters of a longer reach are applied by cosine transform, whose time does not depend on the reach."""

BAND = 8
"""Rows that are smoothed together: long inner loops, and still in the first-level cache."""

FRACTION = 13
CHANNEL = 21
"""Between the two samplings a pixel is one 64-bit word, three channels of 8 + 13 bits: one load instead of three."""

MASK = np.uint64(2**CHANNEL - 1)
HALF = np.float32(0.5)

ON_EDGE, BESIDE_EDGE = 0, 1
"""Where an image is mirrored: on its edge pixels (OpenCV's reflect-101) or beside them (scipy's reflect)."""


@inlined
def mirrored(index, size, where):
    """The place in 0..size - 1 of any index, reflected as often as needed; ``where``: ON_EDGE or BESIDE_EDGE."""
    period = 2 * (size - 1 + where)
    index = index % period
    return min(index, period - where - index)


@kernel
def widened(field, margin):
    """(H, W) float32 with ``margin`` more mirrored rows and columns on every side."""
    height, width = field.shape
    out = np.empty((height + 2 * margin, width + 2 * margin), field.dtype)
    for y in range(out.shape[0]):
        row, source = out[y], field[mirrored(y - margin, height, BESIDE_EDGE)]
        row[margin : margin + width] = source
        for x in range(margin):
            row[x] = source[mirrored(x - margin, width, BESIDE_EDGE)]
            row[margin + width + x] = source[mirrored(width + x, width, BESIDE_EDGE)]
    return out


@kernel
def add_pairs(total, source, half, step):
    """``total`` becomes ``source`` correlated with a symmetric filter, its taps ``step`` apart; flat arrays."""
    size, reach = total.size, (half.size - 1) * step
    centre = source[reach : reach + size]
    for i in range(size):
        total[i] = centre[i] * half[0]
    for k in range(1, half.size):
        add_pair(total, source[reach - k * step : reach - k * step + size], source[reach + k * step :], half[k])


@kernel
def smooth_mirrored(field, half):
    """(H, W) float32 correlated with a symmetric filter given as its one side, along both axes."""
    height, width = field.shape
    margin = half.size - 1
    wide = widened(field, margin)
    pitch = wide.shape[1]
    flat = wide.reshape(-1)
    out = np.empty_like(field)
    columns, rows = np.empty(BAND * pitch, field.dtype), np.empty(BAND * pitch, field.dtype)
    for start in range(0, height, BAND):
        count = min(BAND, height - start)
        size = count * pitch
        add_pairs(columns[:size], flat[start * pitch :], half, pitch)
        # The rows of the band lie end to end: what runs over from one to the next falls into the margins.
        add_pairs(rows[: size - 2 * margin], columns, half, 1)
        for y in range(count):
            out[start + y] = rows[y * pitch : y * pitch + width]
    return out


@lru_cache(maxsize=64)
def spectrum(sigma: float, truncate: float, size: int) -> NDArray[np.float64]:
    """What the mirrored filter multiplies each of the ``size`` cosine waves with (it is diagonal in them)."""
    half = half_gaussian(sigma, truncate)
    cosines = np.array([math.cos(math.pi * m / size) for m in range(2 * size)])
    steps = np.arange(1, half.size)[:, None] * np.arange(size) % (2 * size)
    gains: NDArray[np.float64] = half[0] + 2.0 * (half[1:, None] * cosines[steps]).sum(axis=0)
    return gains


def smooth_field(field: NDArray[Any], sigma: float, truncate: float) -> NDArray[np.float32]:
    """(H, W) smoothed by a Gaussian with mirrored edges."""
    field = field.astype(np.float32, copy=False)
    half = half_gaussian(sigma, truncate)
    if half.size - 1 <= LONG_RADIUS:
        smoothed: NDArray[np.float32] = smooth_mirrored(field, half.astype(np.float32))
        return smoothed
    height, width = field.shape
    gains = spectrum(sigma, truncate, height)[:, None] * spectrum(sigma, truncate, width)
    filtered: NDArray[np.float32] = scipy.fft.idctn(scipy.fft.dctn(field) * gains.astype(np.float32))
    return filtered


@inlined
def fetch(source, shape, lefts, tops, where, corners):
    """Fills (4, W) ``corners`` with the pixels left-top, right-top, left-low, right-low of each place of a row."""
    height, width = shape
    for x in range(lefts.size):
        left, top = np.int64(lefts[x]), np.int64(tops[x])
        # As unsigned numbers, negative places are large: one comparison for both ends.
        if np.uint64(left) < np.uint64(width - 1) and np.uint64(top) < np.uint64(height - 1):
            place = np.uint64(top * width + left)
            corners[0, x], corners[1, x] = source[place], source[place + np.uint64(1)]
            place += np.uint64(width)
            corners[2, x], corners[3, x] = source[place], source[place + np.uint64(1)]
        else:
            right, low = mirrored(left + 1, width, where), mirrored(top + 1, height, where)
            left, top = mirrored(left, width, where), mirrored(top, height, where)
            corners[0, x], corners[1, x] = source[top * width + left], source[top * width + right]
            corners[2, x], corners[3, x] = source[low * width + left], source[low * width + right]


@inlined
def unpacked(word, channel):
    """A channel of a packed pixel, float32, in units of 2^-FRACTION levels."""
    return np.float32(np.int32((word >> np.uint64(CHANNEL * channel)) & MASK))


@inlined
def blended(corners, x, channel, part_x, part_y):
    """A channel between the four corners, float32 in the corners' units; exact where these are equal."""
    a, b = unpacked(corners[0, x], channel), unpacked(corners[1, x], channel)
    c, d = unpacked(corners[2, x], channel), unpacked(corners[3, x], channel)
    upper = a + (b - a) * part_x
    lower = c + (d - c) * part_x
    return upper + (lower - upper) * part_y


@kernel
def pack(image):
    """(H, W, 3) uint8 to (H * W,) packed pixels."""
    pixels = image.reshape(-1, 3)
    out = np.empty(pixels.shape[0], np.uint64)
    for i in range(out.size):
        r, g, b = np.uint64(pixels[i, 0]), np.uint64(pixels[i, 1]), np.uint64(pixels[i, 2])
        out[i] = (r | g << np.uint64(CHANNEL) | b << np.uint64(2 * CHANNEL)) << np.uint64(FRACTION)
    return out


@kernel
def warp(image, inverse):
    """(H, W, 3) uint8 to (H * W,) packed pixels: pixel (x, y) comes from ``inverse`` @ (x, y, 1), mirrored."""
    shape = image.shape[:2]
    width = shape[1]
    source = pack(image)
    out = np.empty(source.size, np.uint64)
    lefts, tops = np.empty(width, np.int64), np.empty(width, np.int64)
    parts = np.empty((2, width), np.float32)
    corners = np.empty((4, width), np.uint64)
    for y in range(shape[0]):
        start_x = inverse[0, 1] * y + inverse[0, 2]
        start_y = inverse[1, 1] * y + inverse[1, 2]
        for x in range(width):
            at_x, at_y = inverse[0, 0] * x + start_x, inverse[1, 0] * x + start_y
            whole_x, whole_y = np.floor(at_x), np.floor(at_y)
            lefts[x], tops[x] = np.int64(whole_x), np.int64(whole_y)
            parts[0, x], parts[1, x] = at_x - whole_x, at_y - whole_y
        fetch(source, shape, lefts, tops, ON_EDGE, corners)
        row = out[y * width : (y + 1) * width]
        for x in range(width):
            word = np.uint64(0)
            for channel in range(3):
                value = np.uint64(np.int32(blended(corners, x, channel, parts[0, x], parts[1, x]) + HALF))
                word |= value << np.uint64(CHANNEL * channel)
            row[x] = word
    return out


@kernel
def displace(source, right, down, gain):
    """(H * W,) packed pixels to (H, W, 3) uint8: pixel (x, y) comes from (x, y) + gain * (right, down), truncated."""
    shape = right.shape
    width = shape[1]
    out = np.empty((shape[0], width, 3), np.uint8)
    lefts, tops = np.empty(width, np.int64), np.empty(width, np.int64)
    parts = np.empty((2, width), np.float32)
    corners = np.empty((4, width), np.uint64)
    for y in range(shape[0]):
        for x in range(width):
            step_x, step_y = right[y, x] * gain, down[y, x] * gain
            whole_x, whole_y = np.floor(step_x), np.floor(step_y)
            lefts[x], tops[x] = x + np.int64(whole_x), y + np.int64(whole_y)
            parts[0, x], parts[1, x] = step_x - whole_x, step_y - whole_y
        fetch(source, shape, lefts, tops, BESIDE_EDGE, corners)
        row = out[y]
        for x in range(width):
            for channel in range(3):
                value = np.int32(blended(corners, x, channel, parts[0, x], parts[1, x]))
                row[x, channel] = np.uint8(value >> FRACTION)
    return out
