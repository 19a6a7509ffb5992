"""Waves added to an image: plasma_noise, cocentric_sine_waves and single_frequency_greyscale."""

import math
from typing import NamedTuple

import numpy as np

from corruptions.c_bar.catalogue import scaled
from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.elementary import cos_sin
from corruptions.kernels.drawing import gratings, plasma

FULL_TURN = 2 * math.pi


class Plasma(NamedTuple):
    """Time, number of displacements, decay of their amplitude, and pixels per unit of the coordinates."""

    time: float
    iterations: int
    turbulence: float
    grain: float


PLASMA_INTENSITY = 64.0
"""Amplitude of the plasma at level 10, in levels of 255."""
DAMPING = 2.25
"""Divisor of the amplitude of each displacement, of which the drawn turbulence is subtracted."""
FREQUENCY_GROWTH, TIME_GROWTH = 1.93, 1.15
"""Factors of frequency and of time divisor from one displacement to the next."""


def draw_plasma(source: DrawSource, image: Image, level: float) -> Plasma:
    """Draw time and shape of the plasma."""
    time, iterations = source.angle(0.0, 6 * math.pi), source.integer(4, 7)
    return Plasma(time, iterations, source.angle(0.5, 1.0), source.angle(0.075, 0.2) * min(image.shape[:2]))


def add_plasma(image: Image, level: float, draws: Plasma) -> Image:
    """Return the image blended with coloured plasma."""
    intensity = scaled(level, PLASMA_INTENSITY)
    steps = np.empty((draws.iterations, 3), np.float32)
    frequency = divisor = damping = 1.0
    for k in range(draws.iterations):
        steps[k] = frequency, draws.time / divisor, 1 / damping
        frequency, divisor = frequency * FREQUENCY_GROWTH, divisor * TIME_GROWTH
        damping *= DAMPING - draws.turbulence
    start = (np.float32(draws.time), np.float32(cos_sin(draws.time)[1]), np.float32(draws.grain))
    weights = np.float32(1 - intensity / 255), np.float32(intensity)
    return plasma.blend_plasma(image.reshape(image.shape[0], -1), start, steps, *weights).reshape(image.shape)


class Rings(NamedTuple):
    """Centre, lobes per turn, depth of the lobes and width of the rings. Lengths are in pixels."""

    column: float
    row: float
    lobes: float
    depth: float
    width: float


RING_INTENSITY = 128.0
"""Height of the waves at level 10, in levels of 255."""


def draw_rings(source: DrawSource, image: Image, level: float) -> Rings:
    """Draw centre and shape of the rings."""
    height, width, _ = image.shape
    column, row = source.angle(0.0, width), source.angle(0.0, height)
    largest = min(height, width) / 10
    return Rings(column, row, source.angle(0.0, 10.0), source.angle(0.0, largest), source.angle(0.0, largest))


def add_rings(image: Image, level: float, draws: Rings) -> Image:
    """Return the image plus waves around a centre. Published as sine waves, they have the shape of a saw."""
    ringed: Image = gratings.add_rings(image.reshape(image.shape[0], -1), *draws, scaled(level, RING_INTENSITY))
    return ringed.reshape(image.shape)


class PlaneWave(NamedTuple):
    """Change of the phase per column and per row, and phase of the first pixel, in radians."""

    across: float
    down: float
    phase: float


WAVE_INTENSITY = 196.0
"""Amplitude of the wave at level 10, in levels of 255."""


def draw_wave(source: DrawSource, image: Image, level: float) -> PlaneWave:
    """Draw direction, wavelength and phase of a wave."""
    first = source.angle(-math.pi, math.pi)
    second = source.angle(-abs(first), abs(first))
    across, down = ((first, second)[i] for i in source.permutation(2))
    return PlaneWave(across, down, source.angle(0.0, FULL_TURN))


def add_wave(image: Image, level: float, draws: PlaneWave) -> Image:
    """Return the image plus a sine wave."""
    waved: Image = gratings.add_plane_wave(image.reshape(image.shape[0], -1), *draws, scaled(level, WAVE_INTENSITY))
    return waved.reshape(image.shape)
