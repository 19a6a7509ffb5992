"""What JPEG does to pixels: libjpeg-turbo's encoder and decoder in one step, without the file between them.

A file stores rounded coefficients of cosine transforms without loss. So its decoded pixels follow from the transforms
and the rounding alone, and nothing is written or read bit by bit. All arithmetic is that of libjpeg-turbo's default
methods (``JDCT_ISLOW``, smooth enlargement of chroma). It is in integers, some of them held as floats, and so equal on
every CPU.

Blocks of 8 x 8 values are transformed sixteen at a time: eight side by side, and the eight below these. A row of eight
blocks is 64 bytes. It is read as eight words, one per block, and becomes half of eight vectors, one per column of the
blocks, with one element per block.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.colour.chroma import enlarge, join, to_planes
from corruptions.kernels.huffman import LANES, SIDE, ZIGZAG
from corruptions.kernels.planes import BLACK
from corruptions.kernels.vectors import (
    floor,
    larger,
    load,
    load_half,
    narrow,
    smaller,
    store,
    to_floats,
    to_integers,
    to_shorts,
    widen,
)

ROW, GROUP = SIDE * SIDE, LANES * SIDE
"""Values in a row of blocks side by side, and in that row of a group of blocks."""

# fmt: off
LUMA_STEPS = (
    16, 11, 10, 16, 24, 40, 51, 61,
    12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77,
    24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
)
"""Steps to which coefficients of luma are rounded at quality 50. Source: ITU-T T.81, table K.1."""
CHROMA_STEPS = (
    17, 18, 24, 47, 99, 99, 99, 99,
    18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99,
    *(99,) * 32,
)
"""The same for chroma. Source: ITU-T T.81, table K.2."""
# fmt: on

BITS, PASS_BITS, COEFFICIENT_BITS = 13, 2, 3
"""Fraction bits of the constants below, of values between the two passes of a transform, and of its coefficients."""
FIRST, FORWARD, INVERSE = (np.int32(BITS + bits) for bits in (-PASS_BITS, PASS_BITS, PASS_BITS + COEFFICIENT_BITS))
"""Bits to drop after the first pass of a transform, after the second forward, and after the second inverse one."""
F_0_298, F_0_390, F_0_541, F_0_765 = np.int32(2446), np.int32(3196), np.int32(4433), np.int32(6270)
F_0_899, F_1_175, F_1_501, F_1_847 = np.int32(7373), np.int32(9633), np.int32(12299), np.int32(15137)
F_1_961, F_2_053, F_2_562, F_3_072 = np.int32(16069), np.int32(16819), np.int32(20995), np.int32(25172)
UNIT = np.int32(1 << BITS)
"""Constants of the transform by Loeffler, Ligtenberg and Moschytz, as libjpeg names them, and 1.0 in their unit."""

ZERO, BYTE = np.int32(128), np.int32(255)
"""Level of zero in transforms, and the highest level or the bits of a byte."""
SIGN, UPPER = np.int32(31), np.int64(32)
"""Places of the sign of an int32 and of the upper half of an int64."""
PLACES = np.argsort(ZIGZAG)
"""Number of each coefficient of a block in a file."""


@lru_cache
def steps_of(base: tuple[int, ...], quality: int) -> NDArray[np.float32]:
    """Return the steps of a quality 1..100 (64,), and below them, for each, 1 / (8 steps) and 4 steps + 0.5."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    steps = np.clip((np.array(base) * scale + 50) // 100, 1, 255).astype(np.float32)
    return np.stack([steps, np.float32(1) / (8 * steps), 4 * steps + np.float32(0.5)])


@inlined
def pack_four(blocks, start):
    """Return four vectors of int32 as the bytes of one, 128 added, clipped to 0..255."""
    word = levels_of(blocks, start)
    word = word | levels_of(blocks, start + LANES) << np.int32(8)
    word = word | levels_of(blocks, start + 2 * LANES) << np.int32(16)
    return word | levels_of(blocks, start + 3 * LANES) << np.int32(24)


@inlined
def levels_of(blocks, start):
    """Return a vector of int32 as levels: 128 added, clipped to 0..255."""
    return smaller(larger(load_half(blocks, start) + ZERO, BLACK), BYTE)


@inlined
def unpack_four(word, blocks, start):
    """Write the bytes of a vector of int32 as four vectors, 128 subtracted."""
    store(blocks, start, (word & BYTE) - ZERO)
    store(blocks, start + LANES, (word >> np.int32(8) & BYTE) - ZERO)
    store(blocks, start + 2 * LANES, (word >> np.int32(16) & BYTE) - ZERO)
    store(blocks, start + 3 * LANES, (word >> np.int32(24) & BYTE) - ZERO)


