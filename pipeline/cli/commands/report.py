"""``robustshards report``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import errors_told, print_json, say, show, warn
from pipeline.cli.options import JsonOption


def report(
    evaluations: Annotated[
        list[str],
        typer.Argument(metavar="FOLDER...", help="Folders of evaluations, of one or more models and data sets."),
    ],
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="Evaluation of the baseline model; repeat for each data set. Default: AlexNet as published."),
    ] = None,
    anomalous: Annotated[
        str | None, typer.Option(help="Evaluation of images of no class (ImageNet-O), for AUPR.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Folder for report.html, report.md, report.csv and report.json. Default: none.")
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Robustness report",
    as_json: JsonOption = False,
) -> None:
    """Show the papers' figures of evaluations side by side. Clean images among them give the clean error."""
    with errors_told(as_json):
        from pipeline.evaluate.report.sections import tables
        from pipeline.evaluate.report.summarise import summarise
        from pipeline.evaluate.report.text import to_terminal
        from pipeline.evaluate.report.write import write_report

        summary = summarise(evaluations, baseline or (), anomalous)
        if out is not None:
            write_report(summary, title, out)
        if as_json:
            print_json(**summary.facts())
            return
        for part in to_terminal(tables(summary)):
            show(part)
        for warning in summary.warnings:
            warn(warning)
        if out is not None:
            say(f"wrote {out}/report.html, .md, .csv, .json")
