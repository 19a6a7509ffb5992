"""Errors by corruption and severity: the rows, metrics and tables that ImageNet-C and ImageNet-C-bar share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import alexnet
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.metrics.checks import Figures, Floats
from pipeline.evaluate.report.error_baseline import ErrorBaseline
from pipeline.evaluate.report.estimates import column_mean, complement
from pipeline.evaluate.report.family import Column, Figure, LevelFigure, Models, ReportLayout, Table
from pipeline.evaluate.report.formats import Cell, Number
from pipeline.evaluate.report.plots import Curves, Plot, PlotKind
from pipeline.evaluate.report.tables import LevelTable, TransformTable, coverage, part_notes
from pipeline.transforms.family import Condition

Columns = Mapping[str, Mapping[int, int]]
"""Column of the scores, by corruption and severity."""

Divisors = Mapping[str, Sequence[float]]
"""Errors of the baseline at each severity, by corruption."""


@dataclass(frozen=True)
class CorruptionRow:
    """Top-1 errors under one corruption: by severity, their mean, and normalised by the baseline.

    Accuracies by reassessed labels (ReaL), by severity and their mean, exist only for validation images of ImageNet.
    """

    name: str
    group: str
    benchmark: bool
    errors: Mapping[int, Estimate]
    mean_error: Estimate
    corruption_error: Estimate | None
    relative_corruption_error: float | None = None
    real_accuracies: Mapping[int, Estimate] = field(default_factory=dict)
    real_accuracy: Estimate | None = None


# Metrics


def columns_of(conditions: Sequence[Condition]) -> dict[str, dict[int, int]]:
    """Return the columns of conditions by corruption and severity."""
    columns: dict[str, dict[int, int]] = {}
    for column, condition in enumerate(conditions):
        columns.setdefault(condition.transform, {})[condition.level] = column
    return columns


def is_complete(columns: Columns, benchmark: Sequence[str]) -> bool:
    """Return whether the columns are all corruptions of a benchmark, in any order, at all severities."""
    return columns.keys() == set(benchmark) and all(
        set(levels) == set(alexnet.SEVERITIES) for levels in columns.values()
    )


def errors_of(means: Floats, columns: Columns) -> dict[str, Floats]:
    """Return the errors of each corruption, (..., severities), from column means (..., columns)."""
    return {name: means[..., list(levels.values())] for name, levels in columns.items()}


def mean_error_of(means: Floats, columns: Columns) -> Figures:
    """Return the mean corruption error, unnormalised, (...), from column means (..., columns)."""
    return metrics.unnormalised_mean_error(errors_of(means, columns))


def mean_corruption_error(bootstrap: Bootstrap, columns: Columns, divisors: Divisors) -> Estimate | None:
    """Return mCE; None without errors of the baseline."""
    if not divisors:
        return None
    return bootstrap.estimate(lambda means: metrics.mean_corruption_error(errors_of(means, columns), divisors))


def row_of(
    name: str,
    group: str,
    benchmark: bool,
    levels: Mapping[int, int],
    bootstrap: Bootstrap,
    baseline: ErrorBaseline | None,
) -> CorruptionRow:
    """Return the row of one corruption.

    Args:
        name: Name of the corruption.
        group: Its group in plots.
        benchmark: Whether means include it.
        levels: Its columns by severity.
        bootstrap: Errors by column.
        baseline: Errors to normalise by; None for no corruption error.
    """
    columns, divisor = list(levels.values()), divisor_of(name, levels, baseline)
    return CorruptionRow(
        name,
        group,
        benchmark,
        {level: column_mean(bootstrap, column) for level, column in levels.items()},
        bootstrap.estimate(lambda means: metrics.mean_error(means[..., columns])),
        bootstrap.estimate(lambda means: metrics.corruption_error(means[..., columns], divisor)) if divisor else None,
    )


def divisor_of(name: str, levels: Mapping[int, int], baseline: ErrorBaseline | None) -> Sequence[float] | None:
    """Return the baseline's errors; None if one is unknown or all are zero."""
    errors = baseline.errors(name, list(levels)) if baseline else None
    return errors if errors and sum(errors) > 0 else None


