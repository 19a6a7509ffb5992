"""Options that several commands have, and what their texts say.

Names that a text lists are those of a table elsewhere (a test compares them): loading that takes a second.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.errors import UserError
from pipeline.execution.pools import Executor
from pipeline.storage.locations import local_path

if TYPE_CHECKING:
    from pipeline.recipes.schema import Recipe

LONGEST_SHOWN = 80
"""Characters of an option's value in a message."""

RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="Name of a shipped recipe, or path of your own .toml.")
]
DataSetArgument = Annotated[
    str, typer.Argument(metavar="FOLDER", help="Data set: a folder or URL that build or index wrote.")
]
DataOption = Annotated[
    str | None,
    typer.Option("--data", help="For an index: folder of its files, needed if the index was not made here."),
]
SourceOption = Annotated[
    str, typer.Option(help="Photographs: a folder per class, any other known layout, or a pattern of files.")
]
KindOption = Annotated[
    str | None,
    typer.Option(
        "--source-kind",
        help="Source layout. Detected if omitted. One of: imagefolder, ilsvrc2012-val, ilsvrc2012-val-tar, "
        "imagenet-boxes, hf-parquet, cifar-10, cifar-100, cifar-100-coarse, tiny-imagenet, imagenet64, webdataset.",
    ),
]
IdsOption = Annotated[
    str | None, typer.Option(help="Only the images listed in this text file: ids, paths or file names, one per line.")
]
OnlyOption = Annotated[
    str | None, typer.Option(help="Transforms or groups, comma-separated: fog,frost or noise or all.")
]
LevelsOption = Annotated[
    str | None, typer.Option("--severities", "--difficulty", help="Levels, comma-separated: 1,3,5.")
]
LimitOption = Annotated[int | None, typer.Option(help="Only the first N images of the listing. 0: all.")]
ShardSizeOption = Annotated[int | None, typer.Option(help="Images per shard.")]
SeedOption = Annotated[int | None, typer.Option(help="Seed of all random draws, 0 to 2^64 - 1.")]
EncoderOption = Annotated[
    str | None, typer.Option(help="Encoder of the payloads: jpeg, png, npy, mp4 (mp4 for sequences).")
]
QualityOption = Annotated[int | None, typer.Option(help="JPEG quality, 1 to 100.")]
DecoderOption = Annotated[
    str | None, typer.Option(help="Decoder of photographs: pillow, opencv, ffmpeg, turbo-fast, nvjpeg.")
]
ResizeOption = Annotated[
    str | None,
    typer.Option(
        help="Resize operator of the preparation: pillow-nearest, pillow-box, pillow-bilinear, pillow-hamming, "
        "pillow-bicubic, pillow-lanczos, opencv-nearest, opencv-bilinear, opencv-area, opencv-bicubic, opencv-lanczos."
    ),
]
GridOption = Annotated[
    str | None, typer.Option(help="imagenet-s: which pairs of decoder and operator, paper (13) or full (33).")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other field of the recipe: encoder.preset=medium. Repeatable."),
]
FrostOption = Annotated[
    str | None, typer.Option(help="Folder of the six frost textures. Default: those of the package imagecorruptions.")
]
ExecutorOption = Annotated[
    Executor,
    typer.Option(help="Engine: processes of this machine (local), Ray, or what suits the amount of work (auto)."),
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Number of threads. Default: one per CPU.")]


class LogFormat(StrEnum):
    """Format of progress and events on standard error."""

    TEXT = "text"
    JSON = "json"


LogOption = Annotated[
    LogFormat, typer.Option("--log", help="Format on standard error: text, or one JSON line per event.")
]
PreemptedOption = Annotated[
    int, typer.Option(min=0, max=255, metavar="CODE", help="Exit code when stopped by SIGTERM.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for machines.")]


def words(text: str | None) -> list[str] | None:
    """Words with commas between."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def numbers(text: str | None) -> list[int] | None:
    """Levels with commas between. Raises UserError."""
    if text is None:
        return None
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"invalid levels {_short(text)}: give whole numbers with commas between, as in 1,3,5") from None


def triple(text: str | None, positive: bool = False) -> tuple[float, float, float] | None:
    """Three numbers with commas between, finite and, if so wanted, above zero. Raises UserError."""
    if text is None:
        return None
    try:
        red, green, blue = map(float, text.split(","))
    except ValueError:
        raise UserError(f"{_short(text)}: give three numbers with commas between, as in 0.485,0.456,0.406") from None
    if not all(math.isfinite(number) and (number > 0 or not positive) for number in (red, green, blue)):
        allowed = "finite numbers above 0" if positive else "finite numbers"
        raise UserError(f"{_short(text)}: {allowed} are allowed, as in 0.229,0.224,0.225")
    return red, green, blue


def path_of(text: str | None) -> str | None:
    """Return a path that a user may leave out, ``~`` expanded. Raises UserError for what cannot be a path."""
    return None if text is None else str(local_path(text))


def _short(text: str) -> str:
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} ...")


def changed_recipe(
    name: str,
    *,
    kind: str | None,
    only: str | None,
    grid: str | None,
    levels: str | None,
    limit: int | None,
    shard_size: int | None,
    seed: int | None,
    encoder: str | None,
    quality: int | None,
    decoder: str | None,
    resize: str | None,
    fields: list[str] | None,
) -> Recipe:
    """Return the named recipe with the changes of the command line. Raises UserError."""
    from pipeline.recipes import library
    from pipeline.recipes.choices import Choices

    choices = Choices(
        kind=kind, only=words(only), grid=words(grid), levels=numbers(levels), limit=limit, shard_size=shard_size,
        seed=seed, encoder=encoder, quality=quality, decoder=decoder, resize=resize,
        fields=library.parse_fields(fields or ()),
    )  # fmt: skip
    return choices.applied_to(library.load(name))


def class_names(file: str | None) -> list[str]:
    """Return the names in a text file, if one is given. Raises UserError for one without any."""
    from pipeline.sources.base import lines_at

    if file is None:
        return []
    names = lines_at(file)
    if not names:
        raise UserError(f"{file} is empty: write one class name per line, in label order")
    return names
