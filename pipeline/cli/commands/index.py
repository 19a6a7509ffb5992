"""``robustshards index``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import print_json, print_line, report_errors
from pipeline.cli.options import IMAGES, JsonOption, ThreadsOption, class_names, numbers
from pipeline.errors import Exit
from pipeline.text import counted


def index(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Data set to index: class folders, tar files or .npy arrays.")
    ],
    out: Annotated[
        str, typer.Option(metavar="FOLDER", help="Folder to write the manifest to. The data is not copied or changed.")
    ],
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", rich_help_panel=IMAGES, help="Name of the data set. Default: the name of its folder."
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=IMAGES,
            help="Text file with one class name per line, in label order. Default: the class folders, sorted by name.",
        ),
    ] = None,
    levels: Annotated[
        str,
        typer.Option(
            "--severities",
            metavar="LEVELS",
            rich_help_panel=IMAGES,
            help="For .npy arrays: severities stacked in each array, in order.",
        ),
    ] = "1,2,3,4,5",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a manifest for a data set that was not built by robustshards.

    The commands verify, preview, export and evaluate then read it like a data set of your own. Exits with 1 if some
    files are damaged.
    """
    with report_errors(as_json):
        from pipeline.cli.progress import conditions_shown
        from pipeline.datasets.index import index as write
        from pipeline.software import cpu_count

        label_names = class_names(classes)
        with conditions_shown() as shown:
            result = write(data, out, name, label_names, numbers(levels) or (), threads or cpu_count(), shown)
        if as_json:
            print_json(**result.facts(), output=out)
        else:
            damaged = f"; {counted(result.failed, 'sample')} damaged" if result.failed else ""
            skipped = f"; skipped {counted(result.passed_over, 'other file')}" if result.passed_over else ""
            print_line(
                f"indexed {result.name} (layout: {result.layout}): {counted(result.samples, 'sample')}, "
                f"{counted(len(result.conditions), 'combination')} of transform and level{damaged}{skipped}"
            )
            print_line(f"index folder: {out}")
        if result.failed:
            raise typer.Exit(Exit.FAULTS)