def divisors_of(columns: Columns, baseline: ErrorBaseline | None) -> dict[str, Sequence[float]]:
    """Return the baseline's errors by corruption; empty if those of one corruption are unknown."""
    divisors = {name: divisor_of(name, levels, baseline) for name, levels in columns.items()}
    return {name: errors for name, errors in divisors.items() if errors} if None not in divisors.values() else {}


def curve_of(counted: Columns, bootstrap: Bootstrap) -> dict[int, Estimate]:
    """Return the mean accuracy by severity, over the corruptions that have this severity."""
    return {
        level: bootstrap.estimate(partial(_accuracy_at, level, counted))
        for level in sorted({level for each in counted.values() for level in each})
    }


def _accuracy_at(level: int, counted: Columns, means: Floats) -> Floats:
    """Return the mean accuracy at a severity, (...), from column means (..., columns)."""
    columns = {name: [levels[level]] for name, levels in counted.items() if level in levels}
    return metrics.robustness_curve({name: 1 - means[..., column] for name, column in columns.items()})[..., 0]


# Figures, tables and plots

MEAN_ERROR = Figure(
    "mean corruption error (unnormalised)",
    lambda summary: summary.mean_error,
    over=lambda row: row.mean_error,
    higher_is_better=False,
)
MCE = Figure(
    "mCE",
    lambda summary: summary.mean_corruption_error,
    normalised=True,
    over=lambda row: row.corruption_error,
    higher_is_better=False,
)
CURVE = LevelFigure("mean accuracy", lambda summary: summary.curve, over=lambda row: row.mean_error)
CE = Figure("CE", lambda row: row.corruption_error, normalised=True)
MEAN_ERROR_OF_ROW = Figure("mean error (unnormalised)", lambda row: row.mean_error)
MEAN_ERROR_TABLE = TransformTable(
    "mean error over the severities (unnormalised)",
    "Error rate in percent, with the 95 % confidence interval over images in brackets. Lower is better.",
    (MEAN_ERROR_OF_ROW,),
    bars="mean error",
)
ACCURACY_TABLE = LevelTable(
    "accuracy by corruption and severity",
    "Top-1 accuracy in percent by severity; ± is half the width of the 95 % confidence interval. Higher is better.",
    "corruption",
    "severity",
    lambda row: {severity: complement(error) for severity, error in row.errors.items()},
    lambda row: complement(row.mean_error),
    alexnet.SEVERITIES,
)


def ce_table(*figures: Figure) -> TransformTable:
    """Return the definition of the table of corruption errors."""
    return TransformTable(
        "corruption error (CE)",
        "Errors in percent of the baseline's errors; ± is half the width of the 95 % confidence interval. Lower is "
        "better; 100 equals the baseline.",
        figures,
        bars="corruption error",
    )


def curve_table(layout: ReportLayout[Any], section: str, models: Models[Any]) -> Table:
    """Return the table of accuracy: severities as rows, models as columns."""
    partial = {model: bool(coverage(layout, each, CURVE)) for model, each in models.items()}
    severities = sorted({severity for each in models.values() for severity in each.curve})
    rows: list[Sequence[Cell]] = [
        [str(s), *(Number(each.curve.get(s), partial=partial[model]) for model, each in models.items())]
        for s in severities
    ]
    note = (
        "Top-1 accuracy in percent, averaged over the corruptions of the benchmark, with the 95 % confidence interval "
        "over images in brackets. Higher is better."
    )
    note = " ".join((note, *part_notes(layout, models, [CURVE])))
    columns = [Column("severity", number=False), *(Column(model) for model in models)]
    curves = {model: each.curve for model, each in models.items() if each.curve}
    title = "mean over the corruptions of the benchmark"
    plot = Plot(PlotKind.LINES, Curves({title: curves} if curves else {}, "severity", alexnet.SEVERITIES))
    return Table(section, "accuracy by severity", note, columns, rows, plot)
