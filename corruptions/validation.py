"""Checks of what a caller gives, once, at the border: they return it in the form that kernels take, or raise."""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import PROFILE_SIDES, Image, Options
from corruptions.draws import SEED_BITS, DrawSource, FastDraws, PublishedDraws


def rgb(image: NDArray[np.uint8], smallest_side: int) -> Image:
    """The image as a C-contiguous (H, W, 3) array; grey becomes three equal channels. Raises TypeError, ValueError."""
    if not isinstance(image, np.ndarray):
        raise TypeError(f"image must be a numpy array, not {type(image).__name__}; convert it with numpy.asarray")
    if image.dtype != np.uint8:
        raise TypeError(f"image must be uint8 with levels 0..255, not {image.dtype}; scale and convert it first")
    grey = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 1)
    if not grey and (image.ndim != 3 or image.shape[2] != 3):
        raise ValueError(f"image must be RGB (H, W, 3) or grey (H, W) or (H, W, 1), not of shape {image.shape}")
    if min(image.shape[:2]) < smallest_side:
        smallest = f"{smallest_side} x {smallest_side}"
        raise ValueError(f"image must be at least {smallest}, not {image.shape[0]} x {image.shape[1]}")
    if grey:
        image = np.broadcast_to(image.reshape(*image.shape[:2], 1), (*image.shape[:2], 3))
    # A copy where it is read-only: compiled kernels are kept per type, and read-only arrays are a type of their own.
    return image if image.flags.carray else np.require(image, requirements=("C", "W"))


def profile_name(profile: str) -> str:
    """A known profile. Raises ValueError."""
    if profile not in PROFILE_SIDES:
        raise ValueError(f"unknown profile {profile!r}; choose one of {', '.join(PROFILE_SIDES)}")
    return profile


def known_options(options: Options) -> Options:
    """Options. Raises TypeError."""
    if not isinstance(options, Options):
        raise TypeError(f"options must be corruptions.Options, not {type(options).__name__}")
    return options


def draw_source(seed: int, rng: np.random.RandomState | None) -> DrawSource:
    """The fast generator of a seed, or the published order of draws from a legacy generator. Raises both errors."""
    if rng is None:
        number = whole(seed, "seed")
        if not 0 <= number < 2**SEED_BITS:
            raise ValueError(f"seed must be 0 <= seed < 2**{SEED_BITS}, not {number}")
        return FastDraws(number)
    if not isinstance(rng, np.random.RandomState):
        raise TypeError(f"rng must be a numpy.random.RandomState or None, not {type(rng).__name__}; or give a seed")
    return PublishedDraws(rng)


def level(number: int, allowed: tuple[int, ...], what: str) -> int:
    """One of the allowed numbers, which follow one another. Raises TypeError and ValueError."""
    value = whole(number, what)
    if value not in allowed:
        raise ValueError(f"{what} must be {allowed[0]}..{allowed[-1]}, not {value}")
    return value


def whole(number: int, what: str) -> int:
    """The number as an int, if it is whole and not a truth value. Raises TypeError."""
    if isinstance(number, (bool, np.bool_)) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be a whole number, not {number!r}")
    return operator.index(number)
