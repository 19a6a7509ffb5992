"""Options that several commands share, and the conversion of their values.

Help texts list names from tables elsewhere, because importing those tables is slow; a test compares the two.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pipeline.cli.console import AGAIN, report_errors
from pipeline.errors import Exit, UserError
from pipeline.execution.pools import Executor
from pipeline.settings import (
    ARGUMENT,
    CODING,
    EXECUTION,
    FLAG,
    IMAGES,
    REPORTING,
    TRANSFORMS,
    InvalidSettingError,
    Settings,
    choice,
    help_texts,
    integer,
    setting,
)
from pipeline.storage.locations import local_path

if TYPE_CHECKING:
    from pipeline.recipes.schema import Recipe

LONGEST_SHOWN = 80
"""Maximum number of characters of an option's value in an error message."""

Made = TypeVar("Made", bound=Settings)

RecipeArgument = Annotated[
    str,
    typer.Argument(metavar="RECIPE", help="Name of a shipped recipe (see robustshards list), or path of a .toml file."),
]
DataSetArgument = Annotated[
    str, typer.Argument(metavar="FOLDER", help="Folder or URL of a data set that build, render, attack or index wrote.")
]
DataOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        rich_help_panel=IMAGES,
        help="For an index: folder of the indexed files. For a rendered data set: its source images. Default: where "
        "this machine indexed or rendered them.",
    ),
]
PixelsOption = Annotated[
    bool,
    typer.Option(
        "--pixels",
        rich_help_panel=IMAGES,
        help="For a rendered data set: use the images before they are encoded, as if --encoder npy stored them. "
        "Faster; the predictions differ.",
    ),
]
CacheOption = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="FOLDER|off",
        rich_help_panel=EXECUTION,
        help="For a rendered data set: folder in which decoded and cropped photographs are kept, or off. Default: the "
        "user's cache folder.",
    ),
]
SourceOption = Annotated[
    str,
    typer.Option(
        metavar="PATH",
        help="Clean images: a folder with one folder per class, another supported layout, a file pattern or a URL.",
    ),
]
KindOption = Annotated[
    str | None,
    typer.Option(
        "--source-kind",
        metavar="KIND",
        rich_help_panel=IMAGES,
        help="Source layout. Detected if omitted. One of: imagefolder, ilsvrc2012-val, ilsvrc2012-val-tar, "
        "imagenet-boxes, hf-parquet, cifar-10, cifar-100, cifar-100-coarse, cifar-100-subclass, icons-50, "
        "tiny-imagenet, imagenet64, webdataset.",
    ),
]
IdsOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=IMAGES,
        help="Text file with one image id, path or file name per line; only these images are used.",
    ),
]
ClassesOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=IMAGES,
        help="Text file with one class name per line, in label order: the order of the model's outputs. Default: "
        "numbers are labels, WordNet ids of ImageNet's classes get their place among the sorted 1,000, and other names "
        "are numbered in sorted order.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", rich_help_panel=IMAGES, help="Use only the first N images. 0 uses all. Default: the recipe's."
    ),
]
OnlyOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        rich_help_panel=TRANSFORMS,
        help="Transforms or groups, comma-separated, e.g. fog,frost or noise or all. Default: the recipe's.",
    ),
]
LevelsOption = Annotated[
    str | None,
    typer.Option(
        "--severities",
        "--difficulty",
        metavar="LEVELS",
        rich_help_panel=TRANSFORMS,
        help="Severities (or difficulties of sequences, or bandwidths), comma-separated, with ranges, e.g. 1,3,5 or "
        "1-64,159. Default: the recipe's.",
    ),
]
GridOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=TRANSFORMS,
        help="For imagenet-s: which pairs of decoder and resize operator. One of: paper, full, decoders, resizers.",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=TRANSFORMS,
        help="Seed of all random numbers, 0 to 2^64 - 1. Default: the recipe's.",
    ),
]
FrostOption = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=TRANSFORMS,
        help="Folder with the six frost textures. Default: those of the package imagecorruptions.",
    ),
]
DecoderOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=CODING,
        help="Decoder of the source images. Default: the recipe's. One of: pillow, opencv, ffmpeg, turbo-fast, nvjpeg.",
    ),
]
ResizeOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=CODING,
        help="Resize operator. Default: the recipe's. One of: pillow-nearest, pillow-box, pillow-bilinear, "
        "pillow-hamming, pillow-bicubic, pillow-lanczos, opencv-nearest, opencv-bilinear, opencv-area, "
        "opencv-bicubic, opencv-lanczos.",
    ),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=CODING,
        help="Format of the output images. Default: the recipe's. One of: jpeg, png, npy, mp4 (only for sequences).",
    ),
]
QualityOption = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=CODING, help="JPEG quality, 1 to 100. Default: the recipe's."),
]
ShardSizeOption = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=CODING, help="Maximum images per shard. Default: the recipe's."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        rich_help_panel=CODING,
        help="Change any other field of the recipe, e.g. encoder.preset=medium. Repeat for several fields.",
    ),
]
ExecutorOption = Annotated[
    Executor,
    typer.Option(
        metavar="|".join(Executor),
        rich_help_panel=EXECUTION,
        help="Engine: Ray, or child processes of this machine (local). auto (default) chooses by the amount of work.",
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        rich_help_panel=EXECUTION,
        help="Address of a running Ray cluster to join. Default: use this machine only.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", rich_help_panel=EXECUTION, min=1, help="Number of threads. Default: one per available CPU."
    ),
]


