"""Perturbations as integers: 65535 stands for 1.0, and a level of 8 bits is 257."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.recipes.attacks import Norm

ONE = 65535
"""Integer that stands for the pixel value 1.0."""

FLOAT32_ERROR = 2.0**-6
"""Largest difference, in units of 1 / 65535, that float32 rounding makes of a pixel value that was not changed."""

LEVEL = 257
"""Integer that stands for one of 255 levels: 65535 / 255."""

Stored = NDArray[Any]
"""Stored pixels, uint8 or uint16."""

Steps = NDArray[np.int64]
"""Pixel values or a perturbation, in units of 1 / 65535."""


def on_grid(pixels: Stored) -> Steps:
    """Return stored pixels in units of 1 / 65535."""
    return pixels.astype(np.int64) * (LEVEL if pixels.dtype == np.uint8 else 1)


def in_8_bits(pixels: Stored) -> NDArray[np.uint8]:
    """Return pixels as 8 bits, rounded, for pictures that people look at."""
    return pixels if pixels.dtype == np.uint8 else np.rint(pixels / LEVEL).astype(np.uint8)


def norms_of(perturbation: Steps) -> dict[Norm, float]:
    """Return the norms of a perturbation of one image, for pixel values 0..1."""
    return {
        "linf": int(np.abs(perturbation).max(initial=0)) / ONE,
        "l2": math.sqrt(int(np.square(perturbation).sum())) / ONE,
        "l1": int(np.abs(perturbation).sum()) / ONE,
    }


def is_within(perturbation: Steps, norm: Norm, budget: float) -> bool:
    """Return whether the norm of a perturbation of one image is at most ``budget``, by integers without rounding."""
    limit = ONE * budget
    if norm == "linf":
        return int(np.abs(perturbation).max(initial=0)) <= limit
    if norm == "l1":
        return int(np.abs(perturbation).sum()) <= limit
    return int(np.square(perturbation).sum()) <= limit * limit


def stored(
    moved: NDArray[np.floating], clean: Stored, norm: Norm, budget: float, bits: int, *, smallest: bool = False
) -> Stored:
    """Return an attacked image as it is stored, with a perturbation within the budget.

    A longer perturbation is clipped (L-inf) or scaled down (L2, L1). It is rounded towards zero on the grid of 16 bits;
    on that of 8 bits, where budgets are whole levels, to the nearest level. The smallest perturbation that misleads a
    model would not do so any more if it were shortened: it is rounded away from zero, if the budget allows it.

    Args:
        moved: Attacked image (H, W, 3), values 0..1.
        clean: Clean image (H, W, 3) as stored.
        norm: Norm of the budget.
        budget: Largest norm, for pixel values 0..1.
        bits: Bits of a stored value, 8 or 16.
        smallest: Whether the perturbation is the smallest that the attack found, whatever the budget.
    """
    base, limit = on_grid(clean), ONE * budget
    wanted = moved.astype(np.float64) * ONE - base
    if norm == "linf":
        wanted = np.clip(wanted, -limit, limit)
    else:
        size = float(np.abs(wanted).sum() if norm == "l1" else np.sqrt(np.square(wanted).sum()))
        wanted *= min(1.0, limit / size) if size else 0.0
    if bits == 8:
        return np.clip(np.rint((base + wanted) / LEVEL), 0, 255).astype(np.uint8)
    if smallest:
        larger = np.copysign(np.ceil(np.abs(wanted) - FLOAT32_ERROR), wanted).astype(np.int64)
        found = np.clip(base + larger, 0, ONE)
        if is_within(found - base, norm, budget):
            return found.astype(np.uint16)
    return np.clip(base + np.trunc(wanted), 0, ONE).astype(np.uint16)
