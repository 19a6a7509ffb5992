"""Parameters of real severities: those of ImageNet-C, interpolated as in CCC (Press et al., NeurIPS 2023)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from typing import Any

from corruptions.catalogue import SEVERITIES, Transform

PROFILE = "imagenet"
"""The profile whose parameters are interpolated."""

ZERO: Mapping[str, tuple[float, ...]] = {
    "gaussian_noise": (0,),
    "shot_noise": (math.inf,),
    "impulse_noise": (0,),
    "defocus_blur": (0, 0),
    "glass_blur": (0, 0, 0),
    "motion_blur": (0, 0),
    "zoom_blur": (1, 1, 0.01),
    "snow": (0.1, 0.3, 3, 1.0, 10, 4, 1.0),
    "frost": (1, 0),
    "fog": (0, 2),
    "brightness": (0,),
    "contrast": (1,),
    "elastic_transform": (0, 999, 0),
    "pixelate": (1,),
    "jpeg_compression": (85,),
}
"""Corruption -> its first parameters at severity 0. Further parameters are those of every severity."""

ADJUST: Mapping[str, Mapping[int, Callable[[float], float]]] = {
    "glass_blur": {1: lambda delta: round(max(delta, 1)), 2: round},
    "motion_blur": {0: math.ceil},
    "snow": {4: math.ceil},
    "jpeg_compression": {0: round},
}
"""Corruption -> index of a parameter -> how its interpolated value becomes an integer."""

SMALLEST = 2.0**-10
"""Smaller severities have the parameters of this one: shot noise would need more photons than fit into 16 bits."""


def nodes(row: Transform) -> list[tuple[float, ...]]:
    """Return what is interpolated: the parameters of severities 0 to 5. Of shot noise, these are 1 / lam."""
    zero = ZERO[row.name]
    published = [astuple(row.parameters(PROFILE, severity))[: len(zero)] for severity in SEVERITIES]
    return [tuple(1 / lam for lam in node) if row.name == "shot_noise" else node for node in (zero, *published)]


def interpolate(row: Transform, severity: float) -> tuple[float, ...]:
    """Return the interpolated values before rounding, 0 <= severity <= 5, in the published order of operations."""
    upper = max(math.ceil(severity), 1)
    left, share = nodes(row)[upper - 1], severity - (upper - 1)
    return tuple((b - a) * share + a for a, b in zip(left, nodes(row)[upper], strict=True))


def check(row: Transform, severity: float, profile: str) -> float:
    """Return a real severity. Raises ValueError if it is not in 0..5, or the corruption or the profile has none."""
    if not 0 <= severity <= SEVERITIES[-1]:
        raise ValueError(f"severity must be 0.0..{SEVERITIES[-1]:.1f}, not {severity!r}")
    if row.name in ZERO and profile == PROFILE:
        return severity
    which = f"profile {profile!r}" if row.name in ZERO else repr(row.name)
    raise ValueError(
        f"severity must be an integer for {which}, not {severity!r}: only {', '.join(ZERO)} have real severities, with "
        f"profile {PROFILE!r}"
    )


def parameters(row: Transform, severity: float) -> Any:
    """Return the parameters of a severity, 0 < severity <= 5: for whole ones the published ones."""
    if severity.is_integer():
        return row.parameters(PROFILE, int(severity))
    values = interpolate(row, max(severity, SMALLEST))
    if row.name == "shot_noise":
        values = (1 / values[0],)
    adjusted = (ADJUST.get(row.name, {}).get(index, float)(value) for index, value in enumerate(values))
    base = row.parameters(PROFILE, SEVERITIES[0])
    return replace(base, **dict(zip(vars(base), adjusted, strict=False)))
