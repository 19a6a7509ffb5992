"""Layers blended with an image: frost, snow, water and mud."""

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.doubts import truncate_decided
from corruptions.kernels.planes import BLACK as BLACK_LEVEL
from corruptions.kernels.planes import WHITE as WHITE_LEVEL
from corruptions.kernels.planes import deinterleave, interleave, to_unit
from corruptions.kernels.vectors import fma, multiply_add

RED, GREEN, BLUE = np.float32(0.299), np.float32(0.587), np.float32(0.114)
"""OpenCV's weights of the channels in a grey value."""

WHITE, ABOVE_WHITE = np.float32(255.0), np.float32(255.25)
ONE = np.float32(1.0)


@kernel
def add_frost(pixels, texture, top, left, keep, add):
    """Return keep * pixels + add * texture, clipped at 255 and truncated, uint8 (H, W).

    Args:
        pixels: uint8 (H, W), one value per column.
        texture: uint8, at least as large as the part.
        top: First row of the texture to use.
        left: First column of the texture to use.
        keep: Weight of the pixels.
        add: Weight of the texture.
    """
    height, width = pixels.shape
    out = np.empty_like(pixels)
    for y in range(height):
        source, frost, target = pixels[y], texture[top + y][left : left + width], out[y]
        for i in range(width):
            target[i] = np.uint8(min(np.int32(keep * source[i] + add * frost[i]), WHITE_LEVEL))
    return out


@kernel
def threshold_to_uint8(layer, threshold):
    """Return a float layer (H, W) as uint8: values below the threshold become 0, the others are clipped to 0..1."""
    out = np.empty(layer.shape, np.uint8)
    for y in range(layer.shape[0]):
        source, target = layer[y], out[y]
        for x in range(source.size):
            level = np.int32(source[x] * 255.0) if source[x] >= threshold else BLACK_LEVEL
            target[x] = np.uint8(min(max(level, BLACK_LEVEL), WHITE_LEVEL))
    return out


@kernel
def threshold_layer(layer, threshold):
    """Return a float layer (H, W) with values below the threshold set to 0, clipped to 0..1."""
    out = np.empty_like(layer)
    for y in range(layer.shape[0]):
        source, target = layer[y], out[y]
        for x in range(source.size):
            value = source[x] if source[x] >= threshold else source.dtype.type(0)
            target[x] = min(max(value, source.dtype.type(0)), source.dtype.type(1))
    return out


@inlined
def repeat_channels(values, row):
    """Write each value three times to ``row`` (3 W,). Three assignments compile to vector stores, a loop does not."""
    for x in range(values.size):
        row[3 * x] = values[x]
        row[3 * x + 1] = values[x]
        row[3 * x + 2] = values[x]


@inlined
def scaled_grey(red, green, blue, gain, offset):
    """Return the grey value of a pixel times gain plus offset, in 0..1. OpenCV 5 fuses products with the next sum."""
    red, green = to_unit(red, np.float32), to_unit(green, np.float32)
    return fma(to_unit(blue, np.float32), BLUE, fma(red, RED, green * GREEN)) * gain + offset


@inlined
def whiten(level, veil, keep, whiteness):
    """Return a whitened level in 0..1, float32."""
    unit = to_unit(level, np.float32)
    return keep * unit + whiteness * max(unit, veil)


@kernel
def add_snow_rows(pixels, flakes, keep, whiteness, gain, offset):
    """Return the image, whitened in float32, plus the flakes and the rotated flakes in float64, uint8 (H, W * 3).

    Whitening is keep * x + whiteness * max(x, veil), where ``whiteness`` is 1 - keep and the veil is grey * gain +
    offset. All levels are first computed in float32, from x and a veil in 0..255. Below 256, an operation is off by at
    most 2**-17, and the scaled veil, whose share is below 256, by twice as much. There are four operations as
    published, four here, and two sums with the bound. Levels within this bound of a whole number are computed again.
    """
    height, width = pixels.shape[0], pixels.shape[1] // 3
    out, down, rotated = np.empty_like(pixels), flakes.reshape(-1), np.empty(flakes.size, np.uint8)
    for i in range(rotated.size):  # a separate loop, because one that also sums does not vectorise
        rotated[i] = down[np.uint64(rotated.size - 1 - i)]
    planes, levels = np.empty(3 * width, np.uint8), np.empty(3 * width, np.uint8)
    veil, snow, row = scratch(width, np.float32), scratch(width, np.float32), scratch(3 * width, np.float32)
    reds, greens, blues = planes[:width], planes[width : 2 * width], planes[2 * width :]
    found, bound = np.empty(row.size, np.int64), np.float32(12 * 2.0**-17)
    for y in range(height):
        deinterleave(pixels[y], reds, greens, blues)
        falling, rising = down[y * width :], rotated[y * width :]
        for x in range(width):
            veil[x] = scaled_grey(reds[x], greens[x], blues[x], gain, offset)
            snow[x] = np.float32(falling[x]) + np.float32(rising[x])
        for channel in range(3):
            source, target = planes[channel * width :], row[channel * width :]
            for x in range(width):
                own, white = np.float32(source[x]), veil[x] * WHITE
                snowy = multiply_add(own, keep, snow[x])
                snowy = multiply_add(own if own > white else white, whiteness, snowy)
                target[x] = snowy if snowy < ABOVE_WHITE else ABOVE_WHITE
        for k in range(truncate_decided(row, -bound, bound, levels, found)):
            i, x = found[k], found[k] % width
            level = np.float64(whiten(planes[i], veil[x], keep, whiteness))
            level += to_unit(falling[x], np.float64)
            level += to_unit(rising[x], np.float64)
            levels[i] = np.uint8(np.int32(min(level, 1.0) * 255.0))
        interleave(levels[:width], levels[width : 2 * width], levels[2 * width :], out[y])
    return out


