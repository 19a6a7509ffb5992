"""The sections of a report: one per data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.evaluate.report.calibration_tables import calibration_tables
from pipeline.evaluate.report.comparison_tables import comparison_tables
from pipeline.evaluate.report.families import layouts
from pipeline.evaluate.report.family import FamilySummary, ReportLayout, Table
from pipeline.evaluate.report.models import model_tables
from pipeline.evaluate.report.published import published_tables
from pipeline.evaluate.report.section import Section
from pipeline.evaluate.report.summary import Summary
from pipeline.evaluate.report.tables import key_figures
from pipeline.text import printable


def sections(summary: Summary) -> list[Section]:
    """Return the sections in the order of a report; models of one data set share a section."""
    result = []
    for layout, summaries in summaries_by_layout(summary):
        for title, models in _by_title(layout, summaries).items():
            all_tables = [key_figures(layout, title, models), *layout.tables(layout, title, models)]
            all_tables += calibration_tables(layout, title, models)
            all_tables += published_tables(layout, title, models, summary.published)
            result.append(Section(title, layout, models, [table for table in all_tables if table.rows]))
    return result


def tables(summary: Summary) -> list[Table]:
    """Return all tables of a report that have rows."""
    found = sections(summary)
    return [*overview(summary, found), *(table for section in found for table in section.tables)]


def key_tables(summary: Summary) -> list[Table]:
    """Return the tables of key figures, one per section."""
    return [section.tables[0] for section in sections(summary) if section.tables]


def overview(summary: Summary, found: Sequence[Section]) -> list[Table]:
    """Return the tables that are not about one data set: notes and sizes of models, and their comparison."""
    compared = (
        comparison_tables(summary.comparison, found, summary.models, summary.published) if summary.comparison else ()
    )
    return [*model_tables(summary.models), *compared]


def summaries_by_layout(summary: Summary) -> list[tuple[ReportLayout[Any], Sequence[FamilySummary]]]:
    """Return the layouts with their summaries, in the order of a report."""
    known = layouts()
    return [(known[key], summaries) for key, summaries in summary.families.items()]


def _by_title(layout: ReportLayout[Any], summaries: Iterable[FamilySummary]) -> dict[str, dict[str, FamilySummary]]:
    """Return the summaries by section title and model; a repeated model name gets a number."""
    by_title: dict[str, dict[str, FamilySummary]] = {}
    for each in summaries:
        models = by_title.setdefault(printable(layout.title(each)), {})
        name = printable(each.model)
        earlier = sum(printable(other.model) == name for other in models.values())
        models[f"{name} ({earlier + 1})" if earlier else name] = each
    return by_title
