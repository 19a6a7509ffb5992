"""``robustshards preview``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import errors_told, print_json, say
from pipeline.cli.options import DataOption, DataSetArgument, JsonOption


def preview(
    data_set: DataSetArgument,
    out: Annotated[str, typer.Option(help="HTML page to write.")] = "preview.html",
    images: Annotated[int, typer.Option(min=1, max=100, help="Number of images to show.")] = 3,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a contact sheet as one HTML page: a few images through every transform and level."""
    with errors_told(as_json):
        from pipeline.datasets.preview import preview as write

        pictures = write(data_set, out, images, data)
        if as_json:
            print_json(pictures=pictures, output=out)
        else:
            say(f"wrote {pictures:,} pictures: {out}")
