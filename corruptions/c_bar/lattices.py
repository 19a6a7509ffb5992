"""Patterns on a lattice: perlin_noise and checkerboard_cutout."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.c_bar.catalogue import scaled
from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.elementary import cos_sin
from corruptions.kernels.drawing import checkerboard, perlin

LARGEST_NUMBER = 2**31
"""Numbers for gradients are below this."""
CELLS = 7
"""Cells of the first octave along the shorter side."""
NOISE_WEIGHT = 0.5
"""Weight of the noise at level 10."""


def draw_gradients(source: DrawSource, image: Image, level: float) -> NDArray[np.integer[Any]]:
    """Draw the numbers of which gradients and their order are made, from a generator of their own."""
    return source.child().integers(0, LARGEST_NUMBER, (perlin.DRAWS,))


def add_noise(image: Image, level: float, draws: NDArray[np.integer[Any]]) -> Image:
    """Return the image blended with Perlin noise."""
    side, weight = min(image.shape[:2]) / CELLS, scaled(level, NOISE_WEIGHT)
    blended: Image = perlin.blend_noise(image.reshape(image.shape[0], -1), draws.astype(np.int64), side, weight)
    return blended.reshape(image.shape)


class Board(NamedTuple):
    """Angle in radians, side of a cell in pixels, and whether each cell is cut out, bool (k, k)."""

    angle: float
    side: float
    hidden: NDArray[np.bool_]


REACH = 4
"""Cells after which the board repeats, as a multiple of those along the shorter side. Squares see no repetition."""


def draw_board(source: DrawSource, image: Image, level: float) -> Board:
    """Draw a checkerboard, of which cells are cut out with a probability of a tenth of the level."""
    angle = source.angle(0.0, 2 * math.pi)
    shorter = min(image.shape[:2])
    side = max(source.angle(0.1, 0.25) * shorter, 1.0)
    cells = int(REACH * shorter // side)
    return Board(angle, side, source.child().uniform(0.0, 1.0, (cells, cells)) < scaled(level, 1.0))


def cut_out(image: Image, level: float, draws: Board) -> Image:
    """Return the image with cells of a checkerboard grey."""
    cosine, sine = cos_sin(draws.angle)
    cells = draws.hidden.view(np.uint8)
    cut: Image = checkerboard.hide_cells(image.reshape(image.shape[0], -1), cells, cosine, sine, draws.side)
    return cut.reshape(image.shape)
