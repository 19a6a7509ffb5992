"""The sections of a report: one per data set, with its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluate.report.anomalies import _Anomalies
from pipeline.evaluate.report.families import FAMILIES
from pipeline.evaluate.report.family import Column, Family, Table
from pipeline.evaluate.report.formats import NOTHING, shown
from pipeline.evaluate.report.summary import Summary
from pipeline.evaluate.report.tables import _marked, _part_notes, _whole, coverage
from pipeline.text import printable


@dataclass(frozen=True)
class Headline:
    """The one figure by which a model is known on a data set.

    What there may be none of is empty: its ``interval``, the ``baseline`` that it is divided by, and, of a mean that is
    not over the whole benchmark, the ``part`` that it is over.
    """

    section: str
    figure: str
    value: str
    interval: str
    baseline: str
    part: str


@dataclass(frozen=True)
class Section:
    """A data set: ``models`` maps what a model is called here to its summary, which is one of the family."""

    title: str
    family: Family
    models: Mapping[str, Any]
    tables: Sequence[Table]

    def headline(self, model: str) -> Headline | None:
        """The figure that comes first for a model, if it has any."""
        summary = self.models[model]
        figures = {figure.name: figure for figure in self.family.figures}
        for figure in (figures[name] for name in self.family.leads):
            value, _, interval = shown(getattr(summary, figure.field), figure.unit).partition(" ")
            if value != NOTHING:
                against = printable(summary.baseline) if figure.normalised and summary.baseline else ""
                part = "" if _whole(self.family, summary, figure) else coverage(self.family, summary, figure)
                return Headline(self.title, figure.name, value, interval, against, part)
        return None


def sections(summary: Summary) -> list[Section]:
    """The data sets in the order of a report, models of one data set together; without those that have no model."""
    found = []
    for family in FAMILIES:
        for title, models in _by_title(family, summaries_of(summary, family)).items():
            made = [_figures_table(family, title, models), *family.tables(family, title, models)]
            found.append(Section(title, family, models, [table for table in made if table.rows]))
    return found


def tables(summary: Summary) -> list[Table]:
    """All tables of a report, those without a row left out."""
    return [table for section in sections(summary) for table in section.tables]


def summaries_of(summary: Summary, family: Family) -> Sequence[Any]:
    """What a summary has of one family."""
    if family.name == "anomalies":
        return [_Anomalies(model, aupr) for model, aupr in summary.anomalies.items()]
    found: Sequence[Any] = getattr(summary, family.name)
    return found


def _by_title(family: Family, summaries: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Title of the section -> model -> summary; a second model of the same name is numbered."""
    found: dict[str, dict[str, Any]] = {}
    for each in summaries:
        models = found.setdefault(printable(family.title(each)), {})
        name = printable(each.model)
        again = sum(printable(other.model) == name for other in models.values())
        models[f"{name} ({again + 1})" if again else name] = each
    return found


def _figures_table(family: Family, section: str, models: Mapping[str, Any]) -> Table:
    """Figures downwards, models side by side."""
    rows = []
    for figure in family.figures:
        cells = [_marked(family, each, figure, getattr(each, figure.field)) for each in models.values()]
        if any(cell != NOTHING for cell in cells):
            rows.append([figure.name, *cells])
    if family.total:
        baselines = (each.baseline for each in models.values())
        rows.append(["baseline", *(printable(name) if name else "none" for name in baselines)])
    rows += [[field, *(f"{getattr(each, field):,}" for each in models.values())] for field in family.counted]
    columns = [Column("figure", number=False), *(Column(model) for model in models)]
    return Table(section, "key figures", _figures_note(family, models), columns, rows, "figures")


def _figures_note(family: Family, models: Mapping[str, Any]) -> str:
    """How to read the table, and what is not over the whole benchmark."""
    normalised = any(getattr(each, "baseline", None) for each in models.values())
    told = family.normalised_note if normalised or not family.total else "There is no baseline: nothing is normalised."
    parts = _part_notes(family, models, family.figures)
    return " ".join(filter(None, (family.note, told, _images_note(family, models), *parts)))


def _images_note(family: Family, models: Mapping[str, Any]) -> str:
    """Whether the models were evaluated on the same data set, where that is known and they were not."""
    if len({getattr(each, "source_ids_sha256", "") for each in models.values()}) > 1:
        counts = (f"{model} {getattr(each, family.counted[0]):,}" for model, each in models.items())
        return f"Not comparable: the models were not evaluated on the same images ({', '.join(counts)})."
    if len({getattr(each, "manifest_sha256", "") for each in models.values()}) > 1:
        return "The models were evaluated on images of the same names, but the manifests of the data sets differ."
    return ""
