"""The neighbour copy of glass blur."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import pack, unpack


@inlined
def find_sources(offsets, place, width, sources):
    """Fills the places that the pixels from ``place`` backwards are taken from, given (W, 2) offsets (dx, dy)."""
    flat = offsets.reshape(-1)
    for j in range(sources.size):
        sources[j] = place - np.int32(j) + np.int32(flat[2 * j + 1]) * width + np.int32(flat[2 * j])


@kernel
def copy_neighbours(flat, shape, offsets, delta):
    """(H, W, 3) uint8, flat, whose inner pixels took the pixel at their drawn offset, one by one, from the last on.

    ``offsets`` is (iterations, H - 2 delta, W - 2 delta, 2), (dx, dy) in the order of the visits. A copy, not a swap.
    """
    height, width = shape
    packed = pack(flat)
    sources = np.empty(offsets.shape[2], np.int32)
    for iteration in range(offsets.shape[0]):
        for i in range(offsets.shape[1]):
            place = (height - delta - i) * width + width - delta
            find_sources(offsets[iteration, i], np.int32(place), np.int32(width), sources)
            for j in range(sources.size):
                packed[np.uint64(place - j)] = packed[np.uint64(sources[j])]  # unsigned: no count from the end
    out = np.empty_like(flat)
    unpack(packed, out)
    return out


def shuffle(image: NDArray[np.uint8], offsets: NDArray[np.integer], delta: int) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 with its pixels copied about as :func:`copy_neighbours` says, as a new array."""
    shuffled: NDArray[np.uint8] = copy_neighbours(image.reshape(-1), image.shape[:2], offsets, delta)
    return shuffled.reshape(image.shape)
