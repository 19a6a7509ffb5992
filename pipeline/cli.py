"""The command ``robustshards``: arguments, progress, exit codes; no logic."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

import corruptions
import perturbations
from corruptions.catalogue import PROFILE_SIDES
from pipeline import doctor, recipes
from pipeline.build import Request, run_build, with_kind
from pipeline.decoders import DECODERS
from pipeline.deep import last_source, regenerate
from pipeline.display import Display, FrameCount, counting, steps_told
from pipeline.encoders import ENCODERS
from pipeline.errors import Exit, Preempted, UnfinishedError, UnreachableError, UserError
from pipeline.estimate import estimate
from pipeline.evaluate.outputs import to_terminal
from pipeline.evaluate.report import summarise
from pipeline.evaluate.report_files import write_report
from pipeline.evaluate.tables import tables
from pipeline.exports import LAYOUTS, export
from pipeline.index import index
from pipeline.plan import make_plan
from pipeline.preview import preview
from pipeline.render import try_transforms
from pipeline.resizers import OPERATORS
from pipeline.software import cpu_count
from pipeline.sources import KINDS, open_source
from pipeline.sources.base import lines_at
from pipeline.system_noise import published_differences
from pipeline.verify import verify as check

app = typer.Typer(
    name="robustshards",
    help="Regenerate ImageNet-C, -P and -S from your own photographs, as checkable WebDataset shards.",
    epilog="Exit codes: 0 all well, 1 failed samples or faults found, 2 bad input, 3 unfinished (run it again), "
    "130 interrupted (run it again).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)

RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A shipped recipe, or the path of your own .toml.")
]
DataSetArgument = Annotated[str, typer.Argument(metavar="FOLDER", help="The folder that a build or an index wrote.")]
SourceOption = Annotated[str, typer.Option(help="The photographs: a folder per class, or any other known layout.")]
KindOption = Annotated[
    str | None, typer.Option("--source-kind", help=f"The source's layout, if it is not found out: {', '.join(KINDS)}.")
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
    str | None, typer.Option(help=f"How payloads are stored: {', '.join(ENCODERS)} (mp4 for sequences).")
]
QualityOption = Annotated[int | None, typer.Option(help="JPEG quality, 1 to 100.")]
DecoderOption = Annotated[str | None, typer.Option(help=f"Decoder of photographs: {', '.join(DECODERS)}.")]
ResizeOption = Annotated[str | None, typer.Option(help=f"Resize operator of the preparation: {', '.join(OPERATORS)}.")]
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
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for machines.")]


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """Recipes, transforms and profiles."""
    with _errors_told(as_json):
        titles = {name: recipes.load(name).title for name in recipes.shipped()}
        transforms: dict[str, list[Any]] = {
            "corruption": [corruptions.get(name) for name in corruptions.names("all")],
            "perturbation": [perturbations.get(name) for name in perturbations.names("all")],
        }
        differences = published_differences()
        if as_json:
            _print_json(
                recipes=titles,
                **{
                    f"{kind}s": {
                        t.name: {"group": t.group, "benchmark": t.benchmark, "version": t.version} for t in rows
                    }
                    for kind, rows in transforms.items()
                },
                profiles=dict(PROFILE_SIDES),
                system_noise=differences,
            )
            return
        _print_table(["recipe", "builds"], titles.items())
        for kind, rows in transforms.items():
            shown = ((t.name, t.group, "benchmark" if t.benchmark else "validation", t.version) for t in rows)
            _print_table([kind, "group", "set", "version"], shown)
        apart = ((d["name"], f"{d['mean']:.2f}", d["largest"]) for d in differences["pairs"])
        _print_table(["decoder_resize operator", "mean difference from the default, levels", "largest"], apart)
        _out.print(f"measured on {differences['measured_on']}", markup=False)
        _out.print()
        _print_table(["profile", "published for"], ((name, f"{n} x {n}") for name, n in PROFILE_SIDES.items()))


@app.command("doctor")
def doctor_(as_json: JsonOption = False) -> None:
    """What there is on this machine: decoders with fingerprints, libraries, CPU, GPU; and how to get the rest."""
    with _errors_told(as_json):
        findings = doctor.examine()
        if as_json:
            _print_json(**doctor.facts(findings))
            return
        for each in findings:
            _out.print(f"{each.what}: {each.found}", markup=False)
            if each.remedy:
                _out.print(f"    install with: {each.remedy}", markup=False)


@app.command()
def plan(
    recipe: RecipeArgument,
    source: SourceOption,
    kind: KindOption = None,
    ids: IdsOption = None,
    only: OnlyOption = None,
    levels: LevelsOption = None,
    limit: LimitOption = None,
    shard_size: ShardSizeOption = None,
    seed: SeedOption = None,
    encoder: EncoderOption = None,
    quality: QualityOption = None,
    decoder: DecoderOption = None,
    resize: ResizeOption = None,
    grid: GridOption = None,
    fields: SetOption = None,
    frost_folder: FrostOption = None,
    measure: Annotated[int, typer.Option(min=1, help="How many images to measure on.")] = 3,
    as_json: JsonOption = False,
) -> None:
    """Images, shards, bytes and core-hours of a build, measured on a few images before spending them."""
    with _errors_told(as_json):
        chosen = _recipe(
            recipe, kind, only or grid, levels, limit, shard_size, seed, encoder, quality, decoder, resize, fields
        )
        chosen = with_kind(chosen, source)
        images = open_source(chosen.source.kind, source, ids)
        made = make_plan(chosen, images)
        try_transforms(chosen, frost_folder)
        cost = estimate(made, images, measure, frost_folder)
        facts = {
            "recipe": chosen.name,
            "source_kind": chosen.source.kind,
            "images": made.images,
            "classes": made.classes,
            "transforms": [str(step) for step in chosen.steps()],
            "samples": made.samples,
            "shards": made.shards,
            "bytes": cost.output_bytes,
            "core_hours": cost.core_seconds / 3600,
            "measured_images": cost.measured,
            "passed_over": dict(made.ignored),
        }
        if as_json:
            _print_json(**facts)
            return
        rows = [
            ("source", KINDS[chosen.source.kind].words),
            ("images", f"{made.images:,} in {made.classes:,} classes"),
            ("outputs", f"{made.samples:,} ({len(chosen.steps())} per image)"),
            ("shards", f"{made.shards:,} of up to {chosen.shards.size:,} images"),
            ("size", decimal(cost.output_bytes)),
            ("time", f"{cost.core_seconds / 3600:,.3f} core-hours ({_duration(cost.core_seconds)} on one core)"),
            ("measured on", f"{cost.measured} images on this machine"),
        ]
        if made.ignored:
            passed = ", ".join(f"{count} {suffix}" for suffix, count in sorted(made.ignored.items()))
            rows.append(("passed over", f"files that are no images: {passed}"))
        _print_table([chosen.name, ""], rows)


@app.command()
def build(
    recipe: RecipeArgument,
    source: SourceOption,
    out: Annotated[str, typer.Option(help="The folder of the data set; an unfinished build there is resumed.")],
    kind: KindOption = None,
    ids: IdsOption = None,
    only: OnlyOption = None,
    levels: LevelsOption = None,
    limit: LimitOption = None,
    shard_size: ShardSizeOption = None,
    seed: SeedOption = None,
    encoder: EncoderOption = None,
    quality: QualityOption = None,
    decoder: DecoderOption = None,
    resize: ResizeOption = None,
    grid: GridOption = None,
    fields: SetOption = None,
    frost_folder: FrostOption = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per CPU.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Join a running Ray cluster; default: a local one is started.")
    ] = None,
    allow_failures: Annotated[bool, typer.Option(help="Exit 0 even if some samples failed.")] = False,
    retry_failed: Annotated[bool, typer.Option(help="Make shards with failed samples again.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Build a data set, or what is missing of it. Run again after any interruption."""
    with _errors_told(as_json):
        chosen = _recipe(
            recipe, kind, only or grid, levels, limit, shard_size, seed, encoder, quality, decoder, resize, fields
        )
        request = Request(chosen, source, out, workers, address, frost_folder, ids, retry_failed)
        with Display() as display:
            outcome = run_build(request, display)
        if as_json:
            _print_json(**outcome.facts(), output=out)
        else:
            for line in outcome.summary(out):
                _out.print(line, markup=False)
        if outcome.lost:
            raise typer.Exit(Exit.INCOMPLETE)
        if outcome.failed and not allow_failures:
            raise typer.Exit(Exit.FAULTS)


