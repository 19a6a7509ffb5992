"""Families of transforms that a recipe may name: what they are called, and how one of them is rendered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import corruptions
import perturbations
from pipeline.errors import UserError
from pipeline.resizers import OPERATORS, prepare
from pipeline.system_noise import GROUPS, PAIRS, Decodings, Pair

Image = NDArray[np.uint8]

Render = Callable[[Any, int], Image]
"""What makes an output of what the steps start from, and of a seed."""


class Step(NamedTuple):
    """One transform at one level: what a shard holds for each of its images."""

    transform: str
    level: int

    def __str__(self) -> str:
        return f"{self.transform}-{self.level}"


@dataclass(frozen=True)
class Rendering:
    """What a rendering needs to know beside the image and its seed."""

    profile: str
    options: corruptions.Options


@dataclass(frozen=True)
class Family:
    """What a recipe may choose from, and how it is made.

    ``groups`` and ``names`` may stand in ``--only``; names are in published order, which is the order of shards.
    ``prepare`` makes of a photograph what all steps start from, given the steps of the preparation and its resize
    operator; ``render`` gives for a step what makes an image (H, W, 3) of that and a seed, or, in a family of
    ``sequences``, frames (T, H, W, 3).
    ``level_of`` gives the level at which a transform is made for a level asked for; ``grain`` tells where noise is the
    content. In a family of ``pairs`` a transform is a decoder and a resize operator, and ``prepare`` is given the
    encoded photograph.
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    levels: tuple[int, ...]
    members: Callable[[str], Sequence[str]]
    version: Callable[[str], int]
    render: Callable[[Step, Rendering], Render]
    prepare: Callable[[Any, Sequence[tuple[str, float]], str], Any] = prepare
    level_of: Callable[[str, int], int] = lambda name, level: level
    grain: Callable[[str], bool] = lambda name: False
    sequences: bool = False
    pairs: Mapping[str, Pair] = field(default_factory=dict)

    def select(self, only: Sequence[str]) -> tuple[str, ...]:
        """Names and groups -> names in published order, each once. Raises UserError for an unknown one."""
        chosen: set[str] = set()
        for name in only:
            if name not in self.names and name not in self.groups:
                raise UserError(
                    f"no transform or group is called {name!r}; "
                    f"groups: {', '.join(self.groups) or 'none'}; transforms: {', '.join(self.names)}"
                )
            chosen.update(self.members(name) if name in self.groups else (name,))
        return tuple(name for name in self.names if name in chosen)


def _corrupt(step: Step, rendering: Rendering) -> Render:
    return corruptions.corruptor(step.transform, step.level, profile=rendering.profile, options=rendering.options)


def _views(photograph: Image, steps: Sequence[tuple[str, float]], operator: str) -> perturbations.Views:
    return perturbations.make_views(photograph, steps, OPERATORS[operator])


def _perturb(step: Step, rendering: Rendering) -> Render:
    def render(views: perturbations.Views, seed: int) -> Image:
        return perturbations.perturb_views(
            views,
            step.transform,
            profile=rendering.profile,
            difficulty=step.level,
            seed=seed,
            options=rendering.options,
        )

    return render


def _difficulty(name: str, wanted: int) -> int:
    """Only noise has data of its own at each difficulty: of the others, frames further apart are compared."""
    return wanted if wanted in perturbations.get(name).difficulties else 1


def _keep(step: Step, rendering: Rendering) -> Render:
    return lambda image, seed: image


def _decodings(data: bytes, steps: Sequence[tuple[str, float]], operator: str) -> Decodings:
    return Decodings(data, steps)


def _pass_through(step: Step, rendering: Rendering) -> Render:
    return lambda photograph, seed: photograph.prepared(PAIRS[step.transform])


FAMILIES: Mapping[str, Family] = {
    "corruptions": Family(
        names=tuple(corruptions.names("all")),
        groups=("benchmark", "extra", "all", "noise", "blur", "weather", "digital"),
        levels=(1, 2, 3, 4, 5),
        members=corruptions.names,
        version=lambda name: corruptions.get(name).version,
        render=_corrupt,
    ),
    "perturbations": Family(
        names=perturbations.names("all"),
        groups=("benchmark", "validation", "all", "noise", "blur", "weather", "digital"),
        levels=(1, 2, 3),
        members=perturbations.names,
        version=lambda name: perturbations.get(name).version,
        render=_perturb,
        prepare=_views,
        level_of=_difficulty,
        grain=lambda name: perturbations.get(name).group == "noise",
        sequences=True,
    ),
    "system-noise": Family(
        names=tuple(PAIRS),
        groups=tuple(GROUPS),
        levels=(0,),
        members=GROUPS.__getitem__,
        version=lambda name: 1,
        render=_pass_through,
        prepare=_decodings,
        pairs=PAIRS,
    ),
    "none": Family(names=("none",), groups=(), levels=(0,), members=lambda _: (), version=lambda _: 1, render=_keep),
}
