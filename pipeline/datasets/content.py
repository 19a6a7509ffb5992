"""What a recipe says of a data set before any sample is made: the digest of its content, and columns of its rows."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from manifests import Row
from pipeline.images.fingerprints import pixel_digests
from pipeline.recipes.schema import Recipe
from pipeline.transforms.family import Condition

NOT_IN_CONTENT: Mapping[str, Any] = {
    **dict.fromkeys(("name", "title", "source", "labels", "decoders", "resizers"), True),
    "bank": {"source", "kind", "limit", "damaged", "files", "text", "listing", "digests"},
}
"""Fields of a recipe that do not decide its samples, or that :func:`content_digest` adds in another form."""

Identified = tuple[str, int, str | None]
"""Id, label and SHA-256 of a source image. The last is None if it could not be read."""


def content_digest(recipe: Recipe, images: Iterable[Identified]) -> str:
    """Return the SHA-256 of everything that decides the samples of a data set, in hexadecimal.

    A built and a rendered data set of the same recipe, images and library versions have the same digest.

    Args:
        recipe: The recipe in canonical form, with library versions and fingerprints.
        images: The source images, in order.
    """
    family = recipe.family
    facts = {
        "recipe": recipe.model_dump(mode="json", exclude={**NOT_IN_CONTENT}, exclude_none=True),
        "versions": {name: family.version(name) for name in family.select(recipe.transforms.only)},
        "decoders": pixel_digests(recipe.decoders),
        "resizers": pixel_digests(recipe.resizers),
    }
    state = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for id_, label, sha256 in images:
        state.update(f"{id_}\n{label}\n{sha256 or ''}\n".encode())
    return state.hexdigest()


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
