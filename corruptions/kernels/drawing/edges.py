"""Edges of a layer as OpenCV's Canny finds them, in integers.

Sobel's masks measure how the levels change along both axes at a pixel. The strength of the change is the sum of both
amounts. A pixel is an edge if neither neighbour in the direction of the change, which is one of four, is stronger. Weak
edges count only if strong ones touch them, or other weak ones that count.
"""

import numpy as np

from corruptions.kernels import LINE, inlined, kernel
from corruptions.kernels.doubts import add_positions
from corruptions.kernels.vectors import fill, load, unequal

TANGENT = np.int32(2 * 13573)
"""Tangent of 22.5 degrees in 1 / 2**16, from OpenCV's in 1 / 2**15. That of 67.5 degrees is 2 more."""


@inlined
def measure_row(above, here, below, across, down, strength):
    """Write the changes along both axes at each pixel of a row (W,), int16, and their strength (W + 2,).

    Args:
        above: Levels of the row above, uint8 (W + 2,), with a margin of 1.
        here: Those of the row.
        below: Those of the row below.
        across: Changes along the row to write, -1020..1020.
        down: Changes along the columns to write.
        strength: Their strength to write, with a margin, at most 2040.
    """
    above_middle, below_middle, inner = above[1:], below[1:], strength[1:]
    above_right, right, below_right = above[2:], here[2:], below[2:]
    for x in range(across.size):
        fall, rise = np.int16(below_right[x]) - np.int16(above[x]), np.int16(above_right[x]) - np.int16(below[x])
        across[x] = np.int16(fall + rise + 2 * (np.int16(right[x]) - np.int16(here[x])))
        down[x] = np.int16(fall - rise + 2 * (np.int16(below_middle[x]) - np.int16(above_middle[x])))
        inner[x] = np.int16(np.int16(abs(across[x])) + np.int16(abs(down[x])))


@inlined
def mark_row(above, here, below, across, down, low, high, weak, strong):
    """Write 1 to ``strong`` for the edges of a row (W,) above ``high``, to ``weak`` for others above ``low``, else 0.

    The direction is that of the larger change if the other one is below its product with the tangent. This product is
    no whole number unless it is 0, so it is truncated. Of two neighbours of equal strength in a row or a column, the
    first one is the edge, and on a diagonal neither is.

    Args:
        above: Strengths of the row above, int16 (W + 2,), at most 2040, with a margin of 0.
        here: Those of the row.
        below: Those of the row below.
        across: Changes along the row, int16 (W,), -1020..1020.
        down: Changes along the columns.
        low: Strength that weak edges exceed, int16, at least 0.
        high: Strength that strong edges exceed, int16.
        weak: Marks to write, uint8 (W,).
        strong: Marks to write.
    """
    middle, middle_above, middle_below = here[1:], above[1:], below[1:]
    right, right_above, right_below = here[2:], above[2:], below[2:]
    for x in range(across.size):
        strength, along, downward = middle[x], np.int16(abs(across[x])), np.int16(abs(down[x]))
        share = np.int16((np.int32(along) * TANGENT) >> 16)
        is_row, is_column = downward <= share, downward > np.int16(share + 2 * along)
        rises = np.int16(across[x] ^ down[x]) < 0
        above_left, above_right, below_left, below_right = above[x], right_above[x], below[x], right_below[x]
        before, after = above_right if rises else above_left, np.int16((below_left if rises else below_right) + 1)
        upper, lower = middle_above[x], middle_below[x]
        before, after = upper if is_column else before, lower if is_column else after
        previous, following = here[x], right[x]
        before, after = previous if is_row else before, following if is_row else after
        is_edge = (strength > low) & (strength > before) & (strength >= after)
        strong[x] = np.uint8(is_edge & (strength > high))
        weak[x] = np.uint8(is_edge & (strength <= high))


@inlined
def connect(weak, strong, pitch, found):
    """Make weak edges strong that touch a strong one, directly or through others. Rows are ``pitch`` pixels apart."""
    count = 0
    for x in range(0, weak.size, LINE):
        count = add_positions(unequal(load(weak, x), fill(np.uint8(0))), x, found, count)
    steps = (-pitch - 1, -pitch, -pitch + 1, -1, 1, pitch - 1, pitch, pitch + 1)
    waiting = np.empty(count, np.int64)
    for k in range(count):
        start, size = found[k], 0
        for step in steps:
            if weak[start] and strong[start + step]:
                weak[start], strong[start], waiting[0], size = 0, 1, start, 1
        while size:
            size -= 1
            here = waiting[size]
            for step in steps:
                if weak[here + step]:
                    weak[here + step], strong[here + step] = 0, 1
                    waiting[size], size = here + step, size + 1


@kernel
def canny_edges(levels, low, high):
    """Return 1 for the edges of a layer and 0 for other pixels, uint8 (H + 2, W + 2), with a margin of 0.

    Args:
        levels: The layer, uint8 (H + 2, W + 2), with a margin that repeats its borders.
        low: Strength that edges exceed, int16, at least 0.
        high: Strength that edges exceed without being connected with others, int16.
    """
    height, width = levels.shape[0] - 2, levels.shape[1] - 2
    across, down = np.empty((2, width), np.int16), np.empty((2, width), np.int16)
    strengths = np.zeros((3, width + 2), np.int16)  # of three rows in turn
    size = -(-levels.size // LINE) * LINE
    weak, strong, found = np.zeros(size, np.uint8), np.zeros(size, np.uint8), np.empty(size, np.int64)
    for y in range(height + 1):
        older, old, new = strengths[(y + 1) % 3], strengths[(y + 2) % 3], strengths[y % 3]
        if y < height:
            measure_row(levels[y], levels[y + 1], levels[y + 2], across[y % 2], down[y % 2], new)
        else:
            new[:] = 0
        if y > 0:
            start, row = y * (width + 2) + 1, (y - 1) % 2
            mark_row(older, old, new, across[row], down[row], low, high, weak[start:], strong[start:])
    connect(weak, strong, width + 2, found)
    return strong[: levels.size].reshape(levels.shape)
