"""Perlin noise: octaves of gradients at the points of a lattice, blended between the points."""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.colour.levels import clip
from corruptions.kernels.drawing.blend import repeat_channels

GRADIENTS = 256
"""Number of gradients."""
MASK = GRADIENTS - 1
PAIRS = 514
"""Pairs of numbers that are drawn for gradients. Quirk: only the first 256 are used."""
DRAWS = 2 * PAIRS + GRADIENTS
"""Numbers that are drawn: gradients, then exchanges of the table."""
OCTAVES = 5
"""Number of octaves. Each has cells of half the side and half the weight of the one before."""
GAIN = 1.5
"""Factor of the noise."""
WHITE = 255.0


@kernel
def gradient_table(numbers):
    """Return the components of the gradients, float64 (256,), and the table, int64 (256,), that assigns them to points.

    Quirk: a pair of two zeros has no direction, and its gradient is NaN.
    """
    downs, rights = np.empty(GRADIENTS), np.empty(GRADIENTS)
    table = np.empty(GRADIENTS, np.int64)
    for k in range(GRADIENTS):
        down = float(numbers[2 * k] % (2 * GRADIENTS) - GRADIENTS)
        right = float(numbers[2 * k + 1] % (2 * GRADIENTS) - GRADIENTS)
        length = np.sqrt(down * down + right * right)
        downs[k], rights[k] = down / length, right / length
        table[k] = k
    for k in range(GRADIENTS):
        i, j = MASK - k, numbers[2 * PAIRS + k] % GRADIENTS
        table[i], table[j] = table[j], table[i]
    return downs, rights, table


@inlined
def smoothstep(t):
    """Return the weight of the next point at a fraction t (0..1) of the way to it."""
    return t * t * (3.0 - 2.0 * t)


@inlined
def fill_columns(side, points, fractions, weights):
    """Write the point of the lattice before each column, the distance from it, and the weight of the next point.

    ``side`` is that of a cell of the first octave in pixels. The others are (OCTAVES, W).
    """
    for octave in range(OCTAVES):
        for x in range(points.shape[1]):
            place = (1 << octave) * (x / side)
            points[octave, x] = int(place)
            fractions[octave, x] = place - np.floor(place)
            weights[octave, x] = smoothstep(fractions[octave, x])


@inlined
def fill_line(line, gradients, columns, slopes, levels):
    """Write the noise near a line of the lattice as ``slope * offset + level``, with the offset from the line.

    ``gradients`` are those of :func:`gradient_table`, ``columns`` what :func:`fill_columns` writes for one octave.
    """
    downs, rights, table = gradients
    points, fractions, weights = columns
    start = table[line & MASK]
    for x in range(points.size):
        here, there = table[(start + points[x]) & MASK], table[(start + points[x] + 1) & MASK]
        slopes[x] = downs[here] + weights[x] * (downs[there] - downs[here])
        before, after = rights[here] * fractions[x], rights[there] * (fractions[x] - 1.0)
        levels[x] = before + weights[x] * (after - before)


@inlined
def add_octave(offset, gain, above, below, total):
    """Add the magnitude of the noise, times ``gain``, of a row between two lines of the lattice to ``total`` (W,).

    ``above`` and ``below`` are what :func:`fill_line` writes for the two lines. The offset from the first is 0..1.
    """
    weight = smoothstep(offset)
    for x in range(total.size):
        first = above[0][x] * offset + above[1][x]
        second = below[0][x] * (offset - 1.0) + below[1][x]
        total[x] += abs(first + weight * (second - first)) * gain


@inlined
def blend_row(source, total, weight, veil, spread, target):
    """Write a row blended with noise, the sum of its octaves. ``veil`` and ``spread`` (3 W,) are overwritten."""
    keep, white = np.float32(1 - weight), WHITE * weight
    for x in range(total.size):
        value = 0.5 * total[x] + 0.5
        veil[x] = white * (1.0 if value > 1.0 else value)
    repeat_channels(veil, spread)
    for i in range(source.size):
        target[i] = np.uint8(np.int32(clip(np.float64(keep * np.float32(source[i])) + spread[i])))


@kernel
def blend_noise(pixels, numbers, side, weight):
    """Return the image blended with Perlin noise, uint8 (H, W * 3). Pixels whose noise is NaN become 0.

    Args:
        pixels: uint8 (H, W * 3).
        numbers: int64 (DRAWS,), 0..2^31 - 1.
        side: Side of a cell of the first octave in pixels.
        weight: Weight of the noise, 0..1.
    """
    height, width = pixels.shape[0], pixels.shape[1] // 3
    out = np.empty_like(pixels)
    gradients = gradient_table(numbers)
    points = np.empty((OCTAVES, width), np.int64)
    fractions, weights = np.empty((OCTAVES, width)), np.empty((OCTAVES, width))
    fill_columns(side, points, fractions, weights)
    # The last two lines of the lattice of each octave, one with an even and one with an odd number.
    slopes, levels = np.empty((OCTAVES, 2, width)), np.empty((OCTAVES, 2, width))
    known = np.full((OCTAVES, 2), -1)
    total, veil, spread = scratch(width, np.float64), scratch(width, np.float64), scratch(3 * width, np.float64)
    for y in range(height):
        total[:] = 0.0
        for octave in range(OCTAVES):
            place = (1 << octave) * (y / side)
            line = int(place)
            for near in range(line, line + 2):
                slot = near & 1
                if known[octave, slot] != near:
                    columns = points[octave], fractions[octave], weights[octave]
                    fill_line(near, gradients, columns, slopes[octave, slot], levels[octave, slot])
                    known[octave, slot] = near
            slot, other = line & 1, (line & 1) ^ 1
            above, below = (slopes[octave, slot], levels[octave, slot]), (slopes[octave, other], levels[octave, other])
            add_octave(place - line, GAIN / (1 << octave), above, below, total)
        blend_row(pixels[y], total, weight, veil, spread, out[y])
    return out
