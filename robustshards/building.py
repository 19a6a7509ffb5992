"""The public function that builds data sets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.builder.build import run_build
from pipeline.builder.preflight import BuildRequest
from pipeline.builder.quota import parse_size
from pipeline.builder.result import BuildResult
from pipeline.config import integer
from pipeline.execution.pools import ExecutorName
from pipeline.execution.resumable import SilentWatcher
from pipeline.images.encoders import EncoderName
from pipeline.recipes.schema import Recipe
from robustshards._arguments import Location, location, optional_location, text
from robustshards._calls import public_call
from robustshards._recipes import chosen_recipe


def build(
    recipe: Location | Recipe,
    source: Location,
    out: Location,
    *,
    only: str | Iterable[str] | None = None,
    severities: int | str | Iterable[int | str] | None = None,
    difficulty: int | str | Iterable[int | str] | None = None,
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
    workers: int | None = None,
    address: str | None = None,
    executor: ExecutorName = "auto",
    retry_failed: bool = False,
    max_bytes: float | str | None = None,
) -> BuildResult:
    """Build a data set, or the missing part of it, as ``robustshards build`` does.

    A repeated call builds only missing shards; a call with more transforms, levels or images adds them. Equal
    arguments and images give equal bytes, for any number of workers.

    Args:
        recipe: Name of a shipped recipe (``recipes.shipped()`` lists them), path of a .toml file, or a ``Recipe``.
        source: Path, URL or glob pattern of the clean images: one folder per class, or another layout that
            docs/sources.md describes.
        out: Folder or URL of the data set. Created if missing; an unfinished build in it is resumed.
        only: Transforms or groups: ``"fog"``, ``"noise,fog"`` or ``["noise", "fog"]``. Default: those of the recipe.
        severities: Levels to build, for example ``(1, 3, 5)`` or ``"1-64,159"``. Default: those of the recipe.
        difficulty: Alias of ``severities``, with the name that ImageNet-P uses.
        grid: For imagenet-s, ``"paper"`` (13 pairs of decoder and resize operator) or ``"full"`` (33).
        limit: Number of images, taken from the start of the listing. 0: all.
        ids: Text file that selects images: one id, path or file name per line.
        source_kind: Layout of the source, for example ``"imagefolder"``. Detected if omitted.
        classes: All class names in label order, which is the order of the model's outputs: a list, or a text file with
            one name per line. Default: class folders named by numbers are labels, WordNet ids of ImageNet's classes
            have their index among the 1,000, others are numbered in sorted order.
        shard_size: Images per shard, 1 to 10,000.
        seed: Seed of all random numbers, 0 to 2**64 - 1.
        encoder: Format of the stored images: ``"jpeg"``, ``"png"``, ``"npy"``, or ``"mp4"`` (sequences only).
        quality: JPEG quality, 1 to 100.
        decoder: Decoder of the source images, for example ``"pillow"`` or ``"opencv"``.
        resize: Resize operator, for example ``"pillow-bilinear"``.
        fields: Other fields of the recipe by table, for example ``{"encoder": {"preset": "fast"}}``.
        frost_folder: Folder of the six frost textures. Default: the textures in the package ``imagecorruptions``.
        workers: Worker processes. Default: one per CPU.
        address: Ray cluster to join, ``"host:port"`` or ``"auto"``. Default: this machine.
        executor: ``"local"`` (child processes), ``"ray"``, or ``"auto"`` (``"local"`` for small builds).
        retry_failed: Rebuild the shards that have failed samples.
        max_bytes: Stop before the shards exceed this total size: bytes, or text such as ``"50GB"``.

    Returns:
        The result. ``complete`` is False if shards are missing; repeat the call to continue. ``failed`` is the number
        of samples that could not be made; each has a manifest row with ``status = 'failed'`` and the reason in
        ``error``.

    Raises:
        UserError: If an argument is invalid, or ``out`` holds another data set. Nothing has been built.
        UnfinishedError: If the build could not start or finish. Finished shards are kept.
        UnreachableError: If an object store does not respond. Finished shards are kept.
        OSError: If a file cannot be read or written, for example because the disk is full.
    """
    with public_call():
        chosen = chosen_recipe(
            recipe, kind=source_kind, classes=classes, only=only, grid=grid, severities=severities,
            difficulty=difficulty, limit=limit, shard_size=shard_size, seed=seed, encoder=encoder, quality=quality,
            decoder=decoder, resize=resize, fields=fields,
        )  # fmt: skip
        request = BuildRequest(
            recipe=chosen,
            source=location(source, "source"),
            output=location(out, "out"),
            workers=None if workers is None else integer(workers, "workers", minimum=1),
            address=text(address, "address"),
            executor=str(executor),
            frost_folder=optional_location(frost_folder, "frost_folder"),
            ids=optional_location(ids, "ids"),
            retry_failed=retry_failed,
            max_bytes=_size(max_bytes),
        )
        return run_build(request, SilentWatcher())


def _size(size: float | str | None) -> float:
    """Return a size limit in bytes, infinity for None; raise UserError for invalid sizes."""
    if isinstance(size, str):
        return parse_size(size)
    if size is None or size == math.inf:
        return math.inf
    return integer(size, "max_bytes", minimum=1)
