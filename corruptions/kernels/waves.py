"""Gaussian smoothing of long reach with mirrored edges, in a time that does not depend on the reach.

Within its reach a Gaussian is a sum of a few cosines. What such a window of a cosine gives at one place follows from
its values at the two places before and from the four samples at the ends of the window.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import copy, inlined, kernel, scratch

TERMS = 6
"""The constant and five cosines: with ``SPARE`` the filter is off by 5e-5 of its largest weight at most."""

SPARE = 4.5
"""The cosines repeat the Gaussian; its next image begins this many sigmas beyond the reach."""

COLUMNS = 32
"""Columns smoothed together: two of the widest vectors, so that one is at work while the other waits. Their sums lie in
one array at fixed distances, so that all terms become one vector loop; where the columns do not divide the width, the
last ones are smoothed twice."""

TOTAL, NEXT, NOW = 0, COLUMNS, 2 * COLUMNS
BEFORE = NOW + TERMS * COLUMNS
SIZE = BEFORE + TERMS * COLUMNS


class Waves(NamedTuple):
    """A filter as cosines for lines of one size.

    ``first``: (size, TERMS) weights of the sums at place 0. ``rows``: the mirrored places from -reach - 1 to
    size + reach + 1. Then each term's factors: of its last sum, of the samples that enter, and of those that leave.
    """

    first: NDArray[np.float32]
    rows: NDArray[np.uint64]
    turns: tuple[np.float32, ...]
    enters: tuple[np.float32, ...]
    leaves: tuple[np.float32, ...]


@inlined
def beside(index, size):
    """The place in 0..size - 1 of any index, mirrored beside the edges as often as needed."""
    index = index % (2 * size)
    return min(index, 2 * size - 1 - index)


@lru_cache(maxsize=64)
def waves(sigma: float, truncate: float, size: int) -> Waves:
    """The Gaussian cut at ``truncate`` sigmas, of sum 1, for lines of ``size`` samples mirrored beside their ends."""
    reach = int(truncate * sigma + 0.5)
    angles = [2.0 * math.pi * k / ((truncate + SPARE) * sigma) for k in range(TERMS)]
    weights = [(2.0 if k else 1.0) * math.exp(-0.5 * (angle * sigma) ** 2) for k, angle in enumerate(angles)]
    first = np.zeros((size, TERMS))
    rows = np.array([beside(i, size) for i in range(-reach - 1, size + reach + 2)], np.uint64)
    for i in range(-reach, reach + 1):
        first[rows[i + reach + 1]] += [w * math.cos(a * i) for w, a in zip(weights, angles, strict=True)]
    scale = first.sum()
    rims = [[w / scale * math.cos(a * i) for w, a in zip(weights, angles, strict=True)] for i in (reach, reach + 1)]
    turns, enters, leaves = (tuple(map(np.float32, row)) for row in ([2 * math.cos(a) for a in angles], *rims))
    return Waves((first / scale).astype(np.float32), rows, turns, enters, leaves)


@inlined
def begin(bank, lines, first):
    """The sums of every term at row 0, and at row -1, which mirrors it."""
    bank[:] = 0
    for y in range(lines.shape[0]):
        a, b, c, d, e, f = first[y]
        for x in range(COLUMNS):
            level = lines[y, x]
            bank[NOW + x] += level * a
            bank[NOW + COLUMNS + x] += level * b
            bank[NOW + 2 * COLUMNS + x] += level * c
            bank[NOW + 3 * COLUMNS + x] += level * d
            bank[NOW + 4 * COLUMNS + x] += level * e
            bank[NOW + 5 * COLUMNS + x] += level * f
    copy(bank[NOW:BEFORE], bank[BEFORE:])


@kernel
def smooth_columns(field, first, rows, turns, enters, leaves):
    """(H, W) float32 smoothed along its columns, transposed: (W, H)."""
    height, width = field.shape
    window = rows.size - height - 2  # from the first sample of a window to the one after its last
    out = np.empty((width, height), np.float32)
    lines = scratch(height * COLUMNS, np.float32).reshape(height, COLUMNS)
    bank = scratch(SIZE, np.float32)
    for start in range(0, width, COLUMNS):
        left = min(start, width - COLUMNS)
        for y in range(height):
            row = field[y, left : left + COLUMNS]
            for x in range(COLUMNS):
                lines[y, x] = row[x]
        begin(bank, lines, first)
        target = out[left : left + COLUMNS]
        # Two rows at a time, so that the sums are read and written half as often. The first row's window is the samples
        # from b to d, with a and e beside it; the second's is from c to e, between b and f.
        for y in range(0, height, 2):
            a, b, c = rows[y], rows[y + 1], rows[y + 2]
            d, e, f = rows[y + window], rows[y + window + 1], rows[y + window + 2]
            for x in range(COLUMNS):
                inner, outer = lines[d, x] + lines[b, x], lines[e, x] + lines[a, x]
                next_inner, next_outer = lines[e, x] + lines[c, x], lines[f, x] + lines[b, x]
                # The constant is a plain sliding sum, which rounds less.
                total = bank[NOW + x]
                next_total = total + (lines[e, x] - lines[b, x]) * enters[0]
                bank[NOW + x] = next_total + (lines[f, x] - lines[c, x]) * enters[0]
                for k in range(1, TERMS):
                    now = bank[NOW + k * COLUMNS + x]
                    step = (turns[k] * now - bank[BEFORE + k * COLUMNS + x]) + (outer * enters[k] - inner * leaves[k])
                    total += now
                    next_total += step
                    bank[BEFORE + k * COLUMNS + x] = step
                    change = next_outer * enters[k] - next_inner * leaves[k]
                    bank[NOW + k * COLUMNS + x] = (turns[k] * step - now) + change
                bank[TOTAL + x] = total
                bank[NEXT + x] = next_total
            for x in range(COLUMNS):
                target[x, y] = bank[TOTAL + x]
            if y + 1 < height:
                for x in range(COLUMNS):
                    target[x, y + 1] = bank[NEXT + x]
    return out


def smooth_long(field: NDArray[np.float32], sigma: float, truncate: float) -> NDArray[np.float32]:
    """(H, W) float32 smoothed along both axes: twice along the columns, transposed each time."""
    height, width = field.shape
    turned = smooth_columns(filled_up(field), *waves(sigma, truncate, height))[:width]
    smooth: NDArray[np.float32] = smooth_columns(filled_up(turned), *waves(sigma, truncate, width))[:height]
    return smooth


def filled_up(field: NDArray[np.float32]) -> NDArray[np.float32]:
    """The field, with columns of zeros at its end where it has fewer than ``COLUMNS``."""
    missing = COLUMNS - field.shape[1]
    return np.pad(field, ((0, 0), (0, missing))) if missing > 0 else field
