"""``robustshards render``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import print_result, report_errors
from pipeline.cli.options import AllowFailuresOption, JsonOption, RecipeOptions, path_of, with_options
from pipeline.errors import Exit
from pipeline.settings import EXECUTION


@with_options(RecipeOptions)
def render(
    options: RecipeOptions,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Folder or URL to write the rendered data set to.")],
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            rich_help_panel=EXECUTION,
            help="Decode every image, so that damaged ones are recorded as failed, as a build records them.",
        ),
    ] = False,
    allow_failures: AllowFailuresOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a small folder that stands for a data set without storing its images.

    Reads each source image once. Other commands use the folder like a built data set, and make its images when they
    read them.
    """
    with report_errors(as_json):
        from pipeline.build.render import RenderRequest, run_render
        from pipeline.cli.progress import Display

        request = RenderRequest(
            recipe=options.load(), source=options.source, output=out, frost_folder=path_of(options.frost_folder),
            ids=options.ids, check=check,
        )  # fmt: skip
        with Display() as watcher:
            result = run_render(request, watcher)
        print_result(result, as_json, out)
        if result.failed and not allow_failures:
            raise typer.Exit(Exit.FAULTS)
