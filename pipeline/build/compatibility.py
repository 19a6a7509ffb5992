"""Whether a folder may be built into: it holds nothing, or the same data set, or a part of it."""

from __future__ import annotations

import os
from typing import Any

from pipeline.datasets.cards import CARD_FILE, CROISSANT_FILE
from pipeline.datasets.opening import read_recipe
from pipeline.datasets.paths import (
    INDEX_FILE,
    MANIFEST_FILE,
    PARTS,
    RECIPE_FILE,
    RUNS,
    SHARDS,
)
from pipeline.errors import UserError
from pipeline.recipes.schema import Recipe
from pipeline.storage import LocalStore, Store

FILES, FOLDERS = (RECIPE_FILE, MANIFEST_FILE, CARD_FILE, CROISSANT_FILE), (SHARDS, PARTS, RUNS)
"""What a build writes into its output."""


def check_claim(store: Store, recipe: Recipe) -> None:
    """Check that the output is empty, or holds the same data set or a part of it.

    Raises:
        UserError: It holds anything else; the message names what differs.
    """
    _check_kinds(store, recipe)
    if store.size(RECIPE_FILE) < 0:
        taken = [name for name in (*FILES, INDEX_FILE) if store.size(name) >= 0]
        taken += [f"{name}/" for name in FOLDERS if _holds_any(store, name)]
        if taken:
            raise UserError(
                f"{store.root} holds {', '.join(taken)} but no {RECIPE_FILE}, so it is no data set of a build: "
                "choose an empty folder"
            )
    else:
        faults = _conflicts(read_recipe(store), recipe)
        if faults:
            raise UserError(
                f"{store.root} holds another data set ({'; '.join(faults)}): choose another folder, "
                "or build with the same settings and libraries"
            )


def _check_kinds(store: Store, recipe: Recipe) -> None:
    """Check that files that a build writes are no folders, and its folders no files. Raises UserError."""
    if not isinstance(store, LocalStore):
        return
    for name in FILES:
        if store.path(name).is_dir():
            raise UserError(f"{store.root}/{name} is a folder, and a build writes a file there: remove it")
    below = {
        f"{SHARDS}/{condition.transform}{level}"
        for condition in recipe.conditions()
        for level in ("", f"/{condition.level}")
    }
    for name in (*FOLDERS, *sorted(below)):
        path = store.path(name)
        if os.path.lexists(path) and not path.is_dir():
            raise UserError(f"{store.root}/{name} is no folder, and a build writes into one there: remove it")


def _holds_any(store: Store, folder: str) -> bool:
    """Return whether a folder exists and is not empty."""
    try:
        return bool(store.entries(folder))
    except UserError:
        return False


def _conflicts(there: Recipe, wanted: Recipe) -> list[str]:
    """Return where two canonical recipes differ, apart from transforms, levels and images that are added."""
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
