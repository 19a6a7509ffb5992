"""Motion blur by a chosen backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from corruptions import imagemagick
from corruptions.kernels import motion

Backend = Callable[[NDArray[np.uint8], int, float, float], NDArray[np.uint8]]

BACKENDS: Mapping[str, Backend] = {"native": motion.motion_blur, "imagemagick": imagemagick.motion_blur}


def motion_blur(image: NDArray[np.uint8], radius: int, sigma: float, angle: float, backend: str) -> NDArray[np.uint8]:
    """(H, W) or (H, W, 3) uint8, blurred along ``angle`` degrees. Raises ValueError for an unknown backend."""
    if backend not in BACKENDS:
        raise ValueError(f"unknown motion backend {backend!r}; choose one of {', '.join(BACKENDS)}")
    return BACKENDS[backend](image, radius, sigma, angle)
