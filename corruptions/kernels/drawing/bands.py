"""Slanted lines in the colours of the cells that they cross."""

import numpy as np

from corruptions.kernels import kernel

SLANT = -40
"""Columns by which a line moves within a black cell. It does not move in a white one."""

RED, GREEN, BLUE, BITS = 19595, 38470, 7471, 16
"""Weights of grey in fixed point, and their bits."""


@kernel
def draw_line(pixels, x0, y0, x1, y1, red, green, blue):
    """Draw a line of one pixel with both ends by Bresenham's algorithm; pixels outside of the image are skipped."""
    height, width = pixels.shape[0], pixels.shape[1] // 3
    across, down = abs(x1 - x0), abs(y1 - y0)
    right, below = (1 if x1 >= x0 else -1), (1 if y1 >= y0 else -1)
    steep = across <= down
    longer, shorter = (down, across) if steep else (across, down)
    error, x, y = 2 * shorter - longer, x0, y0
    for _ in range(longer + 1):
        if 0 <= x < width and 0 <= y < height:
            pixels[y, 3 * x], pixels[y, 3 * x + 1], pixels[y, 3 * x + 2] = red, green, blue
        if error >= 0:
            if steep:
                x += right
            else:
                y += below
            error -= 2 * longer
        if steep:
            y += below
        else:
            x += right
        error += 2 * shorter


@kernel
def draw_bands(pixels, lines, step):
    """Return the lines that stand for an image on black, uint8 (H, W * 3).

    Args:
        pixels: uint8 (H, W * 3).
        lines: Number of lines.
        step: Rows from one point of a line to the next.
    """
    height, width = pixels.shape[0], pixels.shape[1] // 3
    out = np.zeros_like(pixels)
    for i in range(lines):
        start = (i / lines) * width  # in this order, whose rounding decides some columns
        first = int(start)
        last = max(min(int(start + width / lines), width), first + 1)
        end, above = start, 0
        for y in range(0, height, step):
            bottom = min(y + step, height)
            red, green, blue, grey = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            for row in range(y, bottom):
                for x in range(first, last):
                    r, g = np.int64(pixels[row, 3 * x]), np.int64(pixels[row, 3 * x + 1])
                    b = np.int64(pixels[row, 3 * x + 2])
                    red, green, blue = red + r, green + g, blue + b
                    grey += (RED * r + GREEN * g + BLUE * b + (1 << (BITS - 1))) >> BITS
            count = (bottom - y) * (last - first)
            moved = start + (1 - (grey // count) / 255) * SLANT
            draw_line(out, int(end), above, int(moved), y, red // count, green // count, blue // count)
            end, above = moved, y
    return out
