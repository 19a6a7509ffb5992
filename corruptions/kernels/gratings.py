"""Sine waves that are added to an image, and noise that is equal in all channels."""

from __future__ import annotations

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.blend import repeat_channels
from corruptions.kernels.levels import clip
from corruptions.kernels.trigonometry import arctangent_64, cosine_64, sine_64


@inlined
def add_grey(source, noise, spread, target):
    """Write a row plus the noise of each pixel to ``target``, clipped to 0..255 and truncated. NaN becomes 0.

    Args:
        source: uint8 (W * 3,).
        noise: float32 (W,), in levels.
        spread: float32 (W * 3,), which is overwritten.
        target: uint8 (W * 3,).
    """
    repeat_channels(noise, spread)
    for i in range(source.size):
        target[i] = np.uint8(np.int32(clip(np.float32(source[i]) + spread[i])))


@inlined
def fill_phases(step, start, sines, cosines):
    """Write sine and cosine (float32) of ``step * i + start`` for each index."""
    for i in range(sines.size):
        angle = step * i + start
        sines[i] = np.float32(sine_64(angle))
        cosines[i] = np.float32(cosine_64(angle))


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
    noise, spread = scratch(width, np.float32), scratch(3 * width, np.float32)
    sines, cosines = scratch(width, np.float32), scratch(width, np.float32)
    row_sines, row_cosines = np.empty(height, np.float32), np.empty(height, np.float32)
    fill_phases(across, 0.0, sines, cosines)
    fill_phases(down, phase, row_sines, row_cosines)
    amplitude = np.float32(intensity)
    for y in range(height):
        sine, cosine = amplitude * row_sines[y], amplitude * row_cosines[y]
        for x in range(width):
            noise[x] = sines[x] * cosine + cosines[x] * sine
        add_grey(pixels[y], noise, spread, out[y])
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
    noise, spread = scratch(width, np.float32), scratch(3 * width, np.float32)
    for y in range(height):
        dy = y - row
        for x in range(width):
            dx = x - column
            distance = np.sqrt(dx * dx + dy * dy) + depth * sine_64(lobes * arctangent_64(dx, dy))
            rings = distance / width_of_ring
            noise[x] = np.float32(intensity * ((rings - np.floor(rings)) - 0.5))
        add_grey(pixels[y], noise, spread, out[y])
    return out
