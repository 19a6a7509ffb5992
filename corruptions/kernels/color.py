"""HSV adjustments in one pass, bit-exact with scikit-image's float64 rgb2hsv and hsv2rgb."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import join, split, unit

CHUNK = 1024
"""Pixels per pass: the planes of a chunk stay in the first-level cache, and loops over them vectorise."""


SIXTH = 1.0 / 6.0


@inlined
def sixth(x):
    """``x / 6.0`` in float64, bit for bit, without the division: a quotient and what it leaves over, exactly."""
    quotient = x * SIXTH
    fourfold, twofold = quotient * 4.0, quotient * 2.0
    sixfold = fourfold + twofold
    lost = twofold - (sixfold - fourfold)
    return quotient + ((x - sixfold) - lost) * SIXTH


@inlined
def hue_of(r, g, b, top, delta):
    """Hue in sixths of a turn, 0..6, from channels in 0..1; ``delta`` is the largest less the smallest."""
    # The operands are selected before the division, so that there is one instead of three.
    span = 1.0 if delta == 0.0 else delta
    difference = r - g if b == top else (b - r if g == top else g - b)
    start = 4.0 if b == top else (2.0 if g == top else 0.0)
    hue = sixth(difference / span + start)
    hue = hue + 1.0 if hue < 0.0 else hue
    return 0.0 if delta == 0.0 else hue * 6.0  # grey has no hue: as published, it counts as red


@inlined
def adjusted(r, g, b, gain, offset, shift):
    """(r, g, b) in 0..1 after saturation * gain + offset and value + shift, as levels 0..255.

    Written with selects instead of branches, so that it vectorises; the order of operations is scikit-image's.
    """
    top = max(r, g, b)
    delta = top - min(r, g, b)
    turn = hue_of(r, g, b, top, delta)
    saturation = delta / (top if top > 0.0 else 1.0)
    saturation = min(max(saturation * gain + offset, 0.0), 1.0)
    value = min(max(top + shift, 0.0), 1.0)

    # One channel is highest, one lowest, one between them: scikit-image's q in the odd sectors, its t in the even ones.
    sector = np.int32(turn)
    part = turn - sector
    share = part if sector & 1 else 1.0 - part
    high = np.uint8(np.int32(value * 255.0))
    low = np.uint8(np.int32(value * (1.0 - saturation) * 255.0))
    between = np.uint8(np.int32(value * (1.0 - share * saturation) * 255.0))
    red = high if (sector == 0) | (sector == 5) else (between if (sector == 1) | (sector == 4) else low)
    green = high if (sector == 1) | (sector == 2) else (between if (sector == 0) | (sector == 3) else low)
    blue = high if (sector == 3) | (sector == 4) else (between if (sector == 2) | (sector == 5) else low)
    return red, green, blue


@kernel
def adjust_pixels(flat, gain, offset, shift):
    """(3 P,) interleaved uint8 with saturation and value adjusted, as a new array."""
    out = np.empty_like(flat)
    planes = np.empty((3, CHUNK), np.uint8)
    reds, greens, blues = planes[0], planes[1], planes[2]
    for start in range(0, flat.size, 3 * CHUNK):
        source, target = flat[start : start + 3 * CHUNK], out[start : start + 3 * CHUNK]
        split(source, reds, greens, blues)
        for i in range(CHUNK):
            r, g, b = unit(reds[i], np.float64), unit(greens[i], np.float64), unit(blues[i], np.float64)
            reds[i], greens[i], blues[i] = adjusted(r, g, b, gain, offset, shift)
        join(reds, greens, blues, target)
    return out


def shift_value(image: NDArray[np.uint8], amount: float) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 with ``amount`` (in 0..1 units) added to its HSV value, clipped."""
    result: NDArray[np.uint8] = adjust_pixels(image.reshape(-1), 1.0, 0.0, float(amount))
    return result.reshape(image.shape)


def scale_saturation(image: NDArray[np.uint8], gain: float, offset: float) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 with its HSV saturation times ``gain`` plus ``offset``, clipped."""
    result: NDArray[np.uint8] = adjust_pixels(image.reshape(-1), float(gain), float(offset), 0.0)
    return result.reshape(image.shape)
