"""Commands that read a data set, ours or somebody else's."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from pipeline.cli.console import errors_told, print_json, say, say_all
from pipeline.cli.options import DataOption, DataSetArgument, FrostOption, JsonOption, ThreadsOption, numbers, path_of
from pipeline.errors import Exit, UserError


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
    data: DataOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check every shard and sample against the manifest, and name each fault."""
    with errors_told(as_json):
        from pipeline.deep import last_source, regenerate
        from pipeline.display import counting
        from pipeline.software import cpu_count
        from pipeline.verify import verify as check

        with counting("checked") as checked:
            found = check(data_set, threads or cpu_count(), checked, data)
        again = None
        if deep:
            chosen = random.SystemRandom().getrandbits(32) if sample_seed is None else sample_seed
            again = regenerate(
                data_set, last_source(data_set) if source is None else source, samples, chosen, path_of(frost_folder)
            )
        if as_json:
            print_json(
                **found.facts(), regenerated=again and again.samples, deep_faults=again and list(map(str, again.faults))
            )
        else:
            say_all(found.lines())
            if again:
                say_all(again.lines("made again"))
        if found.faults or (again and again.faults):
            raise typer.Exit(Exit.FAULTS)


def export(
    data_set: DataSetArgument,
    to: Annotated[
        str,
        typer.Option(
            help="The layout: imagefolder, imagefolder-tfds, cifar-npy, mp4, frames, parquet, imagenet-s-folder."
        ),
    ],
    out: Annotated[str, typer.Option(help="The folder to write to; an unfinished export there is resumed.")],
    classes: Annotated[
        str | None,
        typer.Option(help="imagefolder: a text file with all class names in label order; empty ones get a folder."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a finished data set in a layout that other tools read."""
    with errors_told(as_json):
        from pipeline.exports import export as write

        done = write(data_set, to, out, _class_names(classes), data)
        if as_json:
            print_json(**done.facts(), output=out)
        else:
            say_all(done.lines())
            say(f"folder: {out}")


def index(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Somebody else's data set: class folders, tars, or .npy arrays.")
    ],
    out: Annotated[str, typer.Option(help="The folder for the manifest; the data stay where they are.")],
    name: Annotated[str | None, typer.Option(help="What to call it; default: the folder's name.")] = None,
    classes: Annotated[
        str | None, typer.Option(help="A text file of class names in the order of labels; default: folders, sorted.")
    ] = None,
    levels: Annotated[str, typer.Option("--severities", help="What arrays hold one after another.")] = "1,2,3,4,5",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a manifest for a data set that others built, so that verify, preview, export and evaluate read it."""
    with errors_told(as_json):
        from pipeline.display import steps_told
        from pipeline.index import index as write
        from pipeline.software import cpu_count

        named = _class_names(classes)
        with steps_told() as told:
            done = write(data, out, name, named, numbers(levels) or (), threads or cpu_count(), told)
        if as_json:
            print_json(**done.facts(), output=out)
        else:
            failed = f", {done.failed:,} of them damaged" if done.failed else ""
            passed = f"; passed over {done.passed_over:,} other files" if done.passed_over else ""
            say(
                f"{done.name}: {done.samples:,} samples of {len(done.steps)} transforms and levels, in {done.layout}"
                f"{failed}{passed}: {out}"
            )
        if done.failed:
            raise typer.Exit(Exit.FAULTS)


def preview(
    data_set: DataSetArgument,
    out: Annotated[str, typer.Option(help="The HTML page to write.")] = "preview.html",
    images: Annotated[int, typer.Option(min=1, max=100, help="How many images to show.")] = 3,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a contact sheet as one HTML page: a few images through every transform and level."""
    with errors_told(as_json):
        from pipeline.preview import preview as write

        pictures = write(data_set, out, images, data)
        if as_json:
            print_json(pictures=pictures, output=out)
        else:
            say(f"wrote {pictures:,} pictures: {out}")


def _class_names(file: str | None) -> list[str]:
    """The names in a text file, if one is given. Raises UserError for one without any."""
    from pipeline.sources.base import lines_at

    if file is None:
        return []
    names = lines_at(file)
    if not names:
        raise UserError(f"{file} is empty: write one class name per line, in label order")
    return names
