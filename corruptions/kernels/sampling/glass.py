"""The pixel shuffle of glass blur."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import pack, unpack


@inlined
def fill_source_indices(offsets, index, width, sources):
    """Write the index that each pixel of a row is copied from to ``sources`` (W,).

    ``index`` is the last pixel of the row, which is visited first. ``offsets`` (W, 2) are pairs (dx, dy).
    """
    flat = offsets.reshape(-1)
    for j in range(sources.size):
        sources[j] = index - np.int32(j) + np.int32(flat[2 * j + 1]) * width + np.int32(flat[2 * j])


@kernel
def copy_neighbours(flat, shape, offsets, delta):
    """Return the pixels after each inner pixel has been replaced by the one at its offset, one by one, from the last.

    Pixels are copied, not swapped.

    Args:
        flat: uint8 (H * W * 3,).
        shape: (H, W).
        offsets: (iterations, H - 2 delta, W - 2 delta, 2) pairs (dx, dy), in the order of the visits.
        delta: Largest offset in pixels.
    """
    height, width = shape
    packed = pack(flat)
    sources = np.empty(offsets.shape[2], np.int32)
    for iteration in range(offsets.shape[0]):
        for i in range(offsets.shape[1]):
            index = (height - delta - i) * width + width - delta
            fill_source_indices(offsets[iteration, i], np.int32(index), np.int32(width), sources)
            for j in range(sources.size):
                # numba does not check unsigned indices for negative values
                packed[np.uint64(index - j)] = packed[np.uint64(sources[j])]
    out = np.empty_like(flat)
    unpack(packed, out)
    return out


def shuffle(image: NDArray[np.uint8], offsets: NDArray[np.integer], delta: int) -> NDArray[np.uint8]:
    """Return a new uint8 array (H, W, 3) after :func:`copy_neighbours`."""
    return copy_neighbours(image.reshape(-1), image.shape[:2], offsets, delta).reshape(image.shape)
