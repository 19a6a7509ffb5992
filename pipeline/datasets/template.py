"""The columns that all samples of a shard share."""

from __future__ import annotations

import manifests
from manifests import Row
from pipeline.recipes.schema import Recipe
from pipeline.transforms.family import Condition


def template_row(recipe: Recipe, condition: Condition, shard: str) -> Row:
    """Return a manifest row with the fields that all samples of a shard share. Its status is failed."""
    pair = recipe.pair(condition)
    return Row(
        key="",
        shard=shard,
        shard_sha256="",  # set when the tar is finished
        offset=None,
        size=None,
        source_id="",
        source_sha256=None,
        origin="",
        label=-1,
        class_name="",
        transform=condition.transform,
        version=recipe.family.version(condition.transform),
        level=condition.level,
        profile=recipe.profile,
        decoder=pair.decoder,
        resize=pair.resize,
        frames=None,
        height=None,
        width=None,
        encoder=str(recipe.encoder),
        payload_sha256=None,
        pixel_sha256=None,
        status=manifests.FAILED,
        error=None,
    )
