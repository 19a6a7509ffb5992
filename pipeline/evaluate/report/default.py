"""The report on a family of images that has no report of its own: accuracy by transform and level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.metrics.checks import Figures
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Figure, LevelFigure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.scores import Evaluation, error_scores
from pipeline.evaluate.report.tables import LevelContent, bars, by_level
from pipeline.transforms.family import Family

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TransformRow:
    """One transform: accuracy by level, and their mean."""

    name: str
    accuracies: Mapping[int, Estimate]
    mean_accuracy: Estimate
    group: str = "all transforms"
    benchmark: bool = True


@dataclass(frozen=True)
class TransformSummary:
    """A family's images, of one model. ``mean_accuracy`` is the mean over transforms of the mean over their levels."""

    model: str
    data_set: str
    images: int
    failed: int
    rows: Sequence[TransformRow]
    mean_accuracy: Estimate
    manifest_sha256: str
    source_ids_sha256: str


MEAN_ACCURACY = Figure("mean accuracy", lambda summary: summary.mean_accuracy)
ROW_MEAN = Figure("mean accuracy", lambda row: row.mean_accuracy)


def default_report(family: Family) -> ReportFamily[TransformSummary]:
    """Return the report on a family whose transforms give images."""
    return ReportFamily(
        family.name,
        summarise_transforms,
        ReportLayout[TransformSummary](
            key=family.name.replace("-", "_"),
            figures=(MEAN_ACCURACY,),
            leads=(MEAN_ACCURACY,),
            note="Percent, in brackets the 95 % interval over images. Higher is better.",
            tables=_tables,
            rows=lambda summary: summary.rows,
            row_figures=(ROW_MEAN,),
            row_level_figures=(LevelFigure("accuracy", lambda row: row.accuracies),),
        ),
    )


def summarise_transforms(each: Evaluation, context: ReportContext) -> list[TransformSummary]:
    """Return accuracy by transform and level."""
    scores = error_scores(each)
    found = context.bootstrap(1 - scores.values)
    about = context.about(each, scores.images)
    places: dict[str, dict[int, int]] = {}
    for place, condition in enumerate(scores.keys):
        places.setdefault(condition.transform, {})[condition.level] = place
    return [
        TransformSummary(
            about.model,
            about.data_set,
            len(scores.images.ids),
            about.failed,
            [_row(name, levels, found) for name, levels in places.items()],
            found.estimate(lambda means: _mean_accuracy(means, places)),
            about.manifest_sha256,
            about.source_ids_sha256,
        )
    ]


def _row(name: str, levels: Mapping[int, int], found: Bootstrap) -> TransformRow:
    accuracies = {level: column_mean(found, place) for level, place in levels.items()}
    return TransformRow(name, accuracies, found.estimate(lambda means: _mean_accuracy(means, {name: levels})))


def _mean_accuracy(means: Floats, places: Mapping[str, Mapping[int, int]]) -> Figures:
    """Return the mean over transforms of the mean over their levels, (...), from means (..., columns)."""
    by_name = {
        name: metrics.mean_over_transforms({str(level): means[..., place] for level, place in levels.items()})
        for name, levels in places.items()
    }
    return metrics.mean_over_transforms(by_name)


ACCURACY_TABLE = LevelContent(
    "accuracy by transform and level",
    "Percent, ± half of the 95 % interval. Higher is better.",
    "transform",
    "level",
    lambda row: row.accuracies,
    lambda row: row.mean_accuracy,
    heading="level ",
)


def _tables(layout: ReportLayout[TransformSummary], section: str, models: Models[TransformSummary]) -> Iterator[Table]:
    """Yield accuracies by transform and level, with lines over the levels, or, of a single level, bars."""
    table = by_level(layout, section, ACCURACY_TABLE, models)
    levels = {level for summary in models.values() for row in summary.rows for level in row.accuracies}
    yield table if len(levels) > 1 else replace(table, plot=bars(layout, models, ROW_MEAN, "accuracy"))
