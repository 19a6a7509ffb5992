"""The perturbation sequences of ImageNet-P: ``perturb`` a photograph, make one ``frame``, list ``names``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions import validation
from corruptions.catalogue import Image, Options, Registry, Transform
from corruptions.draws import FastDraws
from corruptions.literals import Difficulty, PerturbationName, Profile
from corruptions.preparation import PROFILE_STEPS
from perturbations import blur, geometry, noise, weather
from perturbations.catalogue import DIFFICULTIES, Frames
from perturbations.views import Views, make_views

__all__ = ["GROUPS", "Views", "frame", "frame_count", "get", "make_views", "names", "perturb", "perturber"]

DEFAULTS = Options()
"""Options used where a call gives none."""

_REGISTRY = Registry(
    "perturbation", (*noise.PERTURBATIONS, *blur.PERTURBATIONS, *weather.PERTURBATIONS, *geometry.PERTURBATIONS)
)
GROUPS = _REGISTRY.groups
"""Group -> names in published order: benchmark (10), validation (4), all (14), and the four parts of the benchmark."""

names: Callable[..., tuple[Any, ...]] = _REGISTRY.names
get = _REGISTRY.get


def perturb(
    source: NDArray[np.uint8],
    name: PerturbationName,
    *,
    profile: Profile = "imagenet",
    difficulty: Difficulty = 1,
    seed: int | None = None,
    rng: np.random.RandomState | None = None,
    options: Options = DEFAULTS,
) -> Frames:
    """Return the sequence that ImageNet-P makes of a photograph (Hendrycks & Dietterich, ICLR 2019).

    Args:
        source: The decoded photograph before any preparation: uint8, 0..255, RGB (H, W, 3) or grey (H, W) or (H, W, 1),
            of any size. It is not modified.
        name: Name of a perturbation. ``names("all")`` lists them.
        profile: Published parameter values and side to use: ``"imagenet"`` (224 pixels), ``"inception"`` (299),
            ``"tiny"`` (64) or ``"cifar"`` (32).
        difficulty: Amount of noise, 1..3. Sequences without noise are the same at each difficulty.
        seed: Seed of the fast generator, 0 <= seed < 2**128. Give every photograph its own seed: with equal seeds, the
            noise is equal too. Default: 0 for every photograph, with a warning at the second one.
        rng: Legacy NumPy generator to draw from instead of ``seed``, in the order of the published script.
        options: Settings that the published script did not have.

    Returns:
        uint8 RGB frames (T, N, N, 3). T is ``frame_count(name, profile)`` and N the side of the profile.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape, value or name.
    """
    row, parameters = _resolve(name, profile, difficulty, options)
    views = _views(source, profile)
    return row.apply(views, parameters, validation.draw_source(views.base, seed, rng), range(parameters.frames))


def perturber(
    name: str, *, profile: str = "imagenet", difficulty: int = 1, options: Options = DEFAULTS
) -> Callable[[Views, int], Frames]:
    """Return :func:`perturb` as a function of (views, seed), with the name and the parameters looked up once.

    Use it for photographs that are prepared once for several sequences, or for a name that is known only when the
    program runs: type checkers accept any.

    Args:
        name: Name of a perturbation. ``names("all")`` lists them.
        profile: Published parameter values to use.
        difficulty: Amount of noise, 1..3.
        options: Settings that the published script did not have.

    Returns:
        A function of a photograph, prepared by :func:`make_views` with any steps, and a seed (0 <= seed < 2**128). It
        returns uint8 RGB frames (T, H, W, 3) of the size of the prepared image.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid value or name.
    """
    row, parameters = _resolve(name, profile, difficulty, options)

    def perturbed(views: Views, seed: int) -> Frames:
        return row.apply(views, parameters, FastDraws(seed), range(parameters.frames))

    return perturbed


def frame(
    source: NDArray[np.uint8],
    name: PerturbationName,
    index: int,
    *,
    profile: Profile = "imagenet",
    difficulty: Difficulty = 1,
    seed: int | None = None,
    options: Options = DEFAULTS,
) -> Image:
    """Return one frame of :func:`perturb`.

    A frame of zoom_blur (a running mean) or spatter (drops that run down) also computes all frames before it. A legacy
    generator is not supported, because its numbers for one frame depend on all frames before it.

    Args:
        source: The decoded photograph before any preparation, as in :func:`perturb`.
        name: Name of a perturbation. ``names("all")`` lists them.
        index: Index of the frame, from 0.
        profile: Published parameter values and side to use.
        difficulty: Amount of noise, 1..3.
        seed: Seed of the fast generator, as in :func:`perturb`.
        options: Settings that the published script did not have.

    Returns:
        uint8 RGB frame (N, N, 3).

    Raises:
        IndexError: If the sequence has no such frame.
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape, value or name.
    """
    row, parameters = _resolve(name, profile, difficulty, options)
    position = validation.check_integer(index, "index")
    if not 0 <= position < parameters.frames:
        raise IndexError(f"{name} has frames 0..{parameters.frames - 1}, not {position}")
    views = _views(source, profile)
    result: Image = row.apply(views, parameters, validation.draw_source(views.base, seed), [position])[0]
    return result


def frame_count(name: PerturbationName, profile: Profile = "imagenet") -> int:
    """Return the number of frames of a sequence.

    Args:
        name: Name of a perturbation.
        profile: Name of a profile.

    Raises:
        ValueError: If the name or the profile is unknown.
    """
    return int(get(name).parameters(validation.check_profile(profile, PROFILE_STEPS), 1).frames)


def _views(source: NDArray[np.uint8], profile: str) -> Views:
    return make_views(
        validation.to_rgb(source, smallest_side=1), PROFILE_STEPS[validation.check_profile(profile, PROFILE_STEPS)]
    )


def _resolve(name: str, profile: str, difficulty: int, options: Options) -> tuple[Transform, Any]:
    row = get(name)
    level = validation.check_level(difficulty, DIFFICULTIES, "difficulty")
    return row, validation.check_options(options).bind(
        row.parameters(validation.check_profile(profile, PROFILE_STEPS), level)
    )
