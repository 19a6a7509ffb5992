"""ImageMagick's motion blur: one-sided Gaussian weights along a line of whole-pixel steps, with replicated edges.

A value is the sum s of the levels at the taps times their weights, in 0..255. ImageMagick Q16 without HDRI adds up
257 s in float64, tap by tap, rounds it to 16 bits and truncates that to 8: floor(floor(257 s + 0.5) / 257) =
floor(s + 0.5 / 257).

The profile of detection has the same taps without ImageMagick: the sum itself is truncated (:func:`float_blur`).
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.elementary import cos_sin, exp, hypot
from corruptions.kernels import copy, inlined, kernel, scratch
from corruptions.kernels.doubts import MANY, block_of, truncate_decided
from corruptions.kernels.planes import equal_pixels
from corruptions.kernels.smoothing.gaussian import extend
from corruptions.kernels.vectors import fill, lanes_of, load, store

QUANTUM = 257
"""One 8-bit level in ImageMagick's 16-bit quanta."""

MAGICK, FLOATS = (QUANTUM, 0.5), (1, 0.0)
"""Units per level in which a sum is computed, and what is added to it before truncation: by ImageMagick, as floats."""

SQRT_2PI = 2.5066282746310002
"""ImageMagick's divisor of a Gaussian. It cancels out except for rounding."""

MIN_WEIGHT = 2.0**-24
"""Smaller weights are left out of the fast sum."""

BLOCK = 4
"""Taps added in one step."""

GROUP, BAND = 4, 8
"""Vectors and rows that are summed together."""


@lru_cache(maxsize=256)
def one_sided_weights(radius: int, sigma: float, pairwise: bool = False) -> NDArray[np.float64]:
    """Return the weights of the 2 * radius + 1 taps, beginning at the pixel itself.

    They are added up for their total in ImageMagick's order, or pairwise, as NumPy does for imagecorruptions.
    """
    weights = np.array([exp(-(i * i) / (2.0 * sigma * sigma)) / (SQRT_2PI * sigma) for i in range(2 * radius + 1)])
    normalized: NDArray[np.float64] = weights / (weights.sum() if pairwise else np.cumsum(weights)[-1])
    return normalized


def line_step(width: int, angle: float) -> tuple[float, float, float]:
    """Return (px, py, length) of a line of ``width`` taps at ``angle`` degrees, computed in ImageMagick's order."""
    turn = math.pi * angle / 180.0
    cosine, sine = cos_sin(turn)
    px, py = width * sine, width * cosine
    return px, py, hypot(px, py)


@kernel
def tap_offsets(count, px, py, length):
    """Return the int64 offsets (T, 2) as (dx, dy) of all taps. The numbers come from :func:`line_step`.

    ImageMagick's order of operations is kept, because it decides rounding of ties.
    """
    offsets = np.empty((count, 2), np.int64)
    for i in range(count):
        offsets[i] = math.ceil(i * py / length - 0.5), math.ceil(i * px / length - 0.5)
    return offsets


