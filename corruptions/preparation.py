"""Preparation of photographs: resize and crop steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels.sampling.bilinear import resize_bilinear

Image = NDArray[np.uint8]
"""RGB image, uint8 (H, W, 3), 0..255."""


class Window(NamedTuple):
    """A rectangle within a larger image, in pixels."""

    top: int
    left: int
    height: int
    width: int


Operator = Callable[[Image, int, int, Window], Image]
"""A resize function of (image, height, width, window) that returns only this window of the resized image."""


Box = tuple[float, float, float, float]
"""A rectangle (left, top, right, bottom) in pixels, which may be fractional."""


Steps = Sequence[tuple[str, float]]
"""A preparation: pairs of a name in :data:`STEPS` and its value, in order."""


MAX_RESIZED_PIXELS = 2**24
"""Largest resize result in pixels that is computed completely. Of a larger one, only the central part is computed.

Crops read the centre. Without this limit a 1 x 4000 strip would become 256 x 1,024,000 pixels.
"""


def library_operator(resize: Callable[[Image, int, int, Box | None], Image]) -> Operator:
    """Return an operator that calls the resize function of a library.

    The operator computes the complete result, or its centre if the complete result is too large.

    Args:
        resize: Function of (image, height, width, box). ``box`` is the part to resize, None for the image.

    Returns:
        The operator.
    """

    def operator(image: Image, height: int, width: int, window: Window) -> Image:
        part, box = computed_part(image, height, width, window)
        return crop(resize(image, part.height, part.width, box), within(window, part))

    return operator


def kernel_operator(resize: Callable[[Image, tuple[int, int], tuple[int, int], tuple[int, int]], Image]) -> Operator:
    """Return an operator that calls a kernel, which computes only the window.

    If the complete result is too large, its centre is regarded as the result of resizing the centre of the image,
    rounded to whole pixels.

    Args:
        resize: Function of (image, size of the result, top left corner of the window, size of the window); all are
            (rows, columns).

    Returns:
        The operator.
    """

    def operator(image: Image, height: int, width: int, window: Window) -> Image:
        part, box = computed_part(image, height, width, window)
        inside = within(window, part)
        return resize(whole_pixels(image, box), part[2:], inside[:2], inside[2:])

    return operator


def computed_part(image: Image, height: int, width: int, window: Window) -> tuple[Window, Box | None]:
    """Return which part of a resize result is computed, and from which part of the image.

    Args:
        image: uint8 RGB (H, W, 3).
        height: Height of the complete result in pixels.
        width: Width of the complete result in pixels.
        window: Part that is needed.

    Returns:
        The computed part: the complete result, or its centre if it is too large. The part of the image to resize, None
        for the image.
    """
    rows, columns = _max_computed_size(height, width)
    part = centre_window(height, width, max(rows, window.height), max(columns, window.width))
    if part == (0, 0, height, width):
        return part, None
    down, across = image.shape[0] / height, image.shape[1] / width
    right, bottom = part.left + part.width, part.top + part.height
    return part, (part.left * across, part.top * down, right * across, bottom * down)


def whole_pixels(image: Image, box: Box | None) -> Image:
    """Return the part of an image in a box that is rounded to whole pixels, as a view; None is the whole image."""
    if box is None:
        return image
    left, top, right, bottom = map(round, box)
    return image[top:bottom, left:right]


def within(window: Window, part: Window) -> Window:
    """Return a window of an image as a window of a part of that image."""
    return window._replace(top=window.top - part.top, left=window.left - part.left)


def pillow_bilinear(image: Image, height: int, width: int, window: Window) -> Image:
    """Resize as Pillow's bilinear filter does, but compute only the window.

    Args:
        image: uint8 RGB (H, W, 3).
        height: Height of the complete result in pixels.
        width: Width of the complete result in pixels.
        window: Part of the result to return.

    Returns:
        uint8 RGB array of the window's size.
    """
    return resize_bilinear(image, (height, width), window[:2], window[2:])


def crop(image: Image, window: Window) -> Image:
    """Return a part of an image as a view.

    Args:
        image: Array (H, W, ...).
        window: The part to return.

    Returns:
        A view of the image, not a copy.
    """
    return image[window.top : window.top + window.height, window.left : window.left + window.width]


def centre_offset(size: int, crop: int) -> int:
    """Return where the central ``crop`` of ``size`` pixels begins, by Python's rounding, as published."""
    return round((size - crop) / 2)


