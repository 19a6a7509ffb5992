"""The report on ImageNet-S: summary, figures, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Column, Figure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.formats import PLAIN, Cell, Number
from pipeline.evaluate.report.plots import Grids, Plot, PlotKind
from pipeline.evaluate.report.scores import Evaluation, error_scores
from pipeline.text import printable
from pipeline.transforms.imagenet_s import FAMILY, PAIRS


@dataclass(frozen=True)
class PairRow:
    """Accuracy through one pair of decoder and resize operator."""

    name: str
    decoder: str
    resize: str
    accuracy: Estimate

    @property
    def group(self) -> str:
        """Pairs have no group."""
        return ""

    @property
    def benchmark(self) -> bool:
        """Means are over all pairs."""
        return True


@dataclass(frozen=True)
class SystemNoiseSummary:
    """ImageNet-S, of one model. ``nsd``: minus the standard deviation of the accuracies, in percentage points."""

    model: str
    data_set: str
    images: int
    failed: int
    rows: Sequence[PairRow]
    mean_accuracy: Estimate
    nsd: Estimate
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


def summarise_system_noise(each: Evaluation, context: ReportContext) -> list[SystemNoiseSummary]:
    """Return the figures of ImageNet-S."""
    scores = error_scores(each)
    found = context.bootstrap(1 - scores.values)
    about = context.about(each, scores.images)
    places = {str(condition): place for place, condition in enumerate(scores.keys)}
    return [
        SystemNoiseSummary(
            about.model,
            about.data_set,
            len(scores.images.ids),
            about.failed,
            [_row(condition.transform, place, found) for place, condition in enumerate(scores.keys)],
            found.estimate(lambda means: metrics.mean_over_transforms(_columns(means, places))),
            found.estimate(metrics.normalised_standard_deviation),
            about.manifest_sha256,
            about.source_ids_sha256,
        )
    ]


def _row(name: str, place: int, found: Bootstrap) -> PairRow:
    return PairRow(name, PAIRS[name].decoder, PAIRS[name].resize, column_mean(found, place))


def _columns(means: NDArray[np.float64], places: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """Return the accuracy of each pair, (...), from means (..., columns)."""
    return {name: means[..., place] for name, place in places.items()}


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
    note = "Percent, with the 95 % interval over images. Higher is better."
    plot = Plot(PlotKind.HEAT_MAPS, Grids(grids, ("decoder", "resize operator")))
    yield Table(section, "accuracy by decoder and resize operator", note, columns, rows, plot)


MEAN_ACCURACY = Figure("mean accuracy", lambda summary: summary.mean_accuracy)

REPORT = ReportFamily(
    FAMILY.name,
    summarise_system_noise,
    ReportLayout[SystemNoiseSummary](
        key="system_noise",
        figures=(MEAN_ACCURACY, Figure("NSD (percentage points)", lambda summary: summary.nsd, PLAIN)),
        leads=(MEAN_ACCURACY,),
        note="In brackets the 95 % interval over images. Accuracy in percent; NSD is minus the standard deviation of "
        "the accuracies. Higher is better.",
        tables=_tables,
        rows=lambda summary: summary.rows,
        row_figures=(Figure("accuracy", lambda row: row.accuracy),),
        glossary=(
            (
                "NSD",
                "Minus the standard deviation of the accuracies over all pairs of decoder and resize operator, in "
                "percentage points. Zero: the preparation of the images makes no difference.",
            ),
        ),
        sources=("Tang et al., RobustART, 2021 (ImageNet-S)",),
    ),
)
