"""Corruptions of ImageNet-C: ``corrupt`` an image, ask for ``names``, look one up with ``get``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from corruptions import blur, digital, noise, weather
from corruptions.catalogue import PROFILE_SIDES, SEVERITIES, Corruption, Image, Options
from corruptions.draws import SEED_BITS, DrawSource, FastDraws, PublishedDraws

__all__ = ["Corruption", "Options", "corrupt", "get", "names"]

MIN_SIDE = 16
DEFAULTS = Options()

_FAMILIES = (*noise.CORRUPTIONS, *blur.CORRUPTIONS, *weather.CORRUPTIONS, *digital.CORRUPTIONS)
_ALL: Mapping[str, Corruption] = {row.name: row for row in sorted(_FAMILIES, key=lambda row: not row.benchmark)}
_GROUPS: Mapping[str, Callable[[Corruption], bool]] = {
    "benchmark": lambda row: row.benchmark,
    "extra": lambda row: not row.benchmark,
    "all": lambda row: True,
    "noise": lambda row: row.group == "noise",
    "blur": lambda row: row.group == "blur",
    "weather": lambda row: row.group == "weather",
    "digital": lambda row: row.group == "digital",
}


def corrupt(
    image: NDArray[np.uint8],
    name: str,
    severity: int = 1,
    *,
    profile: str = "imagenet",
    seed: int = 0,
    rng: np.random.RandomState | None = None,
    options: Options = DEFAULTS,
) -> Image:
    """The image corrupted as ImageNet-C does it, a new C-contiguous uint8 RGB array (H, W, 3).

    ``image``: uint8, 0..255, RGB (H, W, 3), or grey (H, W) or (H, W, 1), which becomes three equal channels; sides from
    16 up; never modified. ``severity``: 1..5. ``profile``: whose published numbers, "imagenet", "inception", "tiny" or
    "cifar". ``seed``: 0 <= seed < 2**128, for the fast generator. ``rng``: instead of ``seed``, a legacy generator that
    is asked in the published order, so that published images can be reproduced.
    Raises TypeError and ValueError for anything else.
    Source: Hendrycks & Dietterich, ICLR 2019.
    """
    row = get(name)
    pixels = _checked_image(image)
    parameters = _checked_options(options).bind(row.parameters(_checked_profile(profile), _checked_severity(severity)))
    draws = row.draw(_source(seed, rng), pixels, parameters)
    return row.apply(pixels, parameters, draws)


def names(group: str = "benchmark") -> tuple[str, ...]:
    """The names of a group in published order: benchmark (15), extra (4), all (19), or a family with its extras.

    Raises ValueError for an unknown group.
    """
    if group not in _GROUPS:
        raise ValueError(f"unknown group {group!r}; choose one of {', '.join(_GROUPS)}")
    return tuple(row.name for row in _ALL.values() if _GROUPS[group](row))


def get(name: str) -> Corruption:
    """The corruption of that name, with its table of parameters and its version. Raises ValueError if there is none."""
    if name not in _ALL:
        raise ValueError(f"unknown corruption {name!r}; choose one of {', '.join(_ALL)}")
    return _ALL[name]


def _checked_image(image: NDArray[np.uint8]) -> Image:
    """The image as a C-contiguous (H, W, 3) array."""
    if not isinstance(image, np.ndarray):
        raise TypeError(f"image must be a numpy array, not {type(image).__name__}; convert it with numpy.asarray")
    if image.dtype != np.uint8:
        raise TypeError(f"image must be uint8 with levels 0..255, not {image.dtype}; scale and convert it first")
    grey = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 1)
    if not grey and (image.ndim != 3 or image.shape[2] != 3):
        raise ValueError(f"image must be RGB (H, W, 3) or grey (H, W) or (H, W, 1), not of shape {image.shape}")
    if min(image.shape[:2]) < MIN_SIDE:
        raise ValueError(f"image must be at least {MIN_SIDE} x {MIN_SIDE}, not {image.shape[0]} x {image.shape[1]}")
    if grey:
        image = np.broadcast_to(image.reshape(*image.shape[:2], 1), (*image.shape[:2], 3))
    # A copy where it is read-only: compiled kernels are kept per type, and read-only arrays are a type of their own.
    return np.require(image, requirements=("C", "W"))


def _checked_profile(profile: str) -> str:
    if profile not in PROFILE_SIDES:
        raise ValueError(f"unknown profile {profile!r}; choose one of {', '.join(PROFILE_SIDES)}")
    return profile


def _checked_severity(severity: int) -> int:
    level = _whole(severity, "severity")
    if level not in SEVERITIES:
        raise ValueError(f"severity must be {SEVERITIES[0]}..{SEVERITIES[-1]}, not {level}")
    return level


def _checked_options(options: Options) -> Options:
    if not isinstance(options, Options):
        raise TypeError(f"options must be corruptions.Options, not {type(options).__name__}")
    return options


def _source(seed: int, rng: np.random.RandomState | None) -> DrawSource:
    """The fast generator of a seed, or the published order of draws from a legacy generator."""
    if rng is None:
        number = _whole(seed, "seed")
        if not 0 <= number < 2**SEED_BITS:
            raise ValueError(f"seed must be 0 <= seed < 2**{SEED_BITS}, not {number}")
        return FastDraws(number)
    if not isinstance(rng, np.random.RandomState):
        raise TypeError(f"rng must be a numpy.random.RandomState or None, not {type(rng).__name__}; or give a seed")
    return PublishedDraws(rng)


def _whole(number: int, what: str) -> int:
    """The number as an int, if it is whole and not a truth value."""
    if isinstance(number, (bool, np.bool_)) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be a whole number, not {number!r}")
    return operator.index(number)