def centre_window(height: int, width: int, rows: int, columns: int) -> Window:
    """Return the central part of an image.

    Args:
        height: Height of the image in pixels.
        width: Width of the image in pixels.
        rows: Height of the part in pixels.
        columns: Width of the part in pixels.

    Returns:
        The window of the part.

    Raises:
        ValueError: If the part is larger than the image.
    """
    if not (1 <= rows <= height and 1 <= columns <= width):
        raise ValueError(f"{rows} x {columns} pixels cannot be cropped from {height} x {width}")
    return Window(centre_offset(height, rows), centre_offset(width, columns), rows, columns)


def _max_computed_size(height: int, width: int) -> tuple[int, int]:
    """Return the largest (height, width) of a resize result that is computed if no crop follows."""
    side = min(height, width)
    return min(height, max(MAX_RESIZED_PIXELS // width, side)), min(width, max(MAX_RESIZED_PIXELS // height, side))


def _shorter_side(height: int, width: int, value: float) -> tuple[int, int]:
    """Return ``value`` for the shorter side and ``int(value * long / short)`` for the longer side."""
    side = int(value)
    longer = int(side * max(height, width) / min(height, width))
    return (side, longer) if width > height else (longer, side)


@dataclass(frozen=True)
class PreparationStep:
    """A kind of step. ``size`` returns the (height, width) of its result. ``crops``: crop the centre, do not resize."""

    size: Callable[[int, int, float], tuple[int, int]]
    crops: bool


STEPS: Mapping[str, PreparationStep] = {
    "shorter_side": PreparationStep(_shorter_side, crops=False),
    "square": PreparationStep(lambda height, width, value: (int(value), int(value)), crops=False),
    "center_crop": PreparationStep(lambda height, width, value: (int(value), int(value)), crops=True),
    "center_fraction": PreparationStep(
        lambda height, width, value: (max(int(value * height), 1), max(int(value * width), 1)), crops=True
    ),
    "trim": PreparationStep(lambda height, width, value: (height - 2 * int(value), width - 2 * int(value)), crops=True),
}
"""Name of a step -> what it does. ``square`` does not keep the aspect ratio, ``trim`` removes pixels at each edge."""


PROFILE_STEPS: Mapping[str, Steps] = {
    "imagenet": (("shorter_side", 256), ("center_crop", 224)),
    "inception": (("center_fraction", 0.875), ("square", 299)),
    "tiny": (("shorter_side", 64), ("center_crop", 64)),
    "cifar": (("square", 32),),
}
"""Profile -> the preparation of its published images."""


def prepare(photograph: Image, steps: Steps, operator: Operator = pillow_bilinear) -> Image:
    """Return a photograph after all steps.

    Args:
        photograph: Decoded photograph, uint8 RGB (H, W, 3).
        steps: The steps, in order.
        operator: Resize operator.

    Returns:
        A new C-contiguous uint8 RGB array.

    Raises:
        ValueError: If a crop is larger than its input.
    """
    return np.array(apply_steps(photograph, steps, operator), order="C")


def apply_steps(image: Image, steps: Steps, operator: Operator) -> Image:
    """Return an image after all steps. For a resize before a crop, only what the crop keeps is computed.

    Args:
        image: uint8 RGB (H, W, 3).
        steps: The steps, in order.
        operator: Resize operator.

    Returns:
        uint8 RGB array, which may share memory with ``image``.

    Raises:
        ValueError: If a crop is larger than its input.
    """
    if not steps:
        return image
    height, width = image.shape[:2]
    size, rest = size_after(height, width, steps[0]), steps[1:]
    if STEPS[steps[0][0]].crops:
        return apply_steps(crop(image, centre_window(height, width, *size)), rest, operator)
    kept = centre_window(*size, *_max_computed_size(*size))
    if rest and STEPS[rest[0][0]].crops:
        kept, rest = centre_window(*size, *size_after(*size, rest[0])), rest[1:]
    return apply_steps(operator(image, *size, kept), rest, operator)


def size_after(height: int, width: int, step: tuple[str, float]) -> tuple[int, int]:
    """Return the size of an image after a step.

    Args:
        height: Height of the image in pixels.
        width: Width of the image in pixels.
        step: Name of a step in :data:`STEPS` and its value.

    Returns:
        (height, width) in pixels.
    """
    name, value = step
    return STEPS[name].size(height, width, value)


def fixed_size(steps: Steps) -> tuple[int, int] | None:
    """Return the size that prepared photographs of any size have, or None if it depends on the photograph.

    Args:
        steps: The steps, in order.

    Returns:
        (height, width) in pixels, or None.
    """
    first, second = (3000, 4001), (4003, 3001)  # two photographs of unlike sizes
    for step in steps:
        first, second = size_after(*first, step), size_after(*second, step)
    return first if first == second else None
