"""Resize operators, and the preparation of a photograph with one of them."""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np
from PIL import Image as PillowImage

from corruptions.preparation import STEPS, Box, Image, Operator, Steps, library_operator, pillow_bilinear
from corruptions.preparation import prepare as prepare_with

__all__ = ["OPERATORS", "STEPS", "prepare"]


def pillow_operator(resampling: PillowImage.Resampling) -> Operator:
    """Return a resize operator of Pillow."""

    def resize(image: Image, height: int, width: int, box: Box | None) -> Image:
        return np.asarray(PillowImage.fromarray(image).resize((width, height), resampling, box=box))

    return library_operator(resize)


def opencv_operator(interpolation: int) -> Operator:
    """Return a resize operator of OpenCV. It rounds a box to whole pixels."""

    def resize(image: Image, height: int, width: int, box: Box | None) -> Image:
        if box:
            left, top, right, bottom = map(round, box)
            image = image[top:bottom, left:right]
        return np.asarray(cv2.resize(image, (width, height), interpolation=interpolation), np.uint8)

    return library_operator(resize)


OPERATORS: Mapping[str, Operator] = {
    "pillow-nearest": pillow_operator(PillowImage.Resampling.NEAREST),
    "pillow-box": pillow_operator(PillowImage.Resampling.BOX),
    "pillow-bilinear": pillow_bilinear,
    "pillow-hamming": pillow_operator(PillowImage.Resampling.HAMMING),
    "pillow-bicubic": pillow_operator(PillowImage.Resampling.BICUBIC),
    "pillow-lanczos": pillow_operator(PillowImage.Resampling.LANCZOS),
    "opencv-nearest": opencv_operator(cv2.INTER_NEAREST),
    "opencv-bilinear": opencv_operator(cv2.INTER_LINEAR),
    "opencv-area": opencv_operator(cv2.INTER_AREA),
    "opencv-bicubic": opencv_operator(cv2.INTER_CUBIC),
    "opencv-lanczos": opencv_operator(cv2.INTER_LANCZOS4),
}
"""Resize operators by name: functions of (image, height, width, box of the image to resize or None)."""


def prepare(image: Image, steps: Steps, operator: str = "pillow-bilinear") -> Image:
    """Prepare a photograph.

    Args:
        image: Decoded photograph, uint8 RGB (H, W, 3).
        steps: Pairs of step name and value, applied in order.
        operator: Name of a resize operator.

    Returns:
        A new uint8 RGB array.

    Raises:
        ValueError: The photograph is smaller than a crop.
    """
    return prepare_with(image, steps, OPERATORS[operator])
