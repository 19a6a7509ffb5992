"""New levels that depend on the level, and on its channel or place."""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch

LEVELS = 256
"""Number of levels."""
BYTE = np.uint16(8)
"""Bits of a level."""
PAIR = np.uint64(0xFFFF)
"""The lowest two levels of eight."""

BLACK, WHITE = np.float32(0), np.float32(255)
"""Lowest and highest level."""


@inlined
def clip(x):
    """Return a float32 held within 0..255. Selects vectorise; ``min`` and ``max`` of floats handle NaN."""
    above = x if x > BLACK else BLACK
    return above if above < WHITE else WHITE


@kernel
def scale_channels(pixels, gains, offsets):
    """Return ``level * gain + offset`` in float32, clipped to 0..255 and truncated, uint8 (H, W * 3).

    Args:
        pixels: uint8 (H, W * 3).
        gains: Factor of each channel, float32 (3,).
        offsets: Offset of each channel in levels, float32 (3,).
    """
    out = np.empty_like(pixels)
    width = pixels.shape[1]
    gain, offset = scratch(width, np.float32), scratch(width, np.float32)
    for i in range(width):
        gain[i], offset[i] = gains[i % 3], offsets[i % 3]
    for y in range(pixels.shape[0]):
        source, target = pixels[y], out[y]
        for i in range(width):
            target[i] = np.uint8(np.int32(clip(np.float32(source[i]) * gain[i] + offset[i])))
    return out


@kernel
def look_up(flat, table):
    """Return ``table[level]`` for each level, uint8 (P,).

    Levels are read eight at a time, and looked up two at a time in a table of all pairs, which is quickly built.

    Args:
        flat: uint8 (P,).
        table: uint8 (256,).
    """
    out = np.empty_like(flat)
    pairs = scratch(LEVELS * LEVELS, np.uint16)
    for second in range(LEVELS):
        row = pairs[LEVELS * second : LEVELS * (second + 1)]
        upper = np.uint16(np.uint16(table[second]) << BYTE)
        for first in range(LEVELS):
            row[first] = upper | np.uint16(table[first])
    whole = flat.size // 8 * 8
    source, target = flat[:whole].view(np.uint64), out[:whole].view(np.uint16)
    for i in range(source.size):
        levels = source[i]
        target[4 * i] = pairs[levels & PAIR]
        target[4 * i + 1] = pairs[levels >> np.uint64(16) & PAIR]
        target[4 * i + 2] = pairs[levels >> np.uint64(32) & PAIR]
        target[4 * i + 3] = pairs[levels >> np.uint64(48)]
    for i in range(whole, flat.size):
        out[i] = table[flat[i]]
    return out


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
