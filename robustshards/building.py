"""Build data sets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.build.quota import parse_size
from pipeline.build.result import BuildResult
from pipeline.build.run import BuildRequest, run_build
from pipeline.errors import UserError
from pipeline.execution.silent import Silent
from pipeline.recipes import library
from pipeline.recipes.choices import Choices
from pipeline.recipes.schema import Recipe
from robustshards._arguments import Location, location, optional_location, several, text, whole
from robustshards._calls import public_call


def build(
    recipe: Location | Recipe,
    source: Location,
    out: Location,
    *,
    only: str | Iterable[str] | None = None,
    severities: int | Iterable[int] | None = None,
    difficulty: int | Iterable[int] | None = None,
    grid: str | None = None,
    limit: int | None = None,
    ids: Location | None = None,
    source_kind: str | None = None,
    shard_size: int | None = None,
    seed: int | None = None,
    encoder: str | None = None,
    quality: int | None = None,
    decoder: str | None = None,
    resize: str | None = None,
    fields: Mapping[str, Any] | None = None,
    frost_folder: Location | None = None,
    workers: int | None = None,
    address: str | None = None,
    executor: str = "auto",
    retry_failed: bool = False,
    max_bytes: float | str | None = None,
) -> BuildResult:
    """Build a data set, or what is missing of it, as ``robustshards build`` does.

    The same call again makes only what is missing; asked for more, it adds that. Equal arguments on equal images give
    equal bytes, whatever the number of workers.

    Args:
        recipe: Name of a shipped recipe (``recipes.shipped()`` lists them), path of a .toml file, or a ``Recipe``.
        source: Clean images: path, URL or pattern of files. One folder per class, or another layout of docs/sources.md.
        out: Folder or URL of the data set. It is created; an unfinished build in it is resumed.
        only: Transforms or groups: ``"fog"``, ``"noise,fog"`` or ``["noise", "fog"]``. Default: the recipe's.
        severities: Levels to build, for example ``(1, 3, 5)``. Default: the recipe's.
        difficulty: Another name for ``severities``, as ImageNet-P calls its levels.
        grid: For imagenet-s, ``"paper"`` (13 pairs of decoder and resize operator) or ``"full"`` (33).
        limit: Only the first images of the listing; 0 for all.
        ids: Text file with the images to take: ids, paths or file names, one per line.
        source_kind: Layout of the source, for example ``"imagefolder"``. Detected if omitted.
        shard_size: Images per shard, 1 to 10,000.
        seed: Seed of all random draws, 0 to 2**64 - 1.
        encoder: How images are stored: ``"jpeg"``, ``"png"``, ``"npy"``, ``"mp4"`` (sequences).
        quality: JPEG quality, 1 to 100.
        decoder: Decoder of the source images, for example ``"pillow"`` or ``"opencv"``.
        resize: Resize operator of the preparation, for example ``"pillow-bilinear"``.
        fields: Any other field of the recipe, by table: ``{"encoder": {"preset": "fast"}}``.
        frost_folder: Folder of the six frost textures. Default: those of the package ``imagecorruptions``.
        workers: Worker processes. Default: one per CPU.
        address: Ray cluster to join, ``"host:port"`` or ``"auto"``. Default: this machine.
        executor: ``"local"`` (child processes of this machine), ``"ray"``, or ``"auto"``, by the amount of work.
        retry_failed: Make shards with failed samples again.
        max_bytes: Stop before all shards together take more: bytes, or text such as ``"50GB"``.

    Returns:
        What was done. ``complete`` is False where shards are missing: the same call continues. ``failed`` counts the
        samples that could not be made; they are rows of the manifest with ``status = 'failed'`` and the reason.

    Raises:
        UserError: An argument is invalid, or ``out`` holds another data set. Nothing has been built.
        UnfinishedError: The build could not start or end here; what is finished is kept.
        UnreachableError: A store does not answer; what is finished is kept.
        OSError: A file cannot be read or written, for example because the disk is full.
    """
    choices = Choices(
        kind=source_kind, only=_names(only), grid=_names(grid), levels=_levels(severities, difficulty), limit=limit,
        shard_size=shard_size, seed=seed, encoder=encoder, quality=quality, decoder=decoder, resize=resize,
        fields=_fields(fields),
    )  # fmt: skip
    with public_call():
        chosen = choices.applied_to(recipe if isinstance(recipe, Recipe) else library.load(location(recipe, "recipe")))
        request = BuildRequest(
            recipe=chosen,
            source=location(source, "source"),
            output=location(out, "out"),
            workers=None if workers is None else whole(workers, "workers", least=1),
            address=text(address, "address"),
            executor=str(executor),
            frost_folder=optional_location(frost_folder, "frost_folder"),
            ids=optional_location(ids, "ids"),
            retry_failed=retry_failed,
            max_bytes=_size(max_bytes),
        )
        return run_build(request, Silent())


def _names(names: str | Iterable[str] | None) -> list[str] | None:
    """Return names, those in one text split at commas. Raises UserError."""
    if names is None:
        return None
    listed = several(names)
    if not all(isinstance(name, str) for name in listed):
        raise UserError(f"invalid names {names!r}: give text, for example 'noise,fog' or ['noise', 'fog']")
    return [word.strip() for name in listed for word in name.split(",") if word.strip()]


def _levels(severities: Any, difficulty: Any) -> list[int] | None:
    """Return the levels under whichever name they were given. Raises UserError."""
    if severities is not None and difficulty is not None:
        raise UserError("severities and difficulty are two names for the levels: give one of them")
    levels = difficulty if severities is None else severities
    return None if levels is None else [whole(level, "level", least=0) for level in several(levels)]


def _fields(fields: Any) -> Mapping[str, Any]:
    """Return changes by table. Raises UserError."""
    changes = {} if fields is None else fields
    if not isinstance(changes, Mapping) or not all(isinstance(name, str) for name in changes):
        raise UserError(
            f"invalid fields {fields!r}: give a mapping of tables, for example {{'encoder': {{'quality': 90}}}}"
        )
    return changes


def _size(size: float | str | None) -> float:
    """Return bytes; without a limit, infinity. Raises UserError."""
    if isinstance(size, str):
        return parse_size(size)
    if size is None or size == math.inf:
        return math.inf
    return whole(size, "max_bytes", least=1)
