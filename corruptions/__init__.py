"""The corruptions of ImageNet-C and ImageNet-C-bar, and the candidates of ImageNet-Syn2Nat.

``corrupt`` an image, list ``names``, look up a corruption of ImageNet-C with ``get``. ``draw`` and ``apply`` do the two
halves of what a candidate does. ``ccc`` has the streams of continuously changing corruptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions import blur, c_bar, candidates, ccc, digital, noise, severities, validation, weather
from corruptions.catalogue import SEVERITIES, Image, Options, Registry, Transform, draw_nothing
from corruptions.draws import FastDraws
from corruptions.fourier import fourier_noise
from corruptions.literals import Group, Name, Profile, Severity
from corruptions.registry import find

__all__ = [
    "GROUPS",
    "SEVERITIES",
    "Group",
    "Name",
    "Options",
    "Profile",
    "Severity",
    "Transform",
    "apply",
    "ccc",
    "corrupt",
    "corruptor",
    "draw",
    "fourier_noise",
    "get",
    "names",
]

DEFAULTS = Options()
"""Options used where a call gives none."""

_REGISTRY = Registry("corruption", (*noise.CORRUPTIONS, *blur.CORRUPTIONS, *weather.CORRUPTIONS, *digital.CORRUPTIONS))
GROUPS: Mapping[Any, tuple[Any, ...]] = {**_REGISTRY.groups, "extra": _REGISTRY.names("validation")}
"""Group -> names in published order: benchmark (15), validation (4), all (19), the four parts of the benchmark, and
extra, the name of validation in the published archives."""

get = _REGISTRY.get

_ROWS: Mapping[str, Transform] = {**_REGISTRY.rows, **c_bar.CORRUPTIONS, **candidates.CANDIDATES}
"""Name -> corruption of ImageNet-C or ImageNet-C-bar, or candidate."""


def names(group: Group = "benchmark") -> tuple[Any, ...]:  # as Name, they could not be keys of a Mapping[str, ...]
    """Return the names of a group in published order.

    Args:
        group: Of ImageNet-C: ``benchmark`` (15), or one of its parts ``noise``, ``blur``, ``weather`` and ``digital``;
            ``validation`` (4), which the published archives call ``extra``; or ``all`` (19).
            ``c-bar``: the ten of ImageNet-C-bar, then the other five of CIFAR-10-C-bar. Of ImageNet-Syn2Nat:
            ``candidates`` (40), or ``syn2nat``, the 18 of them that form the benchmark.

    Returns:
        The names.

    Raises:
        ValueError: If the group is unknown.
    """
    return find("group", {**GROUPS, **c_bar.GROUPS, **candidates.GROUPS}, group)


def corrupt(
    image: NDArray[np.uint8],
    name: Name,
    severity: Severity | float = 1,
    *,
    profile: Profile = "imagenet",
    seed: int | None = None,
    rng: np.random.RandomState | None = None,
    options: Options = DEFAULTS,
) -> Image:
    """Return the image corrupted as in ImageNet-C or ImageNet-C-bar, or by a candidate.

    ImageNet-C: Hendrycks & Dietterich, ICLR 2019. ImageNet-C-bar and CIFAR-10-C-bar: Mintun, Kirillov & Xie, NeurIPS
    2021. Candidates are those of ImageNet-Syn2Nat (Laugros, Caplier & Ospici, BMVC 2021). Each has one setting:
    severity 1 of profile ``"imagenet"``.

    Args:
        image: uint8 array, 0..255: RGB (H, W, 3), or grey (H, W) or (H, W, 1), which is repeated to three channels.
            Both sides must be at least 16 pixels, for candidates 130. The array is not modified.
        name: Name of a corruption or candidate. ``names("all")``, ``names("c-bar")`` and ``names("candidates")`` list
            them.
        severity: Severity, 1..5; for candidates only 1. A float, 0..5, is a real severity of one of the 15 corruptions
            of ``names("benchmark")`` with profile ``"imagenet"``: its parameters are interpolated as in CCC. 3.0 equals
            3, and 0.0 gives a copy and draws nothing.
        profile: Published parameter values to use: ``"imagenet"`` (224 pixels), ``"inception"`` (299), ``"tiny"`` (64)
            or ``"cifar"`` (32). The image may have any other size. Corruptions of ImageNet-C-bar accept
            ``"imagenet"``, ``"cifar"`` or both, as published; candidates only ``"imagenet"``.
        seed: Seed of the fast generator, 0 <= seed < 2**128. Give every image its own seed: with equal seeds, the noise
            is equal too, or similar at other severities. Default: 0 for every image, with a warning at the second one.
        rng: Legacy NumPy generator to draw from instead of ``seed``, in the order of the published script. Use it to
            reproduce published images. Candidates have no published order of draws and do not accept it.
        options: Settings that the published script did not have. They affect only corruptions of ImageNet-C.

    Returns:
        A new C-contiguous uint8 RGB array (H, W, 3).

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape, value or name.
    """
    row, parameters = _resolve(name, severity, profile, options)
    if rng is not None and name in candidates.CANDIDATES:
        raise ValueError(f"rng is not supported by candidate {name!r}, which has no published order of draws; use seed")
    rgb = validation.to_rgb(image, row.smallest)
    return row.apply(rgb, parameters, row.draw(validation.draw_source(rgb, seed, rng), rgb, parameters))


def corruptor(
    name: str, severity: float = 1, *, profile: str = "imagenet", options: Options = DEFAULTS
) -> Callable[[Image, int], Image]:
    """Return :func:`corrupt` as a function of (image, seed), with the name and the parameters looked up once.

    Use it to apply one corruption to many images, or for a name that is known only when the program runs: type checkers
    accept any.

    Args:
        name: Name of a corruption or candidate, as in :func:`corrupt`.
        severity: Severity, as in :func:`corrupt`.
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

    def corrupted(image: Image, seed: int) -> Image:
        rgb = validation.to_rgb(image, row.smallest)
        return row.apply(rgb, parameters, row.draw(FastDraws(seed), rgb, parameters))

    return corrupted


