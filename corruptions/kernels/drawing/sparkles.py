"""Stars of rays with random lengths, which fade pixels to white inside or outside."""

import math

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.drawing.blend import repeat_channels
from corruptions.kernels.powers import power
from corruptions.kernels.trigonometry import arctangent

VARIATION = 0.25
"""Standard deviation of the lengths of rays, as a fraction of their mean."""
SHORTEST, NO_LIMIT = 1.0, float("-inf")
"""Smallest length in pixels of the rays that fade pixels inside, and of those that fade pixels outside."""
MOST_RAYS = 200
"""Number of rays is below this."""
PI = np.float32(math.pi)
HALF, ZERO, ONE, WHITE = np.float32(0.5), np.float32(0), np.float32(1), np.float32(255)
CORE = np.float32(0.0001)
"""Added to squared distances, which can be 0."""


@inlined
def fill_rays(normals, mean, least, lengths, slopes):
    """Write the length of each ray, at least ``least``, and its difference to the next. The first follows the last."""
    count = normals.size
    for i in range(count):
        length = mean + VARIATION * mean * normals[i]
        lengths[i] = np.float32(max(length, least))
    lengths[count] = lengths[0]
    for i in range(count):
        slopes[i] = lengths[i + 1] - lengths[i]
    slopes[count] = slopes[0]


@inlined
def fill_reach(dy, column, per_radian, lengths, slopes, between, rays, reach):
    """Write where each pixel of a row lies between two rays, 0..1, and (length of the rays / distance)^2.

    ``dy`` is the distance of the row from the centre. ``lengths`` and ``slopes`` are those of :func:`fill_rays`. The
    numbers of the rays are written to ``rays``, uint32 (W,). All others are float32.
    """
    for x in range(between.size):
        ray = (arctangent(np.float32(x - column), dy) + PI) * per_radian
        whole = np.floor(ray)
        between[x] = ray - whole
        rays[x] = np.uint32(np.int32(whole))
    for x in range(between.size):  # a separate loop, because look-ups do not vectorise
        reach[x] = lengths[rays[x]] + between[x] * slopes[rays[x]]
    for x in range(between.size):
        dx = np.float32(x - column)
        reach[x] = reach[x] * reach[x] / (dx * dx + dy * dy + CORE)


@inlined
def brightness(between, strength):
    """Return the brightness, 0..1, of a pixel between two rays, where it is less than at the rays."""
    offset = between - HALF
    value = (ONE - offset * offset) * strength
    value = value if value > ZERO else ZERO
    return value if value < ONE else ONE


@inlined
def fade(source, keep, spread, target):
    """Write a row (W * 3,) faded to white, truncated. ``keep`` (W,) is the weight of the image."""
    repeat_channels(keep, spread)
    for i in range(source.size):
        target[i] = np.uint8(np.int32(WHITE - np.ceil(spread[i] * (WHITE - np.float32(source[i])))))


@kernel
def fade_outside(pixels, centre, normals, mean, exponent):
    """Return the image faded to white outside of a star, uint8 (H, W * 3).

    Args:
        pixels: uint8 (H, W * 3).
        centre: (row, column).
        normals: Standard normal numbers, one per ray.
        mean: Mean length of rays in pixels.
        exponent: How fast it fades.
    """
    height, width = pixels.shape[0], pixels.shape[1] // 3
    out = np.empty_like(pixels)
    lengths, slopes = np.empty(normals.size + 1, np.float32), np.empty(normals.size + 1, np.float32)
    fill_rays(normals, mean, NO_LIMIT, lengths, slopes)
    between, rays, reach = scratch(width, np.float32), scratch(width, np.uint32), scratch(width, np.float32)
    spread = scratch(3 * width, np.float32)
    per_radian, exponent = np.float32(normals.size / (2 * math.pi)), np.float32(exponent)
    for y in range(height):
        dy = np.float32(y - centre[0])
        fill_reach(dy, centre[1], per_radian, lengths, slopes, between, rays, reach)
        for x in range(width):
            reach[x] = brightness(between[x], power(reach[x], exponent))
        fade(pixels[y], reach, spread, out[y])
    return out


@kernel
def fade_inside(pixels, centres, counts, normals, mean):
    """Return the image with stars that fade to white, uint8 (H, W * 3).

    Args:
        pixels: uint8 (H, W * 3).
        centres: (n, 2), row and column of each star.
        counts: (n,) number of rays of each star, below MOST_RAYS.
        normals: Standard normal numbers, one per ray of the stars in their order.
        mean: Mean length of rays in pixels. The shortest ray has one pixel.
    """
    height, width = pixels.shape[0], pixels.shape[1] // 3
    out = np.empty_like(pixels)
    lengths = np.empty((counts.size, MOST_RAYS), np.float32)
    slopes = np.empty_like(lengths)
    first = 0
    for k in range(counts.size):
        fill_rays(normals[first : first + counts[k]], mean, SHORTEST, lengths[k], slopes[k])
        first += counts[k]
    between, rays, reach = scratch(width, np.float32), scratch(width, np.uint32), scratch(width, np.float32)
    keep, spread = scratch(width, np.float32), scratch(3 * width, np.float32)
    for y in range(height):
        keep[:] = ONE
        for k in range(counts.size):
            dy, per_radian = np.float32(y - centres[k, 0]), np.float32(counts[k] / (2 * math.pi))
            fill_reach(dy, centres[k, 1], per_radian, lengths[k], slopes[k], between, rays, reach)
            for x in range(width):
                keep[x] *= ONE - brightness(between[x], reach[x])
        fade(pixels[y], keep, spread, out[y])
    return out
