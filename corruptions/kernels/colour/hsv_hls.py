"""HSV and HLS of 8-bit pixels, with the arithmetic of OpenCV.

All functions but the last are compiled into the loops that call them. They take and return the numbers of one pixel:
channels and 8-bit components as uint8, others as float32. Selects instead of branches allow these loops to vectorise.
"""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.colour.color import place_channels
from corruptions.kernels.planes import CHANNELS, deinterleave, interleave

LEVELS = 256
CHUNK = 2048
"""Pixels per pass. Their planes fit into the first-level cache."""

HUES = np.int32(180)
"""Number of 8-bit hues. One is two degrees."""

FIXED_BITS, FIXED_HALF = np.int32(12), np.int32(1 << 11)
"""Fraction bits of the reciprocals in 8-bit HSV, and a half."""
SATURATIONS = np.float32(255 << 12)
"""Fixed-point numerator of the 8-bit saturation."""
HUES_PER_SIXTH = np.float32((180 << 12) / 6)
"""Fixed-point numerator of the 8-bit hue."""

ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
WHITE, UNIT = np.float32(255), np.float32(1 / 255)
"""Largest level, and the size of a level in 0..1."""
SIXTH_TURN, TURN = np.float32(60), np.float32(360)
"""Degrees of a sixth of a turn and of a turn."""
GREEN_START, BLUE_START = np.float32(120), np.float32(240)
"""Hues of green and blue in degrees. That of red is 0."""
SIXTHS_PER_DEGREE, SIXTHS_PER_HUE = np.float32(6 / 360), np.float32(6 / 180)
"""Sixths of a turn per degree and per 8-bit hue."""


@inlined
def fused(a, b, c):
    """Return ``a * b + c`` in float32, rounded as by a fused multiply-add.

    The product of two float32 numbers is exact in float64. The sum is rounded twice, which very rarely matters.
    """
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


@inlined
def fixed_reciprocal(numerator, level):
    """Return round(numerator / level) as int32, or 0 for level 0. No quotient used here is halfway between integers."""
    divisor = np.float32(level if level > 0 else 1)
    return np.int32(numerator / divisor + HALF) if level > 0 else np.int32(0)


@inlined
def to_hsv(r, g, b):
    """Return 8-bit HSV of a pixel as int32: hue 0..179, saturation 0..255, value 0..255."""
    value = np.int32(max(r, g, b))
    delta = value - np.int32(min(r, g, b))
    red, green, blue = np.int32(r), np.int32(g), np.int32(b)
    from_green = blue - red + np.int32(2) * delta
    from_blue = red - green + np.int32(4) * delta
    numerator = green - blue if red == value else (from_green if green == value else from_blue)
    hue = np.int32(numerator * fixed_reciprocal(HUES_PER_SIXTH, delta) + FIXED_HALF) >> FIXED_BITS
    saturation = np.int32(delta * fixed_reciprocal(SATURATIONS, value) + FIXED_HALF) >> FIXED_BITS
    return (hue + HUES if hue < 0 else hue), saturation, value


@inlined
def from_hsv(hue, saturation, value):
    """Return the channels of a pixel with 8-bit HSV.

    Quirk: the fraction of a level is dropped instead of rounded, as in OpenCV's vector code.
    """
    h, s, v = np.float32(hue) * SIXTHS_PER_HUE, np.float32(saturation) * UNIT, np.float32(value) * UNIT
    sector = np.int32(h)
    fraction = h - np.float32(sector)
    weight = fraction if sector & np.int32(1) else ONE - fraction
    high = np.uint8(np.int32(v * WHITE))
    middle = np.uint8(np.int32(v * fused(-s, weight, ONE) * WHITE))
    low = np.uint8(np.int32(v * (ONE - s) * WHITE))
    return place_channels(sector, high, middle, low)


