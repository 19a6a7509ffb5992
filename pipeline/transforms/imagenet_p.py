"""ImageNet-P: perturbation sequences of a photograph at three difficulties.

Source: Hendrycks & Dietterich, ICLR 2019.
"""

from __future__ import annotations

from collections.abc import Sequence

import perturbations
from pipeline.images.resizers import OPERATORS
from pipeline.transforms.family import WHOLE_BUDGET, Condition, Family, Image, Render, Rendering


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


FAMILY = Family(
    names=perturbations.names("all"),
    groups=("benchmark", "validation", "all", "noise", "blur", "weather", "digital"),
    levels=(1, 2, 3),
    members=perturbations.names,
    version=lambda name: perturbations.get(name).version,
    render=_perturb,
    prepare=_views,
    prepared_bytes=lambda views: WHOLE_BUDGET,
    level_of=_difficulty,
    grain=lambda name: perturbations.get(name).group == "noise",
    sequences=True,
)
