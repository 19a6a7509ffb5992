"""The public functions that build data sets and mirrors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pipeline.builder.build import run_build
from pipeline.builder.result import BuildResult
from pipeline.builder.settings import BuildSettings, MirrorSettings
from pipeline.errors import UserError
from pipeline.execution.pools import ExecutorName
from pipeline.execution.resumable import SilentWatcher
from pipeline.images.encoders import EncoderName
from pipeline.recipes.schema import Recipe
from robustshards._calls import Location, described_by, public_call


@described_by(BuildSettings)
def build(
    recipe: Location | Recipe,
    source: Location,
    out: Location,
    *,
    only: str | Iterable[str] | None = None,
    severities: float | str | Iterable[float | str] | None = None,
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
        severities: Levels to build, for example ``(1, 3, 5)``, ``"1-64,159"`` or ``(0.25, 1.75)``. Default: those of
            the recipe.
        classes: All class names in label order, which is the order of the model's outputs: a list, or a text file with
            one name per line. Default: class folders named by numbers are labels, WordNet ids of ImageNet's classes
            have their index among the 1,000, others are numbered in sorted order.
        difficulty: Alias of ``severities``, with the name that ImageNet-P uses.
        fields: Other fields of the recipe by table, for example ``{"encoder": {"preset": "fast"}}``.
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
    given = locals()
    with public_call():
        if severities is not None and difficulty is not None:
            raise UserError("severities and difficulty are two names for the same argument: pass one of them")
        levels = difficulty if severities is None else severities
        return run_build(BuildSettings.of(given, severities=levels), SilentWatcher())


@described_by(MirrorSettings)
def mirror(
    folder: Location,
    out: Location,
    *,
    recipe: Location | Recipe = "native-c",
    only: str | Iterable[str] | None = None,
    severities: float | str | Iterable[float | str] | None = None,
    limit: int | None = None,
    ids: Location | None = None,
    seed: int | None = None,
    encoder: Literal["own", "png", "png-bytes"] = "own",
    quality: int | None = None,
    decoder: str | None = None,
    fields: Mapping[str, Any] | None = None,
    frost_folder: Location | None = None,
    workers: int | None = None,
    address: str | None = None,
    executor: ExecutorName = "auto",
    retry_failed: bool = False,
    copy_failed: bool = False,
    max_bytes: float | str | None = None,
) -> BuildResult:
    """Write the corrupted version of a folder of images in native size, as ``robustshards mirror`` does.

    A repeated call makes only missing images; a call with more transforms or levels adds them. The pixels of an image
    depend on the recipe, the seed and its path in the folder only.

    Args:
        out: Folder or URL of the mirror: ``out/fog/3`` then replaces ``folder`` as the image root of a loader. Created
            if missing; an unfinished mirror in it is resumed.
        recipe: Name of a shipped recipe (``recipes.shipped()`` lists them), path of a .toml file, or a ``Recipe``.
        encoder: Format of the images: that of each file (``"own"``; JPEG with ``quality``, default 95, and without
            chroma subsampling), PNG files named .png (``"png"``), or PNG under the original names (``"png-bytes"``).
        fields: Other fields of the recipe by table, for example ``{"transforms": {"motion": "imagemagick"}}``.

    Returns:
        The result. ``complete`` is False if images are missing; repeat the call to continue. ``failed`` is the number
        of images that could not be made; each has a manifest row with ``status = 'failed'`` and the reason in
        ``error``.

    Raises:
        UserError: If an argument is invalid, or ``out`` holds something else. Nothing has been written.
        UnfinishedError: If the work could not start or finish. Finished images are kept.
        UnreachableError: If an object store does not respond. Finished images are kept.
        OSError: If a file cannot be read or written, for example because the disk is full.
    """
    given = locals()
    with public_call():
        return run_build(MirrorSettings.of(given), SilentWatcher())
