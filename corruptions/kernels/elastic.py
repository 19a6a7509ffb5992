"""Elastic distortion: smooth random displacements, an affine map and bilinear sampling, on levels 0..255 in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import LINE, copy, inlined, kernel, scratch
from corruptions.kernels.planes import join, pack
from corruptions.kernels.smoothing import add_pair, half_gaussian
from corruptions.kernels.waves import beside, smooth_long

LONG_RADIUS = 24
"""Filters of a longer reach are applied as a sum of cosines, whose time does not depend on the reach."""

BAND = 8
"""Rows that are smoothed together: long inner loops, and still in the first-level cache."""

FRACTION = 13
CHANNEL, CUT, BLUE = np.uint32(21), np.uint32(11), np.uint32(10)
"""Between the two samplings a pixel is one 64-bit word, three channels of 8 + 13 bits: one load instead of three. All
else takes the word as two halves, since vectors hold twice as many: green begins at bit CHANNEL of the lower one, which
has CUT bits of it, and blue at bit BLUE of the upper."""

MASK = np.uint32(2**CHANNEL - 1)
ONE_LEVEL = np.float32(2**FRACTION)
BYTE = np.uint32(255)
ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)

ON_EDGE, BESIDE_EDGE = np.float32(0), np.float32(-0.5)
"""Where the mirrors stand: on the edge pixels (OpenCV's reflect-101) or half a pixel outside (scipy's reflect)."""


@kernel
def widened(field, margin):
    """(H, W) float32 with ``margin`` more mirrored rows and columns on every side; each row begins a cache line."""
    height, width = field.shape
    line = LINE // field.itemsize
    pitch = -(-(width + 2 * margin) // line) * line
    out = scratch((height + 2 * margin) * pitch, field.dtype).reshape(height + 2 * margin, pitch)
    mirrored = np.empty(pitch, np.uint64)
    for x in range(pitch):
        mirrored[x] = beside(x - margin, width)
    for y in range(out.shape[0]):
        row, source = out[y], field[beside(y - margin, height)]
        copy(source, row[margin : margin + width])
        for x in range(margin):
            row[x] = source[mirrored[x]]
        for x in range(margin + width, pitch):
            row[x] = source[mirrored[x]]
    return out


@inlined
def add_two(total, a, b, inner, c, d, outer):
    """total += (a + b) * inner, and then (c + d) * outer: ``total`` is read half as often."""
    for i in range(total.size):
        total[i] = (total[i] + (a[i] + b[i]) * inner) + (c[i] + d[i]) * outer


@kernel
def correlate(total, source, half, step):
    """``total`` becomes ``source`` correlated with a symmetric filter, its taps ``step`` apart; flat arrays."""
    size, reach = total.size, (half.size - 1) * step
    centre = source[reach : reach + size]
    for i in range(size):
        total[i] = centre[i] * half[0]
    for k in range(1, half.size - 1, 2):
        near, far = k * step, (k + 1) * step
        a, b = source[reach - near : reach - near + size], source[reach + near :]
        c, d = source[reach - far : reach - far + size], source[reach + far :]
        add_two(total, a, b, half[k], c, d, half[k + 1])
    if half.size % 2 == 0:
        add_pair(total, source[:size], source[2 * reach :], half[half.size - 1])


@kernel
def smooth_mirrored(field, half):
    """(H, W) float32 correlated with a symmetric filter given as its one side, along both axes."""
    height, width = field.shape
    margin = half.size - 1
    wide = widened(field, margin)
    pitch = wide.shape[1]
    flat = wide.reshape(-1)
    out = np.empty_like(field)
    columns, rows = scratch(BAND * pitch, field.dtype), scratch(BAND * pitch, field.dtype)
    for start in range(0, height, BAND):
        count = min(BAND, height - start)
        size = count * pitch
        correlate(columns[:size], flat[start * pitch :], half, pitch)
        # The rows of the band lie end to end: what runs over from one to the next falls into the margins.
        correlate(rows[: size - 2 * margin], columns, half, 1)
        for y in range(count):
            copy(rows[y * pitch : y * pitch + width], out[start + y])
    return out


def smooth_field(field: NDArray[Any], sigma: float, truncate: float) -> NDArray[np.float32]:
    """(H, W) smoothed by a Gaussian with mirrored edges."""
    field = field.astype(np.float32, copy=False)
    half = half_gaussian(sigma, truncate)
    if half.size - 1 <= LONG_RADIUS:
        smoothed: NDArray[np.float32] = smooth_mirrored(field, half.astype(np.float32))
        return smoothed
    return smooth_long(field, sigma, truncate)


@inlined
def folded(at, last, mirror):
    """Coordinates ``at`` (float32) mirrored into 0..``last`` as often as needed, without branches."""
    period = TWO * (last - TWO * mirror)
    distance = abs(at - mirror)
    distance -= period * np.floor(distance * (ONE / period))  # the division is of constants: once for a row
    # Between a mirror outside and its edge pixel, both neighbours are that pixel: the clip.
    return min(max(min(distance, period - distance) + mirror, ZERO), last)


@kernel
def locate(xs, ys, shape, mirror, places):
    """Turns coordinates of a row into the ``places`` of their upper left pixels and the parts beyond these."""
    last_x, last_y = np.float32(shape[1] - 1), np.float32(shape[0] - 1)
    most_x, most_y, width = np.int32(shape[1] - 2), np.int32(shape[0] - 2), np.int32(shape[1])
    for x in range(places.size):
        at_x, at_y = folded(xs[x], last_x, mirror), folded(ys[x], last_y, mirror)
        left, top = min(np.int32(at_x), most_x), min(np.int32(at_y), most_y)
        xs[x], ys[x] = at_x - np.float32(left), at_y - np.float32(top)
        places[x] = top * width + left


@kernel
def fetch(source, width, places, uppers, lowers):
    """Fills (2 W,) with pairs of pixels: those at each place of a row and right of it, and the two below."""
    right, low, right_low = source[1:], source[width:], source[width + 1 :]
    for x in range(places.size):
        place = np.uint64(places[x])  # an unsigned index needs no check for a count from the end
        uppers[2 * x], uppers[2 * x + 1] = source[place], right[place]
        lowers[2 * x], lowers[2 * x + 1] = low[place], right_low[place]


@inlined
def byte(word, channel):
    """A channel of an image's packed pixel, float32, in levels."""
    return np.float32(np.int32(word >> np.uint32(8 * channel) & BYTE))


