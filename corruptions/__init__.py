"""The corruptions of ImageNet-C and its relatives, the candidates of Syn2Nat, and spatial frequencies.

``corrupt`` an image, list ``names``, look up a corruption of ImageNet-C with ``get``. ``draw`` and ``apply`` do the two
halves of a transform whose draws are a mapping; ``tiles`` makes the bank of tiles that two distortions of LAION-C need.
``ccc`` has the streams of continuously changing corruptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions import (
    blur,
    c_bar,
    candidates,
    ccc,
    digital,
    fourier,
    laion_c,
    noise,
    noise_3dcc,
    severities,
    validation,
    watermark,
    weather,
)
from corruptions.catalogue import (
    DETECTION,
    SEVERITIES,
    Image,
    Options,
    Registry,
    Transform,
    draw_nothing,
    with_detection,
)
from corruptions.draws import FastDraws
from corruptions.fourier import fourier_noise
from corruptions.laion_c.tiles import tiles
from corruptions.literals import Channels, Group, Name, Profile, Severity
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
    "tiles",
]

DEFAULTS = Options()
"""Options used where a call gives none."""

_REGISTRY = Registry(
    "corruption",
    [
        row if DETECTION in row.levels else replace(row, levels=with_detection(row.levels))
        for row in (*noise.CORRUPTIONS, *blur.CORRUPTIONS, *weather.CORRUPTIONS, *digital.CORRUPTIONS)
    ],
)
GROUPS: Mapping[Any, tuple[Any, ...]] = {**_REGISTRY.groups, "extra": _REGISTRY.names("validation")}
"""Group -> names in published order: benchmark (15), validation (4), all (19), the four parts of the benchmark, and
extra, the name of validation in the published archives."""

get = _REGISTRY.get

_DRAWN_FAMILIES = (candidates, noise_3dcc, watermark, laion_c, fourier)
"""Modules of families whose draws are mappings: each has a GROUP, and CORRUPTIONS, name -> transform."""

_DRAWN: Mapping[str, Transform] = {name: row for each in _DRAWN_FAMILIES for name, row in each.CORRUPTIONS.items()}
"""Name -> transform whose draws are a mapping, for ``draw`` and ``apply``."""

_UNORDERED = frozenset({*candidates.CORRUPTIONS, *fourier.CORRUPTIONS})
"""Names of transforms whose order of draws was not published."""

TRANSFORMS: Mapping[str, Transform] = {**_REGISTRY.rows, **c_bar.CORRUPTIONS, **_DRAWN}
"""Name -> corruption or candidate: all that ``corrupt`` accepts."""

ALL_GROUPS: Mapping[str, tuple[str, ...]] = {
    **GROUPS,
    **{each.GROUP: tuple(each.CORRUPTIONS) for each in (c_bar, *_DRAWN_FAMILIES)},
    "syn2nat": candidates.SYN2NAT,
}
"""Group -> names in published order, of all families."""


def names(group: Group = "benchmark") -> tuple[Any, ...]:  # as Name, they could not be keys of a Mapping[str, ...]
    """Return the names of a group in published order.

    Args:
        group: Of ImageNet-C: ``benchmark`` (15), or one of its parts ``noise``, ``blur``, ``weather`` and ``digital``;
            ``validation`` (4), which the published archives call ``extra``; or ``all`` (19).
            ``c-bar``: the ten of ImageNet-C-bar, then the other five of CIFAR-10-C-bar. Of ImageNet-Syn2Nat:
            ``candidates`` (40), or ``syn2nat``, the 18 of them that form the benchmark. ``3dcc-noise``: the three of
            ImageNet-3DCC that need no depth. ``imagenet-w``: the watermark of ImageNet-W. Of LAION-C:
            ``laion-c`` (6). ``fourier``: a spatial frequency, for heat maps.

    Returns:
        The names.

    Raises:
        ValueError: If the group is unknown.
    """
    return find("group", ALL_GROUPS, group)


def corrupt(
    image: NDArray[np.uint8],
    name: Name,
    severity: Severity | float = 1,
    *,
    profile: Profile = "imagenet",
    seed: int | None = None,
    rng: np.random.RandomState | None = None,
    channels: Channels = "rgb",
    bank: NDArray[np.uint8] | None = None,
    options: Options = DEFAULTS,
) -> Image:
    """Return the image corrupted as in ImageNet-C or one of its relatives, or by a candidate.

    ImageNet-C: Hendrycks & Dietterich, ICLR 2019. ImageNet-C-bar and CIFAR-10-C-bar: Mintun, Kirillov & Xie, NeurIPS
    2021. ImageNet-3DCC: Kar, Yeo, Atanov & Zamir, CVPR 2022. LAION-C: Li, Klein, Brendel, Geirhos & Zimmermann, ICML
    2025. Candidates are those of ImageNet-Syn2Nat (Laugros, Caplier & Ospici, BMVC 2021). Each has one setting:
    severity 1 of profile ``"imagenet"``.

    Args:
        image: uint8 array, 0..255: RGB (H, W, 3), or grey (H, W) or (H, W, 1), which is repeated to three channels.
            Both sides must be at least 16 pixels, for candidates 130, for ``names("3dcc-noise")`` 1. The array is not
            modified.
        name: Name of a corruption or candidate. ``names("all")``, ``names("c-bar")``, ``names("candidates")``,
            ``names("3dcc-noise")`` and ``names("laion-c")`` list them.
        severity: Severity, 1..5; for candidates only 1; of ``fourier_noise`` the level of a frequency (p, q),
            512 p + q + 256. A float, 0..5, is a real severity of one of the 15 corruptions
            of ``names("benchmark")`` with profile ``"imagenet"``: its parameters are interpolated as in CCC. 3.0 equals
            3, and 0.0 gives a copy and draws nothing.
        profile: Published parameter values to use: ``"imagenet"`` (224 pixels), ``"inception"`` (299), ``"tiny"`` (64)
            or ``"cifar"`` (32). The image may have any other size. Corruptions of ImageNet-C-bar accept
            ``"imagenet"``, ``"cifar"`` or both, as published, ``fourier_noise`` both; all others only ``"imagenet"``.
            ``"detection"`` is for images of any size of at least 32 x 32: the corruptions of ImageNet-C as the package
            ``imagecorruptions`` computes them, which published results on COCO-C, Pascal-C and Cityscapes-C have used.
        seed: Seed of the fast generator, 0 <= seed < 2**128. Give every image its own seed: with equal seeds, the noise
            is equal too, or similar at other severities. Default: 0 for every image, with a warning at the second one.
        rng: Legacy NumPy generator to draw from instead of ``seed``, in the order of the published script. Use it to
            reproduce published images. Candidates and ``fourier_noise`` have no published order of draws and do not
            accept it.
        channels: Order in which the corruption reads the channels. ``"bgr"`` corrupts the reversed image and reverses
            the result: the colours of frost and spatter change places. Published results of mmdetection have it.
        bank: Tiles of other photographs, as :func:`tiles` makes them, for ``mosaic`` and ``stickers`` of LAION-C.
        options: Settings that the published script did not have. They affect only corruptions of ImageNet-C.

    Returns:
        A new C-contiguous uint8 RGB array (H, W, 3).

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape, value or name.
    """
    row, parameters = _resolve(name, severity, profile, options, bank)
    if rng is not None and name in _UNORDERED:
        raise ValueError(f"rng is not supported by {name!r}, which has no published order of draws; use seed")
    is_reversed = validation.check_channels(channels)
    rgb = validation.to_rgb(image, row.smallest_in(profile), is_reversed)
    out = row.apply(rgb, parameters, row.draw(validation.draw_source(rgb, seed, rng), rgb, parameters))
    return validation.reversed_channels(out) if is_reversed else out


def corruptor(
    name: str, severity: float = 1, *, profile: str = "imagenet", channels: str = "rgb", options: Options = DEFAULTS
) -> Callable[[Image, int], Image]:
    """Return :func:`corrupt` as a function of (image, seed), with the name and the parameters looked up once.

    Use it to apply one corruption to many images, or for a name that is known only when the program runs: type checkers
    accept any.

    Args:
        name: Name of a corruption or candidate, as in :func:`corrupt`.
        severity: Severity, as in :func:`corrupt`.
        profile: Published parameter values to use, as in :func:`corrupt`.
        channels: Order in which the corruption reads the channels, as in :func:`corrupt`.
        options: Settings that the published script did not have.

    Returns:
        A function of an image and a seed (0 <= seed < 2**128) that returns the corrupted image. It raises TypeError and
        ValueError as :func:`corrupt` does.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the name, severity or profile is unknown.
    """
    row, parameters = _resolve(name, severity, profile, options, None)
    smallest, is_reversed = row.smallest_in(profile), validation.check_channels(channels)

    def corrupted(image: Image, seed: int) -> Image:
        rgb = validation.to_rgb(image, smallest, is_reversed)
        out = row.apply(rgb, parameters, row.draw(FastDraws(seed), rgb, parameters))
        return validation.reversed_channels(out) if is_reversed else out

    return corrupted


def draw(
    image: NDArray[np.uint8],
    name: Name,
    *,
    severity: int = 1,
    seed: int | None = None,
    bank: NDArray[np.uint8] | None = None,
) -> dict[str, Any]:
    """Return the draws of a transform for an image.

    ``apply(image, name, draw(image, name, seed=seed))`` equals ``corrupt(image, name, seed=seed)``.

    Args:
        image: uint8 array as in :func:`corrupt`. The array is not modified.
        name: Name in ``names("candidates")``, ``names("3dcc-noise")``, ``names("imagenet-w")``, ``names("laion-c")`` or
            ``names("fourier")``.
        severity: Severity, as in :func:`corrupt`.
        seed: Seed of the fast generator, as in :func:`corrupt`. Give every image its own.
        bank: Tiles, as in :func:`corrupt`.

    Returns:
        The draws: key -> number, string, tuple, list or array. It is empty for transforms without a random part.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape, value or name.
    """
    row, parameters = _resolve(_drawn(name), severity, "imagenet", DEFAULTS, bank)
    rgb = validation.to_rgb(image, row.smallest)
    return row.draw(validation.draw_source(rgb, seed), rgb, parameters) or {}


def apply(
    image: NDArray[np.uint8],
    name: Name,
    draws: Mapping[str, Any],
    *,
    severity: int = 1,
    bank: NDArray[np.uint8] | None = None,
) -> Image:
    """Return the image changed by a transform with given draws.

    Args:
        image: uint8 array as in :func:`draw`. The array is not modified.
        name: Name, as in :func:`draw`.
        draws: The keys and values that :func:`draw` returns for an image of the same size. Lists are accepted for
            tuples and arrays. What references record beside the draws is ignored, as ``scale`` of Perspective.
        severity: Severity, as in :func:`corrupt`.
        bank: Tiles, as in :func:`corrupt`.

    Returns:
        A new C-contiguous uint8 RGB array (H, W, 3).

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape, value or name, or if draws are missing or unknown.
    """
    row, parameters = _resolve(_drawn(name), severity, "imagenet", DEFAULTS, bank)
    rgb = validation.to_rgb(image, row.smallest)
    return row.apply(rgb, parameters, candidates.check_draws(row, draws))


def _drawn(name: str) -> str:
    """Return the name of a transform whose draws are a mapping. Raises ValueError for another one."""
    return find("transform with draws", _DRAWN, name).name


def _resolve(
    name: str, severity: float, profile: str, options: Options, bank: NDArray[np.uint8] | None
) -> tuple[Transform, Any]:
    """Return a transform and its parameters. Raises TypeError and ValueError."""
    row, options = find("corruption", TRANSFORMS, name), validation.check_options(options)
    options = options if bank is None else replace(options, bank=bank)
    profile = validation.check_profile(profile)
    if profile == DETECTION and options.motion != DEFAULTS.motion:
        raise ValueError(f"motion must be {DEFAULTS.motion!r} for profile {DETECTION!r}, not {options.motion!r}")
    if not isinstance(severity, float | np.floating):
        severity = validation.check_level(severity, row.numbers, "severity")
        return row, options.bind(row.parameters(profile, severity))
    real = severities.check(row, float(severity), profile)
    if real == 0:
        return replace(row, draw=draw_nothing, apply=lambda image, parameters, draws: image.copy()), None
    return row, options.bind(severities.parameters(row, real))
