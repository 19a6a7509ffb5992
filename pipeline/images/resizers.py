"""Resize operators, and the preparation of a photograph with one of them."""

import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image as PillowImage

from corruptions.kernels.sampling.opencv_resize import resize_area, resize_cubic, resize_linear
from corruptions.preparation import (
    STEPS,
    Box,
    Image,
    Operator,
    Steps,
    kernel_operator,
    library_operator,
    pillow_bilinear,
    whole_pixels,
)
from corruptions.preparation import prepare as prepare_with

__all__ = ["OPERATORS", "STEPS", "prepare"]


@dataclass(frozen=True)
class ResizeOperator:
    """A resize operator.

    Attributes:
        resize: Resizes an image and returns a window of the result.
        library: Returns the name and version of the library that computes the pixels.
        version: Version of the pixels. A change of pixels increases it.
    """

    resize: Operator
    library: Callable[[], str]
    version: int = 1


def own_operator(resize: Operator, version: int = 1) -> ResizeOperator:
    """Return a resize operator of this project."""
    return ResizeOperator(resize, lambda: f"robustshards {importlib.metadata.version('robustshards')}", version)


def pillow_operator(resampling: PillowImage.Resampling) -> ResizeOperator:
    """Return a resize operator of Pillow."""

    def resize(image: Image, height: int, width: int, box: Box | None) -> Image:
        return np.asarray(PillowImage.fromarray(image).resize((width, height), resampling, box=box))

    return ResizeOperator(library_operator(resize), lambda: f"Pillow {importlib.metadata.version('pillow')}")


def opencv_operator(interpolation: int) -> ResizeOperator:
    """Return a resize operator of OpenCV. It rounds a box to whole pixels."""

    def resize(image: Image, height: int, width: int, box: Box | None) -> Image:
        part = whole_pixels(image, box)
        return np.asarray(cv2.resize(part, (width, height), interpolation=interpolation), np.uint8)

    return ResizeOperator(library_operator(resize), lambda: f"OpenCV {cv2.__version__}")


OPERATORS: Mapping[str, ResizeOperator] = {
    "pillow-nearest": pillow_operator(PillowImage.Resampling.NEAREST),
    "pillow-box": pillow_operator(PillowImage.Resampling.BOX),
    "pillow-bilinear": own_operator(pillow_bilinear),
    "pillow-hamming": pillow_operator(PillowImage.Resampling.HAMMING),
    "pillow-bicubic": pillow_operator(PillowImage.Resampling.BICUBIC),
    "pillow-lanczos": pillow_operator(PillowImage.Resampling.LANCZOS),
    "opencv-nearest": opencv_operator(cv2.INTER_NEAREST),
    "opencv-bilinear": own_operator(kernel_operator(resize_linear)),
    "opencv-area": own_operator(kernel_operator(resize_area)),
    "opencv-bicubic": own_operator(kernel_operator(resize_cubic), version=2),
    "opencv-lanczos": opencv_operator(cv2.INTER_LANCZOS4),
}
"""Resize operators by name."""


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
    return prepare_with(image, steps, OPERATORS[operator].resize)
