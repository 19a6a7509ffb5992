"""Elastic distortion in float32: smooth random displacements, an affine map and bilinear sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import LINE, copy, inlined, kernel, scratch
from corruptions.kernels.planes import gather, interleave, pack
from corruptions.kernels.smoothing import add_pair, half_gaussian
from corruptions.kernels.waves import mirror_index, smooth_long

LONG_RADIUS = 24
"""Filters with a larger radius are computed as a sum of cosines, in a time independent of the radius."""

BAND = 8
"""Rows that are smoothed together. The inner loops are long, and the rows still fit into the first-level cache."""

FRACTION = 13
"""Fraction bits of a channel of a fine pixel."""
CHANNEL, CUT, BLUE = np.uint32(21), np.uint32(11), np.uint32(10)
"""Bit layout of a fine pixel, the result of the first sampling: one 64-bit word with three channels of 8 + 13 bits.

One word can be loaded at once. The computation splits it into two 32-bit halves, of which a vector holds twice as many.
Green begins at bit CHANNEL of the lower half, which holds CUT of its bits. Blue begins at bit BLUE of the upper half.
"""

MASK = np.uint32(2**CHANNEL - 1)
"""Bits of one channel."""
ONE_LEVEL = np.float32(2**FRACTION)
"""One level in the fixed-point format of a fine pixel."""
BYTE = np.uint32(255)
"""Bits of an 8-bit channel."""
ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)

ON_EDGE, BESIDE_EDGE = np.float32(0), np.float32(-0.5)
"""Position of the mirror: on the edge pixels (OpenCV's reflect-101), or half a pixel outside (scipy's reflect)."""


@kernel
def pad_mirrored(field, margin):
    """Return float32 (H, W) with ``margin`` mirrored rows and columns on every side. Rows begin at cache lines."""
    height, width = field.shape
    line = LINE // field.itemsize
    pitch = -(-(width + 2 * margin) // line) * line
    out = scratch((height + 2 * margin) * pitch, field.dtype).reshape(height + 2 * margin, pitch)
    mirrored = np.empty(pitch, np.uint64)
    for x in range(pitch):
        mirrored[x] = mirror_index(x - margin, width)
    for y in range(out.shape[0]):
        row, source = out[y], field[mirror_index(y - margin, height)]
        copy(source, row[margin : margin + width])
        for x in range(margin):
            row[x] = source[mirrored[x]]
        for x in range(margin + width, pitch):
            row[x] = source[mirrored[x]]
    return out


@inlined
def add_two_pairs(total, a, b, inner, c, d, outer):
    """Add (a + b) * inner and then (c + d) * outer to ``total``, with one pass over ``total``."""
    for i in range(total.size):
        total[i] = (total[i] + (a[i] + b[i]) * inner) + (c[i] + d[i]) * outer


@kernel
def correlate(total, source, half, step):
    """Write ``source`` correlated with a symmetric filter to ``total``. Arrays are flat, taps are ``step`` apart."""
    size, reach = total.size, (half.size - 1) * step
    centre = source[reach : reach + size]
    for i in range(size):
        total[i] = centre[i] * half[0]
    for k in range(1, half.size - 1, 2):
        near, far = k * step, (k + 1) * step
        a, b = source[reach - near : reach - near + size], source[reach + near :]
        c, d = source[reach - far : reach - far + size], source[reach + far :]
        add_two_pairs(total, a, b, half[k], c, d, half[k + 1])
    if half.size % 2 == 0:
        add_pair(total, source[:size], source[2 * reach :], half[half.size - 1])


@kernel
def smooth_mirrored(field, half):
    """Return float32 (H, W) correlated with a symmetric filter along both axes. ``half`` is one side of it."""
    height, width = field.shape
    margin = half.size - 1
    wide = pad_mirrored(field, margin)
    pitch = wide.shape[1]
    flat = wide.reshape(-1)
    out = np.empty_like(field)
    columns, rows = scratch(BAND * pitch, field.dtype), scratch(BAND * pitch, field.dtype)
    for start in range(0, height, BAND):
        count = min(BAND, height - start)
        size = count * pitch
        correlate(columns[:size], flat[start * pitch :], half, pitch)
        # The rows of the band are contiguous. Sums that mix two rows are in the margins, which are not copied.
        correlate(rows[: size - 2 * margin], columns, half, 1)
        for y in range(count):
            copy(rows[y * pitch : y * pitch + width], out[start + y])
    return out


def smooth_field(field: NDArray[Any], sigma: float, truncate: float) -> NDArray[np.float32]:
    """Return a layer smoothed by a Gaussian, with mirrored edges.

    Args:
        field: Layer (H, W).
        sigma: Sigma in pixels.
        truncate: Radius of the filter in sigmas.

    Returns:
        float32 (H, W).
    """
    field = field.astype(np.float32, copy=False)
    half = half_gaussian(sigma, truncate)
    if half.size - 1 <= LONG_RADIUS:
        smoothed: NDArray[np.float32] = smooth_mirrored(field, half.astype(np.float32))
        return smoothed
    return smooth_long(field, sigma, truncate)


@inlined
def fold(at, last, mirror):
    """Return a float32 coordinate mirrored into 0..``last``, repeatedly and without branches."""
    period = TWO * (last - TWO * mirror)
    distance = abs(at - mirror)
    distance -= period * np.floor(distance * (ONE / period))  # the quotient is constant, so it is computed once per row
    # Between an edge pixel and a mirror beyond it, both neighbours are the edge pixel, hence the clip.
    return min(max(min(distance, period - distance) + mirror, ZERO), last)


@kernel
def locate(xs, ys, shape, mirror, indices):
    """Compute where each pixel of a row is sampled.

    ``xs`` and ``ys`` hold coordinates. They are replaced by the fractions beyond the upper left pixel, whose index is
    written to ``indices``. ``mirror`` is ON_EDGE or BESIDE_EDGE.
    """
    last_x, last_y = np.float32(shape[1] - 1), np.float32(shape[0] - 1)
    most_x, most_y, width = np.int32(shape[1] - 2), np.int32(shape[0] - 2), np.int32(shape[1])
    for x in range(indices.size):
        at_x, at_y = fold(xs[x], last_x, mirror), fold(ys[x], last_y, mirror)
        left, top = min(np.int32(at_x), most_x), min(np.int32(at_y), most_y)
        xs[x], ys[x] = at_x - np.float32(left), at_y - np.float32(top)
        indices[x] = top * width + left


@inlined
def unpack_byte(word, channel):
    """Return a channel of a packed pixel in levels, float32."""
    return np.float32(np.int32(word >> np.uint32(8 * channel) & BYTE))


@inlined
def pack_fine(red, green, blue):
    """Return the lower and upper half of a fine pixel's word. Its channels are uint32."""
    return red | green << CHANNEL, green >> CUT | blue << BLUE


