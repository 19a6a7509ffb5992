"""Tables that several families share, and marks for means over part of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.calibration import CalibrationTable
from pipeline.evaluate.report.family import (
    Column,
    Figure,
    LevelFigure,
    Models,
    ReportLayout,
    SummaryRow,
    Table,
)
from pipeline.evaluate.report.formats import EXTRA, LOSSY_CLEAN, PARTIAL, Cell, Number
from pipeline.evaluate.report.plots import BarGroups, Curves, Plot, PlotKind, words
from pipeline.evaluate.report.tested import LOSSY
from pipeline.text import counted, printable

EXTRA_GROUP = "not in the benchmark"
"""Title of the plot of transforms that are not in the benchmark."""


@dataclass(frozen=True)
class TransformTable:
    """The definition of a table with one row per transform.

    Attributes:
        title: Title of the table.
        note: Explanation below the title.
        figures: Metrics of a row.
        bars: Name of the first metric in a bar plot; empty for no plot.
    """

    title: str
    note: str
    figures: Sequence[Figure]
    bars: str = ""


# Means over part of the benchmark


def coverage(layout: ReportLayout[Any], summary: Any, figure: Figure | LevelFigure) -> str:
    """Return what a metric covers, such as ``12 of 15 corruptions``; empty if it covers the whole benchmark."""
    if isinstance(figure, Figure) and (part := figure.covers(summary)):
        return part
    benchmark, over = (isinstance(figure, Figure) and figure.benchmark) or layout.benchmark, figure.over
    if over is None or benchmark is None:
        return ""
    rows = layout.rows(summary)
    averaged = [row for row in rows if over(row) is not None]
    if not any(row.benchmark for row in rows):
        are = "is" if len(averaged) == 1 else "are"
        return f"{counted(len(averaged), benchmark.what)} that {are} not in the benchmark"
    included = sum(row.benchmark for row in averaged)
    if included == benchmark.total and benchmark.complete(summary):
        return ""
    levels = "" if included < benchmark.total else ", with missing severities"
    return f"{included} of {counted(benchmark.total, benchmark.what)}{levels}"


def missing_images(layout: ReportLayout[Any], summary: Any) -> str:
    """Return how many images of the complete data set a summary covers; empty if all, or if it is unknown."""
    counts = ((count.name, summary_cell(layout, summary, count)) for count in layout.counts)
    return ", ".join(f"{number.figure} {name}" for name, number in counts if number.incomplete)


def part_notes(
    layout: ReportLayout[Any], models: Models[Any], figures: Iterable[Figure | LevelFigure]
) -> Iterator[str]:
    """Yield a note for each model with metrics that cover only part of the benchmark."""
    for model, summary in models.items():
        marked: dict[str, list[str]] = {}
        for figure in figures:
            present = figure.values(summary) if isinstance(figure, LevelFigure) else figure.value(summary) is not None
            if present and (covered := coverage(layout, summary, figure)):
                marked.setdefault(f"averaged over {covered}" if figure.over else f"over {covered}", []).append(
                    figure.name
                )
        for covered, names in marked.items():
            yield f"{PARTIAL} {model}: {', '.join(names)} {covered}."


# Clean images


def is_lossy(layout: ReportLayout[Any], summary: Any, figure: Figure | CalibrationTable) -> bool:
    """Return whether a metric depends on clean images that were compressed with loss."""
    return figure.of_clean and layout.clean_images(summary).endswith(LOSSY)


def lossy_note(layout: ReportLayout[Any], models: Models[Any]) -> str:
    """Return the explanation of the mark of numbers that depend on lossy clean images; empty if there are none."""
    encoders = {model: layout.clean_images(summary) for model, summary in models.items()}
    lossy = "; ".join(f"{model}: {encoder}" for model, encoder in encoders.items() if encoder.endswith(LOSSY))
    return lossy and f"{LOSSY_CLEAN} depends on clean images that were compressed again: {lossy}."


# Rows of transforms


def transforms(layout: ReportLayout[Any], models: Models[Any]) -> dict[str, SummaryRow]:
    """Return one row of each transform, by name; transforms of the benchmark come first."""
    rows: dict[str, SummaryRow] = {}
    for summary in models.values():
        for row in layout.rows(summary):
            rows.setdefault(row.name, row)
    return {name: rows[name] for name in sorted(rows, key=lambda name: not rows[name].benchmark)}


def marked_names(layout: ReportLayout[Any], models: Models[Any]) -> dict[str, str]:
    """Return the displayed name of each transform, with a mark if it is not in the benchmark."""
    rows = transforms(layout, models)
    any_benchmark = any(row.benchmark for row in rows.values())
    return {
        name: printable(name) + (f" {EXTRA}" if any_benchmark and not row.benchmark else "")
        for name, row in rows.items()
    }


def rows_by_name(layout: ReportLayout[Any], models: Models[Any]) -> dict[str, dict[str, Any]]:
    """Return the rows by model and transform."""
    return {model: {row.name: row for row in layout.rows(summary)} for model, summary in models.items()}


def extra_note(names: Iterable[str]) -> str:
    """Return the explanation of the mark of a transform if one of these names has it."""
    return (
        f" {EXTRA} not in the benchmark, so not included in means."
        if any(name.endswith(f" {EXTRA}") for name in names)
        else ""
    )


# Tables


def key_figures(layout: ReportLayout[Any], section: str, models: Models[Any]) -> Table:
    """Return the table of all metrics of summaries: metrics as rows, models as columns."""
    rows: list[Sequence[Cell]] = []
    for figure in layout.figures:
        cells = [summary_cell(layout, summary, figure) for summary in models.values()]
        if any(cell.exists for cell in cells):
            rows.append([figure.name, *cells])
    if _can_be_normalised(layout):
        names = (layout.baseline(summary) for summary in models.values())
        rows.append(["baseline", *(printable(name) if name else "none" for name in names)])
    if any(encoders := [layout.clean_images(summary) for summary in models.values()]):
        rows.append(["clean images", *(encoder or "none" for encoder in encoders)])
    rows += [
        [count.name, *(summary_cell(layout, summary, count) for summary in models.values())] for count in layout.counts
    ]
    columns = [Column("metric", number=False), *(Column(model) for model in models)]
    return Table(section, "key figures", _key_note(layout, models), columns, rows)


def summary_cell(layout: ReportLayout[Any], summary: Any, figure: Figure) -> Number:
    """Return the cell of a metric of a summary, marked if it covers only part of the benchmark."""
    return Number(
        figure.value(summary),
        figure.format,
        partial=bool(coverage(layout, summary, figure)),
        total=figure.total(summary),
        lossy=is_lossy(layout, summary, figure),
    )


def _key_note(layout: ReportLayout[Any], models: Models[Any]) -> str:
    """Return the explanation of the key figures, with notes on means over part of the benchmark."""
    normalised = any(layout.baseline(summary) for summary in models.values())
    none = "No baseline: the metrics are not normalised." if _can_be_normalised(layout) else ""
    parts = part_notes(layout, models, layout.figures)
    notes = (
        layout.note,
        layout.normalised_note if normalised else none,
        _images_note(layout, models),
        *parts,
        lossy_note(layout, models),
    )
    return " ".join(filter(None, notes))


def _can_be_normalised(layout: ReportLayout[Any]) -> bool:
    return layout.benchmark is not None and any(figure.normalised for figure in layout.figures)


def _images_note(layout: ReportLayout[Any], models: Models[Any]) -> str:
    """Return a note if the models were evaluated on different images or builds; empty otherwise."""
    if len({summary.source_ids_sha256 for summary in models.values()}) > 1:
        count = layout.counts[0]
        counts = (f"{model} {Number(count.value(summary), count.format)}" for model, summary in models.items())
        return f"Not comparable: the models were not evaluated on the same images ({', '.join(counts)})."
    if len({summary.manifest_sha256 for summary in models.values()}) > 1:
        return "The models were evaluated on images with the same names, but the manifests of the data sets differ."
    return ""


def by_transform(
    layout: ReportLayout[Any], section: str, definition: TransformTable, models: Models[Any], what: str
) -> Table:
    """Return a table with transforms as rows and models as columns.

    Args:
        layout: Layout of the family.
        section: Title of the section.
        definition: The columns and texts of the table. Transforms without any value are omitted.
        models: Summaries by model.
        what: Title of the first column, such as "corruption".
    """
    by_model = rows_by_name(layout, models)
    every = [row for rows in by_model.values() for row in rows.values()]
    figures = [figure for figure in definition.figures if any(figure.value(row) is not None for row in every)]
    rows: list[Sequence[Cell]] = []
    for name, marked in marked_names(layout, models).items():
        cells = [
            Number(
                figure.value(rows[name]) if name in rows else None,
                figure.format,
                short=len(figures) > 1,
                lossy=is_lossy(layout, models[model], figure),
            )
            for model, rows in by_model.items()
            for figure in figures
        ]
        if any(cell.exists for cell in cells):
            rows.append([marked, *cells])
    columns = [Column(figure.name, model) for model in models for figure in figures]
    if len(figures) == 1:
        columns = [Column(model) for model in models]
    note = definition.note + extra_note(str(row[0]) for row in rows)
    if any(figure.of_clean for figure in figures):
        note = f"{note} {lossy_note(layout, models)}".rstrip()
    plot = bars(layout, models, definition.figures[0], definition.bars) if definition.bars else None
    return Table(section, definition.title, note, [Column(what, number=False), *columns], rows, plot)


@dataclass(frozen=True)
class LevelTable:
    """The definition of a table of accuracies with one row per transform and one column per level.

    Attributes:
        title: Title of the table.
        note: Explanation below the title.
        what: Title of the column of transforms.
        axis: Noun for levels, such as "severity".
        accuracies: Returns the accuracy at each level of a row.
        mean: Returns the mean of a row's accuracies.
        levels: Levels that are on the axis of plots even if no transform has them.
        heading: Text before the level in column titles.
    """

    title: str
    note: str
    what: str
    axis: str
    accuracies: Callable[[Any], Mapping[int, Estimate]]
    mean: Callable[[Any], Estimate]
    levels: Sequence[int] = ()
    heading: str = ""


def by_level(layout: ReportLayout[Any], section: str, definition: LevelTable, models: Models[Any]) -> Table:
    """Return a table with one row per transform and model, and levels as columns."""
    by_model = rows_by_name(layout, models)
    every = [row for rows_of_model in by_model.values() for row in rows_of_model.values()]
    levels = sorted({level for row in every for level in definition.accuracies(row)})
    rows: list[Sequence[Cell]] = []
    curves: dict[str, dict[str, Mapping[int, Estimate]]] = {}
    for name, marked in marked_names(layout, models).items():
        for model, rows_of_model in by_model.items():
            if row := rows_of_model.get(name):
                accuracies = definition.accuracies(row)
                cells = (Number(accuracies.get(level), short=True) for level in levels)
                rows.append([marked, model, *cells, Number(definition.mean(row), short=True)])
                curves.setdefault(words(marked), {})[model] = accuracies
    columns = [Column(definition.what, number=False), Column("model", number=False)]
    columns += [*(Column(f"{definition.heading}{level}") for level in levels), Column("mean")]
    note = definition.note + extra_note(str(row[0]) for row in rows)
    plot = Plot(PlotKind.SMALL_LINES, Curves(curves, definition.axis, definition.levels))
    return Table(section, definition.title, note, columns, rows, plot)


def bars(layout: ReportLayout[Any], models: Models[Any], figure: Figure, what: str) -> Plot:
    """Return the bar plot of a metric of rows, with one panel per group of transforms."""
    by_model = rows_by_name(layout, models)
    groups: dict[str, dict[str, Mapping[str, Estimate]]] = {}
    for name, row in transforms(layout, models).items():
        by_name = {model: figure.value(rows[name]) for model, rows in by_model.items() if name in rows}
        values = {model: value for model, value in by_name.items() if isinstance(value, Estimate)}
        if values:
            groups.setdefault(printable(row.group) if row.benchmark else EXTRA_GROUP, {})[name] = values
    return Plot(PlotKind.BARS, BarGroups(groups, what, figure.normalised))
