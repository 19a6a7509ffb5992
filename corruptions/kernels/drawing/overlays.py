"""Discs blended with an image: fog and sun flare.

Blends are computed in float32 and rounded to nearest. All kernels change the image, uint8 (H, W, 3), in place.
"""

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.drawing.rasters import disc_reaches
from corruptions.kernels.planes import CHANNELS, nearest_level

WHITE = np.float32(255)
NONE = np.int64(-1)
"""Reach of a disc in a row that it does not touch."""


@inlined
def span(row, first, last):
    """Return the pixels ``first`` to ``last - 1`` of a row (W * 3,) that exist."""
    return row[CHANNELS * max(first, 0) : CHANNELS * max(last, 0)]


@inlined
def reach_at(reaches, distance):
    """Return how far a disc reaches to both sides in a row at a distance from its centre."""
    return reaches[abs(distance)] if abs(distance) < reaches.size else NONE


@kernel
def veil(image, centres, radius, weight, rest):
    """Blend white discs with the image, one after the other.

    Args:
        image: uint8 (H, W, 3).
        centres: x and y of the centres, int64 (n, 2).
        radius: Radius of the discs in pixels.
        weight: Weight of white, float32.
        rest: Weight of the image, float32.
    """
    height = image.shape[0]
    rows = image.reshape(height, -1)
    reaches = disc_reaches(radius)
    added = WHITE * weight
    for k in range(centres.shape[0]):
        x, y = centres[k, 0], centres[k, 1]
        for row in range(max(y - radius, 0), min(y + radius + 1, height)):
            reach = reaches[abs(row - y)]
            part = span(rows[row], x - reach, x + reach + 1)
            for i in range(part.size):
                part[i] = nearest_level(added + np.float32(part[i]) * rest)


@kernel
def add_flecks(image, centres, radii, colours, weights, rests):
    """Draw discs on a copy of the image, and blend this copy with the image after each of them.

    Pixels are blended from the first disc that covers them on. Before that, both levels are equal.

    Args:
        image: uint8 (H, W, 3).
        centres: x and y of the centres, int64 (n, 2).
        radii: Radii in pixels, int64 (n,).
        colours: Colours, uint8 (n, 3).
        weights: Weight of the copy after each disc, float32 (n,).
        rests: Weight of the image after each disc, float32 (n,).
    """
    height, width, _ = image.shape
    rows = image.reshape(height, -1)
    copied = np.empty(rows.shape[1], np.uint8)
    reaches = [disc_reaches(radius) for radius in radii]
    for y in range(height):
        row, first, last = rows[y], width, 0
        for k in range(radii.size):
            x, reach = centres[k, 0], reach_at(reaches[k], y - centres[k, 1])
            disc = span(copied, x - reach, x + reach + 1)
            if disc.size > 0:
                if first >= last:
                    copied[:] = row
                for i in range(disc.size):
                    disc[i] = colours[k, i % CHANNELS]
                first, last = min(first, x - reach), max(last, x + reach + 1)
            under, over = span(row, first, last), span(copied, first, last)
            for i in range(under.size):
                under[i] = nearest_level(np.float32(over[i]) * weights[k] + np.float32(under[i]) * rests[k])


@inlined
def look_up(levels, table):
    """Replace levels by those of a table."""
    for i in range(levels.size):
        levels[i] = table[levels[i]]


@kernel
def add_glare(image, x, y, tables, reaches):
    """Replace the levels of concentric rings by those of a table each.

    Args:
        image: uint8 (H, W, 3).
        x: Column of the centre.
        y: Row of the centre.
        tables: New levels in each ring, innermost first, uint8 (rings, 256).
        reaches: How far the disc around each ring and inside of it reaches to both sides, or NONE, int64
            (radius + 1, rings), in row 0, 1, ... from the centre.
    """
    height, radius = image.shape[0], reaches.shape[0] - 1
    rows = image.reshape(height, -1)
    for row in range(max(y - radius, 0), min(y + radius + 1, height)):
        inner = NONE
        for ring in range(reaches.shape[1]):
            outer = reaches[abs(row - y), ring]
            if outer > inner:
                look_up(span(rows[row], x - outer, x - inner), tables[ring])
                look_up(span(rows[row], x + max(inner, 0) + 1, x + outer + 1), tables[ring])
                inner = outer
