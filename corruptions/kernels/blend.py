"""Layers laid over an image: frost, snow, water and mud."""

from __future__ import annotations

import numpy as np

from corruptions.kernels import kernel

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


@kernel
def whiten(image, y, gain, offset, row, veiled):
    """Row ``y`` of an image on 0..1 as float32 into ``row``, and its grey * gain + offset, thrice, into ``veiled``."""
    for i in range(row.size):
        row[i] = np.float32(image[y, i]) / WHITE
    for x in range(row.size // 3):
        grey = row[3 * x] * RED + row[3 * x + 1] * GREEN + row[3 * x + 2] * BLUE
        white = grey * gain + offset
        veiled[3 * x], veiled[3 * x + 1], veiled[3 * x + 2] = white, white, white


@kernel
def lay_snow(pixels, flakes, keep, whiteness, gain, offset):
    """(H, W * 3) uint8: keep * x + whiteness * max(x, grey * gain + offset), plus the flakes and the flakes turned.

    ``flakes`` is (H, W) uint8; the mix is in float32, the sum with the flakes in float64, as published.
    """
    height, width = pixels.shape
    out = np.empty_like(pixels)
    row, veiled = np.empty(width, np.float32), np.empty(width, np.float32)
    snow, turned = np.empty(width), np.empty(width)
    for y in range(height):
        whiten(pixels, y, gain, offset, row, veiled)
        down, up = flakes[y], flakes[height - 1 - y]
        for x in range(down.size):
            there, back = down[x] / 255.0, up[down.size - 1 - x] / 255.0
            for c in range(3):
                snow[3 * x + c] = there
                turned[3 * x + c] = back
        target = out[y]
        for i in range(width):
            base = keep * row[i] + whiteness * max(row[i], veiled[i])
            target[i] = np.uint8(np.int32(min(np.float64(base) + snow[i] + turned[i], 1.0) * 255.0))
    return out


@kernel
def lay_water(pixels, depth, amount, colour):
    """(H, W * 3) uint8 plus depth (H, W) float32, divided by its maximum, times amount times the colour (3,) on 0..1.

    Without any water the image stays as it is: the published script divides by zero there.
    """
    height, width = pixels.shape
    out = np.empty_like(pixels)
    deepest = depth.max()
    unit = deepest if deepest > 0.0 else ONE
    drops = np.empty(width, np.float32)
    for y in range(height):
        for x in range(depth.shape[1]):
            drop = depth[y, x] / unit * amount
            for c in range(3):
                drops[3 * x + c] = drop * colour[c]
        source, target = pixels[y], out[y]
        for i in range(width):
            target[i] = np.uint8(np.int32(min(np.float32(source[i]) / WHITE + drops[i], ONE) * WHITE))
    return out


@kernel
def lay_mud(pixels, cover, colour):
    """(H, W * 3) uint8 under a colour (3,) on 0..1, in float32; ``cover`` (H, W) float32 is the share of it, 0..1."""
    height, width = pixels.shape
    out = np.empty_like(pixels)
    kept, added = np.empty(width, np.float32), np.empty(width, np.float32)
    for y in range(height):
        for x in range(cover.shape[1]):
            for c in range(3):
                kept[3 * x + c] = ONE - cover[y, x]
                added[3 * x + c] = colour[c] * cover[y, x]
        source, target = pixels[y], out[y]
        for i in range(width):
            level = np.float32(source[i]) / WHITE * kept[i] + added[i]
            target[i] = np.uint8(np.int32(min(level, ONE) * WHITE))
    return out
