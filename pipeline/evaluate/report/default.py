"""The default report on a family of image transforms: accuracy by transform and level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.metrics.checks import Figures
from pipeline.evaluate.report.calibration import (
    CalibrationSummary,
    CalibrationTable,
    calibration_summary,
    read_probabilities,
)
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Figure, LevelFigure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.scores import Evaluation
from pipeline.evaluate.report.tables import LevelTable, bars, by_level
from pipeline.transforms.family import Family

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TransformRow:
    """Accuracy under one transform: by level, and the mean over levels."""

    name: str
    accuracies: Mapping[int, Estimate]
    mean_accuracy: Estimate
    group: str = "all transforms"
    benchmark: bool = True


@dataclass(frozen=True)
class TransformSummary:
    """Accuracy of one model on a family's images.

    ``mean_accuracy`` is the mean over transforms of each transform's mean over its levels.
    """

    model: str
    data_set: str
    images: int
    failed: int
    rows: Sequence[TransformRow]
    mean_accuracy: Estimate
    manifest_sha256: str
    source_ids_sha256: str
    calibration: CalibrationSummary | None = None


MEAN_ACCURACY = Figure("mean accuracy", lambda summary: summary.mean_accuracy, higher_is_better=True)
ROW_MEAN = Figure("mean accuracy", lambda row: row.mean_accuracy)


def default_report(family: Family) -> ReportFamily[TransformSummary]:
    """Return the default report on a family whose transforms produce images, not sequences."""
    return ReportFamily(
        family.name,
        summarise_transforms,
        ReportLayout[TransformSummary](
            key=family.name.replace("-", "_"),
            figures=(MEAN_ACCURACY,),
            leads=(MEAN_ACCURACY,),
            note="Accuracy in percent, with the 95 % confidence interval over images in brackets. Higher is better.",
            tables=_tables,
            rows=lambda summary: summary.rows,
            row_figures=(ROW_MEAN,),
            row_level_figures=(LevelFigure("accuracy", lambda row: row.accuracies),),
            calibration=CalibrationTable(),
        ),
    )


def summarise_transforms(evaluation: Evaluation, context: ReportContext) -> list[TransformSummary]:
    """Return the accuracy of an evaluation by transform and level."""
    scores, probabilities = read_probabilities(evaluation)
    bootstrap = context.bootstrap(1 - scores.values)
    about = context.about(evaluation, scores.images)
    columns: dict[str, dict[int, int]] = {}
    for column, condition in enumerate(scores.keys):
        columns.setdefault(condition.transform, {})[condition.level] = column
    return [
        TransformSummary(
            about.model,
            about.data_set,
            len(scores.images.ids),
            about.failed,
            [_row(name, levels, bootstrap) for name, levels in columns.items()],
            bootstrap.estimate(lambda means: _mean_accuracy(means, columns)),
            about.manifest_sha256,
            about.source_ids_sha256,
            calibration_summary(evaluation, probabilities, context),
        )
    ]


def _row(name: str, levels: Mapping[int, int], bootstrap: Bootstrap) -> TransformRow:
    accuracies = {level: column_mean(bootstrap, column) for level, column in levels.items()}
    return TransformRow(name, accuracies, bootstrap.estimate(lambda means: _mean_accuracy(means, {name: levels})))


def _mean_accuracy(means: Floats, columns: Mapping[str, Mapping[int, int]]) -> Figures:
    """Return the mean over transforms of each one's mean over its levels, (...), from column means (..., columns)."""
    by_name = {
        name: metrics.mean_over_transforms({str(level): means[..., column] for level, column in levels.items()})
        for name, levels in columns.items()
    }
    return metrics.mean_over_transforms(by_name)


ACCURACY_TABLE = LevelTable(
    "accuracy by transform and level",
    "Percent; ± is half the width of the 95 % confidence interval. Higher is better.",
    "transform",
    "level",
    lambda row: row.accuracies,
    lambda row: row.mean_accuracy,
    heading="level ",
)


def _tables(layout: ReportLayout[TransformSummary], section: str, models: Models[TransformSummary]) -> Iterator[Table]:
    """Yield the table by transform and level, with a line plot, or with a bar plot if there is one level."""
    table = by_level(layout, section, ACCURACY_TABLE, models)
    levels = {level for summary in models.values() for row in summary.rows for level in row.accuracies}
    yield table if len(levels) > 1 else replace(table, plot=bars(layout, models, ROW_MEAN, "accuracy"))
