"""Corruptions of ImageNet-C: ``corrupt`` an image, list ``names``, look one up with ``get``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions import blur, digital, noise, validation, weather
from corruptions.catalogue import SEVERITIES, Corruption, Image, Options
from corruptions.draws import FastDraws
from corruptions.registry import Registry

__all__ = ["GROUPS", "Corruption", "Options", "corrupt", "corruptor", "get", "names"]

MIN_SIDE = 16
DEFAULTS = Options()

_REGISTRY = Registry(
    "corruption", "extra", (*noise.CORRUPTIONS, *blur.CORRUPTIONS, *weather.CORRUPTIONS, *digital.CORRUPTIONS)
)
GROUPS = _REGISTRY.groups
"""Group -> names in published order: benchmark (15), extra (4), all (19), and four kinds with their extras."""

names = _REGISTRY.names
get = _REGISTRY.get


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
    """Return the image corrupted as in ImageNet-C, a new C-contiguous uint8 RGB array (H, W, 3).

    ``image``: uint8, 0..255, RGB (H, W, 3), or grey (H, W) or (H, W, 1), which becomes three equal channels; sides from
    16 up; never modified. ``severity``: 1..5. ``profile``: whose published numbers, "imagenet", "inception", "tiny" or
    "cifar". ``seed``: 0 <= seed < 2**128, for the fast generator. ``rng``: instead of ``seed``, a legacy generator that
    is asked in the published order, so that published images can be reproduced.
    Raises TypeError and ValueError for anything else.
    Source: Hendrycks & Dietterich, ICLR 2019.
    """
    row, parameters = _chosen(name, severity, profile, options)
    return row.make(validation.rgb(image, MIN_SIDE), parameters, validation.draw_source(seed, rng))


def corruptor(
    name: str, severity: int = 1, *, profile: str = "imagenet", options: Options = DEFAULTS
) -> Callable[[Image, int], Image]:
    """:func:`corrupt` as a function of image and seed (0 <= seed < 2**128), for many: names are looked up once.

    Raises TypeError and ValueError as ``corrupt``, and so does what it gives.
    """
    row, parameters = _chosen(name, severity, profile, options)
    return lambda image, seed: row.make(validation.rgb(image, MIN_SIDE), parameters, FastDraws(seed))


def _chosen(name: str, severity: int, profile: str, options: Options) -> tuple[Corruption, Any]:
    """Return a corruption and its parameters. Raises TypeError and ValueError."""
    row, severity = get(name), validation.level(severity, SEVERITIES, "severity")
    published = row.parameters(validation.profile_name(profile), severity)
    return row, validation.known_options(options).bind(published)
