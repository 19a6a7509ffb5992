"""``robustshards index``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import errors_told, print_json, say
from pipeline.cli.options import JsonOption, ThreadsOption, class_names, numbers
from pipeline.errors import Exit


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
        from pipeline.cli.progress import steps_told
        from pipeline.datasets.index import index as write
        from pipeline.software import cpu_count

        named = class_names(classes)
        with steps_told() as told:
            done = write(data, out, name, named, numbers(levels) or (), threads or cpu_count(), told)
        if as_json:
            print_json(**done.facts(), output=out)
        else:
            failed = f", {done.failed:,} of them damaged" if done.failed else ""
            passed = f"; passed over {done.passed_over:,} other files" if done.passed_over else ""
            say(
                f"{done.name}: {done.samples:,} samples of {len(done.conditions)} transforms and levels, "
                f"in {done.layout}{failed}{passed}: {out}"
            )
        if done.failed:
            raise typer.Exit(Exit.FAULTS)