class LogFormat(StrEnum):
    """Format of progress and events on standard error."""

    TEXT = "text"
    JSON = "json"


LogOption = Annotated[
    LogFormat,
    typer.Option(
        "--log",
        metavar="|".join(LogFormat),
        rich_help_panel=REPORTING,
        help="Format of progress on standard error: text (default), or json for one JSON line per event.",
    ),
]
PreemptedOption = Annotated[
    int,
    typer.Option(min=0, max=255, metavar="CODE", rich_help_panel=REPORTING, help="Exit code when stopped by SIGTERM."),
]
RetryFailedOption = Annotated[
    bool, typer.Option(rich_help_panel=EXECUTION, help="Remake the shards that contain failed samples.")
]
AllowFailuresOption = Annotated[
    bool, typer.Option(rich_help_panel=EXECUTION, help="Exit with 0 even if some images failed.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", rich_help_panel=REPORTING, help="Print the result as JSON on standard output.")
]


@dataclass(frozen=True)
class RecipeOptions:
    """A recipe, a source, and the options that change them: those that ``plan`` and ``build`` share."""

    recipe: RecipeArgument
    source: SourceOption
    kind: KindOption = None
    ids: IdsOption = None
    classes: ClassesOption = None
    limit: LimitOption = None
    only: OnlyOption = None
    levels: LevelsOption = None
    grid: GridOption = None
    seed: SeedOption = None
    frost_folder: FrostOption = None
    decoder: DecoderOption = None
    resize: ResizeOption = None
    encoder: EncoderOption = None
    quality: QualityOption = None
    shard_size: ShardSizeOption = None
    fields: SetOption = None

    def load(self) -> Recipe:
        """Return the recipe with the changes of the command line.

        Raises:
            UserError: The recipe or an option is invalid.
        """
        from pipeline.recipes import library
        from pipeline.recipes.choices import Choices

        choices = Choices(
            kind=self.kind, classes=class_names(self.classes) or None, only=words(self.only), grid=words(self.grid),
            levels=numbers(self.levels), limit=self.limit, shard_size=self.shard_size, seed=self.seed,
            encoder=self.encoder, quality=self.quality, decoder=self.decoder, resize=self.resize,
            fields=library.parse_fields(self.fields or ()),
        )  # fmt: skip
        return choices.applied_to(library.load(self.recipe))


def with_options(shared_options: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of commands that take the fields of a class in place of their parameter ``options``.

    Args:
        shared_options: A dataclass of options, such as :class:`RecipeOptions`. All parameters of the command are passed
            by name.
    """
    shared = inspect.signature(shared_options, eval_str=True).parameters

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        parameters = [*shared.values(), *(each for name, each in own.items() if name != "options")]

        @wraps(command)
        def run(**values: object) -> None:
            command(options=shared_options(**{name: values.pop(name) for name in shared}), **values)

        named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]  # typer reads both
        run.__annotations__ = {each.name: each.annotation for each in named}
        return run

    return decorate


@dataclass(frozen=True)
class Printing(Settings):
    """How a command prints.

    Attributes:
        as_json: Print the result as JSON on standard output.
    """

    as_json: bool = setting(False, FLAG, REPORTING, "--json")


@dataclass(frozen=True)
class Job(Printing):
    """How a command that takes long reports.

    Attributes:
        log: Format of progress on standard error: text (default), or json for one JSON line per event.
        preempted_exit: Exit code when stopped by SIGTERM.
    """

    log: str = setting("text", choice("text", "json"), REPORTING)
    preempted_exit: int = setting(Exit.INCOMPLETE, integer(0, 255, "CODE"), REPORTING)


@dataclass(frozen=True)
class Making(Printing):
    """How a command that makes images ends.

    Attributes:
        allow_failures: Exit with 0 even if some images failed.
    """

    allow_failures: bool = setting(False, FLAG, EXECUTION)


@dataclass(frozen=True)
class MakingJob(Job, Making):
    """How a command that takes long and makes images reports and ends."""


def command(advice: str = AGAIN) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of commands whose parameters are settings: their fields become the options.

    Args:
        advice: What the user can do after an interruption or a temporary failure.
    """

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        models = [each.annotation for each in inspect.signature(run, eval_str=True).parameters.values()]
        named = [each for model in models for each in parameters(model)]

        @wraps(run)
        def invoke(**given: Any) -> None:
            as_json = bool(given.get("as_json"))
            with report_errors(as_json, advice=advice):
                made = [settings_of(model, given) for model in models]
            with report_errors(as_json, getattr(made[-1], "preempted_exit", Exit.INCOMPLETE), advice):
                run(*made)

        invoke.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]  # typer reads both
        invoke.__annotations__ = {each.name: each.annotation for each in named}
        return invoke

    return decorate


