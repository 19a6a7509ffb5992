"""Bilinear sampling at positions in whole 1/32 pixels, in integers, as by OpenCV 4's warps.

Positions are int32 arrays (h, w), one of columns (xs) and one of rows (ys), for each pixel of the result. OpenCV 5
samples with exact fractions instead, so its functions cannot be used here.
"""

import numpy as np

from corruptions.kernels import copy, inlined, kernel, scratch
from corruptions.kernels.planes import CHANNELS, PIXEL
from corruptions.kernels.vectors import load_eighth, split_pixels, store, to_bytes, to_words

BITS = np.int32(5)
"""Fraction bits of a position."""
UNIT = 1 << 5
"""Positions per pixel."""

MIRROR, EDGE, BLACK = 0, 1, 2
"""Rules for positions outside of the image: mirrored at the edge pixels, the nearest pixel, or level 0."""

MATRIX_UNIT = 1024.0
"""OpenCV rounds the positions of an affine map to this part of a pixel first."""
MATRIX_BITS, MATRIX_HALF = np.int32(5), np.int32(16)
"""Shift from these parts to positions, and half a position."""

TO_NEAREST = 1.5 * 2.0**52
"""A float64 below 2^51 plus this, and minus it again, is rounded to the nearest integer, halves to even."""
FAR = 2.0**24
"""Positions farther from the origin are replaced by this distance. They are outside of every image."""

ROUNDING, SUM_BITS = np.int32(512), np.int32(10)
"""Half a level in the units of a weighted sum, and the fraction bits of that sum."""

PADDING = 2
"""Largest number of additional values in a vector of one or two pixels."""


@inlined
def nearest(value):
    """Return a float64 rounded half to even, int32."""
    return np.int32((value + TO_NEAREST) - TO_NEAREST)


@inlined
def nearest_within(value):
    """Return what :func:`nearest` returns for values within FAR, the nearer end for others, and -FAR for NaN."""
    above = value if value > -FAR else -FAR
    return nearest(above if above < FAR else FAR)


@kernel
def affine_positions(inverse, height, width):
    """Return the positions of an affine map. ``inverse`` (2, 3), float64, takes (column, row, 1) to (x, y)."""
    xs, ys = np.empty((height, width), np.int32), np.empty((height, width), np.int32)
    right_x, right_y = scratch(width, np.int32), scratch(width, np.int32)
    for x in range(width):
        right_x[x], right_y[x] = nearest(inverse[0, 0] * x * MATRIX_UNIT), nearest(inverse[1, 0] * x * MATRIX_UNIT)
    for y in range(height):
        start_x = nearest((inverse[0, 1] * y + inverse[0, 2]) * MATRIX_UNIT) + MATRIX_HALF
        start_y = nearest((inverse[1, 1] * y + inverse[1, 2]) * MATRIX_UNIT) + MATRIX_HALF
        row_x, row_y = xs[y], ys[y]
        for x in range(width):
            row_x[x] = np.int32(start_x + right_x[x]) >> MATRIX_BITS
            row_y[x] = np.int32(start_y + right_y[x]) >> MATRIX_BITS
    return xs, ys


@kernel
def perspective_positions(inverse, height, width):
    """Return the positions of a perspective map. ``inverse`` (3, 3), float64, takes (column, row, 1) to (x, y, w)."""
    xs, ys = np.empty((height, width), np.int32), np.empty((height, width), np.int32)
    for y in range(height):
        start_x = inverse[0, 1] * y + inverse[0, 2]
        start_y = inverse[1, 1] * y + inverse[1, 2]
        start_w = inverse[2, 1] * y + inverse[2, 2]
        row_x, row_y = xs[y], ys[y]
        for x in range(width):
            at = np.float64(np.int32(x))
            divisor = inverse[2, 0] * at + start_w
            scale = UNIT / divisor if divisor != 0.0 else 0.0
            row_x[x] = nearest_within((inverse[0, 0] * at + start_x) * scale)
            row_y[x] = nearest_within((inverse[1, 0] * at + start_y) * scale)
    return xs, ys


@kernel
def radial_positions(height, width, k, dx, dy):
    """Return the positions of a radial distortion with coefficient ``k`` (both of r^2 and of r^4) and a shift.

    Quirk: distances are measured from the middle between the first and the last pixel, but added to half the side,
    which is half a pixel more (as in albumentations).
    """
    xs, ys = np.empty((height, width), np.int32), np.empty((height, width), np.int32)
    middle_x, middle_y = 0.5 * (width - 1), 0.5 * (height - 1)
    start_x, start_y = 0.5 * width + dx, 0.5 * height + dy
    across = scratch(width, np.float64)
    for x in range(width):
        across[x] = (x - middle_x) / width
    for y in range(height):
        v = (y - middle_y) / height
        row_x, row_y = xs[y], ys[y]
        for x in range(width):
            u = across[x]
            square = u * u + v * v
            factor = 1.0 + (k + k * square) * square
            row_x[x] = nearest(np.float64(np.float32(width * u * factor + start_x)) * UNIT)
            row_y[x] = nearest(np.float64(np.float32(height * v * factor + start_y)) * UNIT)
    return xs, ys


