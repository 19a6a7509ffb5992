"""Noise made by inverse Fourier transforms: blue_noise_sample and brownish_noise."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.c_bar.catalogue import Size, scaled
from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.kernels.random import spectral_noise
from corruptions.kernels.smoothing import fourier

Turns = NDArray[np.floating]
"""Phases of the columns 0 to ceil(W / 2) of a spectrum, as fractions of a turn, (H, ceil(W / 2) + 1)."""

BLUE_RANGE, BLUE_LOWEST = 3.0, -2.5
"""Threshold of the blue noise at level 10 above that at level 0, and at level 0, in standard deviations."""
BROWN_INTENSITY = 64.0
"""Standard deviation of the brownish noise at level 10, in levels of 255."""


def blue(square: float) -> float:
    """Return the amplitude of blue noise at a frequency, given its square."""
    return math.sqrt(square)


def brown(square: float) -> float:
    """Return the amplitude of brownish noise at a frequency, given its square."""
    return 1 / (square + 1)


def draw_turns(source: DrawSource, image: Image) -> Turns:
    """Draw the phases of one field. Those of the right half are those of the left one, turned by 180 degrees."""
    height, width, _ = image.shape
    left = source.uniform(0.0, 1.0, (height, width // 2))
    columns = [left, left[::-1, -1:]]
    if width % 2:
        upper = source.uniform(0.0, 1.0, (height // 2,))
        middle = np.concatenate([upper, np.zeros(height % 2, upper.dtype), upper[::-1]])
        columns.insert(1, middle[:, None])
    return np.concatenate(columns, axis=1)


@lru_cache(maxsize=16)
def amplitudes(amplitude: Callable[[float], float], size: Size) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the amplitudes of the numbers in half of a spectrum, and of those at the opposite frequencies.

    Quirk: amplitudes depend on the distance from the middle of the spectrum. If a side is odd, this is half a frequency
    before frequency 0. Along the longer side of a rectangle, distances are those of the shorter side's frequencies.

    Args:
        amplitude: Amplitude as a function of the square of the distance.
        size: Height and width of the field in pixels.

    Returns:
        Two arrays (H, W // 2 + 1), as :func:`spectral_noise.noise_spectrum` takes them.
    """
    height, width = size
    shorter, row_zero, column_zero = min(size), (height + 1) // 2, (width + 1) // 2

    def at(row: int, column: int) -> float:
        down, right = (row % height - height / 2) * shorter / height, (column % width - width / 2) * shorter / width
        return amplitude(down * down + right * right)

    rows, columns = range(height), range(width % 2, column_zero + 1)
    here = [[at(r, c) for c in columns] for r in rows]
    opposite = [[at(2 * row_zero - r, 2 * column_zero - c) for c in columns] for r in rows]
    return np.array(here, np.float32), np.array(opposite, np.float32)


def field(turns: Turns, amplitude: Callable[[float], float], size: Size) -> NDArray[np.float32]:
    """Return noise of standard deviation 1, float32 (H, W), from its phases."""
    spectrum = spectral_noise.noise_spectrum(turns, *amplitudes(amplitude, size))
    return fourier.inverse(spectrum, size[1])


def draw_blue_noise(source: DrawSource, image: Image, level: float) -> Turns:
    """Draw the phases of the noise."""
    return draw_turns(source.child(), image)


def sample_by_blue_noise(image: Image, level: float, turns: Turns) -> Image:
    """Return the pixels where blue noise is above a threshold, else black."""
    height, width, _ = image.shape
    threshold = np.float32(scaled(level, BLUE_RANGE) + BLUE_LOWEST)
    noise = field(turns, blue, (height, width))
    return spectral_noise.keep_above(image.reshape(height, -1), noise, threshold).reshape(image.shape)


def draw_brownish_noise(source: DrawSource, image: Image, level: float) -> tuple[Turns, ...]:
    """Draw the phases of the noise of each channel."""
    child = source.child()
    return tuple(draw_turns(child, image) for _ in range(3))


def add_brownish_noise(image: Image, level: float, turns: tuple[Turns, ...]) -> Image:
    """Return the image plus brownish noise."""
    height, width, _ = image.shape
    fields = [field(phases, brown, (height, width)) for phases in turns]
    intensity = np.float32(scaled(level, BROWN_INTENSITY))
    return spectral_noise.add_fields(image.reshape(height, -1), *fields, intensity).reshape(image.shape)
