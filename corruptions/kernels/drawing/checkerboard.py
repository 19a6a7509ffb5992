"""A rotated checkerboard of which some cells hide the image."""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.drawing.blend import repeat_channels

GREY = np.uint8(128)
"""Level of hidden pixels."""
NONE, HIDDEN = np.uint8(0), np.uint8(1)


@inlined
def wrapped(place, size):
    """Return the index of a cell, int32, 0..size - 1. Quirk: the two cells at 0 share one, because it is truncated."""
    index = np.int32(place)
    return np.int32(index - size * np.int32(np.floor(np.float64(index) / np.float64(size))))


@kernel
def hide_cells(pixels, hidden, cosine, sine, side):
    """Return the image with hidden cells of a checkerboard grey, uint8 (H, W * 3).

    Args:
        pixels: uint8 (H, W * 3).
        hidden: uint8 (k, k), 1 for cells that hide the image if they are of the first colour. It repeats in both
            directions.
        cosine: Cosine of the angle of the board.
        sine: Its sine.
        side: Side of a cell in pixels.
    """
    height, width = pixels.shape[0], pixels.shape[1] // 3
    out = np.empty_like(pixels)
    cells, size = hidden.reshape(-1), np.int32(hidden.shape[0])
    places, coloured = scratch(width, np.uint32), scratch(width, np.uint8)
    spread = scratch(3 * width, np.uint8)
    for y in range(height):
        for x in range(width):
            down, right = (cosine * y + sine * x) / side, (cosine * x - sine * y) / side
            places[x] = np.uint32(np.int32(np.int32(wrapped(down, size) * size) + wrapped(right, size)))
            odd = np.int32(np.int32(np.floor(down)) ^ np.int32(np.floor(right))) & np.int32(1)
            coloured[x] = HIDDEN if odd == 0 else NONE
        for x in range(width):  # a separate loop, because look-ups do not vectorise
            coloured[x] &= cells[places[x]]
        repeat_channels(coloured, spread)
        source, target = pixels[y], out[y]
        for i in range(3 * width):
            level = source[i]  # loaded in any case, so that the choice vectorises
            target[i] = GREY if spread[i] != NONE else level
    return out
