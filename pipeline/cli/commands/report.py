"""``robustshards report``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import print_json, print_line, print_renderable, report_errors, warn
from pipeline.cli.options import JsonOption
from pipeline.errors import UserError
from pipeline.settings import REPORTING
from pipeline.text import shown

COMPARISON = "Comparison"
"""Section of the help."""


def report(
    evaluations: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER...", help="Folders that evaluate or budgets wrote, for one or more models and data sets."
        ),
    ],
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=COMPARISON,
            help="Evaluation of the baseline model; repeat for each data set. Default: AlexNet's published errors.",
        ),
    ] = None,
    clean: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=COMPARISON,
            help="Evaluation on clean images to use for clean errors if a model has several; repeat for each model.",
        ),
    ] = None,
    real: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=COMPARISON,
            help="Reassessed labels (ReaL) of the ImageNet validation images, real.json. Default: the file in the "
            "package timm.",
        ),
    ] = None,
    published: Annotated[
        bool,
        typer.Option(
            "--published",
            rich_help_panel=COMPARISON,
            help="Add tables with published figures of reference models, such as ResNet-50, on the same data sets.",
        ),
    ] = False,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            rich_help_panel=REPORTING,
            help="Name to display for a model instead of the recorded one; repeat for several.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=REPORTING,
            help="Folder for report.html, report.md, report.csv and report.json. Default: only print the tables.",
        ),
    ] = None,
    title: Annotated[
        str, typer.Option(metavar="TEXT", rich_help_panel=REPORTING, help="Title of the page.")
    ] = "Robustness report",
    as_json: JsonOption = False,
) -> None:
    """Compare models by the papers' metrics, and write a report.

    Include an evaluation of clean images to get the clean error and the metrics that need it.
    """
    with report_errors(as_json):
        from pipeline.evaluate.report.sections import tables
        from pipeline.evaluate.report.summarise import summarise
        from pipeline.evaluate.report.text import to_terminal
        from pipeline.evaluate.report.write import write_report

        names = dict(map(_renaming, rename or ()))
        summary = summarise(evaluations, baseline or (), clean or (), real=real, published=published, rename=names)
        if out is not None:
            write_report(summary, title, out)
        if as_json:
            print_json(**summary.facts())
            return
        for part in to_terminal(tables(summary)):
            print_renderable(part)
        for warning in summary.warnings:
            warn(warning)
        if out is not None:
            print_line(f"wrote report.html, report.md, report.csv and report.json to {out}")


def _renaming(text: str) -> tuple[str, str]:
    """Return the old and the new name in a value of ``--rename``. Raise UserError for other texts."""
    old, separator, new = text.partition("=")
    if not separator:
        raise UserError(f"invalid --rename {shown(text)}: use OLD=NEW, for example lite0=EfficientNet-Lite0")
    return old, new
