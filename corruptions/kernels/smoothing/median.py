"""Medians of neighbourhoods."""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch

CHUNK = 1024
"""Values computed together: whole vectors, of which the neighbourhoods stay in the first-level cache."""

BITS, TOP_BIT = 8, 128
"""Number of bits of a level, and the highest one."""

GROUP = 8
"""Neighbours compared in one pass. The square of an odd number is one more than a multiple of it."""


@inlined
def count_not_below(flat, starts, trial, counts):
    """Add to ``counts`` how many of GROUP neighbours are not below ``trial``. ``starts`` are their positions."""
    a, b = flat[starts[0] : starts[0] + CHUNK], flat[starts[1] : starts[1] + CHUNK]
    c, d = flat[starts[2] : starts[2] + CHUNK], flat[starts[3] : starts[3] + CHUNK]
    e, f = flat[starts[4] : starts[4] + CHUNK], flat[starts[5] : starts[5] + CHUNK]
    g, h = flat[starts[6] : starts[6] + CHUNK], flat[starts[7] : starts[7] + CHUNK]
    for i in range(CHUNK):
        t = trial[i]
        count = np.uint8(np.uint8(a[i] >= t) + np.uint8(b[i] >= t))
        count = np.uint8(count + np.uint8(np.uint8(c[i] >= t) + np.uint8(d[i] >= t)))
        count = np.uint8(count + np.uint8(np.uint8(e[i] >= t) + np.uint8(f[i] >= t)))
        count = np.uint8(count + np.uint8(np.uint8(g[i] >= t) + np.uint8(h[i] >= t)))
        counts[i] = np.uint8(counts[i] + count)


@kernel
def medians(flat, taps, out):
    """Write the medians of the neighbours of values to ``out``.

    A median is the highest level that more than half of the neighbours are not below. Its bits are found one after the
    other, from the highest on. The last chunk overlaps the previous one.

    Args:
        flat: uint8 (P + last tap,).
        taps: Distance of each neighbour to the first one, uint64 (n,) in ascending order, from 0 on. n is one more than
            a multiple of GROUP, and below 256.
        out: uint8 (P,), P >= CHUNK.
    """
    half = np.uint8(taps.size // 2)
    starts = np.empty_like(taps)
    trial, counts = scratch(CHUNK, np.uint8), scratch(CHUNK, np.uint8)
    for chunk in range(0, out.size, CHUNK):
        start = min(chunk, out.size - CHUNK)
        for k in range(taps.size):
            starts[k] = np.uint64(start) + taps[k]
        first, median = flat[start : start + CHUNK], out[start : start + CHUNK]
        for i in range(CHUNK):
            median[i] = np.uint8(0)
        for shift in range(BITS):
            bit = np.uint8(TOP_BIT >> shift)
            for i in range(CHUNK):
                trial[i] = np.uint8(median[i] | bit)
                counts[i] = np.uint8(first[i] >= trial[i])
            for k in range(1, taps.size, GROUP):
                count_not_below(flat, starts[k : k + GROUP], trial, counts)
            for i in range(CHUNK):
                median[i] = np.uint8(median[i] | (bit if counts[i] > half else np.uint8(0)))
