"""The prepared image itself, for clean error."""

from __future__ import annotations

from pipeline.transforms.family import Condition, Family, Render, Rendering


def _keep(condition: Condition, rendering: Rendering) -> Render:
    return lambda image, seed: image


FAMILY = Family(names=("none",), groups=(), levels=(0,), members=lambda _: (), version=lambda _: 1, render=_keep)
