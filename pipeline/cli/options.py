"""Options that several commands have, and what their texts say.

Names that a text lists are those of a table elsewhere (a test compares them): loading that takes a second.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.errors import UserError

RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A shipped recipe, or the path of your own .toml.")
]
DataSetArgument = Annotated[str, typer.Argument(metavar="FOLDER", help="The folder that a build or an index wrote.")]
SourceOption = Annotated[str, typer.Option(help="The photographs: a folder per class, or any other known layout.")]
KindOption = Annotated[
    str | None,
    typer.Option(
        "--source-kind",
        help="The source's layout, if it is not found out: imagefolder, ilsvrc2012-val, ilsvrc2012-val-tar, "
        "imagenet-boxes, hf-parquet, cifar-10, cifar-100, cifar-100-coarse, tiny-imagenet, imagenet64, webdataset.",
    ),
]
IdsOption = Annotated[
    str | None, typer.Option(help="Only the images listed in this text file: ids, paths or file names, one a line.")
]
OnlyOption = Annotated[
    str | None, typer.Option(help="Transforms or groups, comma-separated: fog,frost or noise or all.")
]
LevelsOption = Annotated[
    str | None, typer.Option("--severities", "--difficulty", help="Levels, comma-separated: 1,3,5.")
]
LimitOption = Annotated[int | None, typer.Option(help="Only the first N images of the listing; 0 for all.")]
ShardSizeOption = Annotated[int | None, typer.Option(help="Images per shard.")]
SeedOption = Annotated[int | None, typer.Option(help="Seed of all random draws, 0 to 2^64 - 1.")]
EncoderOption = Annotated[
    str | None, typer.Option(help="How payloads are stored: jpeg, png, npy, mp4 (mp4 for sequences).")
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
    typer.Option("--set", help="Any other field of the recipe: encoder.preset=medium. May be given again."),
]
FrostOption = Annotated[
    str | None, typer.Option(help="Folder of the six frost textures; default: from imagecorruptions.")
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Threads; default: one per CPU.")]
PreemptedOption = Annotated[
    int, typer.Option(min=0, max=255, metavar="CODE", help="Exit code when told to end by SIGTERM.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for machines.")]


def words(text: str | None) -> list[str] | None:
    """Words with commas between."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def numbers(text: str | None) -> list[int] | None:
    """Levels with commas between. Raises UserError."""
    try:
        return None if text is None else [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"levels {text}: give whole numbers with commas between, as in 1,3,5") from None


def triple(text: str | None) -> tuple[float, float, float] | None:
    """Three numbers with commas between. Raises UserError."""
    if text is None:
        return None
    try:
        red, green, blue = map(float, text.split(","))
    except ValueError:
        raise UserError(f"{text!r}: give three numbers with commas between, as in 0.485,0.456,0.406") from None
    return red, green, blue