def add_snow(
    image: NDArray[np.uint8], flakes: NDArray[np.uint8], keep: float, gain: float, offset: float
) -> NDArray[np.uint8]:
    """Return the image, whitened, with snowflakes and the same snowflakes rotated by 180 degrees added.

    Args:
        image: uint8 (H, W, 3).
        flakes: uint8 (H, W).
        keep: Weight of the original image, 0..1. The rest is the brighter of the image and its scaled grey value.
        gain: Factor of the grey value.
        offset: Offset of the grey value, 0..1.

    Returns:
        A new uint8 array (H, W, 3).
    """
    numbers = np.array([keep, 1 - keep, gain, offset], np.float32)
    return add_snow_rows(image.reshape(image.shape[0], -1), flakes, *numbers).reshape(image.shape)


@kernel
def threshold_to_uint8_wrapping(layer, threshold):
    """Return a float layer (H, W) in 0..1 as uint8, truncated, with values below the threshold set to 0.

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
    """Write each value times the colour (3,) to ``row`` (3 W,)."""
    red, green, blue = colour[0], colour[1], colour[2]
    for x in range(values.size):
        row[3 * x] = values[x] * red
        row[3 * x + 1] = values[x] * green
        row[3 * x + 2] = values[x] * blue


@inlined
def max_product(drops, relief):
    """Return the largest product of two uint8 layers."""
    drop, height, largest = drops.reshape(-1), relief.reshape(-1), np.uint16(0)
    for i in range(drop.size):
        product = np.uint16(np.uint16(drop[i]) * np.uint16(height[i]))
        largest = product if product > largest else largest
    return largest


@inlined
def to_level(unit):
    """Return a float in 0..1 or above as a level, truncated. A select vectorises; ``min`` of floats handles NaN."""
    return np.uint8(np.int32((unit if unit < ONE else ONE) * WHITE))


@kernel
def add_water(pixels, drops, relief, amount, colour):
    """Return the image plus ``drops * relief`` in a colour, uint8 (H, W * 3), clipped at 1, in float32.

    The product is divided by its maximum. The published script divides by zero if there are no drops; here the image is
    then unchanged.

    Args:
        pixels: uint8 (H, W * 3).
        drops: uint8 (H, W).
        relief: uint8 (H, W).
        amount: Largest weight of the colour, float32.
        colour: float32 RGB (3,), 0..1.
    """
    height, width = pixels.shape
    out = np.empty_like(pixels)
    largest = np.float32(max(max_product(drops, relief), 1))
    depth, water = scratch(drops.shape[1], np.float32), scratch(width, np.float32)
    for y in range(height):
        drop, level = drops[y], relief[y]
        for x in range(depth.size):
            depth[x] = np.float32(drop[x]) * np.float32(level[x]) / largest * amount
        tint(depth, colour, water)
        source, target = pixels[y], out[y]
        for i in range(width):
            target[i] = to_level(to_unit(source[i], np.float32) + water[i])
    return out


@kernel
def add_mud(pixels, coverage, threshold, colour):
    """Return the image blended with a colour, uint8 (H, W * 3). Their sum is computed in the type of the colour.

    Args:
        pixels: uint8 (H, W * 3).
        coverage: float32 (H, W), weight of the colour, 0..1.
        threshold: Smaller weights are set to 0.
        colour: float32 or float64 RGB (3,), 0..1.
    """
    height, width = pixels.shape
    out = np.empty_like(pixels)
    weight = scratch(coverage.shape[1], np.float32)
    weights, colours = scratch(width, np.float32), scratch(width, colour.dtype)
    for i in range(width):
        colours[i] = colour[i % 3]
    for y in range(height):
        mud = coverage[y]
        for x in range(weight.size):
            weight[x] = mud[x] if mud[x] >= threshold else np.float32(0)
        repeat_channels(weight, weights)
        source, target = pixels[y], out[y]
        for i in range(width):
            target[i] = to_level(to_unit(source[i], np.float32) * (ONE - weights[i]) + weights[i] * colours[i])
    return out
