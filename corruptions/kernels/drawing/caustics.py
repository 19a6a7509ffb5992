"""Caustics: the pattern of light on the ground of moving water, and the image refracted by it."""

import math

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.powers import power
from corruptions.kernels.sampling.float_sampling import framed_pixels, row_buffers, sample_row, store_row
from corruptions.kernels.trigonometry import ROUND_64, cosine_sine

TURN = 6.28318530718
"""The published full turn."""
ORIGIN = 250.0
"""Subtracted from the coordinates."""
WHOLE_TURNS = 40 * 2 * math.pi
"""Added to the coordinates as angles, which keeps their float32 precise."""
STEPS = 5
"""Number of displacements."""
SLOWNESS = 3.5
"""Time runs backwards by this multiple, less for each displacement."""
SHARPNESS = 0.005
"""Factor of the coordinates in the brightness of a displacement."""
ZERO, ONE, TINY, WHITE = np.float32(0), np.float32(1), np.float32(1e-30), 255.0
MEAN, CONTRAST, DARKEST = np.float32(1 / STEPS), np.float32(1.4), np.float32(1.17)

FLAT = 1 - 0.001
"""Quirk: where the third part of the normal is at least this, nothing is refracted."""
INDEX_RATIO = 0.25
"""Sine of the refracted angle, as a fraction of that of the incident one."""
DECIMALS = 1000.0
"""Displacements are rounded to this part of a pixel."""


@inlined
def coordinate(i, scale):
    """Return the coordinate of row or column ``i``, where the pattern repeats every ``scale`` pixels."""
    place = i / scale
    return (place - np.floor(place)) * TURN - ORIGIN


@inlined
def displace(axes, time, states, brightness):
    """Displace the coordinates of a row once, and add the brightness of this displacement.

    Args:
        axes: Row's coordinate, columns' coordinates (W,) as angles, and both times SHARPNESS.
        time: Cosine and sine of the time.
        states: float32 (4, W), cosine and sine of row and column, displaced so far. They are overwritten.
        brightness: float32 (W,).
    """
    p, q, p_factor, q_factors = axes
    cos_t, sin_t = time
    cosines_a, sines_a, cosines_b, sines_b = states[0], states[1], states[2], states[3]
    for x in range(brightness.size):
        cos_a, sin_a, cos_b, sin_b = cosines_a[x], sines_a[x], cosines_b[x], sines_b[x]
        down = cos_t * (cos_a + sin_b) + sin_t * (sin_a + cos_b)
        right = cos_t * (cos_a - sin_b) + sin_t * (cos_b - sin_a)
        cos_a, sin_a = cosine_sine(p + down)
        cos_b, sin_b = cosine_sine(q[x] + right)
        sine, cosine = sin_a * cos_t + cos_a * sin_t, cos_b * cos_t - sin_b * sin_t
        first, second = p_factor * cosine, q_factors[x] * sine
        brightness[x] += abs(sine * cosine) / np.sqrt(first * first + second * second + TINY)
        cosines_a[x], sines_a[x], cosines_b[x], sines_b[x] = cos_a, sin_a, cos_b, sin_b


@kernel
def shadow(height, width, times, scale):
    """Return how dark the ground is, float32 (H, W), 0..1. Small values are precise.

    Args:
        height: Number of rows.
        width: Number of columns.
        times: float32 (STEPS, 2), cosine and sine of the time of each displacement.
        scale: Period of the pattern in pixels.
    """
    out = np.empty((height, width), np.float32)
    angles, factors, states = scratch(width, np.float32), scratch(width, np.float32), np.empty((4, width), np.float32)
    for x in range(width):
        place = coordinate(x, scale)
        angles[x], factors[x] = np.float32(place + WHOLE_TURNS), np.float32(SHARPNESS * place)
    for y in range(height):
        row, place = out[y], coordinate(y, scale)
        angle, factor = np.float32(place + WHOLE_TURNS), np.float32(SHARPNESS * place)
        for x in range(width):
            states[0, x], states[1, x] = cosine_sine(angle)
            states[2, x], states[3, x] = cosine_sine(angles[x])
        row[:] = ONE
        for k in range(STEPS):
            displace((angle, angles, factor, factors), (times[k, 0], times[k, 1]), states, row)
        for x in range(width):
            light = DARKEST - power(row[x] * MEAN, CONTRAST)
            light *= light
            light *= light
            light *= light
            row[x] = ONE - light if light < ONE else ZERO
    return out


@inlined
def fill_positions(above, here, below, lens, y, rows, columns, slopes):
    """Write where the pixels of row ``y`` are sampled, and the difference of the slopes down and right, float64 (W,).

    ``above`` to ``below`` are rows of the map with an additional column on both sides, (W + 2,). ``lens`` is the
    strength of the refraction in pixels.
    """
    for x in range(rows.size):
        down, right = np.float64(above[x + 1] - below[x + 1]), np.float64(here[x] - here[x + 2])
        square = down * down + right * right
        upright = 1.0 / np.sqrt(square + 1.0)
        # sin(h - asin(sin(h) / 4)) / tan(h), where cos(h) is ``upright`` and tan(h) is the length of the slope.
        tilt = INDEX_RATIO * INDEX_RATIO * square * upright * upright
        bend = upright * (np.sqrt(1.0 - tilt) - INDEX_RATIO * upright)
        bend = lens * bend if upright < FLAT else 0.0
        rows[x] = y + ((down * bend * DECIMALS + ROUND_64) - ROUND_64) / DECIMALS
        columns[x] = x + ((right * bend * DECIMALS + ROUND_64) - ROUND_64) / DECIMALS
        slopes[x] = down - right


@kernel
def refract(image, darkness, lens, light):
    """Return the image refracted and lit by a map, uint8 (H, W, 3).

    Args:
        image: uint8 (H, W, 3).
        darkness: float32 (H + 2, W + 2), how dark the ground is, with an additional row and column on all sides.
        lens: Strength of the refraction in pixels.
        light: Strength of the light, 0..1 of the full level.
    """
    height, width = image.shape[:2]
    source, out = framed_pixels(image), np.empty((height, 3 * width), np.uint8)
    rows, columns, slopes = scratch(width, np.float64), scratch(width, np.float64), scratch(width, np.float64)
    buffers = row_buffers(width)
    for y in range(height):
        fill_positions(darkness[y], darkness[y + 1], darkness[y + 2], lens, y, rows, columns, slopes)
        levels = sample_row(source, (height, width), rows, columns, buffers)
        for x in range(width):
            lighter = WHITE * (slopes[x] * light)
            levels[3 * x] += lighter
            levels[3 * x + 1] += lighter
            levels[3 * x + 2] += lighter
        store_row(levels, out[y])
    return out.reshape(height, width, 3)
