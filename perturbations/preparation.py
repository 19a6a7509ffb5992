"""From photograph to clean image: resizing and cropping steps, and the views that sequences start from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

Image = NDArray[np.uint8]
"""RGB (H, W, 3), 0..255."""

Box = tuple[float, float, float, float]
Operator = Callable[[Image, int, int, Box | None], Image]
"""Resizes: (image, height, width, part of the image as (left, top, right, bottom) or None for all of it)."""

Steps = Sequence[tuple[str, float]]
"""A preparation: names of :data:`STEPS` with their values."""

MAX_RESIZED_PIXELS = 2**24
"""Where the shorter side is set, a result larger than this is computed only around its centre, which the crop that
follows looks at: a 1 x 4000 strip would otherwise grow to 256 x 1,024,000."""


def pillow_operator(resampling: PillowImage.Resampling) -> Operator:
    """A resize operator of Pillow."""

    def resize(image: Image, height: int, width: int, box: Box | None = None) -> Image:
        return np.asarray(PillowImage.fromarray(image).resize((width, height), resampling, box=box))

    return resize


PILLOW_BILINEAR = pillow_operator(PillowImage.Resampling.BILINEAR)


def center_crop(image: Image, height: int, width: int) -> Image:
    """The middle of an image; offsets ``int(round((size - crop) / 2))``, Python's rounding, as published."""
    top, left = (middle(size, crop) for size, crop in zip(image.shape, (height, width), strict=False))
    return image[top : top + height, left : left + width]


def middle(size: int, crop: int) -> int:
    """Where the middle ``crop`` of ``size`` pixels begins, as published."""
    return round((size - crop) / 2)


def _shorter_side_size(height: int, width: int, value: float) -> tuple[int, int]:
    """(height, width) with ``value`` for the shorter side and ``int(value * long / short)`` for the other."""
    side = int(value)
    longer = int(side * max(height, width) / min(height, width))
    return (side, longer) if width > height else (longer, side)


def _shorter_side(image: Image, value: float, resize: Operator) -> Image:
    """Resize to :func:`_shorter_side_size`, or its middle part where that is very long."""
    height, width = image.shape[:2]
    side, longer = int(value), max(_shorter_side_size(height, width, value))
    kept, box = longer, None
    if longer * side > MAX_RESIZED_PIXELS:
        # An even number of pixels is left out on either side, so that the rounding of the crop's offset stays.
        margin = (longer - MAX_RESIZED_PIXELS // side) // 4 * 2
        kept = longer - 2 * margin
        scale = max(height, width) / longer
        start, stop = margin * scale, (longer - margin) * scale
        box = (start, 0, stop, height) if width > height else (0, start, width, stop)
    return resize(image, side, kept, box) if width > height else resize(image, kept, side, box)


def _square(image: Image, value: float, resize: Operator) -> Image:
    """Resize to ``value`` x ``value``; the aspect is not kept."""
    return resize(image, int(value), int(value), None)


def _crop_side(height: int, width: int, value: float) -> tuple[int, int]:
    return int(value), int(value)


def _crop_fraction(height: int, width: int, value: float) -> tuple[int, int]:
    """The middle ``int(value * H)`` x ``int(value * W)`` pixels, at least one each way."""
    return max(int(value * height), 1), max(int(value * width), 1)


@dataclass(frozen=True)
class Step:
    """A step of a preparation: ``size`` gives (height, width) of its result; it crops if it has no ``resize``."""

    size: Callable[[int, int, float], tuple[int, int]]
    resize: Callable[[Image, float, Operator], Image] | None = None

    def apply(self, image: Image, value: float, operator: Operator) -> Image:
        """The image after this step."""
        if self.resize:
            return self.resize(image, value, operator)
        height, width = image.shape[:2]
        return center_crop(image, *self.size(height, width, value))


STEPS: Mapping[str, Step] = {
    "shorter_side": Step(_shorter_side_size, _shorter_side),
    "square": Step(_crop_side, _square),
    "center_crop": Step(_crop_side),
    "center_fraction": Step(_crop_fraction),
}
"""Step of a preparation -> what it does."""

PROFILE_STEPS: Mapping[str, Steps] = {
    "imagenet": (("shorter_side", 256), ("center_crop", 224)),
    "inception": (("center_fraction", 0.875), ("square", 299)),
    "tiny": (("shorter_side", 64), ("center_crop", 64)),
    "cifar": (("square", 32),),
}
"""How each profile's images were prepared."""


def prepare(photograph: Image, steps: Steps, operator: Operator = PILLOW_BILINEAR) -> Image:
    """A decoded photograph, RGB (H, W, 3), after the steps in order; always a new C-contiguous array."""
    image = photograph
    for name, value in steps:
        image = STEPS[name].apply(image, value, operator)
    return np.array(image, order="C")


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


class Window(NamedTuple):
    """The part of a canvas that the crop keeps."""

    top: int
    left: int
    height: int
    width: int


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
        _, after = _split(self.steps)
        image = cropped
        for name, value in after:
            image = STEPS[name].apply(image, value, self.operator)
        return image

    def prepare(self, photograph: Image) -> Image:
        """Another photograph prepared in the same way."""
        return prepare(photograph, self.steps, self.operator)


def make_views(photograph: Image, steps: Steps, operator: Operator = PILLOW_BILINEAR) -> Views:
    """The views of a decoded photograph, RGB (H, W, 3) of any size, for a preparation."""
    # Compiled kernels are kept per type, and read-only arrays are a type of their own.
    photograph = np.require(photograph, requirements=("C", "W"))
    before = steps[: _first_crop(steps)]
    pixels, (height, width) = photograph, photograph.shape[:2]
    for name, value in before:
        pixels = STEPS[name].apply(pixels, value, operator)
        height, width = STEPS[name].size(height, width, value)
    top, left = (height - pixels.shape[0]) // 2, (width - pixels.shape[1]) // 2
    window = Window(0, 0, height, width)
    if crop := steps[len(before) : len(before) + 1]:
        (name, value), *_ = crop
        rows, columns = STEPS[name].size(height, width, value)
        window = Window(middle(height, rows), middle(width, columns), rows, columns)
    canvas = Canvas(np.require(pixels, requirements=("C", "W")), height, width, top, left)
    return Views(photograph, steps, operator, canvas, window, prepare(photograph, steps, operator))


def _first_crop(steps: Steps) -> int:
    """The index of the first step that crops; the number of steps if none does."""
    return next((index for index, (name, _) in enumerate(steps) if STEPS[name].resize is None), len(steps))


def _split(steps: Steps) -> tuple[Steps, Steps]:
    """The steps before the first crop, and those after it."""
    first = _first_crop(steps)
    return steps[:first], steps[first + 1 :]
