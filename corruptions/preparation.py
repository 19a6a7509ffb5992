"""Preparation of photographs: resize and crop steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels.bilinear import resize_bilinear

Image = NDArray[np.uint8]
"""RGB (H, W, 3), 0..255."""


class Window(NamedTuple):
    """A part of a larger image."""

    top: int
    left: int
    height: int
    width: int


Operator = Callable[[Image, int, int, Window], Image]
"""Resizes: (image, height, width, what is wanted of the result)."""


Box = tuple[float, float, float, float]


Steps = Sequence[tuple[str, float]]
"""A preparation: names of :data:`STEPS` with their values."""


MAX_RESIZED_PIXELS = 2**24
"""A larger result of a resize is computed only around its centre, where crops look: a 1 x 4000 strip would otherwise
grow to 256 x 1,024,000."""


def library_operator(resize: Callable[[Image, int, int, Box | None], Image]) -> Operator:
    """An operator of a library's function of (image, height, width, the part of the image as (left, top, right, bottom)
    or None for all of it): it computes all of the result, or the middle of one that is too large.
    """

    def operator(image: Image, height: int, width: int, window: Window) -> Image:
        rows, columns = _computable(height, width)
        part = central(height, width, max(rows, window.height), max(columns, window.width))
        box = None
        if part != (0, 0, height, width):
            down, across = image.shape[0] / height, image.shape[1] / width
            right, bottom = part.left + part.width, part.top + part.height
            box = (part.left * across, part.top * down, right * across, bottom * down)
        resized = resize(image, part.height, part.width, box)
        return cut(resized, window._replace(top=window.top - part.top, left=window.left - part.left))

    return operator


def pillow_bilinear(image: Image, height: int, width: int, window: Window) -> Image:
    """Pillow's bilinear resize, of which no more is computed than is wanted: a third of Pillow's time or less."""
    return resize_bilinear(image, (height, width), window[:2], window[2:])


def cut(image: Image, window: Window) -> Image:
    """A part of an image, as a view."""
    return image[window.top : window.top + window.height, window.left : window.left + window.width]


def middle(size: int, crop: int) -> int:
    """Where the middle ``crop`` of ``size`` pixels begins, by Python's rounding, as published."""
    return round((size - crop) / 2)


def central(height: int, width: int, rows: int, columns: int) -> Window:
    """The middle of an image of a size. Raises ValueError for more than there is."""
    if rows > height or columns > width:
        raise ValueError(f"{rows} x {columns} pixels cannot be cropped from {height} x {width}")
    return Window(middle(height, rows), middle(width, columns), rows, columns)


def _computable(height: int, width: int) -> tuple[int, int]:
    """How much of a resized image is computed where nobody looks at a part of it: (height, width)."""
    side = min(height, width)
    return min(height, max(MAX_RESIZED_PIXELS // width, side)), min(width, max(MAX_RESIZED_PIXELS // height, side))


def _shorter_side(height: int, width: int, value: float) -> tuple[int, int]:
    """``value`` for the shorter side and ``int(value * long / short)`` for the other."""
    side = int(value)
    longer = int(side * max(height, width) / min(height, width))
    return (side, longer) if width > height else (longer, side)


def _square(height: int, width: int, value: float) -> tuple[int, int]:
    """``value`` x ``value``."""
    return int(value), int(value)


def _fraction(height: int, width: int, value: float) -> tuple[int, int]:
    """``int(value * H)`` x ``int(value * W)``, at least one each way."""
    return max(int(value * height), 1), max(int(value * width), 1)


@dataclass(frozen=True)
class PreparationStep:
    """A step of a preparation: ``size`` gives (height, width) of its result; it crops to the middle, or resizes all."""

    size: Callable[[int, int, float], tuple[int, int]]
    crops: bool


STEPS: Mapping[str, PreparationStep] = {
    "shorter_side": PreparationStep(_shorter_side, crops=False),
    "square": PreparationStep(_square, crops=False),
    "center_crop": PreparationStep(_square, crops=True),
    "center_fraction": PreparationStep(_fraction, crops=True),
}
"""Step of a preparation -> what it does. A square does not keep the aspect."""


PROFILE_STEPS: Mapping[str, Steps] = {
    "imagenet": (("shorter_side", 256), ("center_crop", 224)),
    "inception": (("center_fraction", 0.875), ("square", 299)),
    "tiny": (("shorter_side", 64), ("center_crop", 64)),
    "cifar": (("square", 32),),
}
"""How each profile's images were prepared."""


def prepare(photograph: Image, steps: Steps, operator: Operator = pillow_bilinear) -> Image:
    """A decoded photograph, RGB (H, W, 3), after the steps in order; always a new C-contiguous array.

    Raises ValueError for a crop that is larger than what there is.
    """
    return np.array(apply_steps(photograph, steps, operator), order="C")


def apply_steps(image: Image, steps: Steps, operator: Operator) -> Image:
    """Return the image after the steps; where a crop follows a resize, compute only what it keeps."""
    if not steps:
        return image
    height, width = image.shape[:2]
    size, rest = size_after(height, width, steps[0]), steps[1:]
    if STEPS[steps[0][0]].crops:
        return apply_steps(cut(image, central(height, width, *size)), rest, operator)
    kept = central(*size, *_computable(*size))
    if rest and STEPS[rest[0][0]].crops:
        kept, rest = central(*size, *size_after(*size, rest[0])), rest[1:]
    return apply_steps(operator(image, *size, kept), rest, operator)


def size_after(height: int, width: int, step: tuple[str, float]) -> tuple[int, int]:
    """Return height and width of an image after a step."""
    name, value = step
    return STEPS[name].size(height, width, value)
