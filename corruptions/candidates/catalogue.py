"""The record of one candidate, and the conversion of its draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Image
from corruptions.draws import DrawSource

Draws = Mapping[str, Any]
"""What is drawn for one image: key -> number, string, tuple or array. Lists are accepted for tuples and arrays."""


@dataclass(frozen=True)
class Candidate:
    """One candidate corruption: what it draws for an image, and what it does with the draws.

    ``keys`` are the names of the draws, in the order of drawing. ``draw(source, image)`` returns a value for each key;
    most candidates use the shape of the image only. ``apply(image, draws)`` is a pure function that returns a new image
    of the same shape. ``version`` must be increased with each change that alters a pixel.
    """

    name: str
    keys: tuple[str, ...]
    draw: Callable[[DrawSource, Image], dict[str, Any]]
    apply: Callable[[Image, Draws], Image]
    version: int = 1

    def make(self, image: Image, source: DrawSource) -> Image:
        """Return the corrupted image.

        Args:
            image: uint8 RGB (H, W, 3). It is not modified.
            source: What to draw random numbers from.

        Returns:
            A new uint8 RGB array (H, W, 3).
        """
        return self.apply(image, self.draw(source, image))


def draw_nothing(source: DrawSource, image: Image) -> dict[str, Any]:
    """Return no draws, for candidates without a random part."""
    return {}


def array_of(draws: Draws, key: str, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a draw as a C-contiguous array. Kernels do not check shapes.

    Args:
        draws: The draws of one image.
        key: Name of the draw.
        dtype: Type of the result. ``np.floating``: float32 if the draw is float32, else float64.
        shape: Expected shape. -1 stands for any length.

    Returns:
        The array. It is a copy if its type or layout has to change.

    Raises:
        ValueError: If the shape is wrong.
    """
    values = np.asarray(draws[key])
    if dtype is np.floating:
        dtype = np.float32 if values.dtype == np.float32 else np.float64
    values = np.require(values, dtype, requirements=("C", "W"))
    if values.ndim != len(shape) or any(
        size not in (-1, found) for size, found in zip(shape, values.shape, strict=True)
    ):
        expected = " x ".join("n" if size == -1 else str(size) for size in shape)
        raise ValueError(f"draw {key!r} must have shape {expected}, not {values.shape}; draw again for this image")
    return values