@inlined
def unpack_fine(low, high):
    """Return the channels of a fine pixel, float32, from the halves of its word."""
    green = (low >> CHANNEL | high << CUT) & MASK
    return np.float32(np.int32(low & MASK)), np.float32(np.int32(green)), np.float32(np.int32(high >> BLUE))


@inlined
def bilinear(a, b, c, d, fraction_x, fraction_y):
    """Return the interpolation of upper left, upper right, lower left and lower right. Exact if they are equal."""
    upper = a + (b - a) * fraction_x
    lower = c + (d - c) * fraction_x
    return upper + (lower - upper) * fraction_y


@inlined
def to_fixed(level):
    """Return a level in the fixed-point format of a fine pixel, rounded."""
    return np.uint32(np.int32(level * ONE_LEVEL + HALF))


@kernel
def sample_bytes(uppers, lowers, xs, ys, row):
    """Write a row of fine pixels, as halves of words, from the gathered pixels and the fractions."""
    for x in range(xs.size):
        a, b, c, d = uppers[2 * x], uppers[2 * x + 1], lowers[2 * x], lowers[2 * x + 1]
        red = to_fixed(
            bilinear(unpack_byte(a, 0), unpack_byte(b, 0), unpack_byte(c, 0), unpack_byte(d, 0), xs[x], ys[x])
        )
        green = to_fixed(
            bilinear(unpack_byte(a, 1), unpack_byte(b, 1), unpack_byte(c, 1), unpack_byte(d, 1), xs[x], ys[x])
        )
        blue = to_fixed(
            bilinear(unpack_byte(a, 2), unpack_byte(b, 2), unpack_byte(c, 2), unpack_byte(d, 2), xs[x], ys[x])
        )
        row[2 * x], row[2 * x + 1] = pack_fine(red, green, blue)


