"""Sine waves that are added to an image, and noise that is equal in all channels."""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.colour.levels import BLACK
from corruptions.kernels.doubts import truncate_decided
from corruptions.kernels.drawing.blend import ABOVE_WHITE, repeat_channels
from corruptions.kernels.smoothing.low_pass import HALF, HIGHEST
from corruptions.kernels.trigonometry import arctangent_64, cosine_64, sine_64

BOUND = np.float32(4 * 2.0**-17)
"""Largest error of a level below 256 that :func:`add_grey` computes in float32. See there."""


@inlined
def add_grey(source, noise, single, spread, target, found):
    """Write a row plus the noise of each pixel to ``target``, clipped to 0..255 and truncated. NaN becomes 0.

    In float32, noise of at most 256 levels and its sum with a level are off by 2**-17 each, and so are two sums with
    this bound. Values within the bound of a whole number are computed again in float64, as published.

    ``noise`` is float64 (W,), ``single`` the same in float32. ``spread``, float32 (W * 3,), and ``found``, int64
    (W * 3,), are overwritten.
    """
    repeat_channels(single, spread)
    for i in range(source.size):
        level = np.float32(source[i]) + spread[i]
        above = level if level > BLACK else BLACK  # also for NaN
        spread[i] = above if above < ABOVE_WHITE else ABOVE_WHITE
    for k in range(truncate_decided(spread, -BOUND, BOUND, target, found)):
        i = found[k]
        target[i] = np.uint8(np.int32(min(max(source[i] + noise[i // 3], 0.0), 255.0)))


@inlined
def fill_phases(step, start, sines, cosines):
    """Write sine and cosine (float64) of ``step * i + start`` for each index."""
    for i in range(sines.size):
        angle = step * i + start
        sines[i], cosines[i] = sine_64(angle), cosine_64(angle)


@kernel
def add_plane_wave(pixels, across, down, phase, intensity):
    """Return the image plus a sine wave, uint8 (H, W * 3).

    Args:
        pixels: uint8 (H, W * 3).
        across: Change of the phase per column, in radians.
        down: Change of the phase per row, in radians.
        phase: Phase of the first pixel, in radians.
        intensity: Amplitude in levels.
    """
    height, width = pixels.shape[0], pixels.shape[1] // 3
    out = np.empty_like(pixels)
    noise, single, spread = scratch(width, np.float64), scratch(width, np.float32), scratch(3 * width, np.float32)
    sines, cosines = scratch(width, np.float64), scratch(width, np.float64)
    row_sines, row_cosines = np.empty(height), np.empty(height)
    found = np.empty(3 * width, np.int64)
    fill_phases(across, 0.0, sines, cosines)
    fill_phases(down, phase, row_sines, row_cosines)
    for y in range(height):
        sine, cosine = intensity * row_sines[y], intensity * row_cosines[y]
        for x in range(width):
            noise[x] = sines[x] * cosine + cosines[x] * sine
            single[x] = noise[x]
        add_grey(pixels[y], noise, single, spread, out[y], found)
    return out


@kernel
def add_rings(pixels, column, row, lobes, depth, width_of_ring, intensity):
    """Return the image plus waves around a centre, uint8 (H, W * 3).

    A wave rises from ``-intensity / 2`` to ``intensity / 2``. Distances are float64, because rings can be narrow.

    Args:
        pixels: uint8 (H, W * 3).
        column: Column of the centre.
        row: Row of the centre.
        lobes: Lobes of a ring per turn.
        depth: Amplitude of the lobes in pixels.
        width_of_ring: Distance from ring to ring in pixels.
        intensity: Height of a wave in levels.
    """
    height, width = pixels.shape[0], pixels.shape[1] // 3
    out = np.empty_like(pixels)
    noise, single, spread = scratch(width, np.float64), scratch(width, np.float32), scratch(3 * width, np.float32)
    found = np.empty(3 * width, np.int64)
    for y in range(height):
        dy = y - row
        for x in range(width):
            dx = x - column
            distance = np.sqrt(dx * dx + dy * dy) + depth * sine_64(lobes * arctangent_64(dx, dy))
            rings = distance / width_of_ring
            noise[x] = intensity * ((rings - np.floor(rings)) - 0.5)
            single[x] = noise[x]
        add_grey(pixels[y], noise, single, spread, out[y], found)
    return out


@kernel
def add_frequency(pixels, down, across, signs, scale):
    """Return the image plus a sum of two products of waves, uint8 (H, W * 3), rounded half up.

    Args:
        pixels: uint8 (H, W * 3).
        down: float64 (2, H) waves along the rows.
        across: float64 (2, W) the waves along the columns that they are multiplied by.
        signs: float64 (3,) sign of each channel.
        scale: Factor of the sum, in levels.
    """
    height, width = pixels.shape[0], pixels.shape[1] // 3
    out = np.empty_like(pixels)
    first, second = scratch(3 * width, np.float64), scratch(3 * width, np.float64)
    for x in range(width):
        for channel in range(3):
            factor = signs[channel] * scale
            first[3 * x + channel], second[3 * x + channel] = factor * across[0, x], factor * across[1, x]
    for y in range(height):
        of_first, of_second = down[0, y], down[1, y]
        source, target = pixels[y], out[y]
        for i in range(source.size):
            level = source[i] + (of_first * first[i] + of_second * second[i]) + HALF
            target[i] = np.int32(min(max(level, 0.0), HIGHEST))
    return out
