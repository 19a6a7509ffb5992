"""Bilinear samples at displaced positions, black outside of the image, in the order of the published arithmetic."""

import math

import numpy as np

from corruptions.kernels import kernel
from corruptions.kernels.powers import power_64
from corruptions.kernels.sampling.float_sampling import framed_pixels, row_buffers, sample_row, store_row
from corruptions.kernels.trigonometry import cosine_64, sine_64

LEAST_DISTANCE = 0.0005
"""Distance from the centre of a twirl, in pixels, below which pixels stay. The published code rounds to 3 decimals."""


@kernel
def ripple(image, amplitude, wavelengths, phases):
    """Return the image with its rows and its columns displaced by one sine wave each.

    Args:
        image: uint8 (H, W, 3).
        amplitude: Largest displacement in pixels.
        wavelengths: Wavelength of the displacement of rows and of columns, in pixels.
        phases: Phase of both at the first row and column, in radians.
    """
    height, width, _ = image.shape
    source, out, buffers = framed_pixels(image), np.empty_like(image), row_buffers(width)
    rows, columns = np.empty(width), np.empty(width)
    for x in range(width):
        columns[x] = x + amplitude * sine_64(2.0 * math.pi * x / wavelengths[1] + phases[1])
    for y in range(height):
        rows[:] = y + amplitude * sine_64(2.0 * math.pi * y / wavelengths[0] + phases[0])
        store_row(sample_row(source, (height, width), rows, columns, buffers), out[y].reshape(-1))
    return out


@kernel
def twirl_offsets(side, angle, amount):
    """Return where the pixels of a cell are sampled, relative to its centre, float64 (2, side, side, 2).

    Args:
        side: Side of the cell in pixels.
        angle: Angle at the centre in radians. The second half of the result has the opposite angle.
        amount: Strength of the pinch: exponent of the inverse of a sine.
    """
    out = np.empty((2, side, side, 2))
    radius = side / 2
    for y in range(side):
        for x in range(side):
            down, right = y - radius, x - radius
            distance = np.sqrt(down * down + right * right)
            out[:, y, x, 0], out[:, y, x, 1] = down, right
            if LEAST_DISTANCE < distance <= radius:
                part = distance / radius
                factor = power_64(sine_64(math.pi * part / 2.0), -amount)
                turn = angle * (1.0 - part) * (1.0 - part)
                for sign in range(2):
                    cosine, sine = cosine_64(turn), sine_64(turn if sign == 0 else -turn)
                    out[sign, y, x, 0] = factor * down * cosine - factor * right * sine
                    out[sign, y, x, 1] = factor * down * sine + factor * right * cosine
    return out


@kernel
def twirl_cells(image, offsets, signs):
    """Return the image with each cell twirled. Pixels beyond the last whole cell stay.

    Levels are rounded to float32 before they are truncated, as published.

    Args:
        image: uint8 (H, W, 3).
        offsets: What :func:`twirl_offsets` returns.
        signs: Index into the first axis of ``offsets`` of each cell, (columns of cells, rows of cells).
    """
    height, width, _ = image.shape
    side = offsets.shape[1]
    radius = side / 2
    rows, columns = np.empty((height, width)), np.empty((height, width))
    for y in range(height):
        for x in range(width):
            rows[y, x], columns[y, x] = y, x
    for i in range(signs.shape[0]):
        for j in range(signs.shape[1]):
            cell, top, left = offsets[signs[i, j]], j * side, i * side
            for y in range(side):
                for x in range(side):
                    rows[top + y, left + x] = top + radius + cell[y, x, 0]
                    columns[top + y, left + x] = left + radius + cell[y, x, 1]
    source, out, buffers = framed_pixels(image), np.empty_like(image), row_buffers(width)
    for y in range(height):
        levels = sample_row(source, (height, width), rows[y], columns[y], buffers)
        store_row(levels.astype(np.float32), out[y].reshape(-1))
    return out