def option_names(each: Field[Any]) -> list[str]:
    """Return the names of the option of a setting, the first one for messages."""
    return each.metadata["option"].split() or [f"--{each.name.replace('_', '-')}"]


def parameters(model: type[Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters for typer: text, or flags. The settings themselves read the text."""
    texts = help_texts(model)
    for each in fields(model):
        kind, about = each.metadata["kind"], dict[str, Any](help=texts[each.name])
        about |= {"metavar": kind.metavar or None, "rich_help_panel": each.metadata["section"] or None}
        about["show_default"] = isinstance(each.default, int | float | str) and kind is not FLAG and str(each.default)
        default: Any = None if each.default is not MISSING else inspect.Parameter.empty
        value: Any = list[str] if kind.many else str
        if kind is FLAG:
            value, default = bool, False
        elif default is None:
            value = value | None
        if each.metadata["option"] == ARGUMENT:
            shown: Any = typer.Argument(**about)
        else:
            shown = typer.Option(*option_names(each), **about)
        yield inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[value, shown]
        )


def settings_of(model: type[Made], given: Mapping[str, Any]) -> Made:
    """Return the settings that options give. Raise UserError, which names the option, if one is invalid."""
    known = {each.name: each for each in fields(model)}
    try:
        return model(**{name: value for name, value in given.items() if name in known and value not in (None, [])})
    except InvalidSettingError as error:
        where = known[error.name]
        name = where.metadata["kind"].metavar if where.metadata["option"] == ARGUMENT else option_names(where)[0]
        raise UserError(f"invalid {name} {error.reason}") from None


def words(text: str | None) -> list[str] | None:
    """Return the words of a comma-separated text."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def numbers(text: str | None) -> list[int] | None:
    """Return the levels of a comma-separated text with ranges.

    Raises:
        UserError: A part is neither an integer nor a range.
    """
    from pipeline.recipes.levels import parse_levels

    return None if text is None else parse_levels(text)


def triple(text: str | None, positive: bool = False) -> tuple[float, float, float] | None:
    """Return three comma-separated numbers, one per colour channel.

    Args:
        text: Value of the option, or None.
        positive: Whether the numbers must be above 0.

    Raises:
        UserError: The text is not three finite numbers, or one of them is not positive where it must be.
    """
    if text is None:
        return None
    try:
        red, green, blue = map(float, text.split(","))
    except ValueError:
        raise UserError(
            f"invalid channel values {_short(text)}: use three comma-separated numbers, for example 0.485,0.456,0.406"
        ) from None
    if not all(math.isfinite(number) and (number > 0 or not positive) for number in (red, green, blue)):
        allowed = "finite numbers above 0" if positive else "finite numbers"
        raise UserError(f"invalid channel values {_short(text)}: use {allowed}, for example 0.229,0.224,0.225")
    return red, green, blue


def path_of(text: str | None) -> str | None:
    """Return an optional path with ``~`` expanded.

    Raises:
        UserError: The text cannot be a path.
    """
    return None if text is None else str(local_path(text))


def class_names(file: str | None) -> list[str]:
    """Return the class names in a text file, one per line; an empty list where no file is given.

    Raises:
        UserError: The file cannot be read, or is empty.
    """
    from pipeline.sources.listed_classes import read_classes

    return [] if file is None else read_classes(file)


def _short(text: str) -> str:
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} ...")
