"""Contrast reduction towards the mean of each channel."""

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import deinterleave, to_unit

CHUNK = 4096
"""Pixels per pass. Three planes of a chunk fit into the first-level cache, and their sums into 32 bits.

The sums of chunks are added in 64 bits, because the sum of a large image exceeds 32 bits.
"""


@inlined
def total(levels):
    """Return the sum of a chunk of levels, uint32.

    LLVM's vector code for sums of bytes in 64 bits is slower, and for ARM's scalable vectors it was wrong.
    """
    count = np.uint32(0)
    for level in levels:
        count = np.uint32(count + np.uint32(level))  # numba adds in 64 bits otherwise
    return count


@inlined
def channel_means(flat):
    """Return the mean of each channel in 0..1, float64 (3,). The sums are integers, so their order does not matter."""
    planes = np.empty((3, CHUNK), np.uint8)
    sums = np.zeros(3, np.int64)
    for start in range(0, flat.size, 3 * CHUNK):
        source = flat[start : start + 3 * CHUNK]
        deinterleave(source, planes[0], planes[1], planes[2])
        for c in range(3):
            sums[c] += total(planes[c, : source.size // 3])
    return sums / (255.0 * (flat.size // 3))


@inlined
def level_table(mean, factor):
    """Return the output level of each input level in a channel with this mean, uint8 (256,).

    A table is faster than computing each pixel, because there are fewer levels than pixels.
    """
    levels = np.empty(256, np.uint8)
    for level in range(256):
        value = (to_unit(level, np.float64) - mean) * factor + mean
        levels[level] = np.uint8(np.int32(min(max(value, 0.0), 1.0) * 255.0))
    return levels


@kernel
def scale_deviations(flat, factor):
    """Return a new array (3 P,) of interleaved uint8 with deviations from the channel mean times ``factor``."""
    out = np.empty_like(flat)
    means = channel_means(flat)
    reds, greens, blues = level_table(means[0], factor), level_table(means[1], factor), level_table(means[2], factor)
    for i in range(flat.size // 3):
        out[3 * i] = reds[flat[3 * i]]
        out[3 * i + 1] = greens[flat[3 * i + 1]]
        out[3 * i + 2] = blues[flat[3 * i + 2]]
    return out
