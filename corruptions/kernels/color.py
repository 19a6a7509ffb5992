"""HSV adjustments in one pass, bit-exact with scikit-image's float64 rgb2hsv and hsv2rgb."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel

UNIT = np.arange(256) / 255.0
"""Every 8-bit level in 0..1, float64."""

CHUNK = 512
"""Pixels per pass: the planes of a chunk stay in the first-level cache, and loops over them vectorise."""


@inlined
def adjust_pixel(r, g, b, gain, offset, shift):
    """(r, g, b) in 0..1 after saturation * gain + offset and value + shift, as levels 0..255; float64.

    Written with selects instead of branches, so that it vectorises; the order of operations is scikit-image's.
    """
    top = max(r, g, b)
    delta = top - min(r, g, b)
    grey = delta == 0.0
    span = 1.0 if grey else delta  # keeps 0 / 0 out; grey pixels are set below
    hue = (r - g) / span + 4.0 if b == top else ((b - r) / span + 2.0 if g == top else (g - b) / span)
    hue = 0.0 if grey else hue / 6.0
    hue = hue + 1.0 if hue < 0.0 else hue
    saturation = 0.0 if grey else delta / top
    saturation = min(max(saturation * gain + offset, 0.0), 1.0)
    value = min(max(top + shift, 0.0), 1.0)

    turn = hue * 6.0
    sector = np.int32(turn)
    part = turn - sector
    p = value * (1.0 - saturation) * 255.0
    q = value * (1.0 - part * saturation) * 255.0
    t = value * (1.0 - (1.0 - part) * saturation) * 255.0
    v = value * 255.0
    red = v if (sector == 0) | (sector == 5) else (q if sector == 1 else (t if sector == 4 else p))
    green = v if (sector == 1) | (sector == 2) else (q if sector == 3 else (t if sector == 0 else p))
    blue = v if (sector == 3) | (sector == 4) else (q if sector == 5 else (t if sector == 2 else p))
    return red, green, blue


@kernel
def adjust_pixels(pixels, gain, offset, shift, unit):
    """(P, 3) uint8 with saturation and value adjusted, as a new array."""
    out = np.empty_like(pixels)
    planes = np.empty((3, CHUNK))
    levels = np.empty((3, CHUNK), np.uint8)
    for start in range(0, pixels.shape[0], CHUNK):
        source, target = pixels[start : start + CHUNK], out[start : start + CHUNK]
        for i in range(source.shape[0]):
            for c in range(3):
                planes[c, i] = unit[source[i, c]]
        for i in range(source.shape[0]):
            r, g, b = adjust_pixel(planes[0, i], planes[1, i], planes[2, i], gain, offset, shift)
            levels[0, i] = np.uint8(np.int32(r))
            levels[1, i] = np.uint8(np.int32(g))
            levels[2, i] = np.uint8(np.int32(b))
        for i in range(source.shape[0]):
            for c in range(3):
                target[i, c] = levels[c, i]
    return out


def shift_value(image: NDArray[np.uint8], amount: float) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 with ``amount`` (in 0..1 units) added to its HSV value, clipped."""
    pixels = np.ascontiguousarray(image).reshape(-1, 3)
    adjusted: NDArray[np.uint8] = adjust_pixels(pixels, 1.0, 0.0, float(amount), UNIT)
    return adjusted.reshape(image.shape)


def scale_saturation(image: NDArray[np.uint8], gain: float, offset: float) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 with its HSV saturation times ``gain`` plus ``offset``, clipped."""
    pixels = np.ascontiguousarray(image).reshape(-1, 3)
    adjusted: NDArray[np.uint8] = adjust_pixels(pixels, float(gain), float(offset), 0.0, UNIT)
    return adjusted.reshape(image.shape)
