"""The section of a report on one data set, and its headlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluate.report.family import FamilySummary, ReportLayout, Table
from pipeline.evaluate.report.formats import Number
from pipeline.evaluate.report.tables import coverage, is_lossy, missing_images
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
        clean: How the clean images are stored, if that costs detail and the metric depends on it; empty otherwise.
    """

    section: str
    figure: str
    number: Number
    baseline: str
    part: str
    clean: str


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
                clean = self.layout.clean_images(summary) if is_lossy(self.layout, summary, figure) else ""
                return Headline(self.title, figure.name, number, printable(baseline) if baseline else "", part, clean)
        return None

    def baselines(self) -> list[str]:
        """Return the names of the models' baselines, without duplicates."""
        names = (self.layout.baseline(summary) for summary in self.models.values())
        return list(dict.fromkeys(printable(name) for name in names if name))
