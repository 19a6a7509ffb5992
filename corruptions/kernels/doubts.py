"""Values that a fast sum leaves undecided, because its error may move them across a whole number.

The published generators compute in an order of sums that is slow. A kernel computes an approximation whose error has a
proven bound, and computes again, in the published order, only values within the bound of a whole number.
"""

import numpy as np

from corruptions.kernels import inlined
from corruptions.kernels.vectors import lanes_of, load, store, to_bytes, to_integers, trailing_zeros, unequal

BLOCK, MANY = 48, 24
"""Values that are published together, whole pixels, and the number of undecided ones above which they may be flat."""

UNIT_ROUNDOFF = 2.0**-24
"""Largest relative error of a rounding to float32."""


@inlined
def add_positions(bits, first, found, count):
    """Append the positions of bits that are 1 to ``found``. The lowest bit has position ``first``. Return the count."""
    while bits != 0:
        found[count] = first + trailing_zeros(bits)
        bits, count = bits & (bits - 1), count + 1
    return count


@inlined
def truncate_decided(row, below, above, target, found):
    """Write the whole part of each value, which is between ``row + below`` and ``row + above``, to ``target`` (uint8).

    ``row`` is float32. The positions of those that are undecided are written to ``found``. Returns their number.
    """
    count, lanes = 0, np.uint64(lanes_of(row))
    whole = np.uint64(target.size) // lanes * lanes
    for x in range(np.uint64(0), whole, lanes):
        values = load(row, x)
        lower = to_integers(values + below)
        store(target, x, to_bytes(lower))
        count = add_positions(unequal(lower, to_integers(values + above)), x, found, count)
    for i in range(whole, np.uint64(target.size)):
        lower = np.int32(row[i] + below)
        target[i] = np.uint8(lower)
        if np.int32(row[i] + above) != lower:
            found[count], count = i, count + 1
    return count


@inlined
def block_of(found, k):
    """Return the first value of the block with the position ``found[k]``, and the index after its last position."""
    first, stop = found[k] // BLOCK * BLOCK, k
    while stop < found.size and found[stop] < first + BLOCK:
        stop += 1
    return first, stop