@kernel
def sample_fine(uppers, lowers, xs, ys, reds, greens, blues):
    """Write rows of truncated levels from the gathered fine pixels, as halves of words, and the fractions."""
    for x in range(xs.size):
        a, b = unpack_fine(uppers[4 * x], uppers[4 * x + 1]), unpack_fine(uppers[4 * x + 2], uppers[4 * x + 3])
        c, d = unpack_fine(lowers[4 * x], lowers[4 * x + 1]), unpack_fine(lowers[4 * x + 2], lowers[4 * x + 3])
        reds[x] = np.uint8(np.int32(bilinear(a[0], b[0], c[0], d[0], xs[x], ys[x])) >> FRACTION)
        greens[x] = np.uint8(np.int32(bilinear(a[1], b[1], c[1], d[1], xs[x], ys[x])) >> FRACTION)
        blues[x] = np.uint8(np.int32(bilinear(a[2], b[2], c[2], d[2], xs[x], ys[x])) >> FRACTION)


@kernel
def affine_inverse(height, width, jitter):
    """Return the (2, 3) map that takes three corners of a centred square, moved by ``jitter``, back to their positions.

    Quirk: the row of the centre is used as its x coordinate and the column as its y coordinate (published scripts).
    This has an effect only on images that are not square.

    Args:
        height: Height of the image in pixels.
        width: Width of the image in pixels.
        jitter: Displacements of the corners (3, 2) in pixels.
    """
    a, b, s = height // 2, width // 2, min(height, width) // 3
    indices = np.array([[a + s, b + s], [a + s, b - s], [a - s, b - s]], np.float32)
    moved = (indices + jitter.astype(np.float32)).astype(np.float64)
    u, v, middle = moved[0] - moved[1], moved[1] - moved[2], moved[1]
    scale = 2 * s / (u[0] * v[1] - u[1] * v[0])
    inverse = np.empty((2, 3))
    inverse[0, 0], inverse[0, 1] = -u[1] * scale, u[0] * scale
    inverse[1, 0], inverse[1, 1] = v[1] * scale, -v[0] * scale
    inverse[0, 2] = a + s - (inverse[0, 0] * middle[0] + inverse[0, 1] * middle[1])
    inverse[1, 2] = b - s - (inverse[1, 0] * middle[0] + inverse[1, 1] * middle[1])
    return inverse


@kernel
def warp(image, inverse):
    """Return uint8 (H, W, 3) as (H * W,) fine pixels. Pixel (x, y) is sampled at ``inverse`` @ (x, y, 1), mirrored."""
    shape = image.shape[:2]
    width = shape[1]
    source = pack(image.reshape(-1))
    out = np.empty(source.size, np.uint64)
    halves = out.view(np.uint32)
    indices = scratch(width, np.int32)
    xs, ys = scratch(width, np.float32), scratch(width, np.float32)
    uppers, lowers = scratch(2 * width, np.uint32), scratch(2 * width, np.uint32)
    slope_x, slope_y = np.float32(inverse[0, 0]), np.float32(inverse[1, 0])
    for y in range(shape[0]):
        start_x = np.float32(inverse[0, 1] * y + inverse[0, 2])
        start_y = np.float32(inverse[1, 1] * y + inverse[1, 2])
        for x in range(width):
            at = np.float32(np.int32(x))
            xs[x], ys[x] = slope_x * at + start_x, slope_y * at + start_y
        locate(xs, ys, shape, ON_EDGE, indices)
        gather(source, width, indices, uppers, lowers)
        sample_bytes(uppers, lowers, xs, ys, halves[2 * y * width : 2 * (y + 1) * width])
    return out


@kernel
def displace(source, right, down, gain):
    """Return (H * W,) fine pixels after displacement, truncated, uint8 (H, W, 3).

    Pixel (x, y) is sampled at (x, y) + gain * (right, down).
    """
    shape = right.shape
    width = shape[1]
    out = np.empty(3 * source.size, np.uint8)
    indices = scratch(width, np.int32)
    xs, ys = scratch(width, np.float32), scratch(width, np.float32)
    uppers, lowers = scratch(2 * width, np.uint64), scratch(2 * width, np.uint64)
    upper_halves, lower_halves = uppers.view(np.uint32), lowers.view(np.uint32)
    planes = np.empty((3, width), np.uint8)
    for y in range(shape[0]):
        start_y = np.float32(y)
        right_row, down_row = right[y], down[y]
        for x in range(width):
            xs[x] = np.float32(np.int32(x)) + right_row[x] * gain
            ys[x] = start_y + down_row[x] * gain
        locate(xs, ys, shape, BESIDE_EDGE, indices)
        gather(source, width, indices, uppers, lowers)
        sample_fine(upper_halves, lower_halves, xs, ys, planes[0], planes[1], planes[2])
        interleave(planes[0], planes[1], planes[2], out[3 * y * width : 3 * (y + 1) * width])
    return out.reshape(shape[0], width, 3)
