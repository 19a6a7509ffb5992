"""The pixel shuffle of glass blur."""

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import pack, unpack

BYTE = 8
"""Bits of an offset along one axis."""


@inlined
def fill_source_indices(offsets, index, width, sources):
    """Write the index that each pixel of a row is copied from to ``sources`` (W,).

    ``index`` is the last pixel of the row, which is visited first. ``offsets`` are numbers dx + 256 * dy, int16 (W,).
    """
    for j in range(sources.size):
        dx, dy = np.int32(np.int8(offsets[j])), np.int32(offsets[j] >> BYTE)
        sources[j] = index - np.int32(j) + dy * width + dx


@kernel
def copy_neighbours(flat, shape, offsets, delta):
    """Return the pixels after each inner pixel has been replaced by the one at its offset, one by one, from the last.

    Pixels are copied, not swapped.

    Args:
        flat: uint8 (H * W * 3,).
        shape: (H, W).
        offsets: dx + 256 * dy, int16 (iterations, H - 2 delta, W - 2 delta), in the order of the visits.
        delta: Largest offset in pixels, at most 127.
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
    """Return a new uint8 array (H, W, 3) after :func:`copy_neighbours`.

    The last axis of ``offsets`` is (dx, dy), both -128..127: they are packed as int8, without a check.
    """
    pairs = offsets.astype(np.int8, copy=False).view(np.int16)[..., 0]
    return copy_neighbours(image.reshape(-1), image.shape[:2], pairs, delta).reshape(image.shape)
