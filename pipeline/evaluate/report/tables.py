"""Tables that several families share, and how means over less than the whole benchmark are marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.family import (
    Column,
    Figure,
    LevelFigure,
    Models,
    ReportLayout,
    SummaryRow,
    Table,
)
from pipeline.evaluate.report.formats import EXTRA, PARTIAL, Cell, Number
from pipeline.evaluate.report.plots import BarGroups, Curves, Plot, PlotKind, words
from pipeline.text import printable

EXTRA_GROUP = "not in the benchmark"
"""Title of the plot of such transforms."""


@dataclass(frozen=True)
class Content:
    """A table of transforms: its title and note, which figures of their rows it shows, and which plot if any.

    ``bars`` names the first figure in the plot; empty for no plot.
    """

    title: str
    note: str
    figures: Sequence[Figure]
    bars: str = ""


# Means over a part of the benchmark


def coverage(layout: ReportLayout[Any], summary: Any, figure: Figure | LevelFigure) -> str:
    """Return what a mean is over where that is not the whole benchmark: ``12 of 15 corruptions``; else nothing."""
    if figure.over is None or layout.benchmark is None:
        return ""
    benchmark, over = layout.benchmark, figure.over
    rows = layout.rows(summary)
    found = [row for row in rows if over(row) is not None]
    if not any(row.benchmark for row in rows):
        return f"{len(found)} {benchmark.what} that are not of the benchmark"
    counted = sum(row.benchmark for row in found)
    if counted == benchmark.total and benchmark.complete(summary):
        return ""
    levels = "" if counted < benchmark.total else ", not at every severity"
    return f"{counted} of {benchmark.total} {benchmark.what}{levels}"


def part_notes(
    layout: ReportLayout[Any], models: Models[Any], figures: Iterable[Figure | LevelFigure]
) -> Iterator[str]:
    """Yield, for each model, what those of its means are over that are not over the whole benchmark."""
    for model, summary in models.items():
        marked: dict[str, list[str]] = {}
        for figure in figures:
            there = figure.values(summary) if isinstance(figure, LevelFigure) else figure.value(summary) is not None
            if there and (over := coverage(layout, summary, figure)):
                marked.setdefault(over, []).append(figure.name)
        for over, names in marked.items():
            yield f"{PARTIAL} {model}: {', '.join(names)} over {over}."


# Rows of transforms


def transforms(layout: ReportLayout[Any], models: Models[Any]) -> dict[str, SummaryRow]:
    """Return name -> a row of any model, those of the benchmark first."""
    rows: dict[str, SummaryRow] = {}
    for summary in models.values():
        for row in layout.rows(summary):
            rows.setdefault(row.name, row)
    return {name: rows[name] for name in sorted(rows, key=lambda name: not rows[name].benchmark)}


def marked_names(layout: ReportLayout[Any], models: Models[Any]) -> dict[str, str]:
    """Return name -> how it is shown: marked, where there is a benchmark that it is not part of."""
    rows = transforms(layout, models)
    any_benchmark = any(row.benchmark for row in rows.values())
    return {
        name: printable(name) + (f" {EXTRA}" if any_benchmark and not row.benchmark else "")
        for name, row in rows.items()
    }


def rows_by_name(layout: ReportLayout[Any], models: Models[Any]) -> dict[str, dict[str, Any]]:
    """Return model -> transform -> row."""
    return {model: {row.name: row for row in layout.rows(summary)} for model, summary in models.items()}


def extra_note(names: Iterable[str]) -> str:
    """Return what the mark of a transform means, where one of these names has it."""
    return f" {EXTRA} not of the benchmark, in no mean." if any(name.endswith(f" {EXTRA}") for name in names) else ""


# Tables


def key_figures(layout: ReportLayout[Any], section: str, models: Models[Any]) -> Table:
    """Return the table of all figures of summaries: figures downwards, models side by side."""
    rows: list[Sequence[Cell]] = []
    for figure in layout.figures:
        cells = [summary_cell(layout, summary, figure) for summary in models.values()]
        if any(cell.exists for cell in cells):
            rows.append([figure.name, *cells])
    if layout.benchmark:
        names = (layout.baseline(summary) for summary in models.values())
        rows.append(["baseline", *(printable(name) if name else "none" for name in names)])
    rows += [
        [count.name, *(Number(count.value(summary), count.format) for summary in models.values())]
        for count in layout.counts
    ]
    columns = [Column("figure", number=False), *(Column(model) for model in models)]
    return Table(section, "key figures", _key_note(layout, models), columns, rows)


def summary_cell(layout: ReportLayout[Any], summary: Any, figure: Figure) -> Number:
    """Return the cell of a figure of a summary, marked where it is over less than the benchmark."""
    return Number(figure.value(summary), figure.format, partial=bool(coverage(layout, summary, figure)))


def _key_note(layout: ReportLayout[Any], models: Models[Any]) -> str:
    """Return how to read the key figures, and what is not over the whole benchmark."""
    normalised = any(layout.baseline(summary) for summary in models.values())
    none = "There is no baseline: nothing is normalised." if layout.benchmark else ""
    parts = part_notes(layout, models, layout.figures)
    notes = (layout.note, layout.normalised_note if normalised else none, _images_note(layout, models), *parts)
    return " ".join(filter(None, notes))


def _images_note(layout: ReportLayout[Any], models: Models[Any]) -> str:
    """Return whether the models were evaluated on the same data set, where that is known and they were not."""
    if len({summary.source_ids_sha256 for summary in models.values()}) > 1:
        count = layout.counts[0]
        counts = (f"{model} {Number(count.value(summary), count.format)}" for model, summary in models.items())
        return f"Not comparable: the models were not evaluated on the same images ({', '.join(counts)})."
    if len({summary.manifest_sha256 for summary in models.values()}) > 1:
        return "The models were evaluated on images of the same names, but the manifests of the data sets differ."
    return ""


def by_transform(layout: ReportLayout[Any], section: str, content: Content, models: Models[Any], what: str) -> Table:
    """Return a table with transforms downwards and models side by side, each with its figures.

    Transforms of which no model has any figure are left out.
    """
    by_model = rows_by_name(layout, models)
    every = [row for rows in by_model.values() for row in rows.values()]
    figures = [figure for figure in content.figures if any(figure.value(row) is not None for row in every)]
    rows: list[Sequence[Cell]] = []
    for name, marked in marked_names(layout, models).items():
        found = [rows.get(name) for rows in by_model.values()]
        cells = [
            Number(figure.value(row) if row else None, figure.format, short=len(figures) > 1)
            for row in found
            for figure in figures
        ]
        if any(cell.exists for cell in cells):
            rows.append([marked, *cells])
    columns = [Column(figure.name, model) for model in models for figure in figures]
    if len(figures) == 1:
        columns = [Column(model) for model in models]
    note = content.note + extra_note(str(row[0]) for row in rows)
    plot = bars(layout, models, content.figures[0], content.bars) if content.bars else None
    return Table(section, content.title, note, [Column(what, number=False), *columns], rows, plot)


@dataclass(frozen=True)
class LevelContent:
    """A table of accuracies by transform and level: its title and note, and what transforms and levels are called.

    ``accuracies`` and ``mean`` take from a row the accuracy at each level and their mean. ``levels`` are on the axis of
    plots even where no transform has them; ``heading`` precedes levels above columns.
    """

    title: str
    note: str
    what: str
    axis: str
    accuracies: Callable[[Any], Mapping[int, Estimate]]
    mean: Callable[[Any], Estimate]
    levels: Sequence[int] = ()
    heading: str = ""


def by_level(layout: ReportLayout[Any], section: str, content: LevelContent, models: Models[Any]) -> Table:
    """Return a table with a row for each transform and model, and levels side by side."""
    by_model = rows_by_name(layout, models)
    every = [row for found in by_model.values() for row in found.values()]
    levels = sorted({level for row in every for level in content.accuracies(row)})
    rows: list[Sequence[Cell]] = []
    curves: dict[str, dict[str, Mapping[int, Estimate]]] = {}
    for name, marked in marked_names(layout, models).items():
        for model, found in by_model.items():
            if row := found.get(name):
                accuracies = content.accuracies(row)
                cells = (Number(accuracies.get(level), short=True) for level in levels)
                rows.append([marked, model, *cells, Number(content.mean(row), short=True)])
                curves.setdefault(words(marked), {})[model] = accuracies
    columns = [Column(content.what, number=False), Column("model", number=False)]
    columns += [*(Column(f"{content.heading}{level}") for level in levels), Column("mean")]
    note = content.note + extra_note(str(row[0]) for row in rows)
    plot = Plot(PlotKind.SMALL_LINES, Curves(curves, content.axis, content.levels))
    return Table(section, content.title, note, columns, rows, plot)


def bars(layout: ReportLayout[Any], models: Models[Any], figure: Figure, what: str) -> Plot:
    """Return the plot of a figure of rows as bars, one for each group of transforms."""
    by_model = rows_by_name(layout, models)
    groups: dict[str, dict[str, Mapping[str, Estimate]]] = {}
    for name, row in transforms(layout, models).items():
        found = {model: figure.value(rows[name]) for model, rows in by_model.items() if name in rows}
        values = {model: value for model, value in found.items() if isinstance(value, Estimate)}
        if values:
            groups.setdefault(printable(row.group) if row.benchmark else EXTRA_GROUP, {})[name] = values
    return Plot(PlotKind.BARS, BarGroups(groups, what, figure.normalised))
