"""New colours that depend on all channels of a pixel: sepia, grey, shifted HSV, and noise in HLS.

Arrays of pixels are interleaved uint8 (3 P,).
"""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.colour.color import place_channels
from corruptions.kernels.colour.hsv_hls import (
    HUES,
    ONE,
    SIXTHS_PER_DEGREE,
    TURN,
    WHITE,
    ZERO,
    from_hsv,
    hls_channels,
    to_hls,
    to_hsv,
)
from corruptions.kernels.colour.levels import clip
from corruptions.kernels.planes import deinterleave, interleave

CHUNK = 1024
"""Pixels per pass. The planes of a chunk fit into the first-level cache, and its sums of squares into 32 bits."""

DARKEST, BRIGHTEST = np.int32(0), np.int32(255)
"""Lowest and highest level."""

GREY_RED, GREY_GREEN, GREY_BLUE = np.int32(9798), np.int32(19235), np.int32(3735)
"""OpenCV's weights of the channels in a grey level, in units of 2^-15."""
GREY_BITS, GREY_HALF = np.int32(15), np.int32(1 << 14)
"""Fraction bits of these weights, and a half."""

SEPIA_BITS, SEPIA_HALF = np.int32(10), np.int32(1 << 9)
"""Fraction bits of the weights of sepia, and a half."""
SEPIA_RED, SEPIA_GREEN, SEPIA_BLUE = (402, 787, 194), (357, 702, 172), (279, 547, 134)
"""Weights of red, green and blue in each channel of sepia, in units of 2^-10."""


@inlined
def sepia_level(r, g, b, weights):
    """Return the weighted sum of the channels (int32), rounded and cut at 255."""
    total = np.int32(weights[0]) * r + np.int32(weights[1]) * g + np.int32(weights[2]) * b
    return np.uint8(min((total + SEPIA_HALF) >> SEPIA_BITS, BRIGHTEST))


@kernel
def to_sepia(flat):
    """Return the pixels in sepia."""
    out = np.empty_like(flat)
    reds, greens, blues = np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8)
    for start in range(0, flat.size, 3 * CHUNK):
        source, target = flat[start : start + 3 * CHUNK], out[start : start + 3 * CHUNK]
        deinterleave(source, reds, greens, blues)
        for i in range(CHUNK):
            r, g, b = np.int32(reds[i]), np.int32(greens[i]), np.int32(blues[i])
            reds[i] = sepia_level(r, g, b, SEPIA_RED)
            greens[i] = sepia_level(r, g, b, SEPIA_GREEN)
            blues[i] = sepia_level(r, g, b, SEPIA_BLUE)
        interleave(reds, greens, blues, target)
    return out


@inlined
def grey_level(r, g, b):
    """Return the grey level of a pixel, int32 0..255."""
    weighted = GREY_RED * np.int32(r) + GREY_GREEN * np.int32(g) + GREY_BLUE * np.int32(b)
    return (weighted + GREY_HALF) >> GREY_BITS


@kernel
def grey_sum(flat):
    """Return the sum of the grey levels, an integer."""
    reds, greens, blues = np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8)
    total = 0
    for start in range(0, flat.size, 3 * CHUNK):
        source = flat[start : start + 3 * CHUNK]
        deinterleave(source, reds, greens, blues)
        part = np.uint32(0)
        for i in range(source.size // 3):
            part = np.uint32(part + np.uint32(grey_level(reds[i], greens[i], blues[i])))
        total += int(part)
    return total


@inlined
def blend(level, kept, added):
    """Return ``level * kept + added`` in float32, rounded and clipped to 0..255."""
    return np.uint8(np.int32(np.rint(clip(np.float32(level) * kept + added))))


@kernel
def blend_with_grey(flat, kept, grey):
    """Return the pixels times ``kept`` plus their grey levels times ``grey``, two float32 weights."""
    out = np.empty_like(flat)
    reds, greens, blues = np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8)
    for start in range(0, flat.size, 3 * CHUNK):
        source, target = flat[start : start + 3 * CHUNK], out[start : start + 3 * CHUNK]
        deinterleave(source, reds, greens, blues)
        for i in range(CHUNK):
            added = np.float32(grey_level(reds[i], greens[i], blues[i])) * grey
            reds[i], greens[i] = blend(reds[i], kept, added), blend(greens[i], kept, added)
            blues[i] = blend(blues[i], kept, added)
        interleave(reds, greens, blues, target)
    return out


