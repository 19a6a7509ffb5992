"""ImageNet-C: corruptions of the prepared image at five severities.

Source: Hendrycks & Dietterich, ICLR 2019.
"""

from __future__ import annotations

import corruptions
from pipeline.transforms.family import Condition, Family, Render, Rendering


def _corrupt(condition: Condition, rendering: Rendering) -> Render:
    return corruptions.corruptor(
        condition.transform, condition.level, profile=rendering.profile, options=rendering.options
    )


FAMILY = Family(
    names=tuple(corruptions.names("all")),
    groups=("benchmark", "extra", "all", "noise", "blur", "weather", "digital"),
    levels=(1, 2, 3, 4, 5),
    members=corruptions.names,
    version=lambda name: corruptions.get(name).version,
    render=_corrupt,
)
