"""Open a data set, of whichever kind it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pipeline.config import StrictTable, one_of, read_toml, validated
from pipeline.datasets.base import DataSet
from pipeline.datasets.built import Built
from pipeline.datasets.indexed import Indexed
from pipeline.datasets.paths import INDEX_FILE, MANIFEST_FILE, RECIPE_FILE, file_digest
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.storage import SMALL_FILE, Store, is_url, local_path, open_store, places
from pipeline.text import shown
from pipeline.transforms.registry import FAMILIES


class IndexTable(StrictTable):
    """``index.toml``: where the files of somebody else's data set are, and what they hold.

    ``manifest`` is the sha256 of the manifest, since nothing else tells the labels of such files; empty in older ones.
    """

    name: str
    family: Annotated[str, one_of(FAMILIES)]
    layout: Literal["folders", "tars", "arrays"]
    location: str
    manifest: str = ""


def open_data_set(folder: str, data: str | None = None) -> DataSet:
    """Open the data set that was built or indexed into a folder.

    Args:
        folder: Path or URL of the data set.
        data: Path or URL of the files of an index, where the user names it. Without it, an index is only believed
            where its files are in or below its own folder, or where this user made it on this machine.

    Raises:
        UserError: There is no readable data set, or nobody may say where its files are.
    """
    store = open_store(folder)
    if store.size(INDEX_FILE) >= 0:
        where = f"{store.root}/{INDEX_FILE}"
        table = validated(IndexTable, read_toml(_settings(store, INDEX_FILE), where), where)
        if (
            table.manifest
            and store.size(MANIFEST_FILE) >= 0
            and file_digest(store.path(MANIFEST_FILE)) != table.manifest
        ):
            raise UserError(
                f"the manifest {store.root}/{MANIFEST_FILE} is not the one that index wrote: its sha256 is not that in "
                f"{INDEX_FILE}; run index again, or copy both files again"
            )
        return Indexed(
            store=store,
            name=table.name,
            family_name=table.family,
            conditions=None,
            decoders={},
            files=_files_of_index(store, table.location, data),
        )
    built = _built(store)
    if data is not None:
        raise UserError(f"{folder} was built and holds its own shards: omit --data {data}, which is for indexes")
    return built


def open_built(folder: str) -> Built:
    """As :func:`open_data_set`, for what needs the recipe. Raises UserError for an indexed data set."""
    store = open_store(folder)
    if store.size(INDEX_FILE) >= 0:
        raise UserError(f"{folder} is an index of files that others made: it has no recipe to make them by")
    return _built(store)


def _built(store: Store) -> Built:
    """Open what was built into a store. Raises UserError where nothing was."""
    recipe = read_recipe(store)
    return Built(
        store=store,
        name=recipe.name,
        family_name=recipe.transforms.family,
        conditions=recipe.conditions(),
        decoders=recipe.decoders,
        files=store,
        recipe=recipe,
    )


def read_recipe(store: Store) -> Recipe:
    """Return the recipe that a data set was built by. Raises UserError where there is none."""
    if store.size(RECIPE_FILE) < 0:
        raise UserError(f"{store.root} is no data set: it has no {RECIPE_FILE}")
    return library.parse(_settings(store, RECIPE_FILE), f"{store.root}/{RECIPE_FILE}")


def _settings(store: Store, name: str) -> bytes:
    """Return the content of a small file of a data set. Raises UserError."""
    try:
        return store.read(name, limit=SMALL_FILE)
    except OSError as error:
        raise UserError(f"{store.root}/{name} cannot be read: {error.strerror or error}") from error


def _files_of_index(store: Store, location: str, data: str | None) -> Store:
    """Return where the files of an index are: no file of a data set may send its reader anywhere. Raises UserError."""
    if data is not None:
        return _folder_of_files(data, f"--data {data}")
    if is_url(location) or (is_url(store.root) and location.startswith("/")):
        place, inside = location, False
    elif is_url(store.root):
        place, inside = f"{store.root}/{location}", ".." not in location.split("/")
    else:
        folder = local_path(store.root).resolve()
        place = _resolved(folder, location)
        inside = local_path(place).is_relative_to(folder)
    if inside or places.recall(store.root, "data") == places.absolute(place):
        return _folder_of_files(place, f"the location {shown(location)} in {store.root}/{INDEX_FILE}")
    raise UserError(
        f"{store.root}/{INDEX_FILE} names {shown(location)} as the location of its files: files outside of the index's "
        "folder are only read where the user says so; give --data PATH, the folder that holds them"
    )


def _folder_of_files(place: str, named: str) -> Store:
    if not is_url(place) and not os.path.isdir(local_path(place)):  # unlike Path.is_dir, False for any bad name
        raise UserError(f"{named} is not a folder: give with --data PATH the folder that holds the files of the index")
    return open_store(place)


def _resolved(folder: Path, location: str) -> str:
    """Return the path that an index of this machine names, its links followed. Raises UserError."""
    try:
        return str((folder / local_path(location)).resolve())
    except (OSError, RuntimeError) as error:
        raise UserError(f"the location {shown(location)} in {folder}/{INDEX_FILE} cannot be used: {error}") from error
