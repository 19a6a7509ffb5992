"""Application of drawn noise to an image. All arrays are flat (P,), and outputs are uint8."""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.colour.levels import clip
from corruptions.kernels.drawing.blend import repeat_channels
from corruptions.kernels.planes import to_unit

CHUNK = 1024
"""Pixels per pass."""


@inlined
def to_level(x, dtype):
    """Return a value in 0..1 as a level 0..255, clipped and truncated. ``dtype`` is its float type."""
    return np.uint8(np.int32(min(max(x, dtype(0)), dtype(1)) * dtype(255)))


@kernel
def add_noise(levels, noise):
    """Return image plus noise, both in 0..1, in the precision of the noise."""
    out = np.empty_like(levels)
    dtype = noise.dtype.type
    for i in range(levels.size):
        out[i] = to_level(to_unit(levels[i], dtype) + noise[i], dtype)
    return out


@kernel
def multiply_noise(levels, noise):
    """Return image plus image times noise, both in 0..1, in the precision of the noise."""
    out = np.empty_like(levels)
    dtype = noise.dtype.type
    for i in range(levels.size):
        x = to_unit(levels[i], dtype)
        out[i] = to_level(x + x * noise[i], dtype)
    return out


@kernel
def lookup_levels(counts, levels):
    """Return the level of each count. Counts beyond the end of the table get its last level."""
    out = np.empty(counts.size, np.uint8)
    last = levels.size - 1
    for i in range(counts.size):
        out[i] = levels[min(counts[i], last)]
    return out


@kernel
def add_noise_to_counts(counts, full, noise):
    """Return ``min(count / full, 1)`` plus noise, both in 0..1, in the precision of the noise.

    The published script also multiplies by 255 and divides by 255 before it adds the noise, which changes no quotient
    of 0..25 by 25 or of 0..120 by 120, in float32 or float64.

    Args:
        counts: uint16 (P,).
        full: The count of a white value, 25 or 120.
        noise: Floats (P,).
    """
    out = np.empty(counts.size, np.uint8)
    dtype = noise.dtype.type
    for i in range(counts.size):
        out[i] = to_level(dtype(min(np.int32(counts[i]), np.int32(full))) / dtype(full) + noise[i], dtype)
    return out


@kernel
def set_impulses(levels, codes):
    """Return the image with 0 at code 1 (pepper) and 255 at code 2 (salt)."""
    out = np.empty_like(levels)
    for i in range(levels.size):
        kept, white = np.uint8(codes[i] == 0), np.uint8(codes[i] >> 1)  # without branches, so that it vectorises
        out[i] = levels[i] * kept + np.uint8(255) * white
    return out


@kernel
def add_to_levels(levels, noise):
    """Return image plus noise, both in levels, clipped and truncated. The sums are computed in float64."""
    out = np.empty_like(levels)
    for i in range(levels.size):
        out[i] = np.uint8(np.int32(clip(np.float64(levels[i]) + noise[i])))
    return out


@kernel
def multiply_pixels(levels, factors):
    """Return the image times a positive factor per pixel, clipped and truncated.

    Args:
        levels: uint8 (3 P,), interleaved.
        factors: Floats (P,). The products are computed in float64, in which those of float32 are exact.
    """
    out = np.empty_like(levels)
    repeated = scratch(3 * CHUNK, factors.dtype)
    for start in range(0, factors.size, CHUNK):
        repeat_channels(factors[start : start + CHUNK], repeated)
        source, target = levels[3 * start : 3 * (start + CHUNK)], out[3 * start : 3 * (start + CHUNK)]
        for i in range(target.size):
            product = np.float64(source[i]) * np.float64(repeated[i])
            target[i] = np.uint8(np.int32(product if product < 255.0 else 255.0))
    return out
