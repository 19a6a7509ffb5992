"""Conversion of YCbCr planes with chroma at half width to RGB: FFmpeg's arithmetic on x86-64, for every CPU.

libswscale computes in vectors of 16-bit integers and repeats chroma instead of interpolating it. Its code for ARM
rounds differently.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import interleave

ONE = 1 << 16
"""A factor of 1 in the constants below."""
CR_TO_RED, CB_TO_GREEN, CR_TO_GREEN, CB_TO_BLUE = 104_597, 25_675, 53_279, 132_201
"""Factors of chroma in ITU-R BT.601 for limited range, as libswscale rounds them. Those of green are subtracted."""
LUMA_SPAN, CHROMA_SPAN = 219, 224
"""Number of levels between black and white, and of chroma, in limited range."""
CHROMA_ZERO = np.int16(128)
"""Level of chroma in grey pixels."""


class Factors(NamedTuple):
    """Constants of a conversion, int16: the level of black, and factors in units of 1 / 8192."""

    black: np.int16
    luma: np.int16
    cr_to_red: np.int16
    cb_to_green: np.int16
    cr_to_green: np.int16
    cb_to_blue: np.int16


def factors(black: int, luma: int, span: int) -> Factors:
    """Return the constants of a conversion.

    Args:
        black: Level of black.
        luma: Factor of luma, in units of 1 / ONE.
        span: Number of levels of chroma.
    """
    red, *greens, blue = (factor * CHROMA_SPAN // span for factor in (CR_TO_RED, CB_TO_GREEN, CR_TO_GREEN, CB_TO_BLUE))
    scaled = (luma, red, *(-green for green in greens), blue)
    return Factors(np.int16(black), *(np.int16(((factor << 13) + ONE // 2) >> 16) for factor in scaled))


FACTORS: Mapping[bool, Factors] = {True: factors(0, ONE, 255), False: factors(16, ONE * 255 // LUMA_SPAN, CHROMA_SPAN)}
"""Constants by whether levels have the full range 0..255 (JPEG). The limited range is that of video, 16..235."""


@inlined
def multiply(level, zero, factor):
    """Return (level - zero) * factor / 8192, rounded down, int16: the high half of a 16-bit product."""
    return np.int16((np.int32(np.int16((np.int16(level) - zero) << 3)) * np.int32(factor)) >> np.int32(16))


@inlined
def add_clipped(level, chroma):
    """Return the sum of two int16 values as uint8, clipped."""
    return np.uint8(min(max(np.int16(level + chroma), np.int16(0)), np.int16(255)))


@inlined
def upsample(blue_row, red_row, factors, terms):
    """Write what chroma adds to red, green and blue to ``terms``, int16 (3, W), each value twice."""
    to_red, to_green, to_blue = terms[0], terms[1], terms[2]
    for x in range(to_red.size // 2):
        red = multiply(red_row[x], CHROMA_ZERO, factors.cr_to_red)
        green = multiply(blue_row[x], CHROMA_ZERO, factors.cb_to_green)
        green = np.int16(green + multiply(red_row[x], CHROMA_ZERO, factors.cr_to_green))
        blue = multiply(blue_row[x], CHROMA_ZERO, factors.cb_to_blue)
        to_red[2 * x], to_red[2 * x + 1] = red, red
        to_green[2 * x], to_green[2 * x + 1] = green, green
        to_blue[2 * x], to_blue[2 * x + 1] = blue, blue


@kernel
def convert(luma, cb, cr, width, factors):
    """Return interleaved RGB, uint8 (H, W * 3). The planes are those of :func:`to_rgb`."""
    out = np.empty((luma.shape[0], 3 * width), np.uint8)
    repeats = luma.shape[0] // cb.shape[0]
    terms, planes = np.empty((3, width + width % 2), np.int16), np.empty((3, width), np.uint8)
    to_red, to_green, to_blue = terms[0], terms[1], terms[2]
    reds, greens, blues = planes[0], planes[1], planes[2]
    for y in range(luma.shape[0]):
        if y % repeats == 0:
            upsample(cb[y // repeats], cr[y // repeats], factors, terms)
        row = luma[y]
        for x in range(width):
            level = multiply(row[x], factors.black, factors.luma)
            reds[x] = add_clipped(level, to_red[x])
            greens[x] = add_clipped(level, to_green[x])
            blues[x] = add_clipped(level, to_blue[x])
        interleave(reds, greens, blues, out[y])
    return out


def to_rgb(
    luma: NDArray[np.uint8], cb: NDArray[np.uint8], cr: NDArray[np.uint8], width: int, full_range: bool
) -> NDArray[np.uint8]:
    """Return an image as RGB, uint8 (H, W, 3). Rows of planes may have padding at their end.

    Args:
        luma: uint8, H rows of at least W values.
        cb: uint8, H rows or half as many, of at least W / 2 values, rounded up.
        cr: As ``cb``.
        width: W.
        full_range: Whether levels have the full range 0..255. If not, black is 16 and white is 235.
    """
    return convert(luma, cb, cr, width, FACTORS[full_range]).reshape(luma.shape[0], width, 3)
