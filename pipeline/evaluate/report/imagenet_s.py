"""The report on ImageNet-S: summary, metrics, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.report.calibration import (
    CalibrationSummary,
    CalibrationTable,
    calibration_summary,
    read_probabilities,
)
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Column, Figure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.formats import PLAIN, Cell, Number
from pipeline.evaluate.report.plots import Grids, Plot, PlotKind
from pipeline.evaluate.report.scores import Evaluation
from pipeline.text import printable
from pipeline.transforms.imagenet_s import FAMILY, PAIRS


@dataclass(frozen=True)
class PairRow:
    """Accuracy with one pair of decoder and resize operator."""

    name: str
    decoder: str
    resize: str
    accuracy: Estimate

    @property
    def group(self) -> str:
        """Empty: pairs have no group."""
        return ""

    @property
    def benchmark(self) -> bool:
        """True: means are over all pairs."""
        return True


@dataclass(frozen=True)
class SystemNoiseSummary:
    """Accuracy of one model on ImageNet-S.

    ``nsd`` is the negated standard deviation of the pairs' accuracies, in percentage points.
    """

    model: str
    data_set: str
    images: int
    failed: int
    rows: Sequence[PairRow]
    mean_accuracy: Estimate
    nsd: Estimate
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    calibration: CalibrationSummary | None = None


def summarise_system_noise(evaluation: Evaluation, context: ReportContext) -> list[SystemNoiseSummary]:
    """Return the summary of an evaluation on ImageNet-S."""
    scores, probabilities = read_probabilities(evaluation)
    bootstrap = context.bootstrap(1 - scores.values)
    about = context.about(evaluation, scores.images)
    columns = {str(condition): column for column, condition in enumerate(scores.keys)}
    return [
        SystemNoiseSummary(
            about.model,
            about.data_set,
            len(scores.images.ids),
            about.failed,
            [_row(condition.transform, column, bootstrap) for column, condition in enumerate(scores.keys)],
            bootstrap.estimate(lambda means: metrics.mean_over_transforms(_columns(means, columns))),
            bootstrap.estimate(metrics.normalised_standard_deviation),
            about.manifest_sha256,
            about.source_ids_sha256,
            calibration_summary(evaluation, probabilities, context),
        )
    ]


def _row(name: str, column: int, bootstrap: Bootstrap) -> PairRow:
    return PairRow(name, PAIRS[name].decoder, PAIRS[name].resize, column_mean(bootstrap, column))


def _columns(means: NDArray[np.float64], columns: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """Return the accuracy of each pair, (...), from column means (..., columns)."""
    return {name: means[..., column] for name, column in columns.items()}


def _tables(
    layout: ReportLayout[SystemNoiseSummary], section: str, models: Models[SystemNoiseSummary]
) -> Iterator[Table]:
    grids = {model: {(row.decoder, row.resize): row.accuracy for row in each.rows} for model, each in models.items()}
    pairs = dict.fromkeys(pair for grid in grids.values() for pair in grid)
    rows: list[Sequence[Cell]] = [
        [printable(decoder), printable(resize), *(Number(grid.get((decoder, resize))) for grid in grids.values())]
        for decoder, resize in pairs
    ]
    columns = [Column("decoder", number=False), Column("resize operator", number=False), *map(Column, models)]
    note = "Top-1 accuracy in percent, with the 95 % confidence interval over images in brackets. Higher is better."
    plot = Plot(PlotKind.HEAT_MAPS, Grids(grids, ("decoder", "resize operator")))
    yield Table(section, "accuracy by decoder and resize operator", note, columns, rows, plot)


MEAN_ACCURACY = Figure("mean accuracy", lambda summary: summary.mean_accuracy, higher_is_better=True)

REPORT = ReportFamily(
    FAMILY.name,
    summarise_system_noise,
    ReportLayout[SystemNoiseSummary](
        key="system_noise",
        figures=(MEAN_ACCURACY, Figure("NSD (percentage points)", lambda summary: summary.nsd, PLAIN)),
        leads=(MEAN_ACCURACY,),
        note="Accuracy in percent, NSD in percentage points, with the 95 % confidence interval over images in "
        "brackets. Higher is better.",
        tables=_tables,
        rows=lambda summary: summary.rows,
        row_figures=(Figure("accuracy", lambda row: row.accuracy),),
        calibration=CalibrationTable("pair"),
        glossary=(
            (
                "NSD",
                "The negated standard deviation of the accuracy over all pairs of decoder and resize operator, in "
                "percentage points. 0 means that the accuracy does not depend on how images are decoded and resized.",
            ),
        ),
        sources=("Tang et al., RobustART, 2021 (ImageNet-S)",),
    ),
)
