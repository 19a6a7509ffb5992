"""The public function that renders data sets."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from corruptions.cache import user_cache
from pipeline.builder.render import RenderResult, run_render
from pipeline.builder.settings import RenderSettings
from pipeline.datasets.base import DataSet
from pipeline.datasets.opening import open_data_set
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.execution.resumable import SilentWatcher
from pipeline.images.encoders import EncoderName
from pipeline.recipes.schema import Recipe
from pipeline.storage import trusted_locations
from robustshards._calls import Location, described_by, optional_location, public_call


@described_by(EvaluationRequest, RenderSettings)
def render(
    recipe: Location | Recipe,
    source: Location,
    out: Location | None = None,
    *,
    only: str | Iterable[str] | None = None,
    severities: float | str | Iterable[float | str] | None = None,
    grid: str | None = None,
    limit: int | None = None,
    ids: Location | None = None,
    source_kind: str | None = None,
    classes: Location | Sequence[str] | None = None,
    shard_size: int | None = None,
    seed: int | None = None,
    encoder: EncoderName | None = None,
    quality: int | None = None,
    decoder: str | None = None,
    resize: str | None = None,
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
        only: Transforms or groups, as in ``build``. Default: those of the recipe.
        severities: Levels, as in ``build``. Default: those of the recipe.
        classes: Class names, as in ``build``.
        fields: Other fields of the recipe by table, as in ``build``.
        check: Decode every image, so that damaged ones are recorded as failed. Otherwise reading them is an error.

    Returns:
        The data set. It can be passed to ``evaluate``, and opened again with ``open``.

    Raises:
        UserError: If an argument is invalid, or ``out`` holds another data set.
        UnreachableError: If an object store does not respond.
        OSError: If a file cannot be read or written.
    """
    given = locals()
    with public_call():
        folder = str(user_cache() / "rendered" / f".{uuid.uuid4().hex}") if out is None else out
        request = RenderSettings.of(given, out=folder)
        result = run_render(request, SilentWatcher())
        place = _kept(request, result) if out is None else request.out
        return open_data_set(place, None, pixels, optional_location(cache, "cache"))


def _kept(request: RenderSettings, result: RenderResult) -> str:
    """Move a rendered data set to the folder of the cache that is named by its content, listing and source."""
    source = trusted_locations.absolute(request.source)
    name = hashlib.sha256(
        f"{result.content}\n{result.listing}\n{source}".encode("utf-8", "surrogateescape")
    ).hexdigest()[:32]
    folder = user_cache() / "rendered" / name
    try:
        os.rename(request.out, folder)
    except OSError:  # an earlier call has made it
        shutil.rmtree(request.out, ignore_errors=True)
    trusted_locations.move(request.out, str(folder))
    return str(folder)