@kernel
def shift_hsv(flat, hue, saturation, value):
    """Return the pixels with numbers added to their 8-bit HSV. The hue wraps around, the others are clipped.

    Args:
        flat: uint8 (3 P,).
        hue: int32 0..179.
        saturation: int32.
        value: int32.
    """
    out = np.empty_like(flat)
    reds, greens, blues = np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8)
    for start in range(0, flat.size, 3 * CHUNK):
        source, target = flat[start : start + 3 * CHUNK], out[start : start + 3 * CHUNK]
        deinterleave(source, reds, greens, blues)
        for i in range(CHUNK):
            h, s, v = to_hsv(reds[i], greens[i], blues[i])
            h += hue
            h = h - HUES if h >= HUES else h
            s = min(max(s + saturation, DARKEST), BRIGHTEST)
            v = min(max(v + value, DARKEST), BRIGHTEST)
            reds[i], greens[i], blues[i] = from_hsv(h, s, v)
        interleave(reds, greens, blues, target)
    return out


@kernel
def lightness_sums(flat):
    """Return the sum and the sum of squares of max + min of each pixel, the lightness 0..510, as integers."""
    reds, greens, blues = np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8)
    total = squares = 0
    for start in range(0, flat.size, 3 * CHUNK):
        source = flat[start : start + 3 * CHUNK]
        deinterleave(source, reds, greens, blues)
        part, part_squares = np.uint32(0), np.uint32(0)
        for i in range(source.size // 3):
            r, g, b = reds[i], greens[i], blues[i]
            lightness = np.uint32(np.uint32(max(r, g, b)) + np.uint32(min(r, g, b)))
            part = np.uint32(part + lightness)
            part_squares = np.uint32(part_squares + np.uint32(lightness * lightness))
        total += int(part)
        squares += int(part_squares)
    return total, squares


@inlined
def wrap_once(hue):
    """Return a hue in degrees after at most one turn towards 0..360.

    Quirk: hues more than a turn away stay outside (published noise).
    """
    return hue + TURN if hue < ZERO else (hue - TURN if hue > TURN else hue)


@inlined
def to_wrapped_level(x):
    """Return the lowest 8 bits of ``255 * x``, truncated. Quirk: levels are not clipped (published noise)."""
    return np.uint8(np.int32(x * WHITE))


@kernel
def add_hls_noise(flat, photons, rotation):
    """Return the pixels with noise added to lightness and hue.

    The steps are loops of their own, because all of them together need more registers than CPUs have.

    Args:
        flat: uint8 (3 P,).
        photons: Noise of the lightness in 255ths of the distance to white, uint16 (P,).
        rotation: Noise of the hue in degrees, float (P,).
    """
    out = np.empty_like(flat)
    reds, greens, blues = np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint8)
    hues, lights = scratch(CHUNK, np.float32), scratch(CHUNK, np.float32)
    saturations = scratch(CHUNK, np.float32)
    for start in range(0, flat.size, 3 * CHUNK):
        source, target = flat[start : start + 3 * CHUNK], out[start : start + 3 * CHUNK]
        first = start // 3
        brighter, turned = photons[first : first + CHUNK], rotation[first : first + CHUNK]
        deinterleave(source, reds, greens, blues)
        for i in range(CHUNK):
            hues[i], lights[i], saturations[i] = to_hls(reds[i], greens[i], blues[i])
        for i in range(brighter.size):
            hues[i] = wrap_once(np.float32(np.float64(hues[i]) + turned[i])) * SIXTHS_PER_DEGREE
            lights[i] = np.float32(np.float64(lights[i]) + brighter[i] / 255.0 * np.float64(ONE - lights[i]))
        for i in range(CHUNK):
            sector, high, middle, low = hls_channels(hues[i], lights[i], saturations[i])
            high, middle, low = to_wrapped_level(high), to_wrapped_level(middle), to_wrapped_level(low)
            reds[i], greens[i], blues[i] = place_channels(sector, high, middle, low)
        interleave(reds, greens, blues, target)
    return out
