"""Functions that open a finished data set."""

import os
from typing import Annotated, Any, Literal

import manifests
from pipeline.config import StrictTable, one_of, read_toml, validated
from pipeline.datasets.base import DataSet, Location
from pipeline.datasets.built import Built
from pipeline.datasets.indexed import Indexed, Mirror
from pipeline.datasets.paths import (
    INDEX_FILE,
    LISTING_FILE,
    MANIFEST_FILE,
    RECIPE_FILE,
    RENDERED_FILE,
    file_digest,
    read_file,
)
from pipeline.datasets.rendered import Rendered
from pipeline.datasets.rendered_table import RenderedTable
from pipeline.datasets.with_clean import with_clean
from pipeline.errors import UserError
from pipeline.images.encoders import Npy
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.storage import Store, is_url, local_path, open_store, read_small, trusted_locations
from pipeline.tasks.labels import LabelSpace
from pipeline.tasks.schema import Task
from pipeline.text import shown
from pipeline.transforms.registry import FAMILIES


class IndexTable(StrictTable):
    """The content of ``index.toml``: location and layout of the files of an indexed data set.

    ``manifest`` is the sha256 of the manifest, which protects the labels.
    """

    name: str
    family: Annotated[str, one_of(FAMILIES)]
    layout: Literal["folders", "tars", "arrays"]
    location: str
    manifest: str
    labels: LabelSpace | None = None
    task: Task | None = None


def open_data_set(
    folder: str, data: str | None = None, pixels: bool = False, cache: str | None = None, clean: Location | None = None
) -> DataSet:
    """Open the data set in a folder. The arguments are those of ``Location``.

    Without ``data``, a location that the folder names is used only if it is in the folder itself, or if this user
    created the data set on this machine.

    Raises:
        UserError: The folder is not a readable data set, the location of its files is not trusted, or an option does
            not apply to it.
    """
    if clean is not None:
        return with_clean(open_data_set(folder, data, pixels, cache), open_data_set(*clean))
    store, location = open_store(folder), Location(folder, data, pixels, cache)
    if store.size(RENDERED_FILE) >= 0:
        return _rendered(store, location)
    if store.size(INDEX_FILE) < 0:
        _check_recipe(store)
    for option, value in (("--pixels", pixels), ("--cache", cache is not None)):
        if value:
            raise UserError(f"{option} does not apply to {folder}, whose samples are stored: omit {option}")
    if store.size(INDEX_FILE) >= 0:
        table = read_index(store)
        if store.size(MANIFEST_FILE) >= 0 and file_digest(store.path(MANIFEST_FILE)) != table.manifest:
            raise UserError(
                f"the manifest {store.root}/{MANIFEST_FILE} was changed: its sha256 differs from the one in "
                f"{INDEX_FILE}; run index again, or copy both files again"
            )
        return Indexed(
            location=location,
            store=store,
            name=table.name,
            family_name=table.family,
            conditions=None,
            decoders={},
            resizers={},
            files=_files_of_index(store, table.location, data),
            labels=table.labels,
            task=table.task,
        )
    if data is not None:
        raise UserError(f"invalid option --data {data}: {folder} contains its own shards; omit --data")
    return _made(store, location)


def open_built(folder: str) -> Built:
    """Open a built data set. Raise UserError like :func:`open_made`, and for a mirror."""
    data_set = open_made(folder)
    if not isinstance(data_set, Built):
        raise UserError(f"{folder} is a mirror, which has no shards: give a data set that robustshards built")
    return data_set


def open_made(folder: str) -> Built | Mirror:
    """Open a built data set or a mirror. Raise UserError like :func:`open_data_set`, and for the other kinds."""
    store = open_store(folder)
    kinds = {INDEX_FILE: "an index, which has no recipe", RENDERED_FILE: "a rendered data set, which has no shards"}
    for name, what in kinds.items():
        if store.size(name) >= 0:
            raise UserError(f"{folder} is {what}: give a data set that robustshards built")
    return _made(store, Location(folder))


