"""Perturbation sequences of ImageNet-P: ``perturb`` a photograph, make one ``frame``, list ``names``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions import validation
from corruptions.catalogue import Image, Options
from corruptions.preparation import PROFILE_STEPS
from corruptions.registry import Registry
from perturbations import blur, geometry, noise, weather
from perturbations.catalogue import DIFFICULTIES, Frames, Perturbation
from perturbations.views import Views, make_views

__all__ = [
    "GROUPS",
    "Perturbation",
    "Views",
    "frame",
    "frame_count",
    "get",
    "make_views",
    "names",
    "perturb",
    "perturb_views",
]

DEFAULTS = Options()

_REGISTRY = Registry(
    "perturbation",
    "validation",
    (*noise.PERTURBATIONS, *blur.PERTURBATIONS, *weather.PERTURBATIONS, *geometry.PERTURBATIONS),
)
GROUPS = _REGISTRY.groups
"""Group -> names in published order: benchmark (10), validation (4), all (14), and four kinds of both."""

names = _REGISTRY.names
get = _REGISTRY.get


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
    """Return the sequence that ImageNet-P makes of a photograph.

    Args:
        source: The decoded photograph before any preparation: uint8, 0..255, RGB (H, W, 3) or grey, of any size. It is
            not modified.
        name: Of a perturbation; ``names("all")`` lists them.
        profile: Whose published parameters and side: ``"imagenet"`` (224 pixels), ``"inception"`` (299), ``"tiny"``
            (64) or ``"cifar"`` (32).
        difficulty: 1..3, larger noise. Sequences without noise are the same at each.
        seed: 0 <= seed < 2**128, of the fast generator. Equal seeds give equal sequences.
        rng: Generator to draw from instead of ``seed``, in the order of the published script.
        options: Choices that the published script did not have.

    Returns:
        uint8 RGB frames (T, N, N, 3), with N the profile's side; ``frame_count(name)`` is T.

    Raises:
        TypeError: An argument has another type.
        ValueError: An argument has another shape, range or name.

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


def _views(source: NDArray[np.uint8], profile: str) -> Views:
    return make_views(validation.rgb(source, smallest_side=1), PROFILE_STEPS[validation.profile_name(profile)])


def _chosen(name: str, profile: str, difficulty: int, options: Options) -> tuple[Perturbation, Any]:
    row = get(name)
    level = validation.level(difficulty, DIFFICULTIES, "difficulty")
    return row, validation.known_options(options).bind(row.parameters(validation.profile_name(profile), level))
