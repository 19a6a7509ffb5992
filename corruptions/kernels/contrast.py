"""The image drawn towards the mean of each channel."""

from __future__ import annotations

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import join, split, unit

CHUNK = 4096
"""Pixels per pass: three planes of a chunk stay in the first-level cache, and their sums in 32 bits."""


@inlined
def total(levels):
    """The sum of a chunk of levels."""
    count = np.uint32(0)
    for level in levels:
        count += np.uint32(level)
    return count


@inlined
def channel_means(flat, planes):
    """(3,) float64 in 0..1: the mean of each channel; sums are whole numbers, exact in any order."""
    sums = np.zeros(3, np.int64)
    for start in range(0, flat.size, 3 * CHUNK):
        source = flat[start : start + 3 * CHUNK]
        split(source, planes[0], planes[1], planes[2])
        for c in range(3):
            sums[c] += total(planes[c, : source.size // 3])
    return sums / (255.0 * (flat.size // 3))


@kernel
def flatten(flat, share):
    """(3 P,) interleaved uint8 whose deviations from the channel's mean are multiplied by ``share``, as a new array."""
    out = np.empty_like(flat)
    planes = np.empty((3, CHUNK), np.uint8)
    means = channel_means(flat, planes)
    for start in range(0, flat.size, 3 * CHUNK):
        split(flat[start : start + 3 * CHUNK], planes[0], planes[1], planes[2])
        for c in range(3):
            plane, mean = planes[c], means[c]
            for i in range(CHUNK):
                value = (unit(plane[i]) - mean) * share + mean
                plane[i] = np.uint8(np.int32(min(max(value, 0.0), 1.0) * 255.0))
        join(planes[0], planes[1], planes[2], out[start : start + 3 * CHUNK])
    return out