def _rendered(store: Store, location: Location) -> Rendered:
    """Open the rendered data set in a store. Raise UserError if it is damaged, or its source is not trusted."""
    table = read_rendered(store)
    if store.size(LISTING_FILE) < 0 or file_digest(store.path(LISTING_FILE)) != table.listing:
        raise UserError(f"{store.root}/{LISTING_FILE} is missing or was changed: render the data set again")
    (images,) = read_file(store, LISTING_FILE, lambda path: [manifests.listing_rows(path)])
    if images != table.images:
        raise UserError(
            f"{RENDERED_FILE} in {store.root} has {table.images} images, but {LISTING_FILE} has {images}: render the "
            "data set again"
        )
    source = location.data or table.location
    if location.data is None and trusted_locations.recall(store.root, "source") != source:
        raise UserError(
            f"{store.root} refers to source images in {shown(source)}: they are read only if you confirm the location; "
            "give --data PATH, the folder that contains them"
        )
    recipe = read_recipe(store)
    if tuple(output.condition for output in table.outputs) != recipe.conditions():
        raise UserError(
            f"{RENDERED_FILE} and {RECIPE_FILE} in {store.root} have different transforms and levels: render the data "
            "set again"
        )
    shown_recipe = recipe.changed(encoder={"name": Npy().name}) if location.pixels else recipe
    return Rendered(
        **described(store, location, recipe),
        recipe=shown_recipe,
        table=table,
        source=source,
        frost_folder=trusted_locations.recall(store.root, "frost"),
    )


def _made(store: Store, location: Location) -> Built | Mirror:
    """Open the built data set or the mirror in a store. Raise UserError if there is none."""
    recipe = read_recipe(store)
    if recipe.is_mirror:
        return Mirror(**described(store, location, recipe), recipe=recipe)
    return Built(**described(store, location, recipe), attack=recipe.attack, recipe=recipe)


def described(store: Store, location: Location, recipe: Recipe) -> dict[str, Any]:
    """Return the fields of a data set in a store that its recipe decides."""
    return {
        "location": location,
        "store": store,
        "name": recipe.name,
        "family_name": recipe.transforms.family,
        "conditions": recipe.conditions(),
        "decoders": recipe.decoders,
        "resizers": recipe.resizers,
        "files": store,
        "labels": recipe.labels,
        "task": recipe.task,
    }


def read_rendered(store: Store) -> RenderedTable:
    """Return what stands for the samples of a rendered data set. Raise UserError if it is damaged."""
    where = f"{store.root}/{RENDERED_FILE}"
    return validated(RenderedTable, read_toml(read_small(store, RENDERED_FILE), where), where)


def read_index(store: Store) -> IndexTable:
    """Return the description of an indexed data set. Raise UserError if it is damaged."""
    where = f"{store.root}/{INDEX_FILE}"
    return validated(IndexTable, read_toml(read_small(store, INDEX_FILE), where), where)


def read_recipe(store: Store) -> Recipe:
    """Return the recipe of a built data set. Raise UserError if there is none."""
    _check_recipe(store)
    return library.parse(read_small(store, RECIPE_FILE), f"{store.root}/{RECIPE_FILE}")


def _check_recipe(store: Store) -> None:
    """Raise UserError for a folder without a recipe."""
    if store.size(RECIPE_FILE) < 0:
        exists = is_url(store.root) or local_path(store.root).exists()
        reason = f"it has no {RECIPE_FILE}" if exists else "it does not exist"
        raise UserError(
            f"{store.root} is not a data set: {reason}; give the folder of a data set, or make one: "
            "robustshards render (rs.render) of photographs, robustshards index of images that others corrupted"
        )


def _files_of_index(store: Store, location: str, data: str | None) -> Store:
    """Return the store with the files of an index. Raise UserError if the location in the index is not trusted."""
    if data is not None:
        return _folder_of_files(data, f"--data {data}")
    if is_url(location) or (is_url(store.root) and location.startswith("/")):
        resolved, is_inside = location, False
    elif is_url(store.root):
        resolved, is_inside = f"{store.root}/{location}", ".." not in location.split("/")
    else:
        folder = local_path(store.root).resolve()
        try:
            resolved = str((folder / local_path(location)).resolve())
        except (OSError, RuntimeError) as error:
            raise UserError(f"invalid location {shown(location)} in {folder}/{INDEX_FILE}: {error}") from error
        is_inside = local_path(resolved).is_relative_to(folder)
    if is_inside or trusted_locations.recall(store.root, "data") == trusted_locations.absolute(resolved):
        return _folder_of_files(resolved, f"the location {shown(location)} in {store.root}/{INDEX_FILE}")
    raise UserError(
        f"{store.root}/{INDEX_FILE} refers to files outside of its folder, in {shown(location)}: they are read only if "
        "you confirm the location; give --data PATH, the folder that contains them"
    )


def _folder_of_files(location: str, named: str) -> Store:
    if not is_url(location) and not os.path.isdir(local_path(location)):  # unlike Path.is_dir, False for any bad name
        raise UserError(f"{named} is not a folder: give --data PATH, the folder that contains the files of the index")
    return open_store(location)
