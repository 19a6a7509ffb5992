"""Antialiased grey lines (Zingl's error-term algorithm, as in ``skimage.draw.line_aa``)."""

import math

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.trigonometry import cosine_64, sine_64

GREY = 128.0
"""Level of a line."""


@inlined
def mark(image, row, column, coverage):
    """Blend one pixel with grey and truncate it, if it is inside of the image."""
    if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
        for c in range(3):
            image[row, column, c] = np.uint8((1.0 - coverage) * image[row, column, c] + coverage * GREY)


@kernel
def draw_line(image, row, column, last_row, last_column):
    """Draw a line of one pixel's width from one pixel to another, both of which may be outside of the image."""
    down, right = 1 if row < last_row else -1, 1 if column < last_column else -1
    height, width = abs(row - last_row), abs(column - last_column)
    error = width - height
    length = np.sqrt(float(height * height + width * width)) if height + width else 1.0
    while True:
        mark(image, row, column, 1.0 - abs(error - width + height) / length)
        before, column_before = error, column
        if 2 * before >= -width:
            if column == last_column:
                return
            if before + height < length:
                mark(image, row + down, column, 1.0 - abs(before + height) / length)
            error -= height
            column += right
        if 2 * before <= height:
            if row == last_row:
                return
            if width - before < length:
                mark(image, row, column_before + right, 1.0 - abs(width - before) / length)
            error += width
            row += down


@kernel
def draw_lines(image, draws, angle, variation, reach):
    """Return the image with grey lines.

    Args:
        image: uint8 (H, W, 3).
        draws: Row and column of the middle of each line, as fractions of H and W, and deviation of its angle, (n, 3),
            0..1.
        angle: Mean angle of the lines from the downward direction, in radians.
        variation: Range of angles, as a fraction of a full turn.
        reach: Half the length of a line in pixels.
    """
    out = image.copy()
    height, width, _ = image.shape
    for i in range(draws.shape[0]):
        row, column = height * float(draws[i, 0]), width * float(draws[i, 1])
        own = angle + 2.0 * math.pi * variation * (float(draws[i, 2]) - 0.5)
        down, right = reach * cosine_64(own), reach * sine_64(own)
        draw_line(out, int(row - down), int(column - right), int(row + down), int(column + right))
    return out
