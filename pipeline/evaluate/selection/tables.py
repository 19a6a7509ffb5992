"""The tables of an analysis, in the layout of the paper's tables 2 and 3, and all values as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from statistics import fmean

from pipeline.evaluate.report.text import plain_cell
from pipeline.evaluate.report.views import PLAIN, Cell, Column, Number, NumberFormat, Table
from pipeline.evaluate.selection.records import Categories, ChosenBenchmark, Overlaps, Prediction, Selection
from pipeline.text import printable

CORRELATION, P_VALUE = NumberFormat(1, 3), NumberFormat(1, 4, least=0.0001)
MEAN = "mean"
"""Row of the means over natural sets."""

CSV_COLUMNS = ("table", "row", "column", "value")

OVERLAPS, CATEGORIES, BENCHMARKS, PREDICTIVENESS = "overlaps", "categories", "benchmarks", "predictiveness"
"""Sections."""


def tables(selection: Selection) -> list[Table]:
    """Return all tables of an analysis that have rows."""
    found = [overlap_table(by_category(selection.overlaps, selection.categories))] if selection.overlaps else []
    if selection.categories:
        found += [_category_table(selection.categories), _pair_table(selection.categories)]
    found.append(_benchmark_table(selection.benchmarks))
    for title, what, predictions in (
        ("correlation with natural robustness", "Columns: the benchmark.", selection.by_size),
        (
            "correlation with natural robustness, by spread",
            "Columns: the standard deviation of the numbers of corruptions in each category. 0.0: balanced benchmarks.",
            selection.by_spread,
        ),
    ):
        found += prediction_tables(title, what, predictions)
    return [table for table in found if table.rows]


# Overlaps


def by_category(overlaps: Overlaps, categories: Categories | None) -> Overlaps:
    """Return the overlaps with the corruptions of a category next to each other."""
    grouped = [name for members in categories.members.values() for name in members] if categories else []
    order = [overlaps.names.index(name) for name in dict.fromkeys([*grouped, *overlaps.names])]
    return Overlaps([overlaps.names[each] for each in order], overlaps.scores[order][:, order])


def overlap_table(overlaps: Overlaps) -> Table:
    """Return the overlap scores as a table."""
    names = list(map(printable, overlaps.names))
    rows: list[Sequence[Cell]] = [
        [name, *(Number(score, format=PLAIN) for score in scores)]
        for name, scores in zip(names, overlaps.scores.tolist(), strict=True)
    ]
    note = (
        "How much training with one corruption helps against the other, relative to training with that other, averaged "
        "over both directions. 1: as much. 0: not at all."
    )
    return Table(OVERLAPS, "overlap scores", note, [Column("corruption", number=False), *map(Column, names)], rows)


# Categories and benchmarks


def _number(value: float | None, number: NumberFormat) -> Number:
    return Number(nan if value is None else value, format=number)


def _category_table(categories: Categories) -> Table:
    rows: list[Sequence[Cell]] = [
        [printable(name), str(len(members)), ", ".join(map(printable, members))]
        for name, members in categories.members.items()
    ]
    columns = [Column("category", number=False), Column("corruptions"), Column("names", number=False)]
    return Table(CATEGORIES, "categories", "Corruptions with similar overlap scores.", columns, rows)


def _pair_table(categories: Categories) -> Table:
    rows: list[Sequence[Cell]] = [
        [what, _number(means.same, CORRELATION), _number(means.different, CORRELATION)]
        for what, means in (("overlap scores", categories.overlaps), ("residual robustness", categories.robustness))
        if means
    ]
    columns = [Column("of", number=False), Column("same category"), Column("different categories")]
    note = "Mean Pearson correlation over pairs of corruptions. Categories are good if the first is larger."
    return Table(CATEGORIES, "correlations of pairs", note, columns, rows)


def _benchmark_table(benchmarks: Sequence[ChosenBenchmark]) -> Table:
    rows: list[Sequence[Cell]] = [
        [
            printable(each.name),
            _number(each.spread, PLAIN),
            _number(each.overlap, PLAIN),
            ", ".join(map(printable, each.corruptions)),
        ]
        for each in benchmarks
    ]
    columns = [Column("benchmark", number=False), Column("spread"), Column("overlap"), Column("names", number=False)]
    note = (
        "Spread: standard deviation of the numbers of corruptions in each category. Overlap: mean overlap score within "
        "categories."
    )
    return Table(BENCHMARKS, "chosen benchmarks", note, columns, rows)


# Predictiveness


def prediction_tables(title: str, what: str, predictions: Sequence[Prediction]) -> Iterator[Table]:
    """Yield the table of correlations, with natural sets and their mean as rows, and that of p-values, without a mean.

    Args:
        title: Title of the first table.
        what: Explanation of the columns.
        predictions: One per column.
    """
    if not predictions:
        return
    columns = [Column("natural set", number=False), *(Column(printable(each.title)) for each in predictions)]
    counts: Sequence[Cell] = ["benchmarks", *(str(each.benchmarks) for each in predictions)]
    note = f"Pearson correlation of residual robustness over models; mean over the benchmarks of a column. {what}"
    rows = _rows([with_mean(each.correlations) for each in predictions], CORRELATION)
    yield Table(PREDICTIVENESS, title, note, columns, [*rows, counts])
    rows = _rows([each.p_values for each in predictions], P_VALUE)
    note = "Two-sided p-value of the correlation of a benchmark; mean over the benchmarks of a column, as in the paper."
    yield Table(PREDICTIVENESS, f"{title}: p-values", note, columns, rows)


def _rows(values: Sequence[Mapping[str, float]], number: NumberFormat) -> list[Sequence[Cell]]:
    return [[printable(name), *(Number(each[name], format=number) for each in values)] for name in values[0]]


def with_mean(values: Mapping[str, float]) -> dict[str, float]:
    """Return values by natural set, and their mean."""
    return {**values, MEAN: fmean(values.values())}


# CSV


def to_csv(selection: Selection) -> str:
    """Return all values as CSV with the columns ``CSV_COLUMNS``: one line per value, in full precision."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows(
        [table, plain_cell(row), plain_cell(column), value] for table, row, column, value in _lines(selection)
    )
    return lines.getvalue()


def _lines(selection: Selection) -> Iterator[tuple[str, str, str, float]]:
    if selection.overlaps:
        names = selection.overlaps.names
        for name, scores in zip(names, selection.overlaps.scores.tolist(), strict=True):
            yield from (("overlap", name, other, score) for other, score in zip(names, scores, strict=True))
    if selection.categories:
        for category, members in selection.categories.members.items():
            yield from (("category", name, category, 1) for name in members)
        for what, means in (
            ("overlap", selection.categories.overlaps),
            ("residual robustness", selection.categories.robustness),
        ):
            for kind, mean in (
                (("same category", means.same), ("different categories", means.different)) if means else ()
            ):
                if mean is not None:
                    yield "correlation of pairs", what, kind, mean
    for benchmark in selection.benchmarks:
        yield from (("benchmark", name, benchmark.name, 1) for name in benchmark.corruptions)
    for kind, predictions in (("size", selection.by_size), ("spread", selection.by_spread)):
        for each in predictions:
            for name, value in with_mean(each.correlations).items():
                yield f"correlation by {kind}", name, each.title, value
            for name, value in each.p_values.items():
                yield f"p-value by {kind}", name, each.title, value
