"""Elastic distortion: an affine map by OpenCV, then smooth random displacements by SciPy, both sampled bilinearly.

The result of the affine map, in float32, is stored as fine pixels, rounded down. The second sampling is computed in
float32 from these, with a proven bound of its error (:func:`sample`). Pixels that the bound leaves undecided are
computed again in the published arithmetic (:func:`published_pixel`).
"""

from __future__ import annotations

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.doubts import marks_for, positions
from corruptions.kernels.planes import gather, interleave, pack, to_unit
from corruptions.kernels.smoothing.waves import mirror_index
from corruptions.kernels.vectors import fma

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
LEVEL, GREEN, BLUE_BYTE = np.uint32(FRACTION), np.uint32(8), np.uint32(16)
"""Shift of a level to a fine pixel, and the first bits of green and blue in a packed pixel."""
FINE_LEVEL = np.uint32(255 << FRACTION)
"""Bits of a level in a fine pixel."""
BYTE = np.uint32(255)
"""Bits of an 8-bit channel."""
ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
WHITE = np.float32(255)

FAR = np.float32(2**20)
"""Positions farther from the origin are replaced by this distance. Only degenerate affine maps have them."""

VECTOR = 16
"""Pixels that OpenCV's warpAffine computes at once. It places the remaining ones of a row in another order of sums."""


