"""Options of a build that change its recipe, shared by the command line and Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corruptions.registry import unknown
from pipeline.errors import UserError
from pipeline.recipes.schema import Recipe


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Changes to a recipe. None keeps a field. ``fields``: table -> field -> value, for all other fields."""

    kind: str | None = None
    classes: Sequence[str] | None = None
    only: Sequence[str] | None = None
    grid: Sequence[str] | None = None
    levels: Sequence[int] | None = None
    limit: int | None = None
    shard_size: int | None = None
    seed: int | None = None
    encoder: str | None = None
    quality: int | None = None
    decoder: str | None = None
    resize: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def applied_to(self, recipe: Recipe) -> Recipe:
        """Return the recipe with these changes. Raises UserError that names the invalid field."""
        if self.only is not None and self.grid is not None:
            raise UserError("--only and --grid both select transforms: use only one of them")
        for group in self.grid or ():
            if group not in recipe.family.groups:
                raise UserError(f"--grid: {unknown('group', group, allowed=recipe.family.groups)}")
        changes: dict[str, Any] = {
            "source": {"kind": self.kind, "limit": self.limit, "classes": self.classes},
            "transforms": {"only": self.grid if self.only is None else self.only, "levels": self.levels},
            "shards": {"size": self.shard_size},
            "encoder": {"name": self.encoder, "quality": self.quality},
            "prepare": {"decoder": self.decoder, "resize": self.resize},
            "seed": self.seed,
        }
        # all at once, because some values are valid only together
        for table, change in self.fields.items():
            both = isinstance(change, Mapping) and isinstance(changes.get(table), Mapping)
            changes[table] = {**changes[table], **change} if both else change
        return recipe.changed(**changes)
