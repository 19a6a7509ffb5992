"""Values that a fast sum leaves undecided, because its error may move them across a whole number.

The published generators compute in an order of sums that is slow. A kernel computes an approximation whose error has a
proven bound, and computes again, in the published order, only values within the bound of a whole number.
"""

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.vectors import load_word, trailing_zeros

WORD = 8
"""Marks that are read at once, each in a byte."""

BLOCK, MANY = 48, 24
"""Values that are published together, whole pixels, and the number of undecided ones above which they may be flat."""

UNIT_ROUNDOFF = 2.0**-24
"""Largest relative error of a rounding to float32."""


@kernel
def positions(marks, found):
    """Write the positions of the marks that are 1, not 0, to ``found``, and return their number.

    The number of marks must be a multiple of WORD.
    """
    count = 0
    for i in range(0, marks.size, WORD):
        word = load_word(marks, i)
        while word != 0:
            found[count] = i + (trailing_zeros(word) >> 3)
            word, count = word & (word - 1), count + 1
    return count


@inlined
def truncate_marked(row, below, above, target, marks, found):
    """Write the whole part of each value, which is between ``row + below`` and ``row + above``, to ``target`` (uint8).

    The positions of those that are undecided are written to ``found``. Returns their number.
    """
    count = np.int32(0)
    for i in range(target.size):
        lower = np.int32(row[i] + below)
        differs = np.int32(np.int32(row[i] + above) - lower)
        target[i], marks[i] = np.uint8(lower), np.uint8(differs)
        count = np.int32(count + differs)
    return positions(marks, found) if count != 0 else 0


@inlined
def marks_for(size):
    """Return arrays for the marks and positions of ``size`` values."""
    padded = -(-size // WORD) * WORD
    return np.zeros(padded, np.uint8), np.empty(padded, np.int64)


@inlined
def block_of(found, k):
    """Return the first value of the block with the position ``found[k]``, and the index after its last position."""
    first, stop = found[k] // BLOCK * BLOCK, k
    while stop < found.size and found[stop] < first + BLOCK:
        stop += 1
    return first, stop
