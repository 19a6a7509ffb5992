"""ImageNet-P: perturbation sequences of a photograph at three difficulties.

Source: Hendrycks & Dietterich, ICLR 2019.
"""

import perturbations
from corruptions.preparation import Steps
from perturbations.catalogue import DIFFICULTIES
from pipeline.images.resizers import OPERATORS
from pipeline.transforms.family import WHOLE_BUDGET, Condition, Family, Image, Recognition, Render, Rendering
from pipeline.transforms.imagenet_c import CITATION, listing


def _views(photograph: Image, steps: Steps, operator: str) -> perturbations.Views:
    return perturbations.make_views(photograph, steps, OPERATORS[operator].resize)


def _perturb(condition: Condition, rendering: Rendering) -> Render:
    return perturbations.perturber(
        condition.transform, profile=rendering.profile, difficulty=condition.level, options=rendering.options
    )


def _difficulty(name: str, wanted: int) -> int:
    """Return the level to render. Only noise differs by difficulty; for others, metrics compare more distant frames."""
    return wanted if wanted in perturbations.get(name).numbers else 1


FAMILY = Family(
    name="perturbations",
    title="ImageNet-P: perturbation sequences at three difficulties",
    names=perturbations.names("all"),
    version=lambda name: perturbations.get(name).version,
    render=_perturb,
    groups={group: perturbations.names(group) for group in perturbations.GROUPS},
    levels=DIFFICULTIES,
    level_of=_difficulty,
    prepare=_views,
    prepared_bytes=lambda views: WHOLE_BUDGET,
    sequences=True,
    grain=lambda name: name in perturbations.names("all") and perturbations.get(name).group == "noise",
    recognition=Recognition(("<perturbation>/<class>/<file>.mp4",), bare_level=1, other_names=True),
    citation=CITATION,
    listing=lambda: listing("perturbation", map(perturbations.get, perturbations.names("all"))),
)
