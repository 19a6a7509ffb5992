"""Checks that the output is empty, or contains the same data set or a part of it."""

import os

from pipeline.builder.bank import bank_conflicts
from pipeline.config import differences, flat
from pipeline.datasets.cards import CARD_FILE, CROISSANT_FILE
from pipeline.datasets.opening import read_recipe
from pipeline.datasets.paths import (
    FACT_TASK,
    MANIFEST_FILE,
    PARTS,
    RECIPE_FILE,
    RENDERED_FILE,
    ROOTS_FILE,
    RUNS,
    SHARDS,
    condition_folder,
    content_of,
)
from pipeline.errors import UserError
from pipeline.execution.resumable import JobFolder
from pipeline.images.fingerprints import same_pixels
from pipeline.recipes import attacks
from pipeline.recipes.schema import Recipe
from pipeline.render.bank import FOLDER as BANK
from pipeline.storage import LocalStore, Store

FILES, FOLDERS = (RECIPE_FILE, MANIFEST_FILE, ROOTS_FILE, CARD_FILE, CROISSANT_FILE), (SHARDS, PARTS, RUNS, BANK)
"""The files and folders that a build writes into its output."""

DATA_SET = JobFolder(
    "data set", RECIPE_FILE, MANIFEST_FILE, PARTS, FACT_TASK, "or the same settings and library versions"
)
"""The output of a build."""

NOT_COMPARED = {"title", "decoders", "resizers", "labels", "attack", "bank"}
"""Tables of a recipe that may differ, or that have a comparison of their own."""


def check_claim(store: Store, recipe: Recipe) -> None:
    """Check that the output is empty, or contains the data set of a canonical recipe or a part of it.

    Raises:
        UserError: The output contains something else; the message lists the differences.
    """
    _check_kinds(store, recipe)
    if store.size(RENDERED_FILE) >= 0:
        raise UserError(f"{store.root} contains a rendered data set, which has no shards: use another folder")
    DATA_SET.claim(store, content_of, lambda: conflicts_of(read_recipe(store), recipe))


def _check_kinds(store: Store, recipe: Recipe) -> None:
    """Check that the build can write its files and folders at their paths. Raises UserError."""
    if not isinstance(store, LocalStore):
        return
    for name in FILES:
        if store.path(name).is_dir():
            raise UserError(
                f"{store.root}/{name} is a folder, but the build writes a file with this name: remove the folder"
            )
    conditions = recipe.conditions()
    above = "" if recipe.is_mirror else f"{SHARDS}/"
    below = {f"{above}{path}" for each in conditions for path in (each.transform, condition_folder(each))}
    for name in (*FOLDERS, *sorted(below)):
        path = store.path(name)
        if os.path.lexists(path) and not path.is_dir():
            raise UserError(
                f"{store.root}/{name} is not a folder, but the build needs a folder with this name: remove it"
            )


def conflicts_of(existing: Recipe, requested: Recipe) -> list[str]:
    """Return the differences of two canonical recipes, except for added transforms, levels and images."""
    new_libraries = requested.software.keys() - existing.software.keys()
    extended = {
        "transforms.only": set(existing.transforms.only) <= set(requested.transforms.only),
        "transforms.levels": set(existing.transforms.levels) <= set(requested.transforms.levels),
        "source.limit": not requested.source.limit or 0 < existing.source.limit <= requested.source.limit,
        # an added attack may need another library
        **{f"software.{name}": requested.attack is not None for name in new_libraries},
    }
    compared = (
        {
            name: value
            for name, value in flat(recipe.model_dump(mode="json", exclude=NOT_COMPARED)).items()
            if not extended.get(name, False)
        }
        for recipe in (existing, requested)
    )
    return (
        differences(*compared)
        + attacks.differences(existing.attack, requested.attack)
        + bank_conflicts(existing, requested)
        + _changed_pixels(existing, requested)
    )


def _changed_pixels(existing: Recipe, requested: Recipe) -> list[str]:
    """Return the decoders and resize operators of an existing data set that give other pixels on this machine."""
    tables = (
        ("decoders", requested.used_decoders(), existing.decoders, requested.decoders),
        ("resizers", requested.used_resizers(), existing.resizers, requested.resizers),
    )
    return [
        f"{table}.{name} is {recorded[name]}, but this machine has {current.get(name, 'none')}"
        for table, used, recorded, current in tables
        for name in used
        if name in recorded and not same_pixels(recorded[name], current.get(name, ""))
    ]
