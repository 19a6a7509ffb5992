"""Application of drawn noise to an image. All arrays are flat (P,), and outputs are uint8."""

from __future__ import annotations

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import to_unit


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
def set_impulses(levels, codes):
    """Return the image with 0 at code 1 (pepper) and 255 at code 2 (salt)."""
    out = np.empty_like(levels)
    for i in range(levels.size):
        kept = levels[i] if codes[i] == 0 else np.uint8(255)
        out[i] = np.uint8(0) if codes[i] == 1 else kept
    return out
