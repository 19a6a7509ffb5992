"""Distortions by rows and columns, without random numbers: glitched and vertical_lines."""

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from corruptions.catalogue import Image
from corruptions.kernels.drawing.bands import draw_bands

FIRST_SEED = 1
"""Seed of the first band and of the colour. It is fixed, so that all images of a size are glitched alike."""


class Glitch(NamedTuple):
    """Bands of rows and how far they move to the right; the channel that stays, and how far it moves."""

    bands: tuple[tuple[int, int, int], ...]
    channel: int
    across: int
    down: int


@lru_cache
def glitch_of(level: float, height: int, width: int) -> Glitch:
    """Return how images of a size are glitched.

    Args:
        level: Level of the glitch, 1..10.
        height: Height of the image in pixels.
        width: Width of the image in pixels.
    """
    most, bands = int(level * level / 100 * width), []
    for number in range(2 * int(level)):
        generator = random.Random(FIRST_SEED + number)
        if offset := generator.randint(-most, most):
            first = generator.randint(0, height)
            bands.append((offset, first, first + min(generator.randint(1, height // 4), height - first)))
    generator = random.Random(FIRST_SEED)
    channel = generator.randint(0, 2)
    across, down = (generator.randint(-2 * int(level), 2 * int(level)) for _ in range(2))
    return Glitch(tuple(bands), channel, across, down)


def glitch(image: Image, level: int, draws: None) -> Image:
    """Return the image with bands of rows moved, one channel in another place, and every second row black."""
    moves, out = glitch_of(level, *image.shape[:2]), image.copy()
    for offset, first, last in moves.bands:
        out[first:last] = np.roll(image[first:last], offset, axis=1)
    channel = np.roll(image[..., moves.channel], moves.down, axis=0)
    row = moves.down % len(image)
    channel[row] = np.roll(channel[row], moves.across)
    out[..., moves.channel] = channel
    out[::2] = 0
    return out


@dataclass(frozen=True)
class Lines:
    """Number of lines, and rows from one point of a line to the next."""

    count: int
    step: int


def draw_lines(image: Image, parameters: Lines, draws: None) -> Image:
    """Return slanted lines in the colours of the image on black."""
    lines: Image = draw_bands(image.reshape(len(image), -1), parameters.count, parameters.step)
    return lines.reshape(image.shape)
