"""Poisson numbers for images, from one alias table (Walker 1977, Vose 1991) per intensity 0..255."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel, scratch
from corruptions.kernels.random.philox import BLOCKS, CHUNK, fill_blocks

LEVELS = 256
"""Number of intensities."""
MIN_RATIO = 2.0**-40
"""Counts with a smaller probability than this, relative to the most probable count, are left out."""
MAX_TABLES = 32
"""Number of ``lam`` values whose tables are cached."""
MAX_OTHER_TABLES = 128
"""Number of cached tables of other means. Those of means up to 72 have 256 KiB."""

PART = 8
"""Blocks of random words computed between lookups of four times as many cells."""
POWERS = np.array([2**bits for bits in range(32)], np.uint32)
"""Powers of two. LLVM multiplies 32-bit vectors by a loaded number, but shifts 64-bit vectors by a variable number."""
ONE, HALF_WORD = np.uint32(1), np.uint32(16)

Tables = tuple[NDArray[np.uint32], NDArray[np.uint16], int]
"""Cells, counts of the first cells, and bits of an index, of alias tables."""


@kernel
def poisson_weights(mean):
    """Return (first, weights): the lowest count that is not left out, and the relative probabilities from it on.

    Each weight is computed from its neighbour, so that no exp is needed.
    """
    mode = int(mean)
    reach = int(10.0 * np.sqrt(mean)) + 48
    below = np.empty(mode + 1)
    weight, first = 1.0, mode
    below[0] = 1.0
    while first > 0 and weight > MIN_RATIO:
        weight *= first / mean
        first -= 1
        below[mode - first] = weight
    weights = np.empty(mode - first + 1 + reach)
    size = mode - first + 1
    weights[:size] = below[:size][::-1]
    weight = mean / (mode + 1)
    while weight > MIN_RATIO:
        weights[size] = weight
        size += 1
        weight *= mean / (first + size)
    return first, weights[:size]


@kernel
def fill_alias_row(row, weights, bits):
    """Write a distribution as (2^bits,) uint32 cells of an alias table.

    The upper 32 - bits of a cell are the fraction that keeps its own count, the lower bits the alias of the rest.
    """
    size = row.size
    fraction = np.zeros(size)
    fraction[: weights.size] = weights * (size / weights.sum())
    alias = np.arange(size)
    small, large = np.empty(size, np.int64), np.empty(size, np.int64)
    smalls = larges = 0
    for i in range(size):
        if fraction[i] < 1.0:
            small[smalls] = i
            smalls += 1
        else:
            large[larges] = i
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        small_cell, large_cell = small[smalls], large[larges - 1]
        alias[small_cell] = large_cell
        fraction[large_cell] -= 1.0 - fraction[small_cell]
        if fraction[large_cell] < 1.0:
            larges -= 1
            small[smalls] = large_cell
            smalls += 1
    full = 2 ** (32 - bits)
    for i in range(size):
        if alias[i] == i:  # the cell is its own alias, so any fraction is right
            row[i] = i
        else:
            row[i] = np.uint32(min(int(fraction[i] * full), full - 1) << bits | alias[i])


@kernel
def build_tables(means, zero):
    """Return (cells, firsts, bits) of Poisson distributions.

    ``cells`` is uint32 (L, 2^bits), and ``firsts`` are the counts of the first cells, uint16 (L,).

    Args:
        means: Mean of each distribution, float64 (L,).
        zero: Whether every row begins at count 0, which makes rows longer and lookups faster.
    """
    bits = 1
    for mean in means:
        first, weights = poisson_weights(mean)
        while weights.size + zero * first > 2**bits:
            bits += 1
    cells = np.empty((means.size, 2**bits), np.uint32)
    firsts = np.zeros(means.size, np.uint16)
    for row in range(means.size):
        first, weights = poisson_weights(means[row])
        if zero:
            weights = np.concatenate((np.zeros(first), weights))
        else:
            firsts[row] = first
        fill_alias_row(cells[row], weights, bits)
    return cells, firsts, bits


@lru_cache(maxsize=MAX_TABLES)
def tables(lam: float) -> Tables:
    """Return the alias tables of the means level / 255 * lam, cached for this process. They have at most 1 MiB."""
    return build_tables(np.arange(LEVELS) / 255.0 * lam, False)


@lru_cache(maxsize=MAX_OTHER_TABLES)
def tables_of(means: bytes) -> Tables:
    """Return the alias tables of means, which are the bytes of float32 numbers. They are cached for this process."""
    return build_tables(np.frombuffer(means, np.float32).astype(np.float64), True)


@kernel
def counts(levels, cells, firsts, bits, stream):
    """Return uint16 (P,) Poisson counts for uint8 (P,) rows of tables, from one 32-bit word and one table cell each.

    The upper bits of a word choose the cell, the others are compared with its fraction. Cells of one chunk are looked
    up between the words of the next, a few at a time, because CPUs overlap such loads with arithmetic.
    """
    out = np.empty(levels.size, np.uint16)
    words, rest, cell = scratch(CHUNK, np.uint32), scratch(CHUNK, np.uint32), scratch(CHUNK, np.uint32)
    indices = np.zeros(CHUNK, np.uint32)
    flat = cells.reshape(-1)
    size = POWERS[bits]
    mask = np.uint32(size - ONE)
    shifted = firsts.max() > 0
    for start in range(0, levels.size + CHUNK, CHUNK):
        for part in range(0, BLOCKS, PART):
            fill_blocks(words, part, PART, start // 4, stream)
            for i in range(np.uint64(4 * part), np.uint64(4 * (part + PART))):
                cell[i] = flat[np.uint64(indices[i])]
        if start > 0:
            drawn = out[start - CHUNK : start]
            for i in range(drawn.size):
                kept = rest[i] < cell[i]
                drawn[i] = np.uint16(np.uint32(indices[i] if kept else cell[i]) & mask)
            if shifted:
                means = levels[start - CHUNK : start]
                for i in range(means.size):
                    drawn[i] += firsts[means[i]]
        means = levels[start : start + CHUNK]
        for i in range(means.size):
            column = np.uint32(np.uint32(np.uint32(words[i] >> HALF_WORD) * size) >> HALF_WORD)
            indices[i] = np.uint32(means[i]) * size + column
            rest[i] = np.uint32(words[i] * size) | mask
    return out
