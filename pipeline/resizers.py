"""Resize operators by name, and the preparation of a photograph with one of them."""

from __future__ import annotations

from collections.abc import Mapping

from PIL import Image as PillowImage

from perturbations.preparation import STEPS, Image, Operator, Steps, pillow_operator
from perturbations.preparation import prepare as prepare_with

__all__ = ["OPERATORS", "STEPS", "prepare"]

OPERATORS: Mapping[str, Operator] = {"pillow-bilinear": pillow_operator(PillowImage.Resampling.BILINEAR)}
"""Resize operator -> function of (image, height, width, part of the image or None for all of it)."""


def prepare(image: Image, steps: Steps, operator: str = "pillow-bilinear") -> Image:
    """A decoded photograph, RGB (H, W, 3), after the named steps in order; always a new array."""
    return prepare_with(image, steps, OPERATORS[operator])
