"""An example of a user's report, on the family own-waves: accuracy under each wave and under the worst one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Column, Figure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.formats import Cell, Number
from pipeline.evaluate.report.plots import BarGroups, Plot, PlotKind
from pipeline.evaluate.report.scores import Evaluation, error_scores


@dataclass(frozen=True)
class WaveRow:
    name: str
    accuracy: Estimate
    group: str = "waves"
    benchmark: bool = True


@dataclass(frozen=True)
class WaveSummary:
    model: str
    data_set: str
    images: int
    failed: int
    rows: Sequence[WaveRow]
    worst: Estimate
    manifest_sha256: str
    source_ids_sha256: str


def summarise_waves(evaluation: Evaluation, context: ReportContext) -> list[WaveSummary]:
    scores = error_scores(evaluation)
    resampled = context.bootstrap(1 - scores.values)
    about = context.about(evaluation, scores.images)
    rows = [WaveRow(condition.transform, column_mean(resampled, index)) for index, condition in enumerate(scores.keys)]
    worst = resampled.estimate(lambda means: means.min(axis=-1))
    images = len(scores.images.ids)
    return [
        WaveSummary(
            about.model,
            about.data_set,
            images,
            about.failed,
            rows,
            worst,
            about.manifest_sha256,
            about.source_ids_sha256,
        )
    ]


def tables(layout: ReportLayout[WaveSummary], section: str, models: Models[WaveSummary]) -> Iterator[Table]:
    rows: list[Sequence[Cell]] = [
        [row.name, model, Number(row.accuracy)] for model, summary in models.items() for row in summary.rows
    ]
    columns = [Column("wave", number=False), Column("model", number=False), Column("accuracy")]
    bars = {row.name: {model: row.accuracy} for model, summary in models.items() for row in summary.rows}
    yield Table(
        section,
        "accuracy by wave",
        "Percent.",
        columns,
        rows,
        Plot(PlotKind.BARS, BarGroups({"waves": bars}, "accuracy")),
    )


WORST = Figure("accuracy under the worst wave", lambda summary: summary.worst)

REPORT = ReportFamily(
    "own-waves",
    summarise_waves,
    ReportLayout[WaveSummary](
        key="waves",
        figures=(WORST,),
        leads=(WORST,),
        note="Percent. Higher is better.",
        tables=tables,
        rows=lambda summary: summary.rows,
        row_figures=(Figure("accuracy", lambda row: row.accuracy),),
        glossary=(("Worst wave", "The wave with the lowest accuracy."),),
        sources=("Nobody, 2026 (waves)",),
    ),
)
