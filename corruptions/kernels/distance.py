"""Distance to the nearest edge in whole ten-thousandths of a pixel: no rounding, so the same on every CPU.

OpenCV's distanceTransform takes other paths, with other rounding, where Intel's IPP is built in.
"""

from __future__ import annotations

import numpy as np

from corruptions.kernels import inlined, kernel

STRAIGHT, DIAGONAL, KNIGHT = 10000, 14000, 21969
"""Steps of OpenCV's 5 x 5 mask for Euclidean distance, 1, 1.4 and 2.1969 pixels, in units of UNIT per pixel."""

UNIT = 10000
MARGIN = 2
FAR = 2**30
"""Where no edge is near: more than any image is wide, and no overflow when a step is added."""


@inlined
def relax_row(here, near, far, best):
    """best (W,) = here, or nearer by way of the row beside (near) and the one after (far); rows with margins."""
    for x in range(best.size):
        straight = near[x + 2] + STRAIGHT
        diagonal = min(near[x + 1], near[x + 3]) + DIAGONAL
        knight = min(near[x], near[x + 4], far[x + 1], far[x + 3]) + KNIGHT
        best[x] = min(here[x + 2], straight, diagonal, knight)


@kernel
def edge_distances(edges):
    """(H, W) int32 distances in 1 / UNIT pixels to the nearest nonzero value of ``edges`` (H, W) uint8; FAR if none."""
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
    return field[MARGIN:-MARGIN, MARGIN:-MARGIN].copy()  # rows that lie in one piece vectorise


@kernel
def mean_distances(distances, limit):
    """(H, W) uint8: distances in pixels, cut at ``limit``, averaged 3 x 3 with mirrored edges, truncated.

    The sums are whole and below 2^22, so half a unit more keeps the rounding of the product from reaching a level.
    """
    height, width = distances.shape
    out = np.empty((height, width), np.uint8)
    column = np.empty(width + 2, np.int32)
    top, share = np.int32(limit * UNIT), np.float32(1.0 / (9 * UNIT))
    left, middle, right = column[:width], column[1 : width + 1], column[2:]
    for y in range(height):
        above, here, below = distances[abs(y - 1)], distances[y], distances[y + 1 if y + 1 < height else height - 2]
        target = out[y]
        for x in range(width):
            middle[x] = min(above[x], top) + min(here[x], top) + min(below[x], top)
        column[0], column[width + 1] = column[2], column[width - 1]
        for x in range(width):
            total = np.float32(left[x] + middle[x] + right[x]) + np.float32(0.5)
            target[x] = np.uint8(np.int32(total * share))
    return out
