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
    """Return the image corrupted as in ImageNet-C.

    Args:
        image: uint8, 0..255, RGB (H, W, 3), or grey (H, W) or (H, W, 1), which becomes three equal channels. Sides of
            16 pixels and more. It is not modified.
        name: Of a corruption; ``names("all")`` lists them.
        severity: 1..5.
        profile: Whose published parameters: ``"imagenet"`` (224 pixels), ``"inception"`` (299), ``"tiny"`` (64) or
            ``"cifar"`` (32). The image may have another size.
        seed: 0 <= seed < 2**128, of the fast generator. Equal seeds give equal images.
        rng: Generator to draw from instead of ``seed``, in the order of the published script, so that published
            images can be reproduced.
        options: Choices that the published script did not have.

    Returns:
        A new C-contiguous uint8 RGB array (H, W, 3).

    Raises:
        TypeError: An argument has another type.
        ValueError: An argument has another shape, range or name.

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
