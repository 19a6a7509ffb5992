"""HSV adjustments in one pass, bit-exact with scikit-image's float64 rgb2hsv and hsv2rgb."""

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.planes import deinterleave, interleave, to_unit

CHUNK = 1024
"""Pixels per pass. The planes of a chunk fit into the first-level cache, and loops over them vectorise."""


SIXTH = 1.0 / 6.0
"""1 / 6."""


@inlined
def divide_by_6(x):
    """Return ``x / 6.0`` in float64, correctly rounded, without a division.

    The rounding error of the quotient is computed exactly and added to it.
    """
    quotient = x * SIXTH
    fourfold, twofold = quotient * 4.0, quotient * 2.0
    sixfold = fourfold + twofold
    error = twofold - (sixfold - fourfold)
    return quotient + ((x - sixfold) - error) * SIXTH


@inlined
def compute_hue(r, g, b, highest, delta):
    """Return the hue in sixths of a turn, 0..6. ``delta`` is the largest channel, ``highest``, minus the smallest."""
    # Selecting the operands before the division leaves one division instead of three.
    span = 1.0 if delta == 0.0 else delta
    difference = r - g if b == highest else (b - r if g == highest else g - b)
    start = 4.0 if b == highest else (2.0 if g == highest else 0.0)
    hue = divide_by_6(difference / span + start)
    hue = hue + 1.0 if hue < 0.0 else hue
    return 0.0 if delta == 0.0 else hue * 6.0  # grey has no hue; scikit-image returns that of red


@inlined
def place_channels(sector, high, middle, low):
    """Return (r, g, b), given the three channels in descending order and the sector of the hue, 0..5."""
    red = high if (sector == 0) | (sector == 5) else (middle if (sector == 1) | (sector == 4) else low)
    green = high if (sector == 1) | (sector == 2) else (middle if (sector == 0) | (sector == 3) else low)
    blue = high if (sector == 3) | (sector == 4) else (middle if (sector == 2) | (sector == 5) else low)
    return red, green, blue


@inlined
def adjust_pixel(r, g, b, gain, offset, shift):
    """Return (r, g, b) as levels 0..255 after saturation * gain + offset and value + shift. Inputs are in 0..1.

    Selects instead of branches allow the loop to vectorise. The order of operations is that of scikit-image.
    """
    highest = max(r, g, b)
    delta = highest - min(r, g, b)
    hue = compute_hue(r, g, b, highest, delta)
    saturation = delta / (highest if highest > 0.0 else 1.0)
    saturation = min(max(saturation * gain + offset, 0.0), 1.0)
    value = min(max(highest + shift, 0.0), 1.0)

    # The middle channel is scikit-image's q in odd sectors and its t in even sectors.
    sector = np.int32(hue)
    fraction = hue - sector
    weight = fraction if sector & 1 else 1.0 - fraction
    high = np.uint8(np.int32(value * 255.0))
    low = np.uint8(np.int32(value * (1.0 - saturation) * 255.0))
    middle = np.uint8(np.int32(value * (1.0 - weight * saturation) * 255.0))
    return place_channels(sector, high, middle, low)


@kernel
def adjust_pixels(flat, gain, offset, shift):
    """Return a new array (3 P,) of interleaved uint8 with saturation and value adjusted."""
    out = np.empty_like(flat)
    reds, greens, blues = np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8)
    for start in range(0, flat.size, 3 * CHUNK):
        source, target = flat[start : start + 3 * CHUNK], out[start : start + 3 * CHUNK]
        deinterleave(source, reds, greens, blues)
        for i in range(CHUNK):
            r, g, b = to_unit(reds[i], np.float64), to_unit(greens[i], np.float64), to_unit(blues[i], np.float64)
            reds[i], greens[i], blues[i] = adjust_pixel(r, g, b, gain, offset, shift)
        interleave(reds, greens, blues, target)
    return out


def shift_value(image: NDArray[np.uint8], amount: float) -> NDArray[np.uint8]:
    """Return uint8 (H, W, 3) with ``amount`` (for values in 0..1) added to the HSV value, clipped."""
    return adjust_pixels(image.reshape(-1), 1.0, 0.0, float(amount)).reshape(image.shape)


def scale_saturation(image: NDArray[np.uint8], gain: float, offset: float) -> NDArray[np.uint8]:
    """Return uint8 (H, W, 3) with the HSV saturation multiplied by ``gain``, plus ``offset``, clipped."""
    return adjust_pixels(image.reshape(-1), float(gain), float(offset), 0.0).reshape(image.shape)