@inlined
def joined(red, green, blue):
    """A fine pixel's lower and upper half of its word, from its channels (uint32)."""
    return red | green << CHANNEL, green >> CUT | blue << BLUE


@inlined
def fine(low, high):
    """The channels of a fine pixel, float32, from the halves of its word."""
    green = (low >> CHANNEL | high << CUT) & MASK
    return np.float32(np.int32(low & MASK)), np.float32(np.int32(green)), np.float32(np.int32(high >> BLUE))


@inlined
def blended(a, b, c, d, part_x, part_y):
    """Between left-top, right-top, left-low and right-low; exact where these are equal."""
    upper = a + (b - a) * part_x
    lower = c + (d - c) * part_x
    return upper + (lower - upper) * part_y


@inlined
def fixed(level):
    """A level as a fine pixel has it, rounded."""
    return np.uint32(np.int32(level * ONE_LEVEL + HALF))


@kernel
def sample_bytes(uppers, lowers, xs, ys, row):
    """Fills a row of fine pixels, as halves of words, from the pairs of pixels and the parts of each place."""
    for x in range(xs.size):
        a, b, c, d = uppers[2 * x], uppers[2 * x + 1], lowers[2 * x], lowers[2 * x + 1]
        red = fixed(blended(byte(a, 0), byte(b, 0), byte(c, 0), byte(d, 0), xs[x], ys[x]))
        green = fixed(blended(byte(a, 1), byte(b, 1), byte(c, 1), byte(d, 1), xs[x], ys[x]))
        blue = fixed(blended(byte(a, 2), byte(b, 2), byte(c, 2), byte(d, 2), xs[x], ys[x]))
        row[2 * x], row[2 * x + 1] = joined(red, green, blue)


