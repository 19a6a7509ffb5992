"""The 40 candidate corruptions of ImageNet-Syn2Nat, and the 18 that were chosen from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from corruptions.candidates import colour, filters, geometric, noise, occlusion, weather
from corruptions.candidates.catalogue import GROUP, Draws
from corruptions.catalogue import Transform
from corruptions.registry import find

LARGEST = 2**24
"""Largest absolute value of a drawn number: float32 holds all integers up to it."""
PLACES = frozenset({"circles"})
"""Draws whose integers have no limit: places may be far outside of the image."""

SYN2NAT = (
    *("Solarize", "RandomSunFlare", "RandomShadow", "Affines", "Perspective", "Cutout", "Sharpen", "RandomRain"),
    *("Emboss", "RandomContrast", "RandomBrightness", "RandomGamma", "ISONoise", "Downscale", "Posterize"),
    *("ColorJitter", "ChannelDropout", "ToSepia"),
)
"""Names of the 18 candidates of ImageNet-Syn2Nat, in published order."""

CORRUPTIONS: Mapping[str, Transform] = {
    row.name: replace(row, benchmark=row.name in SYN2NAT)
    for row in sorted(
        (
            *geometric.CANDIDATES,
            *colour.CANDIDATES,
            *filters.CANDIDATES,
            *noise.CANDIDATES,
            *occlusion.CANDIDATES,
            *weather.CANDIDATES,
        ),
        key=lambda row: row.name.casefold(),
    )
}
"""Name -> candidate, in published order, which is alphabetical without regard to case."""

GROUPS: Mapping[str, tuple[str, ...]] = {GROUP: tuple(CORRUPTIONS), "syn2nat": SYN2NAT}
"""Group -> names in published order."""

RECORDED: Mapping[str, frozenset[str]] = {
    "ElasticTransform": frozenset({"random_state"}),
    "GaussNoise": frozenset({"random_state", "var"}),
    "ISONoise": frozenset({"color_shift", "color_sigma", "intensity", "lam", "random_state"}),
    "MultiplicativeNoise": frozenset({"random_state"}),
    "Perspective": frozenset({"scale"}),
}
"""Candidate -> what the published library records beside the draws: how they were made. It is not used."""


def get(name: str) -> Transform:
    """Return a candidate. Raises ValueError if the name is unknown."""
    return find("candidate", CORRUPTIONS, name)


def check_draws(row: Transform, draws: Draws) -> Draws:
    """Return the draws. Raises TypeError if they are no mapping, and ValueError for invalid keys or numbers.

    Keys in RECORDED are accepted.
    """
    if not isinstance(draws, Mapping):
        raise TypeError(f"draws must be a mapping as returned by corruptions.draw, not {type(draws).__name__}")
    if set(draws) - RECORDED.get(row.name, frozenset()) != set(row.keys):
        allowed = ", ".join(row.keys) or "no keys"
        raise ValueError(f"draws of {row.name!r} must have {allowed}, not {', '.join(map(str, draws)) or 'none'}")
    for key in row.keys:
        _check_numbers(key, draws[key])
    return draws


def _check_numbers(key: str, value: Any) -> None:
    """Raise ValueError if a draw contains a number that kernels cannot use."""
    if isinstance(value, list | tuple):
        for each in value:
            _check_numbers(key, each)
    elif not isinstance(value, str) and not (type(value) is int and key in PLACES):
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "fiu" or not (np.abs(numbers.astype(np.float64)) <= LARGEST).all():
            raise ValueError(f"draw {key!r} must have finite numbers of at most {LARGEST}, not {value!r:.80}")
