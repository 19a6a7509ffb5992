"""The sections of a report: one per data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluate.report.calibration_tables import calibration_tables
from pipeline.evaluate.report.families import layouts
from pipeline.evaluate.report.family import FamilySummary, ReportLayout, Table
from pipeline.evaluate.report.formats import Number
from pipeline.evaluate.report.published import published_tables
from pipeline.evaluate.report.summary import Summary
from pipeline.evaluate.report.tables import coverage, key_figures, missing_images
from pipeline.text import printable


@dataclass(frozen=True)
class Headline:
    """The most important metric of a model on a data set.

    Attributes:
        section: Title of the section.
        figure: Name of the metric.
        number: Value.
        baseline: Name of the baseline; empty if the metric is not normalised.
        part: What the metric covers, such as ``12 of 15 corruptions`` or ``9 of 10 images``; empty if it covers the
            whole benchmark.
    """

    section: str
    figure: str
    number: Number
    baseline: str
    part: str


@dataclass(frozen=True)
class Section:
    """A data set, the summaries by the model's name in this section, and the tables."""

    title: str
    layout: ReportLayout[Any]
    models: Mapping[str, FamilySummary]
    tables: Sequence[Table]

    def headline(self, model: str) -> Headline | None:
        """Return the headline of a model; None if it has no value."""
        summary = self.models[model]
        for figure in self.layout.leads:
            number = Number(figure.value(summary), figure.format)
            if number.exists:
                baseline = self.layout.baseline(summary) if figure.normalised else None
                part = coverage(self.layout, summary, figure) or missing_images(self.layout, summary)
                return Headline(self.title, figure.name, number, printable(baseline) if baseline else "", part)
        return None

    def baselines(self) -> list[str]:
        """Return the names of the models' baselines, without duplicates."""
        names = (self.layout.baseline(summary) for summary in self.models.values())
        return list(dict.fromkeys(printable(name) for name in names if name))


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
    return [table for section in sections(summary) for table in section.tables]


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
