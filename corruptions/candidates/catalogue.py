"""The records of candidates, and the conversion of their draws."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Image, Transform, draw_nothing
from corruptions.draws import DrawSource

Draws = Mapping[str, Any]
"""What is drawn for one image: key -> number, string, tuple or array. Lists are accepted for tuples and arrays."""

GROUP = "candidates"
"""Group of the candidates."""
SETTINGS: Mapping[str, tuple[None]] = {"imagenet": (None,)}
"""The levels of each candidate: it was published with one setting, for one profile."""
MIN_SIDE = 130
"""Smallest accepted image side in pixels: the side that Border keeps."""


def candidate(
    name: str,
    apply: Callable[[Image, None, Draws], Image],
    draw: Callable[[DrawSource, Image, None], Draws | None] = draw_nothing,
    keys: tuple[str, ...] = (),
    version: int = 1,
    **ranges: tuple[float, float],
) -> Transform:
    """Return the record of one candidate, whose draws are a mapping.

    Args:
        name: Name of the candidate.
        apply: See :class:`Transform`.
        draw: The same.
        keys: Names of the draws, in the order of drawing.
        version: Version number.
        **ranges: In place of ``draw`` and ``keys``: draw -> its least and its largest value, between which it is
            uniform, in the order of drawing.
    """
    if ranges:
        draw, keys = _uniform(ranges), tuple(ranges)
    return Transform(name, version, GROUP, SETTINGS, apply, draw, keys=keys, smallest=MIN_SIDE)


def _uniform(ranges: Mapping[str, tuple[float, float]]) -> Callable[[DrawSource, Image, None], Draws]:
    """Return a function that draws a number of each range."""
    return lambda source, image, setting: {key: source.angle(*limits) for key, limits in ranges.items()}


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
