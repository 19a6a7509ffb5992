"""Checks that the output is empty, or contains the same data set or a part of it."""

from __future__ import annotations

import os
from typing import Any

from pipeline.datasets.cards import CARD_FILE, CROISSANT_FILE
from pipeline.datasets.opening import read_recipe
from pipeline.datasets.paths import (
    MANIFEST_FILE,
    PARTS,
    RECIPE_FILE,
    RENDERED_FILE,
    RUNS,
    SHARDS,
)
from pipeline.errors import UserError
from pipeline.images.fingerprints import same_pixels
from pipeline.recipes import attacks
from pipeline.recipes.schema import Recipe
from pipeline.sources.files import is_system_folder
from pipeline.storage import FolderEntry, LocalStore, Store
from pipeline.text import SHOWN

FILES, FOLDERS = (RECIPE_FILE, MANIFEST_FILE, CARD_FILE, CROISSANT_FILE), (SHARDS, PARTS, RUNS)
"""The files and folders that a build writes into its output."""

NAMED = 5
"""Maximum number of foreign files that an error names."""

CHANGED_OPERATORS = frozenset({"opencv-bicubic"})
"""Resize operators that gave other pixels in builds that did not record fingerprints of resize operators yet."""


def check_claim(store: Store, recipe: Recipe) -> None:
    """Check that the output is empty, or contains the same data set or a part of it.

    Args:
        store: The output.
        recipe: The recipe to build, in canonical form.

    Raises:
        UserError: The output contains something else; the message lists the differences.
    """
    _check_kinds(store, recipe)
    if store.size(RENDERED_FILE) >= 0:
        raise UserError(f"{store.root} contains a rendered data set, which has no shards: use another folder")
    if store.size(RECIPE_FILE) < 0:
        refuse_foreign(store, RECIPE_FILE)
    else:
        conflicts = conflicts_of(read_recipe(store), recipe)
        if conflicts:
            raise UserError(
                f"{store.root} contains another data set ({'; '.join(conflicts)}): use another folder, "
                "or the same settings and library versions"
            )


def refuse_foreign(store: Store, expected: str) -> None:
    """Check that an output without the file ``expected`` is empty, so that no files are mixed with those of others.

    Hidden files, system folders and empty folders may be there.

    Raises:
        UserError: The output contains something; the message names some of it.
    """
    names = [
        f"{entry.name}/" if entry.is_folder else entry.name
        for entry in _entries(store, "")
        if not entry.is_folder or (not is_system_folder(entry.name) and holds_any(store, entry.name))
    ]
    if names:
        some = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
        raise UserError(
            f"{store.root} contains {some} but no {expected}, so it is not a data set of this command: use an empty "
            f"folder, or a new one in it, for example {store.root.rstrip('/')}/data"
        )


def _check_kinds(store: Store, recipe: Recipe) -> None:
    """Check that the build can write its files and folders at their paths. Raises UserError."""
    if not isinstance(store, LocalStore):
        return
    for name in FILES:
        if store.path(name).is_dir():
            raise UserError(
                f"{store.root}/{name} is a folder, but the build writes a file with this name: remove the folder"
            )
    below = {
        f"{SHARDS}/{condition.transform}{level}"
        for condition in recipe.conditions()
        for level in ("", f"/{condition.level}")
    }
    for name in (*FOLDERS, *sorted(below)):
        path = store.path(name)
        if os.path.lexists(path) and not path.is_dir():
            raise UserError(
                f"{store.root}/{name} is not a folder, but the build needs a folder with this name: remove it"
            )


def holds_any(store: Store, folder: str) -> bool:
    """Return whether a folder exists and is not empty."""
    return bool(_entries(store, folder))


def _entries(store: Store, folder: str) -> list[FolderEntry]:
    try:
        return store.entries(folder)
    except UserError:  # it does not exist
        return []


def conflicts_of(existing: Recipe, requested: Recipe) -> list[str]:
    """Return the differences of two canonical recipes, except for added transforms, levels and images."""
    old, new = _flat(existing), _flat(requested)
    new_libraries = requested.software.keys() - existing.software.keys()
    extended = {
        "transforms.only": set(existing.transforms.only) <= set(requested.transforms.only),
        "transforms.levels": set(existing.transforms.levels) <= set(requested.transforms.levels),
        "source.limit": not requested.source.limit or 0 < existing.source.limit <= requested.source.limit,
        # an added attack may need another library
        **{f"software.{name}": requested.attack is not None for name in new_libraries},
    }
    settings = [
        f"{name} is {_shortened(old.get(name))}, but {_shortened(new.get(name))} was requested"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name) and not extended.get(name, False)
    ]
    return settings + attacks.differences(existing.attack, requested.attack) + _changed_pixels(existing, requested)


def _changed_pixels(existing: Recipe, requested: Recipe) -> list[str]:
    """Return the decoders and resize operators of an existing data set that give other pixels on this machine."""
    tables = (
        ("decoders", requested.used_decoders(), existing.decoders, requested.decoders),
        ("resizers", requested.used_resizers(), existing.resizers, requested.resizers),
    )
    changed = [
        f"{table}.{name} is {recorded[name]}, but this machine has {current.get(name, 'none')}"
        for table, used, recorded, current in tables
        for name in used
        if name in recorded and not same_pixels(recorded[name], current.get(name, ""))
    ]
    unrecorded = CHANGED_OPERATORS & {*existing.used_resizers()} & {*requested.used_resizers()} - {*existing.resizers}
    return changed + [
        f"resizers.{name} is not recorded, and versions of robustshards that did not record it gave other pixels"
        for name in sorted(unrecorded)
    ]


def _flat(recipe: Recipe) -> dict[str, Any]:
    content = recipe.model_dump(mode="json", exclude={"title", "decoders", "resizers", "labels", "attack"})
    return {
        f"{table}.{key}" if isinstance(fields, dict) else table: value
        for table, fields in content.items()
        for key, value in (fields if isinstance(fields, dict) else {"": fields}).items()
    }


def _shortened(value: Any) -> str:
    """Return a setting for a message. A list can have thousands of class names."""
    text = str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
