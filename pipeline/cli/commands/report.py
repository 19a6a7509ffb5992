"""``robustshards report``."""

import shlex
import sys

from pipeline.cli.console import print_json, print_line, print_renderable, warn
from pipeline.cli.options import Printing, command
from pipeline.errors import UserError
from pipeline.evaluate.report.settings import ReportSettings


@command()
def report(settings: ReportSettings, printing: Printing) -> None:
    """Compare models by the papers' metrics, and write a report.

    Include an evaluation of clean images to get the clean error and the metrics that need it.
    """
    from pipeline.evaluate.report.report import make_report
    from pipeline.evaluate.report.text import to_terminal

    if not (settings.evaluations or settings.results):
        raise UserError("nothing to report on: give folders of evaluations, or a CSV file with --results")
    found = make_report(settings, command=shlex.join(["robustshards", *sys.argv[1:]]))
    if settings.out is not None:
        from pipeline.evaluate.report.write import write_report

        write_report(found, settings.title, settings.out, intervals=settings.latex_intervals)
    if printing.as_json:
        print_json(**found.facts())
        return
    for part in to_terminal(found.document(settings.title).tables):
        print_renderable(part)
    for warning in found.warnings:
        warn(warning)
    if settings.out is not None:
        print_line(f"wrote report.html, .md, .csv, .parquet and .json, tables and figures to {settings.out}")
