"""Nearest tiles by colour, and tiles pasted over an image."""

import numpy as np

from corruptions.kernels import copy, inlined, kernel

ROUNDING = 1e-12
"""More than the bounds of boxes are rounded by."""


@kernel
def tile_colours(tiles, values):
    """Return the mean of ``values`` (256,) over the pixels of each tile, float64 (N, 3), of uint8 (N, P, 3)."""
    count, pixels, _ = tiles.shape
    flat, out = tiles.reshape(count, 3 * pixels), np.empty((count, 3))
    for i in range(count):
        red, green, blue = 0.0, 0.0, 0.0
        for k in range(pixels):
            red += values[flat[i, 3 * k]]
            green += values[flat[i, 3 * k + 1]]
            blue += values[flat[i, 3 * k + 2]]
        out[i] = red / pixels, green / pixels, blue / pixels
    return out


@kernel
def sort_colours(colours, side):
    """Sort colours 0..1 into ``side`` x ``side`` x ``side`` boxes of equal size.

    Returns:
        Indices of the colours, box by box and in increasing order within a box, int64 (N,); the colours in this order;
        and the position of the first of each box, int64 (boxes + 1,).
    """
    boxes = np.empty(len(colours), np.int64)
    starts = np.zeros(side * side * side + 1, np.int64)
    for i in range(len(colours)):
        box = 0
        for channel in range(3):
            box = box * side + min(int(colours[i, channel] * side), side - 1)
        boxes[i] = box
        starts[box + 1] += 1
    for box in range(1, starts.size):
        starts[box] += starts[box - 1]
    order, free = np.empty(len(colours), np.int64), starts.copy()
    for i in range(len(colours)):
        order[free[boxes[i]]] = i
        free[boxes[i]] += 1
    return order, colours[order], starts


@inlined
def beyond(value, box, side):
    """Return the square of the least distance of a value to those in a box, less the rounding of its bounds."""
    gap = max(box / side - value, value - (box + 1) / side) - ROUNDING
    return gap * gap if gap > 0 else 0.0


@kernel
def nearest_colours(cells, values, order, colours, starts, side):
    """Return the index of the colour nearest to each cell, int64 (N,). The lowest index wins a tie.

    Args:
        cells: uint8 (N, 3).
        values: Value of each level, float64 (256,).
        order: Result of ``sort_colours``, as the next two.
        colours: The sorted colours.
        starts: Positions of the boxes.
        side: Boxes along each channel.
    """
    out = np.empty(len(cells), np.int64)
    for i in range(len(cells)):
        red, green, blue = values[cells[i, 0]], values[cells[i, 1]], values[cells[i, 2]]
        r, g, b = int(red * side), int(green * side), int(blue * side)
        r, g, b = min(r, side - 1), min(g, side - 1), min(b, side - 1)
        best, found = np.inf, np.int64(-1)
        for ring in range(side):
            reach = (ring - 1) / side  # colours in this ring of boxes are at least so far away
            if reach > 0 and reach * reach > best:
                break
            for x in range(max(r - ring, 0), min(r + ring, side - 1) + 1):
                across = beyond(red, x, side)
                if across > best:
                    continue
                for y in range(max(g - ring, 0), min(g + ring, side - 1) + 1):
                    plane = across + beyond(green, y, side)
                    if plane > best:
                        continue
                    inside = abs(x - r) < ring and abs(y - g) < ring
                    first, step = max(b - ring, 0), 1
                    if inside:  # only the two boxes at the ends belong to the ring
                        first, step = (b - ring, 2 * ring) if b - ring >= 0 else (b + ring, 2 * ring)
                    for z in range(first, min(b + ring, side - 1) + 1, step):
                        box = (x * side + y) * side + z
                        if starts[box] == starts[box + 1] or plane + beyond(blue, z, side) > best:
                            continue
                        for k in range(starts[box], starts[box + 1]):
                            dr, dg, db = colours[k, 0] - red, colours[k, 1] - green, colours[k, 2] - blue
                            distance = dr * dr + dg * dg + db * db
                            if distance < best or (distance == best and order[k] < found):
                                best, found = distance, order[k]
        out[i] = found
    return out


@kernel
def paste(pixels, tiles, rows, columns):
    """Paste tiles over an image, in order.

    Args:
        pixels: uint8 (H, W * 3), modified.
        tiles: uint8 (N, side, side * 3).
        rows: First row of each tile in the image, (N,).
        columns: First column, (N,).
    """
    count, side, width = tiles.shape
    for i in range(count):
        left = 3 * columns[i]
        for row in range(side):
            copy(tiles[i, row], pixels[rows[i] + row, left : left + width])