@kernel
def forward(blocks, start, stride, bits):
    """Transform eight vectors, which are ``stride`` apart, by a cosine transform, in place. Drop ``bits``, rounded."""
    half = np.int32(1 << (bits - 1))
    a, b = load(blocks, start), load(blocks, start + 7 * stride)
    sum_0, odd_3 = a + b, a - b
    a, b = load(blocks, start + stride), load(blocks, start + 6 * stride)
    sum_1, odd_2 = a + b, a - b
    a, b = load(blocks, start + 2 * stride), load(blocks, start + 5 * stride)
    sum_2, odd_1 = a + b, a - b
    a, b = load(blocks, start + 3 * stride), load(blocks, start + 4 * stride)
    sum_3, odd_0 = a + b, a - b
    outer, inner = sum_0 + sum_3, sum_1 + sum_2
    store(blocks, start, ((outer + inner) * UNIT + half) >> bits)
    store(blocks, start + 4 * stride, ((outer - inner) * UNIT + half) >> bits)
    outer, inner = sum_0 - sum_3, sum_1 - sum_2
    common = (outer + inner) * F_0_541 + half
    store(blocks, start + 2 * stride, (common + outer * F_0_765) >> bits)
    store(blocks, start + 6 * stride, (common - inner * F_1_847) >> bits)
    a, b = odd_0 + odd_2, odd_1 + odd_3
    common = (a + b) * F_1_175 + half
    a, b = common - a * F_1_961, common - b * F_0_390
    c, d = (odd_0 + odd_3) * F_0_899, (odd_1 + odd_2) * F_2_562
    store(blocks, start + 7 * stride, (odd_0 * F_0_298 - c + a) >> bits)
    store(blocks, start + 5 * stride, (odd_1 * F_2_053 - d + b) >> bits)
    store(blocks, start + 3 * stride, (odd_2 * F_3_072 - d + a) >> bits)
    store(blocks, start + stride, (odd_3 * F_1_501 - c + b) >> bits)


@kernel
def inverse(blocks, start, stride, bits):
    """Transform eight vectors back, see :func:`forward`."""
    half = np.int32(1 << (bits - 1))
    a, b = load(blocks, start), load(blocks, start + 4 * stride)
    plus, minus = (a + b) * UNIT + half, (a - b) * UNIT + half
    a, b = load(blocks, start + 2 * stride), load(blocks, start + 6 * stride)
    common = (a + b) * F_0_541
    outer, inner = common + a * F_0_765, common - b * F_1_847
    even_0, even_1, even_2, even_3 = plus + outer, minus + inner, minus - inner, plus - outer
    odd_0, odd_1 = load(blocks, start + 7 * stride), load(blocks, start + 5 * stride)
    odd_2, odd_3 = load(blocks, start + 3 * stride), load(blocks, start + stride)
    a, b = odd_0 + odd_2, odd_1 + odd_3
    common = (a + b) * F_1_175
    a, b = common - a * F_1_961, common - b * F_0_390
    c, d = (odd_0 + odd_3) * F_0_899, (odd_1 + odd_2) * F_2_562
    odd_0, odd_1 = odd_0 * F_0_298 - c + a, odd_1 * F_2_053 - d + b
    odd_2, odd_3 = odd_2 * F_3_072 - d + a, odd_3 * F_1_501 - c + b
    store(blocks, start, (even_0 + odd_3) >> bits)
    store(blocks, start + 7 * stride, (even_0 - odd_3) >> bits)
    store(blocks, start + stride, (even_1 + odd_2) >> bits)
    store(blocks, start + 6 * stride, (even_1 - odd_2) >> bits)
    store(blocks, start + 2 * stride, (even_2 + odd_1) >> bits)
    store(blocks, start + 5 * stride, (even_2 - odd_1) >> bits)
    store(blocks, start + 3 * stride, (even_3 + odd_0) >> bits)
    store(blocks, start + 4 * stride, (even_3 - odd_0) >> bits)


@inlined
def quantise(blocks, start, steps, index):
    """Round a vector of coefficients to a multiple of its step, halves away from zero, in place. Return the multiples.

    Coefficients c are eight times as large as their step s, and floor((c - [c < 0] + 4 s) / 8 s) is what rounds halves
    away from zero. With 0.5 added to the numerator, the quotient is at least 1 / 16 s away from every whole number,
    relative to it more than 2 ** -17; float32 rounds twice by at most 2 ** -24.
    """
    value = load(blocks, start)
    quotient = floor((to_floats(value + (value >> SIGN)) + steps[2, index]) * steps[1, index])
    store(blocks, start, to_integers(quotient * steps[0, index]))
    return quotient


