"""``robustshards export``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import errors_told, print_json, say, say_all
from pipeline.cli.options import DataOption, DataSetArgument, JsonOption, class_names


def export(
    data_set: DataSetArgument,
    to: Annotated[
        str,
        typer.Option(help="Layout: imagefolder, imagefolder-tfds, cifar-npy, mp4, frames, parquet, imagenet-s-folder."),
    ],
    out: Annotated[str, typer.Option(help="Folder to write to. An unfinished export there is resumed.")],
    classes: Annotated[
        str | None,
        typer.Option(
            help="imagefolder: text file of all class names in label order, one per line; each gets a folder."
        ),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a finished data set in a layout that other tools read."""
    with errors_told(as_json):
        from pipeline.datasets.export import export as write

        done = write(data_set, to, out, class_names(classes), data)
        if as_json:
            print_json(**done.facts(), output=out)
        else:
            say_all(done.lines())
            say(f"folder: {out}")
