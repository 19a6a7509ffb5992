"""Perturbation sequences of ImageNet-P: ``perturb`` a photograph, make one ``frame``, ask for ``names``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions import validation
from corruptions.catalogue import Image, Options
from corruptions.preparation import PROFILE_STEPS
from perturbations import blur, geometry, noise, weather
from perturbations.catalogue import DIFFICULTIES, Frames, Perturbation
from perturbations.views import Views, make_views

__all__ = ["Perturbation", "Views", "frame", "frame_count", "get", "make_views", "names", "perturb", "perturb_views"]

DEFAULTS = Options()

_ORDER = (
    *("gaussian_noise", "shot_noise", "motion_blur", "zoom_blur", "snow"),
    *("brightness", "translate", "rotate", "tilt", "scale"),
    *("speckle_noise", "gaussian_blur", "spatter", "shear"),
)
"""Published order: the ten of the benchmark, then the four for validation."""

_ROWS = {
    row.name: row
    for row in (*noise.PERTURBATIONS, *blur.PERTURBATIONS, *weather.PERTURBATIONS, *geometry.PERTURBATIONS)
}
_ALL: Mapping[str, Perturbation] = {name: _ROWS[name] for name in _ORDER}
_GROUPS: Mapping[str, Callable[[Perturbation], bool]] = {
    "benchmark": lambda row: row.benchmark,
    "validation": lambda row: not row.benchmark,
    "all": lambda row: True,
    "noise": lambda row: row.group == "noise",
    "blur": lambda row: row.group == "blur",
    "weather": lambda row: row.group == "weather",
    "digital": lambda row: row.group == "digital",
}


def perturb(
    source: NDArray[np.uint8],
    name: str,
    *,
    profile: str = "imagenet",
    difficulty: int = 1,
    seed: int = 0,
    rng: np.random.RandomState | None = None,
    options: Options = DEFAULTS,
) -> Frames:
    """The sequence that ImageNet-P makes of a photograph: uint8 RGB frames (T, N, N, 3), N the profile's side.

    ``source``: the decoded photograph before preparation, uint8, 0..255, RGB (H, W, 3) or grey, of any size; never
    modified. ``difficulty``: 1..3, larger noise; the sequences without noise are the same at each. ``profile``,
    ``seed``, ``rng`` and ``options`` as in :func:`corruptions.corrupt`.
    Raises TypeError and ValueError for anything else.
    Source: Hendrycks & Dietterich, ICLR 2019.
    """
    views = _views(source, profile)
    return perturb_views(views, name, profile=profile, difficulty=difficulty, seed=seed, rng=rng, options=options)


def perturb_views(
    views: Views,
    name: str,
    *,
    profile: str = "imagenet",
    difficulty: int = 1,
    seed: int = 0,
    rng: np.random.RandomState | None = None,
    options: Options = DEFAULTS,
) -> Frames:
    """:func:`perturb` for a photograph that is prepared once for several sequences, in any way of preparation."""
    row, parameters = _chosen(name, profile, difficulty, options)
    return row.make(views, parameters, validation.draw_source(seed, rng), range(parameters.frames))


def frame(
    source: NDArray[np.uint8],
    name: str,
    index: int,
    *,
    profile: str = "imagenet",
    difficulty: int = 1,
    seed: int = 0,
    options: Options = DEFAULTS,
) -> Image:
    """Frame ``index`` of :func:`perturb`, (N, N, 3), made alone.

    In zoom_blur (a running mean) and spatter (drops that run) a frame needs those before it, which are then made too.
    There is no ``rng`` here: what a legacy generator draws for a frame depends on all frames before.
    Raises TypeError and ValueError as :func:`perturb`, and IndexError for a frame that the sequence does not have.
    """
    row, parameters = _chosen(name, profile, difficulty, options)
    place = validation.whole(index, "index")
    if not 0 <= place < parameters.frames:
        raise IndexError(f"{name} has frames 0..{parameters.frames - 1}, not {place}")
    made: Image = row.make(_views(source, profile), parameters, validation.draw_source(seed, None), [place])[0]
    return made


def frame_count(name: str, profile: str = "imagenet") -> int:
    """How many frames a sequence has. Raises ValueError."""
    return int(get(name).parameters(validation.profile_name(profile), 1).frames)


def names(group: str = "benchmark") -> tuple[str, ...]:
    """The names of a group in published order: benchmark (10), validation (4), all (14), or a family with its extras.

    Raises ValueError for an unknown group.
    """
    if group not in _GROUPS:
        raise ValueError(f"unknown group {group!r}; choose one of {', '.join(_GROUPS)}")
    return tuple(row.name for row in _ALL.values() if _GROUPS[group](row))


def get(name: str) -> Perturbation:
    """The perturbation of that name, with its table and its version. Raises ValueError if there is none."""
    if name not in _ALL:
        raise ValueError(f"unknown perturbation {name!r}; choose one of {', '.join(_ALL)}")
    return _ALL[name]


def _views(source: NDArray[np.uint8], profile: str) -> Views:
    return make_views(validation.rgb(source, smallest_side=1), PROFILE_STEPS[validation.profile_name(profile)])


def _chosen(name: str, profile: str, difficulty: int, options: Options) -> tuple[Perturbation, Any]:
    row = get(name)
    level = validation.level(difficulty, DIFFICULTIES, "difficulty")
    return row, validation.known_options(options).bind(row.parameters(validation.profile_name(profile), level))
