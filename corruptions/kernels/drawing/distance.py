"""Distance to the nearest edge in units of 1 / 10000 pixel. The integer arithmetic gives the same result on every CPU.

OpenCV's distanceTransform uses other paths with other rounding if it is built with Intel's IPP.
"""

from __future__ import annotations

import numpy as np

from corruptions.kernels import inlined, kernel

STRAIGHT, DIAGONAL, KNIGHT = 10000, 14000, 21969
"""Steps of OpenCV's 5 x 5 mask for Euclidean distance: 1, 1.4 and 2.1969 pixels, in 1 / UNIT pixels."""

UNIT = 10000
"""Units per pixel."""
MARGIN = 2
"""Rows and columns added on each side: the reach of one step."""
FAR = 2**30
"""Initial distance. It is larger than any image and does not overflow when a step is added."""


@inlined
def relax_row(current, near, far, best):
    """Write the smallest distance by way of the same row, the next row or the row after it to ``best`` (W,).

    ``current``, ``near`` and ``far`` are rows with margins.
    """
    for x in range(best.size):
        straight = near[x + 2] + STRAIGHT
        diagonal = min(near[x + 1], near[x + 3]) + DIAGONAL
        knight = min(near[x], near[x + 4], far[x + 1], far[x + 3]) + KNIGHT
        best[x] = min(current[x + 2], straight, diagonal, knight)


@kernel
def edge_distances(edges):
    """Return distances to the nearest nonzero value of ``edges`` (uint8), int32 (H, W) in 1 / UNIT pixels, or FAR."""
    height, width = edges.shape
    field = np.full((height + 2 * MARGIN, width + 2 * MARGIN), FAR, np.int32)
    for y in range(height):
        for x in range(width):
            if edges[y, x] != 0:
                field[y + MARGIN, x + MARGIN] = 0
    best = np.empty(width, np.int32)
    for y in range(MARGIN, height + MARGIN):
        row = field[y]
        relax_row(row, field[y - 1], field[y - 2], best)
        left = np.int32(FAR)
        for x in range(width):
            left = min(best[x], left + STRAIGHT)
            row[x + MARGIN] = left
    for y in range(height + MARGIN - 1, MARGIN - 1, -1):
        row = field[y]
        relax_row(row, field[y + 1], field[y + 2], best)
        right = np.int32(FAR)
        for x in range(width - 1, -1, -1):
            right = min(best[x], right + STRAIGHT)
            row[x + MARGIN] = right
    return field[MARGIN:-MARGIN, MARGIN:-MARGIN].copy()  # loops over contiguous rows vectorise


@kernel
def mean_distances(distances, limit):
    """Return the distances in pixels, capped at ``limit``, averaged over 3 x 3 pixels and truncated, uint8 (H, W).

    Edges are mirrored. The sums are integers below 2**22, so adding half a unit keeps the rounding of the product from
    reaching the next level.
    """
    height, width = distances.shape
    out = np.empty((height, width), np.uint8)
    column = np.empty(width + 2, np.int32)
    cap, scale = np.int32(limit * UNIT), np.float32(1.0 / (9 * UNIT))
    left, middle, right = column[:width], column[1 : width + 1], column[2:]
    for y in range(height):
        above, current, below = distances[abs(y - 1)], distances[y], distances[y + 1 if y + 1 < height else height - 2]
        target = out[y]
        for x in range(width):
            middle[x] = min(above[x], cap) + min(current[x], cap) + min(below[x], cap)
        column[0], column[width + 1] = column[2], column[width - 1]
        for x in range(width):
            total = np.float32(left[x] + middle[x] + right[x]) + np.float32(0.5)
            target[x] = np.uint8(np.int32(total * scale))
    return out
