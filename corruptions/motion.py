"""Motion blur by a selected backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from corruptions import imagemagick
from corruptions.kernels.smoothing import motion
from corruptions.registry import find

Backend = Callable[[NDArray[np.uint8], int, float, float], NDArray[np.uint8]]
"""A function of (image, radius, sigma, angle) that returns the blurred image."""

BACKENDS: Mapping[str, Backend] = {"native": motion.motion_blur, "imagemagick": imagemagick.motion_blur}
"""Name of a backend -> its function."""


def motion_blur(image: NDArray[np.uint8], radius: int, sigma: float, angle: float, backend: str) -> NDArray[np.uint8]:
    """Return an image blurred along a line.

    Args:
        image: uint8 (H, W) or (H, W, 3).
        radius: Half the length of the line in pixels.
        sigma: Standard deviation of the weights along the line in pixels.
        angle: Direction in degrees.
        backend: "native" or "imagemagick".

    Returns:
        A new uint8 array of the same shape.

    Raises:
        ImportError: If ImageMagick is selected but not installed.
        ValueError: If the backend is unknown.
    """
    return find("motion backend", BACKENDS, backend)(image, radius, sigma, angle)
