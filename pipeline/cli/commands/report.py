"""``robustshards report``."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from pipeline.cli.console import print_json, print_line, print_renderable, report_errors, warn
from pipeline.cli.help import REPORTING
from pipeline.cli.options import JsonOption
from pipeline.errors import UserError
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
            metavar="OLD=NEW|FILE",
            rich_help_panel=REPORTING,
            help="Name to display for a model instead of the recorded one, or a TOML file of such lines; repeat for "
            "several.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=REPORTING,
            help="Folder for report.html, .md, .csv, .parquet and .json, tables in LaTeX and figures. Default: only "
            "print the tables.",
        ),
    ] = None,
    latex_intervals: Annotated[
        bool,
        typer.Option(
            "--latex-intervals", rich_help_panel=REPORTING, help="Add confidence intervals to the tables in LaTeX."
        ),
    ] = False,
    title: Annotated[
        str, typer.Option(metavar="TEXT", rich_help_panel=REPORTING, help="Title of the page.")
    ] = "Robustness report",
    as_json: JsonOption = False,
) -> None:
    """Compare models by the papers' metrics, and write a report.

    Include an evaluation of clean images to get the clean error and the metrics that need it.
    """
    with report_errors(as_json):
        from pipeline.evaluate.report.report import make_report
        from pipeline.evaluate.report.text import to_terminal

        names = {old: new for each in rename or () for old, new in _renaming(each).items()}
        command = shlex.join(["robustshards", *sys.argv[1:]])
        found = make_report(
            evaluations, baseline or (), clean or (), real=real, published=published, rename=names, command=command
        )
        if out is not None:
            from pipeline.evaluate.report.write import write_report

            write_report(found, title, out, intervals=latex_intervals)
        if as_json:
            print_json(**found.facts())
            return
        for part in to_terminal(found.document(title).tables):
            print_renderable(part)
        for warning in found.warnings:
            warn(warning)
        if out is not None:
            print_line(f"wrote report.html, .md, .csv, .parquet and .json, tables and figures to {out}")


def _renaming(text: str) -> dict[str, str]:
    """Return the names in a value of ``--rename``, a pair or a TOML file. Raise UserError for other texts."""
    old, separator, new = text.partition("=")
    if separator:
        return {old: new}
    if not text.endswith(".toml"):
        raise UserError(
            f"invalid --rename {shown(text)}: use OLD=NEW, for example lite0=EfficientNet-Lite0, or a .toml file"
        )
    from pipeline.config import read_toml
    from pipeline.storage import SMALL_FILE, LocalStore, local_path

    file = local_path(text)
    try:
        content = LocalStore(str(file.parent)).read(file.name, limit=SMALL_FILE)
    except OSError as error:
        raise UserError(f"cannot read the names {shown(text)}: {error.strerror}; give a .toml file") from error
    names = read_toml(content, str(file))
    if not all(isinstance(name, str) for name in names.values()):
        raise UserError(f'{shown(text)} is not a list of names: write lines such as lite0 = "EfficientNet-Lite0"')
    return names
