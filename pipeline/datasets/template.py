"""The columns that all samples of a shard share."""

from __future__ import annotations

from manifests import Row
from pipeline.recipes.schema import Recipe
from pipeline.transforms.family import Condition


def template_row(recipe: Recipe, condition: Condition, shard: str) -> Row:
    """Return a manifest row with the fields that all samples of a shard share. Its status is failed."""
    pair = recipe.pair(condition)
    return Row(
        shard=shard,
        transform=condition.transform,
        version=recipe.family.version(condition.transform),
        level=condition.level,
        profile=recipe.profile,
        decoder=pair.decoder,
        resize=pair.resize,
        encoder=str(recipe.encoder),
    )
