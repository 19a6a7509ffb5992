"""``robustshards render``."""

from __future__ import annotations

import typer

from pipeline.builder.settings import RenderSettings
from pipeline.cli.console import print_result
from pipeline.cli.options import Making, command
from pipeline.errors import Exit


@command()
def render(settings: RenderSettings, options: Making) -> None:
    """Write a small folder that stands for a data set without storing its images.

    Reads each source image once. Other commands use the folder like a built data set, and make its images when they
    read them.
    """
    from pipeline.builder.render import run_render
    from pipeline.cli.progress import Display

    with Display() as watcher:
        result = run_render(settings, watcher)
    print_result(result, options.as_json, settings.out)
    if result.failed and not options.allow_failures:
        raise typer.Exit(Exit.FAULTS)
