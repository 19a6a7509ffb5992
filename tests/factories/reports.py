"""Access to the measures of reports in tests."""

import csv
from typing import Any

from pipeline.evaluate.metrics.bootstrap import RESAMPLES
from pipeline.evaluate.report.measures import Measure, Results
from pipeline.evaluate.report.report import ReportData, make_report
from pipeline.evaluate.report.settings import ReportSettings
from pipeline.evaluate.report.views import Table
from pipeline.evaluate.report.write import to_csv


def results_of(report: ReportData, family: str) -> list[Results]:
    """Return the results of a family, by its key, in the order of the report."""
    return [each for each in report.results if each.report.key == family]


def only(report: ReportData, family: str) -> Results:
    """Return the only results of a family, by its key."""
    (found,) = results_of(report, family)
    return found


def measure(results: Results, metric: str, transform: str = "", level: int | None = None) -> Measure:
    """Return the only measure of a metric of the data set, or of a transform or level."""
    place = (metric, transform, level)
    (found,) = (each for each in results.measures if (each.metric, each.transform, each.level) == place)
    return found


def value(results: Results, metric: str, transform: str = "", level: int | None = None) -> float:
    """Return the value of a measure."""
    return measure(results, metric, transform, level).value


def values(results: Results, metric: str) -> dict[Any, float]:
    """Return all values of a metric: by transform, or by transform and level."""
    found = [each for each in results.measures if each.metric == metric]
    return {each.transform if each.level is None else (each.transform, each.level): each.value for each in found}


def has(results: Results, metric: str) -> bool:
    """Return whether results have a measure of a metric."""
    return any(each.metric == metric for each in results.measures)


def tables_of(report: ReportData) -> list[Table]:
    """Return all tables of a report."""
    return report.document().tables


def table(report: ReportData, title: str, section: str = "") -> Table:
    """Return the only table of a title; ``section`` tells tables of several data sets apart."""
    (found,) = (each for each in tables_of(report) if each.title == title and section in each.section)
    return found


def cells(found: Table) -> dict[str, list[str]]:
    """Return the cells of a table as text, by the first cell of each row."""
    return {str(row[0]): [str(cell) for cell in row[1:]] for row in found.rows}


def lines(report: ReportData) -> list[dict[str, str]]:
    """Return the lines of a report as CSV, by column."""
    return list(csv.DictReader(to_csv(report).splitlines()))


def report_on(*folders: str, resamples: int = RESAMPLES, **options: Any) -> ReportData:
    """Return the report on some evaluations; ``options`` are settings, or those of ``make_report``."""
    more = {name: options.pop(name) for name in ("command", "temporary") if name in options}
    return make_report(ReportSettings(evaluations=folders, **options), resamples=resamples, **more)
