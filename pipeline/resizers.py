"""Resize operators and crops, and the preparation of a photograph that is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

Image = NDArray[np.uint8]
Box = tuple[float, float, float, float]

MAX_RESIZED_PIXELS = 2**26
"""Where the shorter side is set, a result larger than this is computed only around its centre, which the crop that
follows looks at: a 1 x 4000 strip would otherwise grow to 256 x 1,024,000."""


def prepare(image: Image, steps: Sequence[tuple[str, float]], operator: str = "pillow-bilinear") -> Image:
    """A decoded photograph, RGB (H, W, 3), after the named steps in order; always a new array."""
    for name, value in steps:
        image = STEPS[name](image, value, OPERATORS[operator])
    return np.array(image, order="C")


def _pillow(filter_: PillowImage.Resampling) -> Callable[[Image, int, int, Box | None], Image]:
    def resize(image: Image, height: int, width: int, box: Box | None = None) -> Image:
        return np.asarray(PillowImage.fromarray(image).resize((width, height), filter_, box=box))

    return resize


Operator = Callable[[Image, int, int, Box | None], Image]

OPERATORS: Mapping[str, Operator] = {"pillow-bilinear": _pillow(PillowImage.Resampling.BILINEAR)}
"""Resize operator -> function of (image, height, width, part of the image or None for all of it)."""


def center_crop(image: Image, height: int, width: int) -> Image:
    """The middle of an image; offsets ``int(round((size - crop) / 2))``, Python's rounding, as published."""
    top, left = (round((size - crop) / 2) for size, crop in zip(image.shape, (height, width), strict=False))
    return image[top : top + height, left : left + width]


def _shorter_side(image: Image, value: float, resize: Operator) -> Image:
    """Resize so that the shorter side is ``value`` and the other ``int(value * long / short)``."""
    height, width = image.shape[:2]
    side = int(value)
    longer = int(side * max(height, width) / min(height, width))
    kept, box = longer, None
    if longer * side > MAX_RESIZED_PIXELS:
        # An even number of pixels is left out on either side, so that the rounding of the crop's offset stays.
        margin = (longer - MAX_RESIZED_PIXELS // side) // 4 * 2
        kept = longer - 2 * margin
        scale = max(height, width) / longer
        start, stop = margin * scale, (longer - margin) * scale
        box = (start, 0, stop, height) if width > height else (0, start, width, stop)
    return resize(image, side, kept, box) if width > height else resize(image, kept, side, box)


def _center_crop(image: Image, value: float, resize: Operator) -> Image:
    return center_crop(image, int(value), int(value))


def _center_fraction(image: Image, value: float, resize: Operator) -> Image:
    """The middle ``int(value * H)`` x ``int(value * W)`` pixels, at least one each way."""
    height, width = image.shape[:2]
    return center_crop(image, max(int(value * height), 1), max(int(value * width), 1))


def _square(image: Image, value: float, resize: Operator) -> Image:
    """Resize to ``value`` x ``value``; the aspect is not kept."""
    return resize(image, int(value), int(value), None)


STEPS: Mapping[str, Callable[[Image, float, Operator], Image]] = {
    "shorter_side": _shorter_side,
    "center_crop": _center_crop,
    "center_fraction": _center_fraction,
    "square": _square,
}
"""Step of a preparation -> function of (image, value, resize operator)."""
