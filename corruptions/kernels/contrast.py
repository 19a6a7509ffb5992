"""The image drawn towards the mean of each channel."""

from __future__ import annotations

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import split, unit

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
def channel_means(flat):
    """(3,) float64 in 0..1: the mean of each channel; sums are whole numbers, exact in any order."""
    planes = np.empty((3, CHUNK), np.uint8)
    sums = np.zeros(3, np.int64)
    for start in range(0, flat.size, 3 * CHUNK):
        source = flat[start : start + 3 * CHUNK]
        split(source, planes[0], planes[1], planes[2])
        for c in range(3):
            sums[c] += total(planes[c, : source.size // 3])
    return sums / (255.0 * (flat.size // 3))


@inlined
def flattened(mean, share):
    """(256,) uint8: what each level becomes in a channel of that mean. There are fewer levels than pixels."""
    levels = np.empty(256, np.uint8)
    for level in range(256):
        value = (unit(level, np.float64) - mean) * share + mean
        levels[level] = np.uint8(np.int32(min(max(value, 0.0), 1.0) * 255.0))
    return levels


@kernel
def flatten(flat, share):
    """(3 P,) interleaved uint8 whose deviations from the channel's mean are multiplied by ``share``, as a new array."""
    out = np.empty_like(flat)
    means = channel_means(flat)
    reds, greens, blues = flattened(means[0], share), flattened(means[1], share), flattened(means[2], share)
    for i in range(flat.size // 3):
        out[3 * i] = reds[flat[3 * i]]
        out[3 * i + 1] = greens[flat[3 * i + 1]]
        out[3 * i + 2] = blues[flat[3 * i + 2]]
    return out