def draw(image: NDArray[np.uint8], name: Name, *, seed: int | None = None) -> dict[str, Any]:
    """Return what a candidate draws for an image.

    ``apply(image, name, draw(image, name, seed=seed))`` equals ``corrupt(image, name, seed=seed)``.

    Args:
        image: uint8 array as in :func:`corrupt`. Both sides must be at least 130 pixels. The array is not modified.
        name: Name of a candidate. ``names("candidates")`` lists them.
        seed: Seed of the fast generator, as in :func:`corrupt`. Give every image its own.

    Returns:
        The draws: key -> number, string, tuple, list or array. It is empty for candidates without a random part.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape, value or name.
    """
    row = candidates.get(name)
    rgb = validation.to_rgb(image, row.smallest)
    return row.draw(validation.draw_source(rgb, seed), rgb, None) or {}


def apply(image: NDArray[np.uint8], name: Name, draws: Mapping[str, Any]) -> Image:
    """Return the image corrupted by a candidate with given draws.

    Args:
        image: uint8 array as in :func:`corrupt`. Both sides must be at least 130 pixels. The array is not modified.
        name: Name of a candidate. ``names("candidates")`` lists them.
        draws: The keys and values that :func:`draw` returns for an image of the same size. Lists are accepted for
            tuples and arrays. What references record beside the draws is ignored, as ``scale`` of Perspective.

    Returns:
        A new C-contiguous uint8 RGB array (H, W, 3).

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape, value or name, or if draws are missing or unknown.
    """
    row = candidates.get(name)
    rgb = validation.to_rgb(image, row.smallest)
    return row.apply(rgb, None, candidates.check_draws(row, draws))


def _resolve(name: str, severity: float, profile: str, options: Options) -> tuple[Transform, Any]:
    """Return a transform and its parameters. Raises TypeError and ValueError."""
    row, options = find("corruption", _ROWS, name), validation.check_options(options)
    profile = validation.check_profile(profile)
    if not isinstance(severity, float | np.floating):
        severity = validation.check_level(severity, row.numbers, "severity")
        return row, options.bind(row.parameters(profile, severity))
    real = severities.check(row, float(severity), profile)
    if real == 0:
        return replace(row, draw=draw_nothing, apply=lambda image, parameters, draws: image.copy()), None
    return row, options.bind(severities.parameters(row, real))
