"""Bilinear sampling at float64 positions, where everything outside of the image is black."""

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.colour.levels import clip
from corruptions.kernels.planes import gather, interleave, pack
from corruptions.kernels.sampling.fixed_sampling import framed

BYTE, GREEN, BLUE = np.uint32(0xFF), np.uint32(8), np.uint32(16)
"""Bits of a channel, and the shifts to the second and the third channel of a packed pixel."""


@kernel
def framed_pixels(image):
    """Return packed pixels, uint32 ((H + 2) * (W + 2),), of an image (H, W, 3) with a frame of black pixels."""
    return framed(pack(image.reshape(-1)), image.shape[0], image.shape[1])


@inlined
def row_buffers(width):
    """Return the arrays that :func:`sample_row` overwrites: indices, pixels above, pixels below, and planes (3, W)."""
    neighbours = np.empty((2, 2 * width), np.uint32)
    return np.empty(width, np.int32), neighbours[0], neighbours[1], np.empty((3, width), np.float64)


@inlined
def split(position, size):
    """Return the index (int32) of the pixel before a position, from -1 on, and the weights of this pixel and the next.

    A position farther outside of 0..size - 1 than a pixel is replaced by that of a pixel outside. The weights are
    computed in the published order, so that sums of equal levels have the published rounding.
    """
    above = position if position > -1.0 else -1.0
    place = above if above < size else np.float64(size)
    before = np.floor(place)
    before = before if before < size - 1.0 else size - 1.0
    return np.int32(before), (1.0 - place) + before, (1.0 - (before + 1.0)) + place


@inlined
def channel(pixel, shift):
    """Return a channel of a packed pixel as float64."""
    return np.float64(np.int32((pixel >> shift) & BYTE))


@inlined
def blend(taps, shift, weights):
    """Return a channel of the weighted sum of four packed pixels, first along the columns, then along the rows."""
    a, b, c, d = taps
    left, right, upper, lower = weights
    above = channel(a, shift) * left + channel(b, shift) * right
    below = channel(c, shift) * left + channel(d, shift) * right
    return above * upper + below * lower


@inlined
def sample_row(pixels, size, rows, columns, buffers):
    """Return the levels of an image at one position per pixel of a row, float64 (3, W), 0..255.

    ``pixels`` is what :func:`framed_pixels` returns for an image of ``size``. ``rows`` and ``columns`` are the
    positions, float64 (W,), and ``buffers`` those of :func:`row_buffers`, the last of which is returned.
    """
    height, width = size
    indices, uppers, lowers, planes = buffers
    reds, greens, blues = planes[0], planes[1], planes[2]
    pitch = np.int32(width + 2)
    for x in range(rows.size):
        row, column = split(rows[x], height)[0], split(columns[x], width)[0]
        indices[x] = np.int32(np.int32(row + 1) * pitch) + np.int32(column + 1)
    gather(pixels, width + 2, indices, uppers, lowers)
    for x in range(rows.size):
        _, upper, lower = split(rows[x], height)
        _, left, right = split(columns[x], width)
        taps = uppers[2 * x], uppers[2 * x + 1], lowers[2 * x], lowers[2 * x + 1]
        weights = left, right, upper, lower
        reds[x] = blend(taps, np.uint32(0), weights)
        greens[x] = blend(taps, GREEN, weights)
        blues[x] = blend(taps, BLUE, weights)
    return planes


@inlined
def store_row(planes, target):
    """Write levels, float64 (3, W), clipped to 0..255 and truncated, to ``target``, uint8 (W * 3,)."""
    levels = np.empty(planes.shape, np.uint8)
    for c in range(3):
        plane, row = planes[c], levels[c]
        for x in range(plane.size):
            row[x] = np.uint8(np.int32(clip(plane[x])))
    interleave(levels[0], levels[1], levels[2], target)
