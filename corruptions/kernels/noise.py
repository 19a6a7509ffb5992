"""Noise that is already drawn, put on an image: flat (P,) arrays in, (P,) uint8 out."""

from __future__ import annotations

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import unit


@inlined
def level_of(x, kind):
    """A value in 0..1 units, clipped and truncated to 8 bits; ``kind`` is its float type."""
    return np.uint8(np.int32(min(max(x, kind(0)), kind(1)) * kind(255)))


@kernel
def add_noise(levels, noise):
    """Image plus noise in 0..1 units, in the precision of the noise."""
    out = np.empty_like(levels)
    kind = noise.dtype.type
    for i in range(levels.size):
        out[i] = level_of(unit(levels[i], kind) + noise[i], kind)
    return out


@kernel
def multiply_noise(levels, noise):
    """Image plus image times noise in 0..1 units, in the precision of the noise."""
    out = np.empty_like(levels)
    kind = noise.dtype.type
    for i in range(levels.size):
        x = unit(levels[i], kind)
        out[i] = level_of(x + x * noise[i], kind)
    return out


@kernel
def look_up(counts, levels):
    """The level of each count; counts past the end of the table take its last level."""
    out = np.empty(counts.size, np.uint8)
    last = levels.size - 1
    for i in range(counts.size):
        out[i] = levels[min(counts[i], last)]
    return out


@kernel
def replace(levels, codes):
    """The image with 0 where the code is 1 (pepper) and 255 where it is 2 (salt)."""
    out = np.empty_like(levels)
    for i in range(levels.size):
        kept = levels[i] if codes[i] == 0 else np.uint8(255)
        out[i] = np.uint8(0) if codes[i] == 1 else kept
    return out
