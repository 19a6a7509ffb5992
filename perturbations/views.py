"""From photograph to clean image: resizing and cropping steps, and the views that sequences start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from corruptions.preparation import (
    STEPS,
    Image,
    Operator,
    Steps,
    Window,
    apply_steps,
    central,
    middle,
    pillow_bilinear,
    prepare,
    size_after,
)


class Canvas(NamedTuple):
    """An image on which content moves before it is cropped.

    ``pixels``: what is there of it; ``height``, ``width``: how large it was published; ``top``, ``left``: where
    ``pixels`` begins in that (0 unless the image is very long).
    """

    pixels: Image
    height: int
    width: int
    top: int = 0
    left: int = 0


@dataclass(frozen=True)
class Views:
    """What all sequences of one photograph share.

    ``resized`` is the photograph after the steps before the first crop; ``window`` is what that crop keeps of it, and
    ``finish`` the steps after it; ``base`` is the clean image (N, N, 3).
    """

    photograph: Image
    steps: Steps
    operator: Operator
    resized: Canvas
    window: Window
    base: Image

    def finish(self, cropped: Image) -> Image:
        """A content of the window after the steps that follow the crop."""
        return apply_steps(cropped, self.steps[_first_crop(self.steps) + 1 :], self.operator)

    def prepare(self, photograph: Image) -> Image:
        """Another photograph prepared in the same way."""
        return prepare(photograph, self.steps, self.operator)


def make_views(photograph: Image, steps: Steps, operator: Operator = pillow_bilinear) -> Views:
    """The views of a decoded photograph, RGB (H, W, 3) of any size, for a preparation. Raises ValueError."""
    # Compiled kernels are kept per type, and read-only arrays are a type of their own.
    photograph = np.require(photograph, requirements=("C", "W"))
    first = _first_crop(steps)
    height, width = photograph.shape[:2]
    for step in steps[:first]:
        height, width = size_after(height, width, step)
    window = Window(0, 0, height, width)
    if first < len(steps):
        window = central(height, width, *size_after(height, width, steps[first]))
    pixels = np.require(apply_steps(photograph, steps[:first], operator), requirements=("C", "W"))
    top, left = middle(height, pixels.shape[0]), middle(width, pixels.shape[1])
    canvas = Canvas(pixels, height, width, top, left)
    return Views(photograph, steps, operator, canvas, window, prepare(photograph, steps, operator))


def _first_crop(steps: Steps) -> int:
    """The index of the first step that crops; the number of steps if none does."""
    return next((index for index, (name, _) in enumerate(steps) if STEPS[name].crops), len(steps))
