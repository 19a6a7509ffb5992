"""``robustshards report``."""

from __future__ import annotations

from pipeline.cli.console import print_json, print_line, print_renderable, warn
from pipeline.cli.options import Printing, command
from pipeline.evaluate.report.settings import ReportSettings


@command()
def report(settings: ReportSettings, printing: Printing) -> None:
    """Compare models by the papers' metrics, and write a report.

    Include an evaluation of clean images to get the clean error and the metrics that need it.
    """
    from pipeline.evaluate.report.sections import tables
    from pipeline.evaluate.report.summarise import summarise
    from pipeline.evaluate.report.text import to_terminal
    from pipeline.evaluate.report.write import write_report

    summary = summarise(
        settings.evaluations, settings.baseline, settings.clean, real=settings.real, published=settings.published,
        rename=settings.rename,
    )  # fmt: skip
    if settings.out is not None:
        write_report(summary, settings.title, settings.out)
    if printing.as_json:
        print_json(**summary.facts())
        return
    for part in to_terminal(tables(summary)):
        print_renderable(part)
    for warning in summary.warnings:
        warn(warning)
    if settings.out is not None:
        print_line(f"wrote report.html, report.md, report.csv and report.json to {settings.out}")
