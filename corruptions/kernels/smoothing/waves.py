"""Gaussian smoothing with a large radius and mirrored edges, in a time that does not depend on the radius.

Within its radius, a Gaussian is approximated by a sum of a few cosines. The windowed sum with one cosine follows from
the sums at the two previous positions and from the four samples at the ends of the window.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.elementary import cos_sin, exp
from corruptions.kernels import copy, inlined, kernel, scratch
from corruptions.kernels.vectors import fill, lanes_of, load, store, transpose

TERMS = 6
"""Number of cosines, including the constant. With PERIOD_MARGIN the error is at most 5e-5 of the largest weight."""

PERIOD_MARGIN = 4.5
"""The cosines are periodic. The next period of the Gaussian begins this many sigmas beyond the radius."""

COLUMNS = 32
"""Columns smoothed together: two of the widest vectors, so that one is computed while the other waits.

The sums of all terms are in one array, so that they form one vector loop. If COLUMNS does not divide the width, the
last columns are smoothed twice.
"""

GROUP = 4
"""Blocks of COLUMNS that are read together, because short pieces of rows of a large layer are read slowly."""

TOTAL, NEXT, NOW = 0, COLUMNS, 2 * COLUMNS
"""Offsets of the sums in their array."""
BEFORE = NOW + TERMS * COLUMNS
"""Offset of the sums at the previous position."""
SIZE = BEFORE + TERMS * COLUMNS
"""Length of the array of sums."""


class CosineFilter(NamedTuple):
    """A filter as cosines, for lines of one size."""

    first: NDArray[np.float32]
    """(size, TERMS) weights of the samples in the sums at position 0."""
    rows: NDArray[np.uint64]
    """Mirrored indices of positions -radius - 1 to size + radius + 1."""
    recurrence: tuple[np.float32, ...]
    """Factor of each term's previous sum."""
    entering: tuple[np.float32, ...]
    """Weight of each term for samples that enter the window."""
    leaving: tuple[np.float32, ...]
    """Weight of each term for samples that leave the window."""


@inlined
def mirror_index(index, size):
    """Return the index in 0..size - 1 of any index, mirrored half a pixel beyond the edges, repeatedly."""
    index = index % (2 * size)
    return min(index, 2 * size - 1 - index)


@lru_cache(maxsize=64)
def cosine_filter(sigma: float, truncate: float, size: int) -> CosineFilter:
    """Return the Gaussian cut at ``truncate`` sigmas, of sum 1, for lines of ``size`` samples with mirrored ends."""
    radius = int(truncate * sigma + 0.5)
    angles = [2.0 * math.pi * k / ((truncate + PERIOD_MARGIN) * sigma) for k in range(TERMS)]
    turns = [angle * sigma for angle in angles]
    weights = [(2.0 if k else 1.0) * exp(-0.5 * (turn * turn)) for k, turn in enumerate(turns)]
    cosines = [[w * cos_sin(a * i)[0] for w, a in zip(weights, angles, strict=True)] for i in range(radius + 2)]
    first = np.zeros((size, TERMS))
    rows = np.array([mirror_index(i, size) for i in range(-radius - 1, size + radius + 2)], np.uint64)
    for i in range(-radius, radius + 1):
        first[rows[i + radius + 1]] += cosines[abs(i)]
    scale = first.sum()
    end_weights = [
        [w / scale * cos_sin(a * i)[0] for w, a in zip(weights, angles, strict=True)] for i in (radius, radius + 1)
    ]
    recurrence, entering, leaving = (
        tuple(map(np.float32, row)) for row in ([2 * cos_sin(a)[0] for a in angles], *end_weights)
    )
    return CosineFilter((first / scale).astype(np.float32), rows, recurrence, entering, leaving)


@inlined
def init_sums(sums, lines, first):
    """Write the sums of every term at row 0, and at row -1, which mirrors it, to ``sums``."""
    for x in range(np.uint64(0), np.uint64(COLUMNS), np.uint64(lanes_of(lines))):
        a = b = c = d = e = f = fill(np.float32(0))
        for y in range(np.uint64(lines.shape[0])):
            levels, weights = load(lines, y * np.uint64(COLUMNS) + x), first[y]
            a, b, c = a + levels * weights[0], b + levels * weights[1], c + levels * weights[2]
            d, e, f = d + levels * weights[3], e + levels * weights[4], f + levels * weights[5]
        for k, total in enumerate((a, b, c, d, e, f)):
            store(sums, np.uint64(NOW + k * COLUMNS) + x, total)
    copy(sums[NOW:BEFORE], sums[BEFORE:])