@kernel
def fast_taps(offsets, weights):
    """Return offsets (M, 2) and float32 weights (M,) of the fast sum, and the bound of its error in levels.

    Taps on the same pixel, which are consecutive, are merged. Taps below MIN_WEIGHT are left out, and taps of weight 0
    make their number a multiple of BLOCK.

    The bound: all partial sums are at most 255. With u = 2**-24, a weight, its product and the two sums inside of a
    block have a relative error of u each, together at most 4 u 255. Each of the M / BLOCK additions to the total, the
    first of which adds to the rounding, is off by half the distance of floats below 256, 2**-17, and so are two sums
    with the bound itself. Weights that are left out change a value by at most 255 times their sum.
    """
    fast, sums = np.zeros((weights.size + BLOCK, 2), np.int64), np.zeros(weights.size + BLOCK)
    count, left_out = 0, 0.0
    for i in range(weights.size):
        if weights[i] < MIN_WEIGHT:
            left_out += weights[i]
            continue
        if count == 0 or fast[count - 1, 0] != offsets[i, 0] or fast[count - 1, 1] != offsets[i, 1]:
            fast[count] = offsets[i]
            count += 1
        sums[count - 1] += weights[i]
    size = -(-count // BLOCK) * BLOCK
    bound = 255 * (4 * 2.0**-24 + left_out) + (size // BLOCK + 3) * 2.0**-17
    return fast[:size], sums[:size].astype(np.float32), bound


@inlined
def ring_for(layer, channels, offsets, weights):
    """Return a ring of the rows that the taps of a band read, their left margin in pixels, and a band of sums.

    The number of rows is a power of two. The sums of a row fill GROUP vectors; those beyond its end are not used.
    """
    left, right = max(0, -offsets[:, 0].min()), max(0, offsets[:, 0].max())
    count, group = BAND, GROUP * lanes_of(weights)
    while count < offsets[:, 1].max() - offsets[:, 1].min() + BAND:
        count *= 2
    size = -(-layer.shape[1] // group) * group
    ring = np.empty((count, size + (left + right) * channels), weights.dtype)
    return ring, left, scratch(BAND * size, weights.dtype).reshape(BAND, size)


@inlined
def locate_taps(ring, y, last, left, channels, offsets, starts):
    """Write the positions in the flat ring of the first value that each tap reads for row ``y`` of 0..``last``."""
    for k in range(starts.size):
        row = min(max(y + offsets[k, 1], 0), last) & (ring.shape[0] - 1)
        starts[k] = row * ring.shape[1] + (left + offsets[k, 0]) * channels


@inlined
def add_block(values, starts, weights, y, k, x):
    """Return the vector sum of BLOCK weighted taps of row ``y`` from tap ``k`` on, ``x`` values right of the first."""
    first, second = load(values, starts[y, k] + x) * weights[k], load(values, starts[y, k + 1] + x) * weights[k + 1]
    third, fourth = load(values, starts[y, k + 2] + x), load(values, starts[y, k + 3] + x)
    return (first + second) + (third * weights[k + 2] + fourth * weights[k + 3])


@kernel
def add_taps(values, starts, weights, initial, totals):
    """Write ``initial`` plus all weighted taps to ``totals``, a band of rows.

    GROUP vectors are summed at once, which hides the latency of additions, for all rows of the band before the next
    ones, because these read much the same values.

    Args:
        values: Rows with repeated ends, one after another.
        starts: (rows, taps) position in ``values`` of the first value that a tap reads, uint64.
        weights: (taps,). Their number is a multiple of BLOCK.
        initial: Added to each sum.
        totals: (rows, W), where W is a multiple of GROUP vectors.
    """
    lanes, width = np.uint64(lanes_of(totals)), np.uint64(totals.shape[1])
    for x in range(np.uint64(0), width, np.uint64(GROUP) * lanes):
        b, c, d = x + lanes, x + lanes + lanes, x + lanes + lanes + lanes
        for y in range(starts.shape[0]):
            sum_a, sum_b, sum_c, sum_d = fill(initial), fill(initial), fill(initial), fill(initial)
            for k in range(0, weights.size, BLOCK):
                sum_a = sum_a + add_block(values, starts, weights, y, k, x)
                sum_b = sum_b + add_block(values, starts, weights, y, k, b)
                sum_c = sum_c + add_block(values, starts, weights, y, k, c)
                sum_d = sum_d + add_block(values, starts, weights, y, k, d)
            row = np.uint64(y) * width
            store(totals, row + x, sum_a)
            store(totals, row + b, sum_b)
            store(totals, row + c, sum_c)
            store(totals, row + d, sum_d)


@inlined
def sum_band(layer, top, ready, channels, offsets, weights, initial, ring, left, starts, totals):
    """Write the sums of the rows from ``top`` on to ``totals``. Return the number of rows in the ring so far."""
    last, rows = layer.shape[0] - 1, min(BAND, layer.shape[0] - top)
    while ready <= min(top + rows - 1 + offsets[:, 1].max(), last):
        row, start, stop = ring[ready & (ring.shape[0] - 1)], left * channels, left * channels + layer.shape[1]
        copy(layer[ready], row[start:stop])
        extend(row, start, stop, channels)
        ready += 1
    for y in range(rows):
        locate_taps(ring, top + y, last, left, channels, offsets, starts[y])
    add_taps(ring.reshape(-1), starts[:rows], weights, initial, totals)
    return ready


@kernel
def published_value(pixels, y, i, channels, offsets, weights, rule):
    """Return value ``i`` of row ``y`` in the published order of sums. ``rule`` is MAGICK or FLOATS."""
    unit, rounding = rule
    bottom, right, column, channel = pixels.shape[0] - 1, pixels.shape[1] // channels - 1, i // channels, i % channels
    total = 0.0
    for k in range(weights.size):
        row = np.uint64(min(max(y + offsets[k, 1], 0), bottom))
        place = np.uint64(min(max(column + offsets[k, 0], 0), right) * channels + channel)
        total += weights[k] * (unit * pixels[row, place])
    return np.uint8(np.int64(total + rounding) // unit)


@inlined
def taps_are_equal(pixels, y, first, last, offsets):
    """Return whether the taps of the pixels first..last of row ``y`` are in a rectangle of equal pixels."""
    bottom, right = pixels.shape[0] - 1, pixels.shape[1] // 3 - 1
    top, low = min(max(y + offsets[:, 1].min(), 0), bottom), min(max(y + offsets[:, 1].max(), 0), bottom)
    left, far = min(max(first + offsets[:, 0].min(), 0), right), min(max(last + offsets[:, 0].max(), 0), right)
    return equal_pixels(pixels, top, low + 1, 3 * left, 3 * (far + 1))


@kernel
def publish_values(pixels, y, channels, offsets, weights, rule, found, row):
    """Replace the values at the positions ``found`` of row ``y`` by the published ones.

    As floats, the sums of equal levels are whole but for their rounding, so that all of a flat area are undecided.
    There, a pixel equals the one before it.
    """
    k = 0
    while k < found.size:
        first, stop = block_of(found, k)
        is_flat = channels == 3 and stop - k > MANY
        is_flat = is_flat and taps_are_equal(pixels, y, first // 3, found[stop - 1] // 3, offsets)
        for i in found[k:stop]:
            if is_flat and i >= first + 3:
                row[i] = row[i - 3]
            else:
                row[i] = published_value(pixels, y, i, channels, offsets, weights, rule)
        k = stop


@kernel
def sum_taps(pixels, channels, offsets, weights, rule):
    """Return the blurred image, uint8 (H, W * channels). ``offsets`` and ``weights`` are those of all taps.

    ``rule`` is MAGICK or FLOATS. Only the rows that the taps of one row read are kept as floats.
    """
    fast, fast_weights, error = fast_taps(offsets, weights)
    height, width = pixels.shape
    ring, left, totals = ring_for(pixels, channels, fast, fast_weights)
    out, starts = np.empty((height, width), np.uint8), np.empty((BAND, fast_weights.size), np.uint64)
    found, ready = np.empty(width, np.int64), 0
    bound, rounding = np.float32(error), np.float32(rule[1] / rule[0])
    for top in range(0, height, BAND):
        ready = sum_band(pixels, top, ready, channels, fast, fast_weights, rounding, ring, left, starts, totals)
        for y in range(top, min(top + BAND, height)):
            count = truncate_decided(totals[y - top][:width], -bound, bound, out[y], found)
            if count:
                publish_values(pixels, y, channels, offsets, weights, rule, found[:count], out[y])
    return out


@kernel
def sum_layer(layer, size, offsets, weights):
    """Return the top left part, ``size`` (H, W), of a blurred layer in 0..1, rounded half to even to uint8.

    The layer is float32 or float64, with weights of the same type. Their number is a multiple of BLOCK.
    """
    height, width = size
    ring, left, totals = ring_for(layer, 1, offsets, weights)
    out, starts = np.empty((height, width), np.uint8), np.empty((BAND, weights.size), np.uint64)
    one, white, ready = weights.dtype.type(1), weights.dtype.type(255), max(0, offsets[:, 1].min())
    for top in range(0, height, BAND):
        ready = sum_band(layer, top, ready, 1, offsets, weights, weights.dtype.type(0), ring, left, starts, totals)
        for y in range(top, min(top + BAND, height)):
            total, row = totals[y - top], out[y]
            for x in range(width):
                row[x] = np.uint8(np.int32(np.rint(min(total[x], one) * white)))
    return out


def motion_blur(image: NDArray[np.uint8], radius: int, sigma: float, angle: float) -> NDArray[np.uint8]:
    """Return an image blurred along a line.

    Args:
        image: uint8 (H, W) or (H, W, C).
        radius: Half the length of the line in pixels.
        sigma: Standard deviation of the weights along the line in pixels.
        angle: Direction in degrees, in any quadrant.

    Returns:
        A new uint8 array of the same shape.
    """
    weights = one_sided_weights(radius, sigma)
    offsets = tap_offsets(weights.size, *line_step(weights.size, angle))
    pixels = np.ascontiguousarray(image).reshape(image.shape[0], -1)
    return sum_taps(pixels, math.prod(image.shape[2:]), offsets, weights, MAGICK).reshape(image.shape)


def float_taps(
    shape: tuple[int, ...], radius: int, sigma: float, angle: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return offsets (T, 2) and weights (T,) of the taps of an image (H, W, ...) in the profile of detection.

    Quirk: the taps end at the first one that is as far as the image is high or wide, and the others are not normalised
    again, so that narrow images become darker (imagecorruptions).
    """
    weights = one_sided_weights(radius, sigma, pairwise=True)
    offsets = tap_offsets(weights.size, *line_step(weights.size, angle))
    outside = np.flatnonzero((np.abs(offsets) >= (shape[1], shape[0])).any(axis=1))
    count = outside[0] if outside.size else weights.size
    return offsets[:count], weights[:count]


def float_blur(image: NDArray[np.uint8], radius: int, sigma: float, angle: float) -> NDArray[np.uint8]:
    """Return an image blurred along a line, uint8 (H, W, 3), with sums in floats. Arguments as :func:`motion_blur`."""
    taps = float_taps(image.shape, radius, sigma, angle)
    return sum_taps(image.reshape(image.shape[0], -1), image.shape[2], *taps, FLOATS).reshape(image.shape)


def layer_blur(
    layer: NDArray[Any], size: tuple[int, int], radius: int, sigma: float, angle: float
) -> NDArray[np.uint8]:
    """Return the top left part, ``size`` (H, W), of a float layer in 0..1 blurred along a line, uint8.

    Numbers in float32 are summed faster: taps on the same pixel are merged, and negligible ones are left out.
    """
    offsets, weights = float_taps(layer.shape, radius, sigma, angle)
    if layer.dtype == np.float32:
        return sum_layer(layer, size, *fast_taps(offsets, weights)[:2])
    missing = -len(weights) % BLOCK
    return sum_layer(layer, size, np.pad(offsets, ((0, missing), (0, 0))), np.pad(weights, (0, missing)))
