"""Geometric changes: pinch_and_twirl, ripple, circular_motion_blur, lines and transverse_chromatic_abberation."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.c_bar.catalogue import Size, scaled
from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.elementary import cos_sin, exp
from corruptions.kernels.drawing import lines
from corruptions.kernels.sampling import displacement, splines

CELLS = {224: 5}
"""Cells along the shorter side, by its length in pixels. Quirk: the published number depends on the size."""
OTHER_CELLS = 3
"""Cells along a shorter side of any other length."""

TWIRL_ANGLE = math.pi / 2
"""Angle at the centre of a cell at level 10, in radians."""
PINCH, LEAST_PINCH = 0.4, 0.1
"""Exponent of the pinch at level 10 above that at level 0, and at level 0."""


def cell_side(size: Size) -> int:
    """Return the side of a cell in pixels."""
    shorter = min(size)
    return shorter // CELLS.get(shorter, OTHER_CELLS)


def draw_twirls(source: DrawSource, image: Image, level: float) -> NDArray[np.integer]:
    """Draw the direction of each cell, 0 or 1, by column and row of cells."""
    height, width, _ = image.shape
    side = cell_side((height, width))
    return source.integers(0, 2, (width // side, height // side))


@lru_cache(maxsize=16)
def twirl_offsets(side: int, level: float) -> NDArray[np.float64]:
    """Return where the pixels of a cell are sampled, see :func:`displacement.twirl_offsets`."""
    return displacement.twirl_offsets(side, scaled(level, TWIRL_ANGLE), scaled(level, PINCH) + LEAST_PINCH)


def twirl(image: Image, level: float, directions: NDArray[np.integer]) -> Image:
    """Return the image with a pinch and a twirl in each cell of a grid."""
    offsets = twirl_offsets(cell_side((image.shape[0], image.shape[1])), float(level))
    return displacement.twirl_cells(image, offsets, directions.astype(np.int64))


class Waves(NamedTuple):
    """Wavelengths in pixels, and phases in radians, of the displacement of rows and of columns."""

    lengths: tuple[float, float]
    phases: tuple[float, float]


RIPPLE_AMPLITUDE = 0.025
"""Largest displacement at level 10, as a fraction of the shorter side."""
SHORTEST_WAVE, LONGEST_WAVE = 0.1, 0.3
"""Range of wavelengths, as fractions of the shorter side."""


def draw_waves(source: DrawSource, image: Image, level: float) -> Waves:
    """Draw wavelengths and phases of the ripple."""
    shorter = min(image.shape[:2])
    first, second = source.angle(SHORTEST_WAVE, LONGEST_WAVE), source.angle(SHORTEST_WAVE, LONGEST_WAVE)
    phases = source.angle(0.0, 2 * math.pi), source.angle(0.0, 2 * math.pi)
    return Waves((first * shorter, second * shorter), phases)


def ripple(image: Image, level: float, waves: Waves) -> Image:
    """Return the image with rows and columns displaced by sine waves."""
    amplitude = scaled(level, RIPPLE_AMPLITUDE) * min(image.shape[:2])
    return displacement.ripple(image, amplitude, waves.lengths, waves.phases)


TURN_ANGLE = 15.0
"""Largest angle of the blur at level 10, in degrees."""
TURNS = 10
"""Angles of the blur on each side of 0."""
TURN_FALLOFF = 2.0
"""Decrease of the weight of an angle: the exponent is minus this times its square, as a part of the largest one."""


@lru_cache(maxsize=64)
def turns(level: float) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return cosine and sine of each angle, and its weight."""
    parts = [k / TURNS for k in range(-TURNS, TURNS + 1)]
    weights = [exp(-TURN_FALLOFF * part * part) for part in parts]
    angles = [part * scaled(level, TURN_ANGLE) * math.pi / 180 for part in parts]
    shares = [weight / math.fsum(weights) for weight in weights]
    return np.array([cos_sin(angle) for angle in angles]), np.array(shares, np.float32)


def circular_motion_blur(image: Image, level: float, draws: None) -> Image:
    """Return the image blurred along circles about its centre."""
    return splines.turn_blur(image, *turns(float(level)))


ABBERATION = 0.5
"""Zoom of the largest channel above 1, at level 10."""


def draw_order(source: DrawSource, image: Image, level: float) -> NDArray[np.int64]:
    """Draw which channel has which zoom."""
    return source.permutation(3)


def zoom_channels(image: Image, level: float, order: NDArray[np.int64]) -> Image:
    """Return the image with its channels zoomed by different factors."""
    largest = scaled(level, ABBERATION)
    zooms = (1.0, 1 + largest / 2, 1 + largest)
    return splines.zoom_channels(image, tuple(zooms[i] for i in order))


class Bundle(NamedTuple):
    """Mean angle of lines in radians, its variation as a fraction of a turn, and three draws for each line."""

    angle: float
    variation: float
    draws: NDArray[np.floating]


LINES = 1.0
"""Number of lines at level 10, per pixel of the shorter side."""


def draw_bundle(source: DrawSource, image: Image, level: float) -> Bundle:
    """Draw place and direction of the lines."""
    angle, variation = source.angle(0.0, 2 * math.pi), source.angle(0.1, 1.0)
    count = int(scaled(level, LINES) * min(image.shape[:2]))
    return Bundle(angle, variation, source.child().uniform(0.0, 1.0, (count, 3)))


def add_lines(image: Image, level: float, bundle: Bundle) -> Image:
    """Return the image with grey lines."""
    return lines.draw_lines(image, bundle.draws, bundle.angle, bundle.variation, float(min(image.shape[:2])))
