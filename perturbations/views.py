"""A photograph prepared for perturbations: the clean image, and the larger image from which it was cropped."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels.sampling.fixed_sampling import framed
from corruptions.preparation import (
    STEPS,
    Image,
    Operator,
    Steps,
    Window,
    apply_steps,
    centre_offset,
    centre_window,
    pillow_bilinear,
    prepare,
    size_after,
)
from perturbations.kernels import sampling


@dataclass(frozen=True)
class Canvas:
    """An image on which content moves before it is cropped.

    Attributes:
        pixels: The computed part of the image, uint8 (H, W, 3).
        height: Height of the complete image in pixels.
        width: Width of the complete image in pixels.
        top: First row of ``pixels`` in the complete image. 0 unless the image is very long.
        left: First column of ``pixels`` in the complete image. 0 unless the image is very long.
    """

    pixels: Image
    height: int
    width: int
    top: int = 0
    left: int = 0

    @property
    def part(self) -> Window:
        """Return the place of ``pixels`` in the complete image."""
        return Window(self.top, self.left, *self.pixels.shape[:2])

    @cached_property
    def bordered(self) -> NDArray[np.uint8]:
        """Return the values of ``pixels`` for :func:`sampling.affine`. All frames of all sequences share them."""
        return sampling.bordered(self.pixels)

    @cached_property
    def framed(self) -> NDArray[np.uint8]:
        """Return the values of ``pixels`` for :func:`sampling.project_window`."""
        return framed(self.pixels, 1)


@dataclass(frozen=True)
class Views:
    """The images that all sequences of one photograph use.

    Attributes:
        photograph: The decoded photograph.
        steps: The preparation.
        operator: The resize operator.
        resized: The photograph after the steps before the first crop.
        window: The part of ``resized`` that the first crop keeps.
        base: The clean image, after all steps, uint8 (N, N, 3).
    """

    photograph: Image
    steps: Steps
    operator: Operator
    resized: Canvas
    window: Window
    base: Image

    @cached_property
    def prepared(self) -> Canvas:
        """Return the clean image as a canvas."""
        return Canvas(self.base, *self.base.shape[:2])

    def finish(self, cropped: Image) -> Image:
        """Return a changed window after the steps that follow the first crop.

        Args:
            cropped: uint8 array of the size of ``window``.
        """
        return apply_steps(cropped, self.steps[_first_crop(self.steps) + 1 :], self.operator)

    def prepare(self, photograph: Image) -> Image:
        """Return another photograph after the same preparation.

        Args:
            photograph: uint8 RGB (H, W, 3).
        """
        return prepare(photograph, self.steps, self.operator)


def make_views(photograph: Image, steps: Steps, operator: Operator = pillow_bilinear) -> Views:
    """Prepare a photograph for perturbations.

    Args:
        photograph: Decoded photograph, uint8 RGB (H, W, 3) of any size.
        steps: The preparation.
        operator: The resize operator.

    Returns:
        The views of the photograph.

    Raises:
        ValueError: If a crop is larger than its input.
    """
    # Copy read-only arrays: numba treats them as a separate type, for which all kernels would be compiled again.
    photograph = np.require(photograph, requirements=("C", "W"))
    first = _first_crop(steps)
    height, width = photograph.shape[:2]
    for step in steps[:first]:
        height, width = size_after(height, width, step)
    window = Window(0, 0, height, width)
    if first < len(steps):
        window = centre_window(height, width, *size_after(height, width, steps[first]))
    pixels = np.require(apply_steps(photograph, steps[:first], operator), requirements=("C", "W"))
    top, left = centre_offset(height, pixels.shape[0]), centre_offset(width, pixels.shape[1])
    canvas = Canvas(pixels, height, width, top, left)
    return Views(photograph, steps, operator, canvas, window, prepare(photograph, steps, operator))


def _first_crop(steps: Steps) -> int:
    """Return the index of the first step that crops, or the number of steps if none does."""
    return next((index for index, (name, _) in enumerate(steps) if STEPS[name].crops), len(steps))
