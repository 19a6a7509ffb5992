"""What a report shows: the figures of a summary as tables of strings, for whatever prints them.

Every figure has one name, given here, in all outputs. Means over less than the whole benchmark are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.evaluate.report.estimates import Estimate
from pipeline.evaluate.report.family import Column, Content, Family, Figure, Table
from pipeline.evaluate.report.formats import EXTRA, NOTHING, PARTIAL, shown, shown_short
from pipeline.text import printable

# Words


def accuracy(error: Estimate) -> Estimate:
    """One minus an error."""
    return Estimate(1 - error.value, 1 - error.high, 1 - error.low)


def coverage(family: Family, summary: Any, figure: Figure) -> str:
    """Over what a mean goes: ``12 of 15 corruptions``."""
    there = [row for row in summary.rows if getattr(row, figure.over) is not None]
    counted = sum(row.benchmark for row in there)
    if not any(row.benchmark for row in summary.rows):
        return f"{len(there)} {family.what} that are not of the benchmark"
    levels = "" if counted < family.total or summary.complete else ", not at every severity"
    return f"{counted} of {family.total} {family.what}{levels}"


def transforms(models: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> a row of any model, those of the benchmark first."""
    rows: dict[str, Any] = {}
    for summary in models.values():
        for row in summary.rows:
            rows.setdefault(row.name, row)
    return {name: rows[name] for name in sorted(rows, key=lambda name: not rows[name].benchmark)}


def marked_names(models: Mapping[str, Any]) -> dict[str, str]:
    """Name of a transform -> how it is shown: marked, where there is a benchmark that it is not part of."""
    rows = transforms(models)
    any_benchmark = any(row.benchmark for row in rows.values())
    return {
        name: printable(name) + (EXTRA if any_benchmark and not row.benchmark else "") for name, row in rows.items()
    }


def rows_of(summary: Any) -> dict[str, Any]:
    """Name -> row."""
    return {row.name: row for row in summary.rows}


# Tables


def _marked(family: Family, summary: Any, figure: Figure, value: Estimate | float | None) -> str:
    text = shown(value, figure.unit)
    return text if text == NOTHING or _whole(family, summary, figure) else text + PARTIAL


def _whole(family: Family, summary: Any, figure: Figure) -> bool:
    """Whether a figure is no mean, or one over the whole benchmark."""
    whole = f"{family.total} of {family.total} {family.what}"
    return not figure.over or coverage(family, summary, figure) == whole


def _part_notes(family: Family, models: Mapping[str, Any], figures: Iterable[Figure]) -> Iterator[str]:
    """Of each model, over what its means are that are not over the whole benchmark."""
    for model, each in models.items():
        marked: dict[str, list[str]] = {}
        for figure in figures:
            if getattr(each, figure.field) is not None and not _whole(family, each, figure):
                marked.setdefault(coverage(family, each, figure), []).append(figure.name)
        for over, names in marked.items():
            yield f"{PARTIAL.strip()} {model}: {', '.join(names)} over {over}."


def _by_transform(section: str, content: Content, models: Mapping[str, Any], what: str) -> Table:
    """Transforms downwards; side by side the models, each with its figures. No row where no model has any figure."""
    every = [row for each in models.values() for row in each.rows]
    figures = [figure for figure in content.figures if any(getattr(row, figure.field) is not None for row in every)]
    words = shown if len(figures) == 1 else shown_short
    marked, rows = marked_names(models), []
    by_name = [rows_of(each) for each in models.values()]
    for name in marked:
        found = [each.get(name) for each in by_name]
        cells = [words(row and getattr(row, figure.field), figure.unit) for row in found for figure in figures]
        if any(cell != NOTHING for cell in cells):
            rows.append([marked[name], *cells])
    columns = [Column(figure.name, model) for model in models for figure in figures]
    if len(figures) == 1:
        columns = [Column(model) for model in models]
    note = content.note + _extra_note(rows)
    return Table(section, content.title, note, [Column(what, number=False), *columns], rows, content.about)


def _extra_note(rows: Iterable[Sequence[str]]) -> str:
    return f"{EXTRA} not of the benchmark, in no mean." if any(row[0].endswith(EXTRA) for row in rows) else ""


# Figures


# Outputs