@kernel
def quantise_plane(plane, steps, coefficients):
    """Round the coefficients of a plane in place, and write them as multiples of their steps.

    Args:
        plane: See :func:`plane_of`.
        steps: See :func:`steps_of`.
        coefficients: int16, as many as the plane has values, see :func:`corruptions.kernels.huffman.add_block`; or
            empty.
    """
    blocks, words, pitch = scratch(SIDE * GROUP, np.int32), plane.reshape(-1).view(np.int64), plane.shape[1] // SIDE
    kept = coefficients.size > 0
    for first in range(0, words.size, 2 * SIDE * pitch):
        for left in range(first, first + pitch, SIDE):
            group = first * SIDE + (left - first) * GROUP
            for y in range(2 * SIDE):
                row, target = load(words, left + y * pitch), y % SIDE * GROUP + y // SIDE * SIDE
                unpack_four(narrow(row), blocks, target)
                unpack_four(narrow(row >> UPPER), blocks, target + GROUP // 2)
            for y in range(SIDE):
                forward(blocks, y * GROUP, LANES, FIRST)
            for x in range(SIDE):
                forward(blocks, x * LANES, GROUP, FORWARD)
                for y in range(SIDE):
                    quotient = quantise(blocks, y * GROUP + x * LANES, steps, y * SIDE + x)
                    if kept:
                        store(coefficients, group + PLACES[y * SIDE + x] * LANES, to_shorts(to_integers(quotient)))
                inverse(blocks, x * LANES, GROUP, FIRST)
            for y in range(SIDE):
                inverse(blocks, y * GROUP, LANES, INVERSE)
            for y in range(2 * SIDE):
                source = y % SIDE * GROUP + y // SIDE * SIDE
                upper = widen(pack_four(blocks, source + GROUP // 2)) << UPPER
                store(words, left + y * pitch, widen(pack_four(blocks, source)) | upper)


@inlined
def plane_of(height, width):
    """Return a plane for an image, uint8. Its sides are those of whole groups of blocks."""
    pitch = -(-width // ROW) * ROW
    return scratch(-(-height // (2 * SIDE)) * 2 * SIDE * pitch, np.uint8).reshape(-1, pitch)


@kernel
def recode(image, repeats, luma_steps, chroma_steps, out, coefficients):
    """Write an image as a decoder returns it after encoding.

    Args:
        image: uint8 (H, W * 3).
        repeats: Pixels on a side for each value of chroma, 1 or 2.
        luma_steps: See :func:`steps_of`.
        chroma_steps: The same.
        out: uint8 (H, W * 3).
        coefficients: Those of luma, blue and red chroma, see :func:`quantise_plane`.
    """
    height, width = image.shape[0], image.shape[1] // 3
    chroma_height, chroma_width = -(-height // repeats), -(-width // repeats)
    luma = plane_of(height, width)
    cb, cr = plane_of(chroma_height, chroma_width), plane_of(chroma_height, chroma_width)
    to_planes(image, repeats, luma, cb, cr)
    quantise_plane(luma, luma_steps, coefficients[0])
    quantise_plane(cb, chroma_steps, coefficients[1])
    quantise_plane(cr, chroma_steps, coefficients[2])
    planes, sums = np.empty((3, luma.shape[1]), np.uint8), np.empty(chroma_width + 2, np.int16)
    blue, red = np.empty(2 * cb.shape[1], np.uint8), np.empty(2 * cb.shape[1], np.uint8)
    for y in range(height):
        if repeats == 1:
            join(luma[y], cb[y], cr[y], planes, out[y])
        else:
            enlarge(cb, y, chroma_height - 1, sums, blue)
            enlarge(cr, y, chroma_height - 1, sums, red)
            join(luma[y], blue, red, planes, out[y])


def round_trip(
    image: NDArray[np.uint8],
    quality: int,
    halved: bool = True,
    out: NDArray[np.uint8] | None = None,
    coefficients: tuple[NDArray[np.int16], ...] = (np.empty(0, np.int16),) * 3,
) -> NDArray[np.uint8]:
    """Return an image as it is after JPEG compression by libjpeg-turbo.

    Args:
        image: uint8 (H, W, 3).
        quality: 1..100.
        halved: Whether chroma has half the height and width (4:2:0), else full size (4:4:4).
        out: Contiguous array for the result; None for a new one.
        coefficients: Arrays for those of luma, blue and red chroma, see :func:`quantise_plane`.
    """
    out = np.empty_like(image, order="C") if out is None else out
    rows = (array.reshape(len(array), -1) for array in (image, out))
    steps = (steps_of(base, quality) for base in (LUMA_STEPS, CHROMA_STEPS))
    recode(next(rows), 2 if halved else 1, *steps, next(rows), coefficients)
    return out
