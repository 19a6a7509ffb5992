"""Resize operators by name, and the preparation of a photograph with one of them."""

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
    """Return a resize operator of OpenCV; a part of the image is rounded to whole pixels."""

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
"""Resize operator -> function of (image, height, width, the part of the result that is wanted)."""


def prepare(image: Image, steps: Steps, operator: str = "pillow-bilinear") -> Image:
    """Return a decoded photograph, RGB (H, W, 3), after the named steps in order; always a new array."""
    return prepare_with(image, steps, OPERATORS[operator])
