"""The sections of a report: one per data set, with its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluate.report import anomalies
from pipeline.evaluate.report.families import layouts
from pipeline.evaluate.report.family import FamilySummary, ReportLayout, Table
from pipeline.evaluate.report.formats import Number
from pipeline.evaluate.report.summary import Summary
from pipeline.evaluate.report.tables import coverage, key_figures
from pipeline.text import printable


@dataclass(frozen=True)
class Headline:
    """The one figure by which a model is known on a data set.

    ``baseline`` is what it is divided by, ``part`` what a mean is over that is not over the whole benchmark; both are
    empty where they do not apply.
    """

    section: str
    figure: str
    number: Number
    baseline: str
    part: str


@dataclass(frozen=True)
class Section:
    """A data set: ``models`` maps what a model is called here to its summary."""

    title: str
    layout: ReportLayout[Any]
    models: Mapping[str, FamilySummary]
    tables: Sequence[Table]

    def headline(self, model: str) -> Headline | None:
        """Return the figure that comes first for a model, if it has any."""
        summary = self.models[model]
        for figure in self.layout.leads:
            number = Number(figure.value(summary), figure.format)
            if number.exists:
                baseline = self.layout.baseline(summary) if figure.normalised else None
                part = coverage(self.layout, summary, figure)
                return Headline(self.title, figure.name, number, printable(baseline) if baseline else "", part)
        return None

    def baselines(self) -> list[str]:
        """Return what figures of the models are divided by, each name once."""
        names = (self.layout.baseline(summary) for summary in self.models.values())
        return list(dict.fromkeys(printable(name) for name in names if name))


def sections(summary: Summary) -> list[Section]:
    """Return the data sets in the order of a report, models of one data set together."""
    found = []
    for layout, summaries in summaries_by_layout(summary):
        for title, models in _by_title(layout, summaries).items():
            made = [key_figures(layout, title, models), *layout.tables(layout, title, models)]
            found.append(Section(title, layout, models, [table for table in made if table.rows]))
    return found


def tables(summary: Summary) -> list[Table]:
    """Return all tables of a report; those without a row are left out."""
    return [table for section in sections(summary) for table in section.tables]


def summaries_by_layout(summary: Summary) -> list[tuple[ReportLayout[Any], Sequence[FamilySummary]]]:
    """Return the layouts in the order of a report, with what each is to show."""
    known = layouts()
    found: list[tuple[ReportLayout[Any], Sequence[FamilySummary]]] = []
    found += [(known[key], summaries) for key, summaries in summary.families.items()]
    found.append((anomalies.LAYOUT, anomalies.summaries(summary.anomalies)))
    return found


def _by_title(layout: ReportLayout[Any], summaries: Iterable[FamilySummary]) -> dict[str, dict[str, FamilySummary]]:
    """Return title of the section -> model -> summary; a second model of the same name is numbered."""
    found: dict[str, dict[str, FamilySummary]] = {}
    for each in summaries:
        models = found.setdefault(printable(layout.title(each)), {})
        name = printable(each.model)
        again = sum(printable(other.model) == name for other in models.values())
        models[f"{name} ({again + 1})" if again else name] = each
    return found
