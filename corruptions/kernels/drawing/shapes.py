"""Opaque triangles, squares, stars and circles, filled as Pillow 11 to 13 fills them without outline."""

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.drawing.rasters import sort_short

TRIANGLE, SQUARE, STAR, CIRCLE = range(4)
"""Kinds of shapes, in the order in which they are drawn."""

TIPS = 10
"""Vertices of a star, of which every second one is half as far from the centre."""


@inlined
def round_away(value):
    """Return a float32 rounded to the nearest integer, halves away from zero."""
    whole = np.floor(np.abs(value) + np.float32(0.5))
    return whole if value >= 0 else -whole


@inlined
def round_to_zero(value):
    """Return a float32 rounded to the nearest integer, halves towards zero."""
    whole = np.ceil(np.abs(value) - np.float32(0.5))
    return whole if value >= 0 else -whole


@inlined
def paint(pixels, y, left, right, colour):
    """Colour the pixels of a row from ``left`` to ``right``, both included, that are inside the image (H, W * 3)."""
    if 0 <= y < pixels.shape[0]:
        row = pixels[y]
        for x in range(max(left, 0), min(right, row.size // 3 - 1) + 1):
            for channel in range(3):
                row[3 * x + channel] = colour[channel]


@inlined
def crossing(edges, slopes, i, y):
    """Return the column at which the line of an edge crosses a row, float32."""
    return np.float32(y - edges[i, 1]) * slopes[i] + np.float32(edges[i, 0])


@kernel
def fill_polygon(pixels, vertices, colour, edges, slopes, crossings):
    """Fill a polygon (V, 2) of whole columns and rows; the last three arrays are room for V edges and 2 V crossings.

    Pillow moves crossings at corners by up to a pixel; stars depend on it.
    """
    count, first, last = 0, pixels.shape[0] - 1, 0
    size = len(vertices)
    for i in range(size):
        x0, y0 = vertices[i]
        x1, y1 = vertices[(i + 1) % size]
        first, last = min(first, y0, y1), max(last, y0, y1)
        if y0 == y1:
            paint(pixels, y0, min(x0, x1), max(x0, x1), colour)
            continue
        edges[count] = x0, y0, min(y0, y1), max(y0, y1)
        slopes[count] = np.float32(x1 - x0) / np.float32(y1 - y0)
        count += 1
    last = min(last, pixels.shape[0])
    for y in range(max(first, 0), last + 1):
        found = 0
        for i in range(count):
            if not edges[i, 2] <= y <= edges[i, 3]:
                continue
            x = crossing(edges, slopes, i, y)
            ends = y == edges[i, 3]
            if ends and y < last:
                crossings[found] = x
                found += 1
            elif (ends or y == edges[i, 2]) and slopes[i] != 0:
                x = joined(edges, slopes, i, y, x)
            crossings[found] = x
            found += 1
        sort_short(crossings, found)
        for i in range(1, found, 2):
            left, right = round_away(crossings[i - 1]), round_to_zero(crossings[i])
            paint(pixels, y, np.int64(left), np.int64(right), colour)


@inlined
def joined(edges, slopes, i, y, x):
    """Return the crossing of edge ``i`` at one of its ends, moved towards an earlier edge with the same corner."""
    rounded = round_away(x)
    beside = y - 1 if y == edges[i, 3] else y + 1
    own = crossing(edges, slopes, i, beside)
    moved = x
    for k in range(i):
        if (y != edges[k, 2] and y != edges[k, 3]) or slopes[k] == 0:
            continue
        if rounded != round_away(crossing(edges, slopes, k, y)) or not edges[k, 2] <= beside <= edges[k, 3]:
            continue
        other = crossing(edges, slopes, k, beside)
        if x > own + np.float32(1) and x > other + np.float32(1):
            moved = round_away(max(own, other)) + np.float32(1)
        elif x < own - np.float32(1) and x < other - np.float32(1):
            moved = round_away(min(own, other)) - np.float32(1)
        break
    return moved


@kernel
def draw_shapes(pixels, shapes, colours, directions, discs):
    """Draw shapes over an image, in order.

    Args:
        pixels: uint8 (H, W * 3), modified.
        shapes: int64 (N, 5): kind, column, row, size and rotation in degrees.
        colours: uint8 (N, 3).
        directions: Sine and cosine of whole degrees, float64 (D, 2).
        discs: First pixel of each row of a circle, int64 (largest size + 1, largest size + 1), by size and row.
    """
    corners, triangle = np.empty((TIPS, 2), np.int64), np.empty((3, 2), np.int64)
    edges, slopes = np.empty((TIPS, 4), np.int64), np.empty(TIPS, np.float32)
    crossings = np.empty(2 * TIPS, np.float32)
    for i in range(len(shapes)):
        kind, x, y, size, rotation = shapes[i]
        colour = colours[i]
        if kind == TRIANGLE:
            triangle[0], triangle[1] = (x, y), (x + size, y)
            triangle[2] = x + size // 2, y + size
            fill_polygon(pixels, triangle, colour, edges, slopes, crossings)
        elif kind == STAR:
            for q in range(TIPS):
                sine, cosine = directions[36 * q + rotation]
                radius = size / 1.2 if q % 2 == 0 else size / 1.2 / 2
                corners[q] = np.int64(x + radius * sine), np.int64(y + radius * cosine)
            fill_polygon(pixels, corners, colour, edges, slopes, crossings)
        else:
            for row in range(size + 1):
                inset = discs[size, row] if kind == CIRCLE else 0
                paint(pixels, y + row, x + inset, x + size - inset, colour)