@inlined
def to_hls(r, g, b):
    """Return HLS of a pixel: hue in degrees, 0..360, lightness and saturation in 0..1."""
    top, bottom = max(r, g, b), min(r, g, b)
    red, green, blue = np.float32(r) * UNIT, np.float32(g) * UNIT, np.float32(b) * UNIT
    highest, lowest = np.float32(top) * UNIT, np.float32(bottom) * UNIT
    delta, total = highest - lowest, highest + lowest
    lightness = total * HALF
    is_grey = top == bottom
    span = total if lightness < HALF else TWO - total
    saturation = delta / (ONE if is_grey else span)
    difference = green - blue if r == top else (blue - red if g == top else red - green)
    red_start = TURN if g < b else ZERO
    start = red_start if r == top else (GREEN_START if g == top else BLUE_START)
    hue = fused(difference, SIXTH_TURN / (ONE if is_grey else delta), start)
    return (ZERO if is_grey else hue), lightness, saturation


@inlined
def hls_channels(hue, lightness, saturation):
    """Return the channels of a pixel in 0..1, sorted: the sector of the hue, then the highest, middle and lowest.

    Quirk: the middle channel of a negative hue is computed with a negative fraction, in sector 0, as in OpenCV's vector
    code. It may then be negative.

    Args:
        hue: Hue in sixths of a turn, -6..100.
        lightness: Lightness, 0..1.
        saturation: Saturation, 0..1.
    """
    sixths = np.int32(hue)
    fraction = hue - np.float32(sixths)
    sector = np.int32(np.uint32(max(sixths, np.int32(0))) % np.uint32(6))
    product = lightness * saturation
    extent = product if lightness <= HALF else saturation - product
    high, low = lightness + extent, lightness - extent
    middle = fused(-extent, TWO * fraction, high) if sector & np.int32(1) else fused(extent, TWO * fraction, low)
    return sector, high, middle, low


@inlined
def to_level(x):
    """Return a value in 0..1 as the nearest level."""
    return np.uint8(np.int32(np.rint(x * WHITE)))


@inlined
def to_hls_levels(r, g, b):
    """Return 8-bit HLS of a pixel as uint8: hue 0..180, lightness 0..255, saturation 0..255."""
    hue, lightness, saturation = to_hls(r, g, b)
    return np.uint8(np.int32(np.rint(hue * HALF))), to_level(lightness), to_level(saturation)


@inlined
def from_hls_levels(hue, lightness, saturation):
    """Return the channels of a pixel with 8-bit HLS."""
    sixths = np.float32(hue) * SIXTHS_PER_HUE
    sector, high, middle, low = hls_channels(sixths, np.float32(lightness) * UNIT, np.float32(saturation) * UNIT)
    return place_channels(sector, to_level(high), to_level(middle), to_level(low))


@kernel
def map_lightness(flat, tables, choice):
    """Return the pixels with their lightness looked up in a table, uint8 (3 P,).

    Quirk: 8-bit HLS changes colours by rounding, so pixels change even where the table keeps their lightness.

    Args:
        flat: uint8 (3 P,).
        tables: New lightness for each lightness, uint8 (n * LEVELS,).
        choice: Number of the table of each pixel, uint8 (P,).
    """
    out = np.empty_like(flat)
    planes = scratch(3 * CHUNK, np.uint8).reshape(3, CHUNK)
    first, second, third = planes[0], planes[1], planes[2]
    for start in range(0, choice.size, CHUNK):
        chosen = choice[start : start + CHUNK]
        deinterleave(flat[CHANNELS * start : CHANNELS * (start + CHUNK)], first, second, third)
        for i in range(CHUNK):
            first[i], second[i], third[i] = to_hls_levels(first[i], second[i], third[i])
        for i in range(chosen.size):
            second[i] = tables[LEVELS * np.uint64(chosen[i]) + second[i]]
        for i in range(CHUNK):
            first[i], second[i], third[i] = from_hls_levels(first[i], second[i], third[i])
        interleave(first, second, third, out[CHANNELS * start : CHANNELS * (start + CHUNK)])
    return out
