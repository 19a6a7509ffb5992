"""The neighbour copy of glass blur."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import kernel


@kernel
def copy_neighbours(packed, offsets, delta):
    """Let every inner pixel of ``packed`` (H, W) uint32 take the pixel at its drawn offset, in place, from the last on.

    ``offsets`` is (iterations, H - 2 delta, W - 2 delta, 2), (dx, dy) in the order of the visits. A copy, not a swap.
    """
    height, width = packed.shape
    for iteration in range(offsets.shape[0]):
        for i in range(offsets.shape[1]):
            h = height - delta - i
            for j in range(offsets.shape[2]):
                w = width - delta - j
                dx, dy = offsets[iteration, i, j]
                packed[h, w] = packed[h + dy, w + dx]


@kernel
def pack(image):
    """(H, W, 3) uint8 as (H, W) uint32: one load and one store move a pixel."""
    height, width, _ = image.shape
    out = np.empty((height, width), np.uint32)
    for y in range(height):
        for x in range(width):
            r, g, b = image[y, x]
            out[y, x] = np.uint32(r) | np.uint32(g) << 8 | np.uint32(b) << 16
    return out


@kernel
def unpack(packed):
    """(H, W) uint32 from :func:`pack` as (H, W, 3) uint8."""
    height, width = packed.shape
    out = np.empty((height, width, 3), np.uint8)
    for y in range(height):
        for x in range(width):
            pixel = packed[y, x]
            out[y, x, 0] = pixel & 255
            out[y, x, 1] = pixel >> 8 & 255
            out[y, x, 2] = pixel >> 16 & 255
    return out


def shuffle(image: NDArray[np.uint8], offsets: NDArray[np.integer], delta: int) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 with its pixels copied about as :func:`copy_neighbours` says, as a new array."""
    packed = pack(image)
    copy_neighbours(packed, offsets, delta)
    shuffled: NDArray[np.uint8] = unpack(packed)
    return shuffled