@kernel
def displaced_positions(right, down):
    """Return the positions of pixels moved by two fields, float32 (h, w), in pixels."""
    xs, ys = np.empty(right.shape, np.int32), np.empty(right.shape, np.int32)
    for y in range(right.shape[0]):
        right_row, down_row, row_x, row_y = right[y], down[y], xs[y], ys[y]
        start = np.float32(y)
        for x in range(right.shape[1]):
            row_x[x] = nearest(np.float64(np.float32(np.int32(x)) + right_row[x]) * UNIT)
            row_y[x] = nearest(np.float64(start + down_row[x]) * UNIT)
    return xs, ys


@kernel
def grid_positions(across, down):
    """Return the positions whose columns depend on the column alone, ``across`` (w,), and rows on the row, ``down``."""
    xs, ys = np.empty((down.size, across.size), np.int32), np.empty((down.size, across.size), np.int32)
    for y in range(down.size):
        copy(across, xs[y])
        ys[y] = down[y]
    return xs, ys


@inlined
def fold(at, last, period_inverse):
    """Return a position mirrored into 0..``last``, repeatedly and without branches.

    The quotient may be one too small or too large, which the absolute values undo. The limit is for positions of more
    than FAR, for which it may be wrong by more.
    """
    distance = abs(at)
    period = np.int32(np.int32(2) * last)
    distance = np.int32(distance - period * np.int32(np.float32(distance) * period_inverse))
    return min(abs(distance), abs(np.int32(period - distance)), last)


@kernel
def locate(xs, ys, height, width, border, indices):
    """Compute where each pixel of a row is sampled in an image (height, width) that has at least two rows and columns.

    ``xs`` and ``ys`` hold positions. They are replaced by the fractions, 0..32, beyond the upper left pixel. Its index
    is written to ``indices``. Sampling is symmetric, so positions can be mirrored instead of pixels.
    """
    last_x, last_y = np.int32(UNIT * (width - 1)), np.int32(UNIT * (height - 1))
    if border == MIRROR:
        inverse_x, inverse_y = np.float32(0.5 / last_x), np.float32(0.5 / last_y)
        for x in range(indices.size):
            xs[x], ys[x] = fold(xs[x], last_x, inverse_x), fold(ys[x], last_y, inverse_y)
    else:
        for x in range(indices.size):
            xs[x], ys[x] = min(max(xs[x], np.int32(0)), last_x), min(max(ys[x], np.int32(0)), last_y)
    most_x, most_y, pitch = np.int32(width - 2), np.int32(height - 2), np.int32(width)
    for x in range(indices.size):
        left, top = min(np.int32(xs[x] >> BITS), most_x), min(np.int32(ys[x] >> BITS), most_y)
        xs[x] -= left << BITS
        ys[x] -= top << BITS
        indices[x] = top * pitch + left


@kernel
def framed(image, frame):
    """Return the values of an image (H, W, 3) with a frame of black pixels of this width, and PADDING more values."""
    height, width = image.shape[:2]
    pitch = CHANNELS * (width + 2 * frame)
    out = np.zeros(pitch * (height + 2 * frame) + PADDING, np.uint8)
    for y in range(height):
        copy(image[y].reshape(-1), out[pitch * (y + frame) + CHANNELS * frame :][: CHANNELS * width])
    return out


@kernel
def sample(image, xs, ys, border):
    """Return uint8 (h, w, 3): the image (H, W, 3) at each position. ``border`` is MIRROR, EDGE or BLACK."""
    frame = 1 if border == BLACK else 0  # the nearest pixel is then black
    source, shift = framed(image, frame), np.int32(UNIT * frame)
    height, width = image.shape[0] + 2 * frame, image.shape[1] + 2 * frame
    count, pitch = xs.shape[1], PIXEL * np.uint64(width)
    out = np.empty(CHANNELS * xs.size + PADDING, np.uint8)
    indices, columns, rows = scratch(count, np.int32), scratch(count, np.int32), scratch(count, np.int32)
    for y in range(xs.shape[0]):
        row_x, row_y, target = xs[y], ys[y], out[CHANNELS * y * count :]
        for x in range(count):
            columns[x], rows[x] = row_x[x] + shift, row_y[x] + shift
        locate(columns, rows, height, width, border, indices)
        for x in range(np.uint64(count)):
            at = PIXEL * np.uint64(indices[x])
            upper, lower = to_words(load_eighth(source, at)), to_words(load_eighth(source, at + pitch))
            left, right = split_pixels((upper << BITS) + (lower - upper) * rows[x])
            total = (left << BITS) + (right - left) * columns[x]
            store(target, PIXEL * x, to_bytes((total + ROUNDING) >> SUM_BITS))
    return out[: CHANNELS * xs.size].reshape(xs.shape[0], count, CHANNELS)


@kernel
def pick(image, rows, columns):
    """Return uint8 (h, w, 3): the pixels of an image (H, W, 3) at the given rows (h,) and columns (w,), uint64.

    Equal rows in succession are copied.
    """
    pitch, width = 3 * image.shape[1], 3 * columns.size
    flat = image.reshape(-1)
    out = np.empty(width * rows.size, np.uint8)
    for y in range(rows.size):
        row = out[y * width : (y + 1) * width]
        if y > 0 and rows[y] == rows[y - 1]:
            copy(out[(y - 1) * width : y * width], row)
            continue
        line = flat[rows[y] * np.uint64(pitch) :]
        for x in range(columns.size):
            at = np.uint64(3) * columns[x]
            row[3 * x] = line[at]
            row[3 * x + 1] = line[at + np.uint64(1)]
            row[3 * x + 2] = line[at + np.uint64(2)]
    return out.reshape(rows.size, columns.size, 3)
