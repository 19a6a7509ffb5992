"""The relief of water: the distance to the nearest edge in units of 1 / 10000 pixel, and its embossing.

The integer arithmetic gives the same result on every CPU. OpenCV's distanceTransform uses other paths with
other rounding if it is built with Intel's IPP.
"""

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.colour.levels import LEVELS

STRAIGHT, DIAGONAL, KNIGHT = np.int32(10000), np.int32(14000), np.int32(21969)
"""Steps of OpenCV's 5 x 5 mask for Euclidean distance: 1, 1.4 and 2.1969 pixels, in 1 / UNIT pixels."""

UNIT = 10000
"""Units per pixel."""
MARGIN = 2
"""Rows and columns added on each side: the reach of one step."""

BLACK, WHITE = np.int16(0), np.int16(255)
"""Lowest and highest level."""


@kernel
def row_distances(edges, limit):
    """Return the distances to the nearest nonzero value of the same row of ``edges`` in pixels, at most ``limit``.

    Edges have a margin of 1. The distances are uint8 (limit + H * (W + limit),): each row follows a gap of ``limit``
    values. Each pass takes the minimum over a larger range of columns, because a scan does not vectorise.
    """
    height, width = edges.shape[0] - 2, edges.shape[1] - 2
    pitch = width + limit
    near, nearer = np.full(limit + height * pitch, limit, np.uint8), np.full(limit + height * pitch, limit, np.uint8)
    for y in range(height):
        source, target = edges[y + 1][1:], near[limit + y * pitch :]
        for x in range(width):
            target[x] = np.uint8(0) if source[x] != 0 else np.uint8(limit)
    reach = 0
    while reach < limit:
        step = min(reach + 1, limit - reach)
        left, middle, right, target = near[limit - step :], near[limit:], near[limit + step :], nearer[limit:]
        for x in range(right.size):
            target[x] = min(middle[x], np.uint8(min(left[x], right[x]) + np.uint8(step)))
        near, nearer = nearer, near
        reach += step
    return near


@inlined
def approach(row, near, far):
    """Lower the distances of a row to those by way of the row beside it and the one beyond. Rows have margins."""
    target = row[MARGIN:-MARGIN]
    for x in range(target.size):
        diagonal = np.int32(min(near[x + 1], near[x + 3]) + DIAGONAL)
        knight = np.int32(min(near[x], near[x + 4], far[x + 1], far[x + 3]) + KNIGHT)
        target[x] = min(target[x], np.int32(near[x + 2] + STRAIGHT), diagonal, knight)


@kernel
def edge_distances(edges, limit):
    """Return distances to the nearest nonzero value of ``edges`` in 1 / UNIT pixels, int32 (H, W) with margins.

    A shortest path is a sum of two kinds of steps in any order, and only one of them can be along a row. So steps along
    rows come first, then those downwards, then those upwards.

    Args:
        edges: uint8 (H + 2, W + 2), with a margin of 0.
        limit: Largest distance returned, in pixels, at most 127.
    """
    height, width = edges.shape[0] - 2, edges.shape[1] - 2
    along, start = row_distances(edges, limit), limit
    field = np.empty((height + 2 * MARGIN, width + 2 * MARGIN), np.int32)
    for y in range(field.shape[0]):
        row = field[y]
        for x in range(row.size):
            row[x] = limit * UNIT
    for y in range(MARGIN, height + MARGIN):
        source, target = along[start : start + width], field[y][MARGIN:]
        for x in range(width):
            target[x] = np.int32(source[x]) * STRAIGHT
        approach(field[y], field[y - 1], field[y - 2])
        start += width + limit
    for y in range(height + MARGIN - 1, MARGIN - 1, -1):
        approach(field[y], field[y + 1], field[y + 2])
    return field


@kernel
def mean_distances(distances):
    """Return the result of :func:`edge_distances` in pixels, averaged over 3 x 3 pixels and truncated, uint8 (H, W).

    Edges are mirrored. The sums are integers below 2**22, so adding half a unit keeps the rounding of the product from
    reaching the next level.
    """
    height, width = distances.shape[0] - 2 * MARGIN, distances.shape[1] - 2 * MARGIN
    out = np.empty((height, width), np.uint8)
    column = np.empty(width + 2, np.int32)
    scale = np.float32(1.0 / (9 * UNIT))
    for y in range(height):
        rows = distances[MARGIN:-MARGIN]
        above, below = rows[abs(y - 1)][MARGIN:], rows[y + 1 if y + 1 < height else height - 2][MARGIN:]
        current, target, middle = rows[y][MARGIN:], out[y], column[1:]
        for x in range(width):
            middle[x] = above[x] + current[x] + below[x]
        column[0], column[width + 1] = column[2], column[width - 1]
        for x in range(width):
            total = np.int32(column[x] + column[x + 1] + column[x + 2])
            target[x] = np.uint8(np.int32((np.float32(total) + np.float32(0.5)) * scale))
    return out


@inlined
def equalizing_table(levels):
    """Return the new level of each level (P,) after equalisation of their histogram, uint8, as by OpenCV."""
    counts, first, below = np.zeros((4, LEVELS), np.int32), levels.min(), 0
    for i in range(levels.size):  # several counts in turn, because an addition waits for the one before it
        counts[i % 4, levels[i]] += 1
    totals, table = counts.sum(axis=0), np.zeros(LEVELS, np.uint8)
    if totals[first] == levels.size:
        table[first] = first
        return table
    scale = np.float32(255) / np.float32(levels.size - totals[first])
    for level in range(first + 1, LEVELS):
        below += totals[level]
        table[level] = np.uint8(np.int32(np.rint(np.float32(below) * scale)))
    return table


@kernel
def emboss_equalized(levels):
    """Return levels, uint8 (H, W), with an equalised histogram, embossed with [-2 -1 0; -1 1 1; 0 1 2] and clipped.

    Edges are mirrored.
    """
    height, width = levels.shape
    table, out = equalizing_table(levels.reshape(-1)), np.empty_like(levels)
    equal = np.empty((height, width + 2), np.int16)
    for y in range(height):
        source, row = levels[y], equal[y][1:]
        for x in range(width):
            row[x] = table[source[x]]
        equal[y, 0], equal[y, width + 1] = row[1], row[width - 2]
    for y in range(height):
        above, row, below = equal[abs(y - 1)], equal[y], equal[y + 1 if y + 1 < height else height - 2]
        target = out[y]
        for x in range(width):
            value = row[x + 1] + row[x + 2] + below[x + 1] + 2 * below[x + 2] - row[x] - above[x + 1] - 2 * above[x]
            target[x] = np.uint8(min(max(np.int16(value), BLACK), WHITE))
    return out
