"""``robustshards preview``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import print_json, print_line, report_errors
from pipeline.cli.options import DataOption, DataSetArgument, JsonOption
from pipeline.settings import IMAGES, REPORTING
from pipeline.text import counted


def preview(
    data_set: DataSetArgument,
    out: Annotated[
        str, typer.Option(metavar="FILE", rich_help_panel=REPORTING, help="HTML file to write.")
    ] = "preview.html",
    images: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=100, rich_help_panel=IMAGES, help="Number of images to show, 1 to 100."),
    ] = 3,
    data: DataOption = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            rich_help_panel=IMAGES,
            help="For adversarial images: their clean data set. Default: the one attacked on this machine.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write an HTML page that shows a few images under every transform and level."""
    with report_errors(as_json):
        from pipeline.datasets.preview import preview as write

        pictures = write(data_set, out, images, data, source)
        if as_json:
            print_json(pictures=pictures, output=out)
        else:
            print_line(f"wrote {counted(pictures, 'picture')} to {out}")
