"""Pixels as planes of luma and chroma and back, in the arithmetic of libjpeg-turbo.

Chroma has full or half the height and width. Sums of levels are integers, held as floats, and so equal on every CPU.
"""

import numpy as np

from corruptions.kernels import copy, inlined, kernel
from corruptions.kernels.planes import BLACK, WHITE, deinterleave, interleave
from corruptions.kernels.vectors import (
    larger,
    load_quarter,
    multiply_add,
    smaller,
    store,
    to_bytes,
    to_floats,
    to_integers,
)

PIXELS = np.int64(16)
"""Pixels whose colours are converted at once; also those of a block of chroma at half the width."""
LOW, HIGH = np.uint16(255), np.uint16(8)
"""The first byte of a uint16, and the place of the second."""
PARTS, SEVEN, EIGHT, FOUR = np.int16(3), np.int16(7), np.int16(8), np.int16(4)
"""Weight of the nearest value of chroma, what rounds a sixteenth down or up, and its bits: in 16 bits throughout."""
SMALLEST = 2
"""Rows with at most this number of values of chroma are not enlarged smoothly."""


def factors(*numbers: int) -> list[np.float32]:
    """Return multiples of 2 ** -16."""
    return [np.float32(number / 65536) for number in numbers]


RED_IN_LUMA, GREEN_IN_LUMA, BLUE_IN_LUMA = factors(19595, 38470, 7471)
RED_IN_CB, GREEN_IN_CB = factors(-11059, -21709)
GREEN_IN_CR, BLUE_IN_CR = factors(-27439, -5329)
RED_OF_CR, GREEN_OF_CR, GREEN_OF_CB, BLUE_OF_CB = factors(91881, -46802, -22554, 116130)
"""Factors between colours and chroma. Sums of levels times these are exact in float32, or are at least 256."""
HALF, (GREY,) = np.float32(0.5), factors((128 << 16) + (1 << 15) - 1)
"""A colour's factor in its own chroma, also added to round halves up; zero of chroma, to round them down."""
MIDDLE = np.float32(128)
"""Level of zero chroma."""


@inlined
def repeat_last(values, count):
    """Repeat the last of ``count`` values to the end of a block of chroma."""
    last = values[count - 1]
    for x in range(count, -(-count // PIXELS) * PIXELS):
        values[x] = last


@inlined
def separate(row, planes, luma, cb, cr):
    """Write a row of pixels (3 W,) as luma and chroma, and repeat its last pixel to the end of its last block."""
    count = row.size // 3
    red, green, blue = planes[0], planes[1], planes[2]
    deinterleave(row, red, green, blue)
    for x in range(0, count, PIXELS):
        r, g, b = to_floats(load_quarter(red, x)), to_floats(load_quarter(green, x)), to_floats(load_quarter(blue, x))
        level = multiply_add(r, RED_IN_LUMA, multiply_add(g, GREEN_IN_LUMA, multiply_add(b, BLUE_IN_LUMA, HALF)))
        store(luma, x, to_bytes(to_integers(level)))
        chroma = multiply_add(r, RED_IN_CB, multiply_add(g, GREEN_IN_CB, multiply_add(b, HALF, GREY)))
        store(cb, x, to_bytes(to_integers(chroma)))
        chroma = multiply_add(b, BLUE_IN_CR, multiply_add(g, GREEN_IN_CR, multiply_add(r, HALF, GREY)))
        store(cr, x, to_bytes(to_integers(chroma)))
    repeat_last(luma, count)
    repeat_last(cb, count)
    repeat_last(cr, count)


@inlined
def average(upper, lower, target):
    """Write the means of 2 x 2 levels, each two in a uint16. Every second mean is rounded up."""
    for x in range(target.size):
        a, b = upper[x], lower[x]
        above = np.uint16(np.uint16(a & LOW) + np.uint16(a >> HIGH))
        total = np.uint16(above + np.uint16(np.uint16(b & LOW) + np.uint16(b >> HIGH)))
        target[x] = np.uint8((total + 1 + x % 2) // 4)


@kernel
def to_planes(image, repeats, luma, cb, cr):
    """Write an image as luma and chroma. Planes are larger; what is outside of the image repeats its last rows.

    Args:
        image: uint8 (H, W * 3).
        repeats: Pixels on a side for each value of chroma, 1 or 2.
        luma: uint8 plane, at least (H, W).
        cb: uint8 plane of blue chroma (Cb), as ``luma``, or with half the rows and values, rounded up.
        cr: The same of red chroma (Cr).
    """
    height = image.shape[0]
    planes = np.empty((3, luma.shape[1]), np.uint8)
    chroma = np.empty((2, 2, cb.shape[1] * repeats), np.uint8)
    pairs = chroma.view(np.uint16)
    end = -(-height // repeats)
    for y in range(end * repeats):
        blue, red = chroma[0, y % 2], chroma[1, y % 2]
        separate(image[min(y, height - 1)], planes, luma[y], blue, red)
        if repeats == 1:
            copy(blue, cb[y])
            copy(red, cr[y])
        elif y % 2:
            average(pairs[0, 0], pairs[0, 1], cb[y // 2])
            average(pairs[1, 0], pairs[1, 1], cr[y // 2])
    for y in range(end * repeats, luma.shape[0]):
        copy(luma[height - 1], luma[y])
    for y in range(end, cb.shape[0]):
        copy(cb[end - 1], cb[y])
        copy(cr[end - 1], cr[y])


@kernel
def enlarge(plane, y, last, sums, out):
    """Write row ``y`` of a plane of twice the size: three parts of the nearest value and one of the next nearest.

    Quirk: rows of at most two values are repeated.

    Args:
        plane: uint8 plane.
        y: Row of the result.
        last: Last row of the plane that is inside of the image.
        sums: Scratch, int16, two more values than a row of the image has in the plane.
        out: uint8, at least twice as many values as such a row has.
    """
    count, middle, right = sums.size - 2, sums[1:], sums[2:]
    near, far = plane[y // 2], plane[min(max(y // 2 + (2 * (y % 2) - 1), 0), last)]
    for x in range(count):
        middle[x] = np.int16(np.int16(near[x]) * PARTS + np.int16(far[x]))
    sums[0], sums[count + 1] = sums[1], sums[count]
    for x in range(count):
        total = np.int16(middle[x] * PARTS)
        out[2 * x] = np.uint8(np.int16(total + sums[x] + EIGHT) >> FOUR)
        out[2 * x + 1] = np.uint8(np.int16(total + right[x] + SEVEN) >> FOUR)
    if count <= SMALLEST:
        for x in range(count):
            out[2 * x], out[2 * x + 1] = near[x], near[x]


@inlined
def join(luma, cb, cr, planes, row):
    """Write a row of luma and chroma as pixels (3 W,)."""
    red, green, blue = planes[0], planes[1], planes[2]
    for x in range(0, row.size // 3, PIXELS):
        level, b = to_floats(load_quarter(luma, x)) + HALF, to_floats(load_quarter(cb, x)) - MIDDLE
        r = to_floats(load_quarter(cr, x)) - MIDDLE
        store(red, x, clipped(multiply_add(r, RED_OF_CR, level)))
        store(green, x, clipped(multiply_add(r, GREEN_OF_CR, multiply_add(b, GREEN_OF_CB, level))))
        store(blue, x, clipped(multiply_add(b, BLUE_OF_CB, level)))
    interleave(red, green, blue, row)


@inlined
def clipped(values):
    """Return a vector of float32 as levels: clipped to 0..255, rounded down."""
    return to_bytes(smaller(larger(to_integers(values), BLACK), WHITE))
