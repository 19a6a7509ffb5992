"""Families of transforms that a recipe may name: what they are called, and how one of them is rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import corruptions
import perturbations
from pipeline.images.resizers import OPERATORS
from pipeline.transforms.family import Condition, Family, Image, Render, Rendering
from pipeline.transforms.imagenet_s import GROUPS, PAIRS, Decodings


def _corrupt(condition: Condition, rendering: Rendering) -> Render:
    return corruptions.corruptor(
        condition.transform, condition.level, profile=rendering.profile, options=rendering.options
    )


def _views(photograph: Image, steps: Sequence[tuple[str, float]], operator: str) -> perturbations.Views:
    return perturbations.make_views(photograph, steps, OPERATORS[operator])


def _perturb(condition: Condition, rendering: Rendering) -> Render:
    def render(views: perturbations.Views, seed: int) -> Image:
        return perturbations.perturb_views(
            views,
            condition.transform,
            profile=rendering.profile,
            difficulty=condition.level,
            seed=seed,
            options=rendering.options,
        )

    return render


def _difficulty(name: str, wanted: int) -> int:
    """Only noise has data of its own at each difficulty: of the others, frames further apart are compared."""
    return wanted if wanted in perturbations.get(name).difficulties else 1


def _keep(condition: Condition, rendering: Rendering) -> Render:
    return lambda image, seed: image


def _decodings(data: bytes, steps: Sequence[tuple[str, float]], operator: str) -> Decodings:
    return Decodings(data, steps)


def _pass_through(condition: Condition, rendering: Rendering) -> Render:
    return lambda photograph, seed: photograph.prepared(PAIRS[condition.transform])


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
