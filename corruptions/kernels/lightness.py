"""Changed lightness of pixels, by way of 8-bit HLS."""

from __future__ import annotations

import numpy as np

from corruptions.kernels import kernel, scratch
from corruptions.kernels.hsv_hls import from_hls_levels, to_hls_levels
from corruptions.kernels.planes import deinterleave, interleave

CHANNELS, LEVELS = 3, 256
CHUNK = 2048
"""Pixels per pass. Their planes fit into the first-level cache."""


@kernel
def map_lightness(flat, tables, choice):
    """Return the pixels with their lightness looked up in a table, uint8 (3 P,).

    Quirk: 8-bit HLS changes colours by rounding, so pixels change even where the table keeps their lightness.

    Args:
        flat: uint8 (3 P,).
        tables: New lightness for each lightness, uint8 (n * LEVELS,).
        choice: Number of the table of each pixel, uint8 (P,).
    """
    out = np.empty_like(flat)
    planes = scratch(3 * CHUNK, np.uint8).reshape(3, CHUNK)
    first, second, third = planes[0], planes[1], planes[2]
    for start in range(0, choice.size, CHUNK):
        chosen = choice[start : start + CHUNK]
        deinterleave(flat[CHANNELS * start : CHANNELS * (start + CHUNK)], first, second, third)
        for i in range(CHUNK):
            first[i], second[i], third[i] = to_hls_levels(first[i], second[i], third[i])
        for i in range(chosen.size):
            second[i] = tables[LEVELS * np.uint64(chosen[i]) + second[i]]
        for i in range(CHUNK):
            first[i], second[i], third[i] = from_hls_levels(first[i], second[i], third[i])
        interleave(first, second, third, out[CHANNELS * start : CHANNELS * (start + CHUNK)])
    return out
