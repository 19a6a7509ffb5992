"""``robustshards index``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import errors_told, print_json, say
from pipeline.cli.options import JsonOption, ThreadsOption, class_names, numbers
from pipeline.errors import Exit


def index(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Data set to index: class folders, tars, or .npy arrays.")
    ],
    out: Annotated[str, typer.Option(help="Folder for the manifest. The data stay where they are.")],
    name: Annotated[str | None, typer.Option(help="Name of the data set. Default: the folder's name.")] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="Text file of class names in label order, one per line. Default: folders, sorted."),
    ] = None,
    levels: Annotated[
        str, typer.Option("--severities", help="Severities stacked in each array, in order.")
    ] = "1,2,3,4,5",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a manifest for a data set that others built, so that verify, preview, export and evaluate read it."""
    with errors_told(as_json):
        from pipeline.cli.progress import conditions_shown
        from pipeline.datasets.index import index as write
        from pipeline.software import cpu_count

        named = class_names(classes)
        with conditions_shown() as shown:
            done = write(data, out, name, named, numbers(levels) or (), threads or cpu_count(), shown)
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
