"""Light: caustic_refraction, inverse_sparkles and sparkles."""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from corruptions.c_bar.catalogue import scaled
from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.elementary import cos_sin
from corruptions.kernels.drawing import caustics, sparkles
from corruptions.kernels.smoothing import gaussian as smoothing
from corruptions.margins import with_margins


class Water(NamedTuple):
    """Time, and period of the pattern in pixels."""

    time: float
    scale: float


LENS, LIGHT = 0.5, 2.0
"""Strength of the refraction, as a fraction of the shorter side, and of the light, both at level 10."""
SIGMA, MARGIN = 1.0, 4
"""Sigma of the Gaussian that smooths the map, and its radius, in pixels."""
OUTSIDE = 1.0
"""Darkness of the ground outside of the image."""


def draw_water(source: DrawSource, image: Image, level: float) -> Water:
    """Draw time and scale of the pattern."""
    return Water(source.angle(0.5, 2.0), source.angle(0.75, 1.25) * min(image.shape[:2]))


def refract(image: Image, level: float, draws: Water) -> Image:
    """Return the image refracted and lit by moving water."""
    height, width, _ = image.shape
    times = [draws.time * (1 - caustics.SLOWNESS / (k + 1)) for k in range(caustics.STEPS)]
    turns = np.array([cos_sin(time) for time in times], np.float32)
    shadow = caustics.shadow(height, width, turns, draws.scale)
    rough = with_margins(shadow, MARGIN, MARGIN, cv2.BORDER_REFLECT)
    smooth = smoothing.smooth_plane(rough, SIGMA)[MARGIN : MARGIN + height, MARGIN : MARGIN + width]
    darkness = np.pad(smooth, 1, constant_values=OUTSIDE)
    lens, light = scaled(level, LENS * min(height, width)), scaled(level, LIGHT)
    return caustics.refract(image, darkness, lens, light)


FEWEST_RAYS = 50
"""Smallest number of rays of a star."""


class Star(NamedTuple):
    """Row and column of the centre, and a standard normal number for each ray."""

    centre: tuple[float, float]
    rays: NDArray[np.float64]


STAR_RADIUS = 0.25
"""Mean length of rays, as a fraction of the shorter side."""
FADING, FADING_UNIT = 65.0, 50.0
"""Exponent with which the image fades outside of the star: value at level 10, and what it is divided by."""


def draw_star(source: DrawSource, image: Image, level: float) -> Star:
    """Draw a star in the middle half of the image. The lengths of its rays come from a generator of their own."""
    row, column = (source.uniform(0.25, 0.75, (2,)).astype(np.float64) * image.shape[:2]).tolist()
    lengths = source.child()
    count = source.integer(FEWEST_RAYS, sparkles.MOST_RAYS)
    return Star((row, column), lengths.normal(0.0, 1.0, (count,)).astype(np.float64))


def fade_outside(image: Image, level: float, draws: Star) -> Image:
    """Return the image faded to white outside of a star."""
    radius, exponent = STAR_RADIUS * min(image.shape[:2]), scaled(level, FADING) / FADING_UNIT
    return sparkles.fade_outside(image.reshape(image.shape[0], -1), *draws, radius, exponent).reshape(image.shape)


class Stars(NamedTuple):
    """Row and column of the centres (n, 2), numbers of rays (n,), and a standard normal number for each ray."""

    centres: NDArray[np.float64]
    counts: NDArray[np.int64]
    rays: NDArray[np.float64]


STARS = 5
"""Number of sparkles."""
SPARKLE_RADIUS = 0.1
"""Mean length of rays at level 10, as a fraction of the shorter side."""


def draw_stars(source: DrawSource, image: Image, level: float) -> Stars:
    """Draw stars anywhere in the image. The lengths of their rays come from a generator of their own."""
    centres = source.uniform(0.0, 1.0, (STARS, 2)).astype(np.float64) * image.shape[:2]
    lengths = source.child()
    counts = source.integers(FEWEST_RAYS, sparkles.MOST_RAYS, (STARS,)).astype(np.int64)
    return Stars(centres, counts, lengths.normal(0.0, 1.0, (int(counts.sum()),)).astype(np.float64))


def add_stars(image: Image, level: float, draws: Stars) -> Image:
    """Return the image with stars that fade to white."""
    radius = scaled(level, SPARKLE_RADIUS) * min(image.shape[:2])
    return sparkles.fade_inside(image.reshape(image.shape[0], -1), *draws, radius).reshape(image.shape)