@inlined
def warp_position(row, x, y, width):
    """Return a coordinate, float32, at which OpenCV 5's warpAffine samples for pixel (x, y) of an image.

    ``row`` is a row of the inverse map, three float32. Products are fused with the sum that follows.
    """
    down = y * row[1]
    usual, last = fma(x, row[0], down + row[2]), fma(x, row[0], down) + row[2]
    at = usual if x < np.float32(width // VECTOR * VECTOR) else last
    above = at if at > -FAR else -FAR  # also for NaN
    return above if above < FAR else FAR


@inlined
def blend(a, b, c, d, fraction_x, fraction_y):
    """Return the interpolation of upper left, upper right, lower left and lower right, as OpenCV 5's warpAffine."""
    upper, lower = fma(fraction_x, b - a, a), fma(fraction_x, d - c, c)
    return fma(fraction_y, lower - upper, upper)


@inlined
def wrap(at, period):
    """Return a float32 whole number modulo ``period``, without branches."""
    return at - period * np.floor((at + HALF) * (ONE / period))  # the half keeps the quotient away from whole numbers


@kernel
def locate_on_edge(xs, ys, shape, indices, turned_x, turned_y):
    """Compute where OpenCV's reflect-101 samples each pixel of a row: mirrored at the edge pixels.

    ``xs`` and ``ys`` hold coordinates. They are replaced by the fractions beyond the left and upper neighbour. Of the
    two columns and rows, the index of the smaller ones is written to ``indices``. ``turned_x`` and ``turned_y`` are
    set where the left or upper neighbour is the larger one.
    """
    period_x, period_y, width = np.float32(2 * (shape[1] - 1)), np.float32(2 * (shape[0] - 1)), np.int32(shape[1])
    for x in range(indices.size):
        left, top = np.floor(xs[x]), np.floor(ys[x])
        xs[x], ys[x] = xs[x] - left, ys[x] - top
        left, top = wrap(left, period_x), wrap(top, period_y)
        right_half, lower_half = left >= HALF * period_x, top >= HALF * period_y
        turned_x[x], turned_y[x] = right_half, lower_half
        left, top = period_x - ONE - left if right_half else left, period_y - ONE - top if lower_half else top
        indices[x] = np.int32(top) * width + np.int32(left)


@inlined
def mirrored_start(at, fraction, side):
    """Return the smaller neighbour and the fraction beyond it of a position, mirrored half a pixel beyond the edges."""
    period = TWO * side
    at = wrap(at, period)
    turned = at >= side
    at, fraction = period - TWO - at if turned else at, ONE - fraction if turned else fraction
    start = min(max(at, ZERO), side - TWO)
    return start, min(max(fraction + (at - start), ZERO), ONE)  # between an edge and its image, both are the edge pixel


@kernel
def locate_beside_edge(right, down, y, shape, xs, ys, indices):
    """Compute where each pixel of row ``y``, moved by (right, down), is sampled.

    The index of the upper left neighbour is written to ``indices``, and the fractions beyond it to ``xs`` and ``ys``.
    They are off by at most 2**-24: whole numbers and fractions of the displacement are kept apart, and both the
    fraction of a negative number and its difference from 1 are rounded once, by at most 2**-25.
    """
    height, width, row = np.float32(shape[0]), np.float32(shape[1]), np.float32(y)
    for x in range(indices.size):
        across, along = np.floor(right[x]), np.floor(down[x])
        left, xs[x] = mirrored_start(np.float32(np.int32(x)) + across, right[x] - across, width)
        top, ys[x] = mirrored_start(row + along, down[x] - along, height)
        indices[x] = np.int32(top) * np.int32(shape[1]) + np.int32(left)


@inlined
def unpack_byte(word, channel):
    """Return a channel of a packed pixel in 0..1, float32."""
    return to_unit(np.int32(word >> np.uint32(8 * channel) & BYTE), np.float32)


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
def unpack_levels(word):
    """Return the channels of a packed pixel, float32, as a fine pixel has them: each level l is fl(255 fl(l / 255))."""
    red, green, blue = word << LEVEL & FINE_LEVEL, word >> GREEN << LEVEL & FINE_LEVEL, word >> BLUE_BYTE << LEVEL
    return np.float32(np.int32(red)), np.float32(np.int32(green)), np.float32(np.int32(blue))


@inlined
def bilinear(a, b, c, d, fraction_x, fraction_y):
    """Return the interpolation of upper left, upper right, lower left and lower right. Exact if they are equal."""
    upper = a + (b - a) * fraction_x
    lower = c + (d - c) * fraction_x
    return upper + (lower - upper) * fraction_y


@inlined
def to_fixed(value):
    """Return a value in 0..1 in the fixed-point format of a fine pixel, rounded down."""
    return np.uint32(np.int32(value * WHITE * ONE_LEVEL))


@kernel
def sample_bytes(uppers, lowers, xs, ys, turned_x, turned_y, reds, greens, blues, row):
    """Write a row of the warped image, 0..1, from what :func:`locate_on_edge` and ``gather`` return.

    It is written as three planes, and as fine pixels, whose words are halved, to ``row``.
    """
    for x in range(xs.size):
        a, b, c, d = uppers[2 * x], uppers[2 * x + 1], lowers[2 * x], lowers[2 * x + 1]
        a, b, c, d = (b, a, d, c) if turned_x[x] else (a, b, c, d)
        a, b, c, d = (c, d, a, b) if turned_y[x] else (a, b, c, d)
        red = blend(unpack_byte(a, 0), unpack_byte(b, 0), unpack_byte(c, 0), unpack_byte(d, 0), xs[x], ys[x])
        green = blend(unpack_byte(a, 1), unpack_byte(b, 1), unpack_byte(c, 1), unpack_byte(d, 1), xs[x], ys[x])
        blue = blend(unpack_byte(a, 2), unpack_byte(b, 2), unpack_byte(c, 2), unpack_byte(d, 2), xs[x], ys[x])
        reds[x], greens[x], blues[x] = red, green, blue
        row[2 * x], row[2 * x + 1] = pack_fine(to_fixed(red), to_fixed(green), to_fixed(blue))


@inlined
def bounds(a, b, c, d, fraction_x, fraction_y):
    """Return whole numbers, in 1 / 2**13 levels, between which the published value is. See :func:`sample`."""
    middle = bilinear(a, b, c, d, fraction_x, fraction_y)
    flat = (a == b) & (a == c) & (a == d)
    return np.int32(a if flat else middle - ONE), np.int32(a if flat else middle + TWO)


@inlined
def sample(corners, x, fractions, planes, marks):
    """Write the truncated levels of pixel ``x`` to ``planes`` from its four fine pixels and the fractions.

    ``marks`` is 0 where the levels are certain. The unit of the following bound is 1 / 2**13 level; 255 levels are
    less than 2**21 units. The published value is fl(255 fl(t)), where t interpolates the warped image in float64 and
    fl rounds to float32, by at most 1/8. A fine pixel q has q <= fl(255 w) < q + 1 for the warped value w.

    - If the four pixels are equal, the published value is between q and q + 1 too, because rounding is monotone.
    - Otherwise it differs from the interpolation of all fl(255 w) by at most 3/8 (three roundings), and this is at most
      1 above that of the fine pixels. The latter is computed with fractions that are off by 2**-24, which makes at most
      1/8 along each axis, and five float32 operations, each off by at most 1/16. Thus the published value is between
      1 unit below the computed one (3/8 + 2/8 + 5/16 = 15/16) and 2 units above it.
    """
    a, b, c, d = corners
    fraction_x, fraction_y = fractions
    red, most_red = bounds(a[0], b[0], c[0], d[0], fraction_x, fraction_y)
    green, most_green = bounds(a[1], b[1], c[1], d[1], fraction_x, fraction_y)
    blue, most_blue = bounds(a[2], b[2], c[2], d[2], fraction_x, fraction_y)
    planes[0][x], planes[1][x], planes[2][x] = (
        np.uint8(red >> FRACTION),
        np.uint8(green >> FRACTION),
        np.uint8(blue >> FRACTION),
    )
    marks[x] = np.uint8(((red ^ most_red) | (green ^ most_green) | (blue ^ most_blue)) >> FRACTION != 0)


@kernel
def sample_fine(uppers, lowers, xs, ys, planes, marks):
    """Write rows of truncated levels by :func:`sample` from the gathered fine pixels, as halves of words."""
    for x in range(xs.size):
        a, b = unpack_fine(uppers[4 * x], uppers[4 * x + 1]), unpack_fine(uppers[4 * x + 2], uppers[4 * x + 3])
        c, d = unpack_fine(lowers[4 * x], lowers[4 * x + 1]), unpack_fine(lowers[4 * x + 2], lowers[4 * x + 3])
        sample((a, b, c, d), x, (xs[x], ys[x]), planes, marks)


@kernel
def sample_levels(uppers, lowers, xs, ys, planes, marks):
    """Write rows of truncated levels by :func:`sample` from the gathered packed pixels."""
    for x in range(xs.size):
        a, b = unpack_levels(uppers[2 * x]), unpack_levels(uppers[2 * x + 1])
        c, d = unpack_levels(lowers[2 * x]), unpack_levels(lowers[2 * x + 1])
        sample((a, b, c, d), x, (xs[x], ys[x]), planes, marks)


@inlined
def reflected(at, side):
    """Return a float64 coordinate mirrored half a pixel beyond the edges, as by SciPy: in -1..side."""
    at = at - 2 * side * np.floor(at / (2 * side)) if abs(at) >= 2 * side else at
    return -1 - at if at < 0 else 2 * side - 1 - at if at > side - 1 else at


@kernel
def published_pixel(warped, white, y, x, right, down, pixel):
    """Write pixel (x, y) of planes, moved by (right, down), in the arithmetic of SciPy's map_coordinates of order 1.

    ``white`` is the value of white in the planes, 1 or 255, float32.
    """
    _, height, width = warped.shape
    at_x, at_y = reflected(x + np.float64(right), width), reflected(y + np.float64(down), height)
    left, top = np.floor(at_x), np.floor(at_y)
    far_x, far_y = at_x - left, at_y - top
    first, second = mirror_index(np.int64(left), width), mirror_index(np.int64(left) + 1, width)
    upper, lower = mirror_index(np.int64(top), height), mirror_index(np.int64(top) + 1, height)
    for channel in range(pixel.size):
        plane = warped[channel]
        total = np.float32(plane[upper, first]) / white * (1 - far_y) * (1 - far_x)
        total += np.float32(plane[upper, second]) / white * (1 - far_y) * far_x
        total += np.float32(plane[lower, first]) / white * far_y * (1 - far_x)
        total += np.float32(plane[lower, second]) / white * far_y * far_x
        pixel[channel] = np.uint8(np.int32(min(np.float32(total), ONE) * WHITE))


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
    """Return uint8 (H, W, 3) sampled at ``inverse`` @ (x, y, 1), mirrored: float32 (3, H, W), and (H * W,) fine pixels.

    ``inverse`` is float32 (2, 3).
    """
    shape = image.shape[:2]
    width = shape[1]
    source = pack(image.reshape(-1))
    out = np.empty(source.size, np.uint64)
    halves, planes = out.view(np.uint32), np.empty((3, *shape), np.float32)
    indices = scratch(width, np.int32)
    xs, ys = scratch(width, np.float32), scratch(width, np.float32)
    turned_x, turned_y = np.empty(width, np.bool_), np.empty(width, np.bool_)
    uppers, lowers = scratch(2 * width, np.uint32), scratch(2 * width, np.uint32)
    row_x, row_y = (inverse[0, 0], inverse[0, 1], inverse[0, 2]), (inverse[1, 0], inverse[1, 1], inverse[1, 2])
    for y in range(shape[0]):
        down = np.float32(y)
        for x in range(width):
            at = np.float32(np.int32(x))
            xs[x], ys[x] = warp_position(row_x, at, down, width), warp_position(row_y, at, down, width)
        locate_on_edge(xs, ys, shape, indices, turned_x, turned_y)
        gather(source, width, indices, uppers, lowers)
        row = halves[2 * y * width : 2 * (y + 1) * width]
        reds, greens, blues = planes[0, y], planes[1, y], planes[2, y]
        sample_bytes(uppers, lowers, xs, ys, turned_x, turned_y, reds, greens, blues, row)
    return planes, out


@kernel
def displace(warped, source, right, down):
    """Return an image after displacement, truncated, uint8 (H, W, 3).

    Args:
        warped: Planes of :func:`warp`, or levels, uint8 (3, H, W).
        source: Fine pixels of :func:`warp`, or the pixels of the levels as ``pack`` returns them.
        right: float32 (H, W). Pixel (x, y) is sampled at (x, y) + (right, down).
        down: float32 (H, W).
    """
    shape = right.shape
    width, has_levels = shape[1], warped.itemsize == 1
    out = np.empty((*shape, 3), np.uint8)
    indices = scratch(width, np.int32)
    xs, ys = scratch(width, np.float32), scratch(width, np.float32)
    uppers, lowers = scratch(2 * width, source.dtype), scratch(2 * width, source.dtype)
    upper_words, lower_words = uppers.view(np.uint32), lowers.view(np.uint32)
    levels = np.empty((3, width), np.uint8)
    planes = (levels[0], levels[1], levels[2])
    marks, found = marks_for(width)
    for y in range(shape[0]):
        locate_beside_edge(right[y], down[y], y, shape, xs, ys, indices)
        gather(source, width, indices, uppers, lowers)
        if has_levels:
            sample_levels(upper_words, lower_words, xs, ys, planes, marks)
        else:
            sample_fine(upper_words, lower_words, xs, ys, planes, marks)
        interleave(planes[0], planes[1], planes[2], out[y].reshape(-1))
        for k in range(positions(marks, found)):
            x = found[k]
            published_pixel(warped, WHITE if has_levels else ONE, y, x, right[y, x], down[y, x], out[y, x])
    return out
