"""``robustshards export``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import CONTINUE, print_json, print_line, print_lines, report_errors
from pipeline.cli.options import DataOption, DataSetArgument, JsonOption, class_names
from pipeline.settings import IMAGES


def export(
    data_set: DataSetArgument,
    to: Annotated[
        str,
        typer.Option(
            metavar="LAYOUT",
            help="Layout to write. One of: imagefolder, imagefolder-tfds, cifar-npy, mp4, frames, parquet, "
            "imagenet-s-folder.",
        ),
    ],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Folder to write to.")],
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=IMAGES,
            help="For imagefolder: text file with one class name per line, in label order; these folders are created "
            "even if empty.",
        ),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a finished data set in a layout that other tools read.

    Run the same command again to continue after an interruption.
    """
    with report_errors(as_json, advice=CONTINUE):
        from pipeline.datasets.export import export as write

        result = write(data_set, to, out, class_names(classes), data)
        if as_json:
            print_json(**result.facts(), output=out)
        else:
            print_lines(result.lines())
            print_line(f"output folder: {out}")
