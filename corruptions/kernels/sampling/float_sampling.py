"""Bilinear sampling at float64 positions, where everything outside of the image is black."""

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.colour.levels import clip
from corruptions.kernels.planes import PIXEL
from corruptions.kernels.sampling.fixed_sampling import PADDING, framed
from corruptions.kernels.vectors import load_eighth, split_pixels, store, to_doubles, to_words


@kernel
def framed_pixels(image):
    """Return the values of an image (H, W, 3) with a frame of black pixels, for :func:`sample_row`."""
    return framed(image, 1)


@inlined
def row_buffers(width):
    """Return the arrays that :func:`sample_row` overwrites: indices, four weights, and levels."""
    return np.empty(width, np.int32), np.empty((4, width)), np.empty(3 * width + PADDING)


@inlined
def split(position, size):
    """Return the index of the pixel before a position, from -1 on, and the weights of this pixel and the next.

    A position farther outside of 0..size - 1 than a pixel is replaced by that of a pixel outside. The weights are
    computed in the published order, so that sums of equal levels have the published rounding.
    """
    above = position if position > -1.0 else -1.0
    place = above if above < size else np.float64(size)
    before = np.floor(place)
    before = before if before < size - 1.0 else size - 1.0
    return np.int32(before), (1.0 - place) + before, (1.0 - (before + 1.0)) + place


@inlined
def sample_row(source, size, rows, columns, buffers):
    """Return the levels of an image at one position per pixel of a row, float64 0..255, interleaved, and PADDING more.

    ``source`` is what :func:`framed_pixels` returns for an image of ``size``. ``rows`` and ``columns`` are the
    positions, float64 (W,), and ``buffers`` those of :func:`row_buffers`, the last of which is returned.
    """
    starts, weights, levels = buffers
    uppers, lowers, lefts, rights = weights[0], weights[1], weights[2], weights[3]
    pitch = size[1] + 2
    for x in range(rows.size):
        row, uppers[x], lowers[x] = split(rows[x], size[0])
        starts[x] = np.int32(row + np.int32(1)) * np.int32(pitch)
    for x in range(rows.size):
        column, lefts[x], rights[x] = split(columns[x], size[1])
        starts[x] = starts[x] + np.int32(column + np.int32(1))
    for x in range(np.uint64(rows.size)):
        at = PIXEL * np.uint64(starts[x])
        a, b = split_pixels(to_doubles(to_words(load_eighth(source, at))))
        c, d = split_pixels(to_doubles(to_words(load_eighth(source, at + PIXEL * np.uint64(pitch)))))
        upper, lower = a * lefts[x] + b * rights[x], c * lefts[x] + d * rights[x]
        store(levels, PIXEL * x, upper * uppers[x] + lower * lowers[x])
    return levels


@inlined
def store_row(levels, target):
    """Write levels, clipped to 0..255 and truncated, to ``target``, uint8 (W * 3,)."""
    for i in range(target.size):
        target[i] = np.uint8(np.int32(clip(levels[i])))