@kernel
def sample_fine(uppers, lowers, xs, ys, reds, greens, blues):
    """Fills rows of truncated levels from the pairs of pixels, as halves of words, and the parts of each place."""
    for x in range(xs.size):
        a, b = fine(uppers[4 * x], uppers[4 * x + 1]), fine(uppers[4 * x + 2], uppers[4 * x + 3])
        c, d = fine(lowers[4 * x], lowers[4 * x + 1]), fine(lowers[4 * x + 2], lowers[4 * x + 3])
        reds[x] = np.uint8(np.int32(blended(a[0], b[0], c[0], d[0], xs[x], ys[x])) >> FRACTION)
        greens[x] = np.uint8(np.int32(blended(a[1], b[1], c[1], d[1], xs[x], ys[x])) >> FRACTION)
        blues[x] = np.uint8(np.int32(blended(a[2], b[2], c[2], d[2], xs[x], ys[x])) >> FRACTION)


@kernel
def affine_inverse(height, width, jitter):
    """(2, 3): the map that takes three corners of a centred square, moved by ``jitter``, back to their places.

    As published, the row of the centre serves as its x and the column as its y; this matters off the square only.
    """
    a, b, s = height // 2, width // 2, min(height, width) // 3
    places = np.array([[a + s, b + s], [a + s, b - s], [a - s, b - s]], np.float32)
    moved = (places + jitter.astype(np.float32)).astype(np.float64)
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
    """(H, W, 3) uint8 to (H * W,) fine pixels: pixel (x, y) comes from ``inverse`` @ (x, y, 1), mirrored."""
    shape = image.shape[:2]
    width = shape[1]
    source = pack(image.reshape(-1))
    out = np.empty(source.size, np.uint64)
    halves = out.view(np.uint32)
    places = scratch(width, np.int32)
    xs, ys = scratch(width, np.float32), scratch(width, np.float32)
    uppers, lowers = scratch(2 * width, np.uint32), scratch(2 * width, np.uint32)
    slope_x, slope_y = np.float32(inverse[0, 0]), np.float32(inverse[1, 0])
    for y in range(shape[0]):
        start_x = np.float32(inverse[0, 1] * y + inverse[0, 2])
        start_y = np.float32(inverse[1, 1] * y + inverse[1, 2])
        for x in range(width):
            at = np.float32(np.int32(x))
            xs[x], ys[x] = slope_x * at + start_x, slope_y * at + start_y
        locate(xs, ys, shape, ON_EDGE, places)
        fetch(source, width, places, uppers, lowers)
        sample_bytes(uppers, lowers, xs, ys, halves[2 * y * width : 2 * (y + 1) * width])
    return out


@kernel
def displace(source, right, down, gain):
    """(H * W,) fine pixels to (H, W, 3) uint8: pixel (x, y) comes from (x, y) + gain * (right, down), truncated."""
    shape = right.shape
    width = shape[1]
    out = np.empty(3 * source.size, np.uint8)
    places = scratch(width, np.int32)
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
        locate(xs, ys, shape, BESIDE_EDGE, places)
        fetch(source, width, places, uppers, lowers)
        sample_fine(upper_halves, lower_halves, xs, ys, planes[0], planes[1], planes[2])
        join(planes[0], planes[1], planes[2], out[3 * y * width : 3 * (y + 1) * width])
    return out.reshape(shape[0], width, 3)
