"""The public function that renders data sets."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from corruptions.cache import user_cache
from pipeline.builder.render import RenderRequest, RenderResult, run_render
from pipeline.datasets.base import DataSet
from pipeline.datasets.opening import open_data_set
from pipeline.execution.resumable import SilentWatcher
from pipeline.recipes.schema import Recipe
from pipeline.storage import trusted_locations
from robustshards._arguments import Location, location, optional_location
from robustshards._calls import public_call
from robustshards._recipes import chosen_recipe


def render(
    recipe: Location | Recipe,
    source: Location,
    out: Location | None = None,
    *,
    only: str | Iterable[str] | None = None,
    severities: int | str | Iterable[int | str] | None = None,
    limit: int | None = None,
    ids: Location | None = None,
    source_kind: str | None = None,
    classes: Location | Sequence[str] | None = None,
    seed: int | None = None,
    fields: Mapping[str, Any] | None = None,
    frost_folder: Location | None = None,
    check: bool = False,
    pixels: bool = False,
    cache: Location | None = None,
) -> DataSet:
    """Return a data set whose images are made when they are read, as ``robustshards render`` writes it.

    Each source image is read once, to record its digest. Nothing is decoded unless ``check`` is set. The data set has
    the samples, rows and predictions that a build of the same recipe has.

    Args:
        recipe: Name of a shipped recipe (``recipes.shipped()`` lists them), path of a .toml file, or a ``Recipe``.
        source: Path, URL or glob pattern of the clean images, as in ``build``.
        out: Folder or URL for the recipe and the listing, a few megabytes. Default: a folder in the user's cache.
        only: Transforms or groups: ``"fog"``, ``"noise,fog"`` or ``["noise", "fog"]``. Default: those of the recipe.
        severities: Levels, for example ``(1, 3, 5)`` or ``"1-64,159"``. Default: those of the recipe.
        limit: Number of images, taken from the start of the listing. 0: all.
        ids: Text file that selects images: one id, path or file name per line.
        source_kind: Layout of the source, for example ``"imagefolder"``. Detected if omitted.
        classes: All class names in label order: a list, or a text file with one name per line, as in ``build``.
        seed: Seed of all random numbers, 0 to 2**64 - 1.
        fields: Other fields of the recipe by table, for example ``{"encoder": {"name": "png"}}``.
        frost_folder: Folder of the six frost textures. Default: the textures in the package ``imagecorruptions``.
        check: Decode every image, so that damaged ones are recorded as failed. Otherwise reading them is an error.
        pixels: Skip encoder and decoder, which is faster and gives other pixels, as ``encoder = "npy"`` does.
        cache: Folder in which decoded and cropped photographs are kept, or ``"off"``. Default: the user's cache folder.

    Returns:
        The data set. It can be passed to ``evaluate``, and opened again with ``open``.

    Raises:
        UserError: If an argument is invalid, or ``out`` holds another data set.
        UnreachableError: If an object store does not respond.
        OSError: If a file cannot be read or written.
    """
    with public_call():
        chosen = chosen_recipe(
            recipe, kind=source_kind, classes=classes, only=only, severities=severities, limit=limit, seed=seed,
            fields=fields,
        )  # fmt: skip
        request = RenderRequest(
            recipe=chosen,
            source=location(source, "source"),
            output=str(user_cache() / "rendered" / f".{uuid.uuid4().hex}") if out is None else location(out, "out"),
            frost_folder=optional_location(frost_folder, "frost_folder"),
            ids=optional_location(ids, "ids"),
            check=check,
        )
        result = run_render(request, SilentWatcher())
        folder = _kept(request, result) if out is None else request.output
        return open_data_set(folder, None, pixels, optional_location(cache, "cache"))


def _kept(request: RenderRequest, result: RenderResult) -> str:
    """Move a rendered data set to the folder of the cache that is named by its content, listing and source."""
    source = trusted_locations.absolute(request.source)
    name = hashlib.sha256(
        f"{result.content}\n{result.listing}\n{source}".encode("utf-8", "surrogateescape")
    ).hexdigest()[:32]
    folder = user_cache() / "rendered" / name
    try:
        os.rename(request.output, folder)
    except OSError:  # an earlier call has made it
        shutil.rmtree(request.output, ignore_errors=True)
    trusted_locations.move(request.output, str(folder))
    return str(folder)
