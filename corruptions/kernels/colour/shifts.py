"""Brightness shifted block by block."""

from __future__ import annotations

import numpy as np

from corruptions.kernels import kernel, scratch


@kernel
def shift_blocks(pixels, values, shifts, side):
    """Return the image with a shift added in each block, clipped, uint8 (H, W * 3).

    Args:
        pixels: uint8 (H, W * 3).
        values: Value 0..1 of each level, float32 (256,).
        shifts: float32 (rows, columns) of blocks, for values 0..1.
        side: Side of a block in pixels.
    """
    height, width = pixels.shape
    out, line = np.empty_like(pixels), scratch(width, np.float32)
    for y in range(height):
        if y % side == 0:
            for i in range(width):
                line[i] = shifts[y // side, i // (3 * side)]
        source, target = pixels[y], out[y]
        for i in range(width):
            shifted = min(max(values[source[i]] + line[i], np.float32(0)), np.float32(1))
            target[i] = np.uint8(np.int32(shifted * np.float32(255)))
    return out