@app.command()
def verify(
    data_set: DataSetArgument,
    deep: Annotated[bool, typer.Option(help="Also make a random part again from the source, and compare.")] = False,
    source: Annotated[
        str | None, typer.Option(help="With --deep: the photographs; default: where the last run had them.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="With --deep: how many samples to make again.")] = 100,
    sample_seed: Annotated[
        int | None, typer.Option(help="With --deep: chooses the samples; default: at random.")
    ] = None,
    frost_folder: FrostOption = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; default: one per CPU.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check every shard and sample against the manifest, and name each fault."""
    with _errors_told(as_json):
        with counting("checked") as checked:
            found = check(data_set, threads or cpu_count(), checked)
        again = None
        if deep:
            chosen = random.SystemRandom().getrandbits(32) if sample_seed is None else sample_seed
            again = regenerate(data_set, source or last_source(data_set), samples, chosen, frost_folder)
        if as_json:
            _print_json(
                **found.facts(), regenerated=again and again.samples, deep_faults=again and list(map(str, again.faults))
            )
        else:
            for line in found.lines():
                _out.print(line, markup=False)
            if again:
                for line in again.lines("made again"):
                    _out.print(line, markup=False)
        if found.faults or (again and again.faults):
            raise typer.Exit(Exit.FAULTS)


@app.command("export")
def export_(
    data_set: DataSetArgument,
    to: Annotated[str, typer.Option(help=f"The layout: {', '.join(LAYOUTS)}.")],
    out: Annotated[str, typer.Option(help="The folder to write to; an unfinished export there is resumed.")],
    classes: Annotated[
        str | None, typer.Option(help="imagefolder: a text file of class names whose folders are made in any case.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a finished data set in a layout that other tools read."""
    with _errors_told(as_json):
        done = export(data_set, to, out, lines_at(classes) if classes else ())
        if as_json:
            _print_json(written=done.written, there=done.there, passed_over=done.passed_over, output=out)
        else:
            failed = f"; {done.passed_over:,} failed samples passed over" if done.passed_over else ""
            _out.print(f"wrote {done.written:,} files, {done.there:,} were there{failed}: {out}", markup=False)


@app.command("index")
def index_(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Somebody else's data set: class folders, tars, or .npy arrays.")
    ],
    out: Annotated[str, typer.Option(help="The folder for the manifest; the data stay where they are.")],
    name: Annotated[str | None, typer.Option(help="What to call it; default: the folder's name.")] = None,
    classes: Annotated[
        str | None, typer.Option(help="A text file of class names in the order of labels; default: folders, sorted.")
    ] = None,
    levels: Annotated[str, typer.Option("--severities", help="What arrays hold one after another.")] = "1,2,3,4,5",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; default: one per CPU.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a manifest for a data set that others built, so that verify, preview, export and evaluate read it."""
    with _errors_told(as_json):
        named = lines_at(classes) if classes else ()
        with steps_told() as told:
            done = index(data, out, name, named, _numbers(levels) or (), threads or cpu_count(), told)
        if as_json:
            _print_json(**done.facts(), output=out)
        else:
            failed = f", {done.failed:,} of them damaged" if done.failed else ""
            _out.print(
                f"{done.name}: {done.samples:,} samples of {len(done.steps)} transforms and levels, in {done.layout}"
                f"{failed}: {out}",
                markup=False,
            )
        if done.failed:
            raise typer.Exit(Exit.FAULTS)


@app.command("preview")
def preview_(
    data_set: DataSetArgument,
    out: Annotated[str, typer.Option(help="The HTML page to write.")] = "preview.html",
    images: Annotated[int, typer.Option(min=1, max=100, help="How many images to show.")] = 3,
    as_json: JsonOption = False,
) -> None:
    """Write a contact sheet as one HTML page: a few images through every transform and level."""
    with _errors_told(as_json):
        pictures = preview(data_set, out, images)
        if as_json:
            _print_json(pictures=pictures, output=out)
        else:
            _out.print(f"wrote {pictures:,} pictures: {out}", markup=False)


@app.command("evaluate")
def evaluate_(
    data_set: DataSetArgument,
    model: Annotated[
        str,
        typer.Option(
            help="package.module:function, a TorchScript, torch.export or ONNX file, timm:, torchvision: or hf:NAME."
        ),
    ],
    out: Annotated[str, typer.Option(help="The folder for the predictions; unfinished ones there are resumed.")],
    weights: Annotated[str | None, typer.Option(help="A state dict for the model (.pt, .pth, .safetensors).")] = None,
    name: Annotated[str | None, typer.Option(help="What reports call the model; default: as given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 ...")] = "auto",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16.")] = "fp32",
    batch_size: Annotated[int, typer.Option(min=0, help="Images at a time; 0: found out.")] = 0,
    input_size: Annotated[
        int | None, typer.Option(min=0, help="Side to resize to; 0: none; default: what the model says.")
    ] = None,
    mean: Annotated[str | None, typer.Option(help="Of the model's training images, three numbers with commas.")] = None,
    std: Annotated[str | None, typer.Option(help="As --mean: standard deviations.")] = None,
    channels_last: Annotated[bool, typer.Option("--channels-last", help="Memory layout that GPUs like.")] = False,
    compile_: Annotated[bool, typer.Option("--compile", help="Compile the model with torch.compile.")] = False,
    loaders: Annotated[int | None, typer.Option(min=0, help="Processes that read and decode, per worker.")] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Workers, each with a GPU of its own where there are any; 0: one for each GPU.")
    ] = 0,
    address: Annotated[str | None, typer.Option(help="Join a running Ray cluster.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Stream a data set through a classifier and write its predictions. Run again after any interruption."""
    with _errors_told(as_json):
        evaluation, settings = _evaluator()
        request = settings.Request(
            data_set, model, out, weights, name, device, settings.checked_precision(precision), channels_last, compile_,
            batch_size, input_size, _triple(mean), _triple(std), loaders, workers, address,
        )  # fmt: skip
        with FrameCount() as count:
            outcome = evaluation.evaluate(request, count)
        if as_json:
            _print_json(**outcome.facts(), output=out)
        else:
            for line in outcome.summary(out):
                _out.print(line, markup=False)
        if not outcome.complete:
            raise typer.Exit(Exit.INCOMPLETE)


@app.command("report")
def report_(
    evaluations: Annotated[
        list[str], typer.Argument(metavar="FOLDER...", help="Evaluations, of one or more models and data sets.")
    ],
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="Evaluations of the model to divide by. May be given again. Default: AlexNet as published."),
    ] = None,
    anomalous: Annotated[
        str | None, typer.Option(help="An evaluation of images of no class (ImageNet-O), for AUPR.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="A folder for report.html, report.md, report.csv and report.json.")
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page.")] = "Robustness report",
    as_json: JsonOption = False,
) -> None:
    """The papers' figures of one or more evaluations, side by side. Clean images among them give the clean error."""
    with _errors_told(as_json):
        summary = summarise(evaluations, baseline or (), anomalous)
        if out:
            write_report(summary, title, out)
        if as_json:
            _print_json(**summary.facts())
            return
        for part in to_terminal(tables(summary)):
            _out.print(part)
        for warning in summary.warnings:
            _err.print(f"warning: {warning}", markup=False)
        if out:
            _out.print(f"wrote {out}/report.html, .md, .csv, .json", markup=False)


def _evaluator() -> Any:
    """What needs torch, loaded where it is used. Raises UserError where it is missing."""
    try:
        from pipeline.evaluate import evaluation, settings
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'robustshards[evaluate]'") from error
    return evaluation, settings


def _triple(text: str | None) -> tuple[float, float, float] | None:
    if text is None:
        return None
    try:
        red, green, blue = map(float, text.split(","))
    except ValueError:
        raise UserError(f"{text!r}: give three numbers with commas between, as in 0.485,0.456,0.406") from None
    return red, green, blue


def _recipe(
    name: str,
    kind: str | None,
    only: str | None,
    levels: str | None,
    limit: int | None,
    shard_size: int | None,
    seed: int | None,
    encoder: str | None,
    quality: int | None,
    decoder: str | None,
    resize: str | None,
    fields: list[str] | None,
) -> recipes.Recipe:
    """The named recipe with the changes of the command line."""
    named = recipes.load(name).changed(
        source={"kind": kind, "limit": limit},
        transforms={"only": _words(only), "levels": _numbers(levels)},
        shards={"size": shard_size},
        encoder={"name": encoder, "quality": quality},
        prepare={"decoder": decoder, "resize": resize},
        seed=seed,
    )
    return named.changed(**recipes.parse_fields(fields or ()))


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"levels {text}: give whole numbers with commas between, as in 1,3,5") from None


@contextmanager
def _errors_told(as_json: bool) -> Iterator[None]:
    """Errors of the user's world become one line and an exit code; a bug keeps its traceback."""
    try:
        yield
    except UnfinishedError as error:
        _tell(str(error), Exit.INCOMPLETE, as_json)
    except UserError as error:
        _tell(str(error), Exit.USAGE, as_json)
    except (OSError, UnreachableError) as error:
        _tell(f"{error}; what is finished is kept, run the same command again", Exit.INCOMPLETE, as_json)
    except Preempted:
        _tell("told to end; what is finished is kept, run the same command again", Exit.INCOMPLETE, as_json)
    except KeyboardInterrupt:
        _tell("interrupted; what is finished is kept, run the same command again", Exit.INTERRUPTED, as_json)


def _tell(message: str, code: Exit, as_json: bool) -> None:
    if as_json:
        _print_json(error=message, exit_code=int(code))
    _err.print(f"error: {message}", markup=False)
    raise typer.Exit(code)


def _print_json(**facts: Any) -> None:
    print(json.dumps(facts, indent=1))


def _print_table(titles: list[str], rows: Any) -> None:
    table = Table(*titles, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*map(str, row))
    _out.print(table)
    _out.print()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {rest:02d} s"


def _preempted(signum: int, frame: object) -> None:
    raise Preempted


def main() -> None:
    """Entry point of the command."""
    signal.signal(signal.SIGTERM, _preempted)
    app()
