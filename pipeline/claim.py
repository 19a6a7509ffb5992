"""Whether a folder may be built into: it holds nothing, or the same data set, or a part of it."""

from __future__ import annotations

from typing import Any

from pipeline.dataset import RECIPE_FILE, read_recipe
from pipeline.errors import UserError
from pipeline.plan import SHARDS
from pipeline.recipes import Recipe
from pipeline.storage import Store


def check_claim(store: Store, recipe: Recipe) -> None:
    """Check that what is there, if anything, is the same data set or a part of it. Raises UserError."""
    if store.size(RECIPE_FILE) < 0:
        if store.listing(SHARDS, ".tar"):
            raise UserError(f"{store.root} holds shards but no {RECIPE_FILE}; choose an empty folder")
    else:
        faults = _conflicts(read_recipe(store), recipe)
        if faults:
            raise UserError(
                f"{store.root} holds another data set ({'; '.join(faults)}): choose another folder, "
                "or build with the same settings and libraries"
            )


def _conflicts(there: Recipe, wanted: Recipe) -> list[str]:
    """Where two canonical recipes differ. More transforms, levels or images than there are is no conflict."""
    old, new = _flat(there), _flat(wanted)
    new_decoders = {f"decoders.{name}" for name in wanted.decoders.keys() - there.decoders.keys()}
    grown = {
        "transforms.only": set(there.transforms.only) <= set(wanted.transforms.only),
        "transforms.levels": set(there.transforms.levels) <= set(wanted.transforms.levels),
        "source.limit": not wanted.source.limit or 0 < there.source.limit <= wanted.source.limit,
    }
    return [
        f"{name}: {old.get(name)} there, {new.get(name)} asked for"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name) and not grown.get(name, name in new_decoders)
    ]


def _flat(recipe: Recipe) -> dict[str, Any]:
    content = recipe.model_dump(mode="json", exclude={"title"})
    return {
        f"{table}.{key}" if isinstance(fields, dict) else table: value
        for table, fields in content.items()
        for key, value in (fields if isinstance(fields, dict) else {"": fields}).items()
    }
