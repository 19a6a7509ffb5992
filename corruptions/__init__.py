"""The corruptions of ImageNet-C: ``corrupt`` an image, list ``names``, look one up with ``get``."""

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
"""Smallest accepted image side in pixels."""
DEFAULTS = Options()
"""Options used where a call gives none."""

_REGISTRY = Registry(
    "corruption", "extra", (*noise.CORRUPTIONS, *blur.CORRUPTIONS, *weather.CORRUPTIONS, *digital.CORRUPTIONS)
)
GROUPS = _REGISTRY.groups
"""Group -> names in published order: benchmark (15), extra (4), all (19), and the four kinds including their extras."""

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
    """Return the image corrupted as in ImageNet-C (Hendrycks & Dietterich, ICLR 2019).

    Args:
        image: uint8 array, 0..255: RGB (H, W, 3), or grey (H, W) or (H, W, 1), which is repeated to three channels.
            Both sides must be at least 16 pixels. The array is not modified.
        name: Name of a corruption. ``names("all")`` lists them.
        severity: Severity, 1..5.
        profile: Published parameter values to use: ``"imagenet"`` (224 pixels), ``"inception"`` (299), ``"tiny"`` (64)
            or ``"cifar"`` (32). The image may have any other size.
        seed: Seed of the fast generator, 0 <= seed < 2**128. Equal seeds give equal images.
        rng: Legacy NumPy generator to draw from instead of ``seed``, in the order of the published script. Use it to
            reproduce published images.
        options: Settings that the published script did not have.

    Returns:
        A new C-contiguous uint8 RGB array (H, W, 3).

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape, value or name.
    """
    row, parameters = _resolve(name, severity, profile, options)
    return row.make(validation.to_rgb(image, MIN_SIDE), parameters, validation.draw_source(seed, rng))


def corruptor(
    name: str, severity: int = 1, *, profile: str = "imagenet", options: Options = DEFAULTS
) -> Callable[[Image, int], Image]:
    """Return :func:`corrupt` as a function of (image, seed), with the name and the parameters looked up once.

    Use it to apply one corruption to many images.

    Args:
        name: Name of a corruption. ``names("all")`` lists them.
        severity: Severity, 1..5.
        profile: Published parameter values to use, as in :func:`corrupt`.
        options: Settings that the published script did not have.

    Returns:
        A function of an image and a seed (0 <= seed < 2**128) that returns the corrupted image. It raises TypeError and
        ValueError as :func:`corrupt` does.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the name, severity or profile is unknown.
    """
    row, parameters = _resolve(name, severity, profile, options)
    return lambda image, seed: row.make(validation.to_rgb(image, MIN_SIDE), parameters, FastDraws(seed))


def _resolve(name: str, severity: int, profile: str, options: Options) -> tuple[Corruption, Any]:
    """Return the corruption and its parameters. Raises TypeError and ValueError."""
    row, severity = get(name), validation.check_level(severity, SEVERITIES, "severity")
    published = row.parameters(validation.check_profile(profile), severity)
    return row, validation.check_options(options).bind(published)