@kernel
def smooth_columns(field, first, rows, recurrence, entering, leaving):
    """Return float32 (H, W) smoothed along its columns and transposed, (W, H)."""
    height, width = field.shape
    window = rows.size - height - 2  # from the first sample of a window to the one after its last
    out = np.empty((width, height), np.float32)
    group = scratch(GROUP * height * COLUMNS, np.float32).reshape(GROUP, height, COLUMNS)
    sums = scratch(SIZE, np.float32)
    pitch = height // 32 * 32 + 48  # an odd number of cache lines, so that rows do not compete for the same ones
    totals, results = scratch(COLUMNS * pitch, np.float32), scratch(COLUMNS * pitch, np.float32)
    row_pitch, result_pitch, lanes = np.uint64(COLUMNS), np.uint64(pitch), np.uint64(lanes_of(totals))
    for start in range(0, width, COLUMNS):
        left = min(start, width - COLUMNS)
        if start % (GROUP * COLUMNS) == 0:
            for y in range(height):
                for k in range(GROUP):
                    begin = min(start + k * COLUMNS, width - COLUMNS)
                    row, line = field[y, begin : begin + COLUMNS], group[k, y]
                    for x in range(COLUMNS):
                        line[x] = row[x]
        lines = group[start // COLUMNS % GROUP]
        init_sums(sums, lines, first)
        # Two rows at a time, which halves the accesses to the sums. The first row's window is from b to d, with
        # neighbours a and e; the second row's window is from c to e, with neighbours b and f.
        for y in range(0, height, 2):
            a, b, c = rows[y], rows[y + 1], rows[y + 2]
            d, e, f = rows[y + window], rows[y + window + 1], rows[y + window + 2]
            for x in range(COLUMNS):
                inner, outer = lines[d, x] + lines[b, x], lines[e, x] + lines[a, x]
                next_inner, next_outer = lines[e, x] + lines[c, x], lines[f, x] + lines[b, x]
                # The constant term is a sliding sum, which has a smaller rounding error.
                total = sums[NOW + x]
                next_total = total + (lines[e, x] - lines[b, x]) * entering[0]
                sums[NOW + x] = next_total + (lines[f, x] - lines[c, x]) * entering[0]
                for k in range(1, TERMS):
                    now = sums[NOW + k * COLUMNS + x]
                    step = (recurrence[k] * now - sums[BEFORE + k * COLUMNS + x]) + (
                        outer * entering[k] - inner * leaving[k]
                    )
                    total += now
                    next_total += step
                    sums[BEFORE + k * COLUMNS + x] = step
                    change = next_outer * entering[k] - next_inner * leaving[k]
                    sums[NOW + k * COLUMNS + x] = (recurrence[k] * step - now) + change
                sums[TOTAL + x] = total
                sums[NEXT + x] = next_total
            copy(sums[: 2 * COLUMNS], totals[y * COLUMNS :][: 2 * COLUMNS])
        for y in range(np.uint64(0), np.uint64(height), lanes):
            for x in range(np.uint64(0), row_pitch, lanes):
                transpose(totals, y * row_pitch + x, row_pitch, results, x * result_pitch + y, result_pitch)
        for x in range(COLUMNS):
            copy(results[x * pitch :][:height], out[left + x])
    return out


def smooth_long(field: NDArray[np.float32], sigmas: tuple[float, float], truncate: float) -> NDArray[np.float32]:
    """Return float32 (H, W) smoothed along both axes, with one sigma along columns and one along rows."""
    for sigma in sigmas:
        height, width = field.shape
        field = smooth_columns(pad_columns(field), *cosine_filter(sigma, truncate, height))[:width]
    return field


def pad_columns(field: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the field, padded with columns of zeros if it has fewer than COLUMNS."""
    missing = COLUMNS - field.shape[1]
    return np.pad(field, ((0, 0), (0, missing))) if missing > 0 else field
