"""Poisson numbers for images: one alias table (Walker 1977, Vose 1991) for each of the 256 intensities."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel
from corruptions.kernels.philox import CHUNK, fill_words

LEVELS = 256
NEGLIGIBLE = 2.0**-40
"""Counts this much rarer than the commonest one are left out."""
KEPT_TABLES = 32


@kernel
def weights_of(mean):
    """(first, weights) of the Poisson law: its counts that matter, by the ratios of neighbours, so without exp."""
    mode = int(mean)
    reach = int(10.0 * np.sqrt(mean)) + 48
    below = np.empty(mode + 1)
    weight, first = 1.0, mode
    below[0] = 1.0
    while first > 0 and weight > NEGLIGIBLE:
        weight *= first / mean
        first -= 1
        below[mode - first] = weight
    weights = np.empty(mode - first + 1 + reach)
    size = mode - first + 1
    weights[:size] = below[:size][::-1]
    weight = mean / (mode + 1)
    while weight > NEGLIGIBLE:
        weights[size] = weight
        size += 1
        weight *= mean / (first + size)
    return first, weights[:size]


@kernel
def fill_alias_row(row, weights, bits):
    """Packs a law into (2^bits,) uint32 cells: the upper 32 - bits are the share a cell keeps, the rest its alias."""
    size = row.size
    share = np.zeros(size)
    share[: weights.size] = weights * (size / weights.sum())
    alias = np.arange(size)
    small, large = np.empty(size, np.int64), np.empty(size, np.int64)
    smalls = larges = 0
    for i in range(size):
        if share[i] < 1.0:
            small[smalls] = i
            smalls += 1
        else:
            large[larges] = i
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        needy, giver = small[smalls], large[larges - 1]
        alias[needy] = giver
        share[giver] -= 1.0 - share[needy]
        if share[giver] < 1.0:
            larges -= 1
            small[smalls] = giver
            smalls += 1
    full = 2 ** (32 - bits)
    for i in range(size):
        if alias[i] == i:  # nothing to give away: any share will do
            row[i] = i
        else:
            row[i] = np.uint32(min(int(share[i] * full), full - 1) << bits | alias[i])


@kernel
def build_tables(lam):
    """(cells, firsts, bits): (256, 2^bits) uint32 alias cells and (256,) lowest counts for means level / 255 * lam."""
    bits = 1
    for level in range(LEVELS):
        while weights_of(level / 255.0 * lam)[1].size > 2**bits:
            bits += 1
    cells = np.empty((LEVELS, 2**bits), np.uint32)
    firsts = np.empty(LEVELS, np.uint16)
    for level in range(LEVELS):
        first, weights = weights_of(level / 255.0 * lam)
        firsts[level] = first
        fill_alias_row(cells[level], weights, bits)
    return cells, firsts, bits


@lru_cache(maxsize=KEPT_TABLES)
def tables(lam: float) -> tuple[NDArray[np.uint32], NDArray[np.uint16], int]:
    """The alias tables of one ``lam``, made once per process: at most 1 MiB each."""
    cells, firsts, bits = build_tables(lam)
    return cells, firsts, bits


@kernel
def counts(levels, cells, firsts, bits, stream):
    """(P,) uint16 Poisson counts for (P,) uint8 intensities: one 32-bit word and one table cell for each."""
    out = np.empty(levels.size, np.uint16)
    words, places, found = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    flat = cells.reshape(-1)
    shift = np.uint32(32 - bits)
    bits = np.uint32(bits)
    fraction = np.uint32((1 << shift) - 1)
    alias_part = np.uint32((1 << bits) - 1)
    for start in range(0, levels.size, CHUNK):
        fill_words(words, start // 4, stream)
        means, drawn = levels[start : start + CHUNK], out[start : start + CHUNK]
        # Only the look-ups go value by value: the loops before and after them vectorise.
        for i in range(means.size):
            places[i] = (np.uint32(means[i]) << bits) + (words[i] >> shift)
        for i in range(means.size):
            found[i] = flat[np.uint64(places[i])]
            drawn[i] = firsts[means[i]]
        for i in range(means.size):
            kept = (words[i] & fraction) < (found[i] >> bits)
            drawn[i] += np.uint16(words[i] >> shift if kept else found[i] & alias_part)
    return out
