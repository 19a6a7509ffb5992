"""Settings of plan, build and render: a recipe, a source, and changes of both. Imports nothing heavy."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from pipeline.errors import UserError
from pipeline.execution.pools import Executor, parse_executor
from pipeline.settings import (
    ARGUMENT,
    CODING,
    EXECUTION,
    FLAG,
    IMAGES,
    REQUIRED,
    TRANSFORMS,
    Kind,
    Settings,
    as_list,
    choice,
    integer,
    location,
    many,
    setting,
    text,
    words,
)

if TYPE_CHECKING:
    from pipeline.recipes.schema import Recipe


def _recipe(value: Any) -> Recipe:
    from pipeline.recipes import library
    from pipeline.recipes.schema import Recipe

    return value if isinstance(value, Recipe) else library.load(location().read(value))


def _levels(value: Any) -> list[float]:
    from pipeline.recipes.levels import parse_levels

    def read(each: Any) -> list[float]:
        if isinstance(each, str):
            return parse_levels(each)
        return [each if isinstance(each, float) and math.isfinite(each) else integer(0).read(each)]

    return [level for each in as_list(value) for level in read(each)]


def _classes(value: Any) -> list[str]:
    from pipeline.sources.views import read_classes

    if isinstance(value, str | os.PathLike):
        return read_classes(location().read(value))
    names = as_list(value)
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError
    return names


def _fields(value: Any) -> Mapping[str, Any]:
    from pipeline.recipes.library import parse_fields

    fields = value if isinstance(value, Mapping) else parse_fields(many(text("")).read(value))
    if not all(isinstance(name, str) for name in fields):
        raise TypeError
    return fields


def _folder(value: Any) -> str:
    from pipeline.storage.locations import local_path

    return str(local_path(location().read(value)))


def _size(value: Any) -> float:
    from pipeline.builder.quota import parse_size

    return parse_size(value) if isinstance(value, str) else value if value == math.inf else integer(1).read(value)


MIRRORED_TOGETHER = 100
"""Maximum number of images of a mirror that are recorded together. An interruption loses a few such groups."""

LEVELS = Kind(_levels, "levels, for example 1,3,5 or 1-64,159 or 0.25,1.75", "LEVELS", separator=",")
"""Lists of levels, also as text with commas and ranges."""

CLASSES = Kind(_classes, "class names in label order, or a text file of them", "FILE")
"""Lists of class names, or text files of them, which are read."""

FROST = Kind(_folder, "a path of a folder", "FOLDER")

_OWN_FIELDS = Kind(_fields, "a mapping of tables, for example {'encoder': {'quality': 90}}", "FIELD=VALUE", many=True)


@dataclass(frozen=True)
class SelectionSettings(Settings):
    """A part of the images, and changes of the recipe that apply to tars and to mirrors.

    Attributes:
        ids: Text file with one image id, path or file name per line; only these images are used.
        limit: Use only the first N images. 0 uses all. Default: the recipe's.
        only: Transforms or groups, comma-separated, e.g. fog,frost or noise or all. Default: the recipe's.
        severities: Severities (or difficulties of sequences, or bandwidths), comma-separated, with ranges, e.g. 1,3,5
            or 1-64,159; real ones of ImageNet-C's 15, e.g. 0.25,1.75. Default: the recipe's.
        seed: Seed of all random numbers, 0 to 2^64 - 1. Default: the recipe's.
        frost_folder: Folder with the six frost textures. Default: those of the package imagecorruptions.
        decoder: Decoder of the source images. Default: the recipe's. One of: pillow, opencv, ffmpeg, turbo-fast,
            nvjpeg.
        quality: JPEG quality, 1 to 100. Default: the recipe's.
        fields: Change any other field of the recipe, e.g. encoder.preset=medium. Repeat for several fields.
    """

    ids: str | None = setting(None, location("FILE"), IMAGES)
    limit: int | None = setting(None, integer(), IMAGES)
    only: Sequence[str] | None = setting(None, words(), TRANSFORMS)
    severities: Sequence[float] | None = setting(None, LEVELS, TRANSFORMS, "--severities --difficulty")
    seed: int | None = setting(None, integer(), TRANSFORMS)
    frost_folder: str | None = setting(None, FROST, TRANSFORMS)
    decoder: str | None = setting(None, text("NAME"), CODING)
    quality: int | None = setting(None, integer(), CODING)
    fields: Mapping[str, Any] | None = setting(None, _OWN_FIELDS, CODING, "--set")


@dataclass(frozen=True)
class RecipeSettings(SelectionSettings):
    """A recipe, a source, and changes of the recipe.

    Attributes:
        recipe: Name of a shipped recipe (see robustshards list), or path of a .toml file.
        source: Clean images: a folder with one folder per class, another supported layout, a file pattern or a URL.
        source_kind: Source layout. Detected if omitted. One of: imagefolder, files, ilsvrc2012-val,
            ilsvrc2012-val-tar, imagenet-boxes, hf-parquet, cifar-10, cifar-100, cifar-100-coarse, cifar-100-subclass,
            icons-50, tiny-imagenet, imagenet64, webdataset.
        classes: Text file with one class name per line, in label order: the order of the model's outputs. Default:
            numbers are labels, WordNet ids of ImageNet's classes get their place among the sorted 1,000, and other
            names are numbered in sorted order.
        grid: For imagenet-s: which pairs of decoder and resize operator. One of: paper, full, decoders, resizers.
        resize: Resize operator. Default: the recipe's. One of: pillow-nearest, pillow-box, pillow-bilinear,
            pillow-hamming, pillow-bicubic, pillow-lanczos, opencv-nearest, opencv-bilinear, opencv-area,
            opencv-bicubic, opencv-lanczos.
        encoder: Format of the output images; own is that of each source file. Default: the recipe's. One of: jpeg, png,
            npy, own, mp4 (only for sequences).
        shard_size: Maximum images per shard, 1 to 10,000. Default: the recipe's.
    """

    recipe: Recipe = setting(REQUIRED, Kind(_recipe, "a path or URL, as str or pathlib.Path", "RECIPE"), "", ARGUMENT)
    source: str = setting(REQUIRED, location("PATH"))
    source_kind: str | None = setting(None, text("KIND"), IMAGES)
    classes: Sequence[str] | None = setting(None, CLASSES, IMAGES)
    grid: Sequence[str] | None = setting(None, words("NAME"), TRANSFORMS)
    resize: str | None = setting(None, text("NAME"), CODING)
    encoder: str | None = setting(None, text("NAME"), CODING)
    shard_size: int | None = setting(None, integer(), CODING)

    def changed_recipe(self) -> Recipe:
        """Return the recipe with the changes. Raise UserError that names the invalid field."""
        recipe = self.recipe
        if self.only is not None and self.grid is not None:
            raise UserError("--only and --grid both select transforms: use only one of them")
        for group in self.grid or ():
            if group not in recipe.family.groups:
                from corruptions.registry import unknown

                raise UserError(f"--grid: {unknown('group', group, allowed=recipe.family.groups)}")
        changes: dict[str, Any] = {
            "source": {"kind": self.source_kind, "limit": self.limit, "classes": self.classes},
            "transforms": {"only": self.grid if self.only is None else self.only, "levels": self.severities},
            "shards": {"size": self.shard_size},
            "encoder": {"name": self.encoder, "quality": self.quality},
            "prepare": {"decoder": self.decoder, "resize": self.resize},
            "seed": self.seed,
        }
        # all at once, because some values are valid only together
        for table, change in (self.fields or {}).items():
            both = isinstance(change, Mapping) and isinstance(changes.get(table), Mapping)
            changes[table] = {**changes[table], **change} if both else change
        return recipe.changed(**changes)


@dataclass(frozen=True)
class ExecutionSettings(Settings):
    """How images are made, and where.

    Attributes:
        out: Folder or URL to write the data set to.
        workers: Number of worker processes. Default: one per available CPU, if the memory allows it.
        address: Address of a running Ray cluster to join, HOST:PORT or auto. Default: use this machine only.
        executor: Engine: Ray, or child processes of this machine (local). auto (default) chooses by the amount of work.
        max_bytes: Stop before the shards exceed this size, e.g. 800MiB, 50GB or 1.5TB.
        retry_failed: Remake the shards that contain failed samples.
    """

    out: str = setting(REQUIRED, location())
    workers: int | None = setting(None, integer(1), EXECUTION)
    address: str | None = setting(None, text("ADDRESS"), EXECUTION)
    executor: str = setting("auto", choice(*Executor), EXECUTION)
    max_bytes: float | None = setting(None, Kind(_size, "a number of bytes above 0", "SIZE"), EXECUTION)
    retry_failed: bool = setting(False, FLAG, EXECUTION)

    def __post_init__(self) -> None:
        """Check the settings. Raise UserError if one is invalid."""
        super().__post_init__()
        parse_executor(self.executor, self.address)


@dataclass(frozen=True)
class BuildSettings(ExecutionSettings, RecipeSettings):
    """A build."""


@dataclass(frozen=True)
class MirrorSettings(ExecutionSettings, SelectionSettings):
    """A mirror of a folder of images.

    Attributes:
        folder: Folder or URL of the images, flat or nested. Other files in it are ignored.
        out: Folder or URL to write OUT/CORRUPTION/SEVERITY/PATH to, with the path of each image in its folder.
        recipe: Name of a shipped recipe (see robustshards list), or path of a .toml file.
        encoder: Format of the images. own (default): that of each file, JPEG with --quality (default: 95) and
            without chroma subsampling. png: PNG files named .png. png-bytes: PNG content under the original names.
        max_bytes: Stop before the images exceed this size, e.g. 800MiB, 50GB or 1.5TB.
        retry_failed: Try failed images again.
        copy_failed: Copy the clean files of images that failed to where their corrupted ones would be.
    """

    folder: str = setting(REQUIRED, location(), option=ARGUMENT)
    recipe: Recipe = setting("native-c", Kind(_recipe, "a path or URL, as str or pathlib.Path", "RECIPE"))
    encoder: str = setting("own", choice("own", "png", "png-bytes"), CODING)
    copy_failed: bool = setting(False, FLAG, EXECUTION)

    @property
    def source(self) -> str:
        """The folder of the images."""
        return self.folder

    def changed_recipe(self) -> Recipe:
        """Return the recipe with the changes. Raise UserError if it changes sizes, or a change of it is invalid."""
        named = {each.name: getattr(self, each.name) for each in fields(SelectionSettings)}
        recipe = RecipeSettings(recipe=self.recipe, source=self.folder, **named | {"quality": None}).changed_recipe()
        if recipe.prepare.steps:
            raise UserError(
                f"recipe {recipe.name} changes the sizes of images ({recipe.prepare.steps[0][0]}), which a mirror "
                "keeps: use native-c, or a recipe with prepare.steps = []"
            )
        return recipe.changed(
            source={"kind": "files"},
            encoder={"name": "own", "content": self.encoder, "quality": self.quality},
            shards={"layout": "mirror", "size": min(recipe.shards.size, MIRRORED_TOGETHER)},
        )


@dataclass(frozen=True)
class RenderSettings(RecipeSettings):
    """A rendered data set.

    Attributes:
        out: Folder or URL to write the rendered data set to.
        check: Decode every image, so that damaged ones are recorded as failed, as a build records them.
    """

    out: str = setting(REQUIRED, location())
    check: bool = setting(False, FLAG, EXECUTION)


MakingSettings = BuildSettings | MirrorSettings | RenderSettings
"""Settings of the commands that make a data set."""


@dataclass(frozen=True)
class PlanSettings(RecipeSettings):
    """An estimate of a build.

    Attributes:
        measure: Number of images to process for the estimate.
    """

    measure: int = setting(3, integer(1), EXECUTION)
