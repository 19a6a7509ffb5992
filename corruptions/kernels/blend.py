"""Layers laid over an image: frost, snow, water and mud."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.planes import split

RED, GREEN, BLUE = np.float32(0.299), np.float32(0.587), np.float32(0.114)
"""OpenCV's weights of a grey value."""

WHITE = np.float32(255.0)
ONE = np.float32(1.0)


@kernel
def lay_frost(pixels, texture, top, left, keep, add):
    """(H, W) uint8: keep * pixels + add * the part of ``texture`` at (top, left), cut at 255, truncated."""
    height, width = pixels.shape
    out = np.empty_like(pixels)
    for y in range(height):
        source, frost, target = pixels[y], texture[top + y][left : left + width], out[y]
        for i in range(width):
            target[i] = np.uint8(np.int32(min(keep * source[i] + add * frost[i], 255.0)))
    return out


@kernel
def flake_levels(layer, threshold):
    """A float layer (H, W) as uint8: 0 below the threshold, clipped to 0..1, times 255, truncated."""
    out = np.empty(layer.shape, np.uint8)
    for y in range(layer.shape[0]):
        source, target = layer[y], out[y]
        for x in range(source.size):
            value = source[x] if source[x] >= threshold else source.dtype.type(0.0)
            target[x] = np.uint8(np.int32(min(max(value, 0.0), 1.0) * 255.0))
    return out


@inlined
def spread(values, row):
    """``row`` (3 W,) = each of the values three times. Written out: the compiler then stores whole vectors."""
    for x in range(values.size):
        row[3 * x] = values[x]
        row[3 * x + 1] = values[x]
        row[3 * x + 2] = values[x]


@inlined
def whiten(source, planes, gain, offset, white):
    """``white`` (W,) = the grey of a row of pixels (3 W,) times gain plus offset, on 0..255; by way of planes."""
    reds, greens, blues = planes[0], planes[1], planes[2]
    split(source, reds, greens, blues)
    for x in range(white.size):
        red, green, blue = np.float32(reds[x]), np.float32(greens[x]), np.float32(blues[x])
        white[x] = (red * RED + green * GREEN + blue * BLUE) * gain + offset


@kernel
def add_snow(pixels, flakes, keep, whiteness, gain, offset):
    """(H, W * 3) uint8: keep * x + whiteness * max(x, grey * gain + offset), plus the flakes and the flakes turned."""
    height, width = pixels.shape
    out = np.empty_like(pixels)
    planes, turned = np.empty((3, width // 3), np.uint8), np.empty(width // 3, np.uint8)
    white, fallen = scratch(width // 3, np.float32), scratch(width // 3, np.float32)
    veiled, snow = scratch(width, np.float32), scratch(width, np.float32)
    for y in range(height):
        source, target = pixels[y], out[y]
        whiten(source, planes, gain, offset, white)
        down, opposite = flakes[y], flakes[height - 1 - y]
        for x in range(turned.size):  # by itself: with the sum in one loop it takes eight times as long
            turned[x] = opposite[np.uint64(turned.size - 1 - x)]
        for x in range(fallen.size):
            fallen[x] = np.float32(np.int32(np.uint16(down[x]) + np.uint16(turned[x])))
        spread(white, veiled)
        spread(fallen, snow)
        for i in range(width):
            level = np.float32(source[i])
            level = keep * level + whiteness * max(level, veiled[i]) + snow[i]
            target[i] = np.uint8(np.int32(min(level, WHITE)))
    return out


def lay_snow(
    image: NDArray[np.uint8], flakes: NDArray[np.uint8], keep: float, gain: float, offset: float
) -> NDArray[np.uint8]:
    """(H, W, 3) uint8, whitened but for a share ``keep``, under flakes (H, W) and the same ones turned by 180 degrees.

    What whitens is the grey times ``gain`` plus ``offset``, on 0..1; calculated on levels 0..255 in float32.
    """
    numbers = np.array([keep, 1 - keep, gain, offset * WHITE], np.float32)
    snowy: NDArray[np.uint8] = add_snow(image.reshape(image.shape[0], -1), flakes, *numbers)
    return snowy.reshape(image.shape)


@kernel
def wrapped_levels(layer, threshold):
    """A float layer (H, W) on 0..1 as uint8, truncated; 0 below the threshold.

    Quirk: values above 1 wrap modulo 256 instead of being clipped (published scripts).
    """
    out = np.empty(layer.shape, np.uint8)
    for y in range(layer.shape[0]):
        source, target = layer[y], out[y]
        for x in range(source.size):
            level = np.int32(source[x] * source.dtype.type(255))
            target[x] = np.uint8(level & 255) if source[x] >= threshold else np.uint8(0)
    return out


@inlined
def tint(values, colour, row):
    """``row`` (3 W,) = each of the values times the colour (3,)."""
    red, green, blue = colour[0], colour[1], colour[2]
    for x in range(values.size):
        row[3 * x] = values[x] * red
        row[3 * x + 1] = values[x] * green
        row[3 * x + 2] = values[x] * blue


@inlined
def deepest_of(drops, relief):
    """The largest product of two uint8 layers, column by column first, since that vectorises."""
    largest = np.zeros(drops.shape[1], np.uint16)
    for y in range(drops.shape[0]):
        drop, height = drops[y], relief[y]
        for x in range(largest.size):
            largest[x] = max(largest[x], np.uint16(drop[x]) * np.uint16(height[x]))
    return largest.max()


@kernel
def lay_water(pixels, drops, relief, amount, colour):
    """(H, W * 3) uint8 plus drops * relief, divided by its maximum, times amount times the colour (3,) on 0..255.

    ``drops`` and ``relief`` are (H, W) uint8. Without any water the image stays as it is: the published script divides
    by zero there.
    """
    height, width = pixels.shape
    out = np.empty_like(pixels)
    unit = amount / np.float32(max(deepest_of(drops, relief), 1))
    depth, water = np.empty(drops.shape[1], np.float32), np.empty(width, np.float32)
    for y in range(height):
        drop, level = drops[y], relief[y]
        for x in range(depth.size):
            depth[x] = np.float32(np.int32(drop[x]) * np.int32(level[x])) * unit
        tint(depth, colour, water)
        source, target = pixels[y], out[y]
        for i in range(width):
            target[i] = np.uint8(np.int32(min(source[i] + water[i], WHITE)))
    return out


@kernel
def lay_mud(pixels, cover, floor, colour):
    """(H, W * 3) uint8 under a colour (3,) on 0..255, in float32.

    ``cover`` (H, W) float32 is the share of it, 0..1; less than ``floor`` is left out.
    """
    height, width = pixels.shape
    out = np.empty_like(pixels)
    share = np.empty(cover.shape[1], np.float32)
    kept, added = np.empty(width, np.float32), np.empty(width, np.float32)
    for y in range(height):
        mud = cover[y]
        for x in range(share.size):
            share[x] = mud[x] if mud[x] >= floor else np.float32(0)
        tint(share, colour, added)
        spread(share, kept)
        source, target = pixels[y], out[y]
        for i in range(width):
            target[i] = np.uint8(np.int32(min(source[i] * (ONE - kept[i]) + added[i], WHITE)))
    return out
