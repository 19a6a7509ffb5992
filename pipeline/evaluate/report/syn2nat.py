"""The report on ImageNet-Syn2Nat and its candidates: summary, metrics, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.metrics.checks import Figures, Floats
from pipeline.evaluate.report.calibration import (
    CalibrationSummary,
    CalibrationTable,
    calibration_summary,
    read_probabilities,
)
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Benchmark, Figure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.scores import Evaluation
from pipeline.evaluate.report.tables import TransformTable, by_transform
from pipeline.transforms.syn2nat import CATEGORY_OF, FAMILY, SYN2NAT


@dataclass(frozen=True)
class CandidateRow:
    """Accuracy under one candidate, and the accuracy that it costs: clean accuracy minus accuracy."""

    name: str
    group: str
    benchmark: bool
    accuracy: Estimate
    residual_robustness: Estimate | None


@dataclass(frozen=True)
class CandidateSummary:
    """Accuracy of one model on ImageNet-Syn2Nat or its candidates.

    Means are over the candidates of the benchmark in the data set; if it has none of them, over all its candidates.

    Attributes:
        model: Name of the model.
        data_set: Name of the data set.
        images: Number of images.
        failed: Number of failed samples.
        rows: Results by candidate.
        mean_accuracy: Mean accuracy.
        residual_robustness: Clean accuracy minus mean accuracy, over the images that have a clean version; None if
            clean images were not evaluated.
        clean_accuracy: Accuracy on the clean images.
        clean_images: How the clean images are stored; empty if they were not evaluated.
        manifest_sha256: Digest of the data set's manifest.
        source_ids_sha256: Digest of the sorted source ids of the images.
        calibration: Calibration of the probabilities, over the candidates that means are taken over.
    """

    model: str
    data_set: str
    images: int
    failed: int
    rows: Sequence[CandidateRow]
    mean_accuracy: Estimate
    residual_robustness: Estimate | None
    clean_accuracy: float | None
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    calibration: CalibrationSummary | None = None
    clean_images: str = ""


def summarise_candidates(evaluation: Evaluation, context: ReportContext) -> list[CandidateSummary]:
    """Return the summary of an evaluation on ImageNet-Syn2Nat or its candidates."""
    scores, probabilities = read_probabilities(evaluation)
    clean = context.clean_error(evaluation, scores.images)
    about = context.about(evaluation, scores.images)
    bootstrap = context.bootstrap(1 - scores.values)
    columns = {condition.transform: column for column, condition in enumerate(scores.keys)}
    counted = {name: columns[name] for name in columns if name in SYN2NAT} or columns
    paired = context.bootstrap(1 - np.c_[scores.values[clean.rows], clean.errors]) if clean else None
    return [
        CandidateSummary(
            model=about.model,
            data_set=about.data_set,
            images=len(scores.images.ids),
            failed=about.failed,
            rows=[_row(name, column, bootstrap, paired) for name, column in columns.items()],
            mean_accuracy=bootstrap.estimate(lambda means: _mean(means, counted)),
            residual_robustness=_residual_robustness(paired, counted),
            clean_accuracy=1 - clean.value if clean else None,
            manifest_sha256=about.manifest_sha256,
            source_ids_sha256=about.source_ids_sha256,
            calibration=calibration_summary(evaluation, probabilities, context, counted),
            clean_images=clean.encoded if clean else "",
        )
    ]


def _row(name: str, column: int, bootstrap: Bootstrap, paired: Bootstrap | None) -> CandidateRow:
    """Return the row of one candidate."""
    return CandidateRow(
        name,
        CATEGORY_OF.get(name, ""),
        name in SYN2NAT,
        column_mean(bootstrap, column),
        _residual_robustness(paired, {name: column}),
    )


def _mean(means: Floats, columns: Mapping[str, int]) -> Figures:
    """Return the mean accuracy over candidates, (...), from column means (..., columns)."""
    return metrics.mean_over_transforms({name: means[..., column] for name, column in columns.items()})


def _residual_robustness(paired: Bootstrap | None, columns: Mapping[str, int]) -> Estimate | None:
    """Return clean accuracy minus mean accuracy. ``paired`` has the accuracies of candidates, then the clean one."""
    if paired is None:
        return None
    return paired.estimate(lambda means: metrics.residual_robustness(means[..., -1], _mean(means, columns)))


ROW_FIGURES = (
    Figure("accuracy", lambda row: row.accuracy),
    Figure("residual robustness", lambda row: row.residual_robustness, of_clean=True),
)
ACCURACY_TABLE = TransformTable(
    "accuracy by candidate",
    "Top-1 accuracy in percent, with the 95 % confidence interval over images in brackets. Higher is better.",
    ROW_FIGURES[:1],
    bars="accuracy",
)
ROBUSTNESS_TABLE = TransformTable(
    "residual robustness by candidate",
    "Clean accuracy minus accuracy, in percentage points, with the 95 % confidence interval over images in brackets. "
    "Smaller is better.",
    ROW_FIGURES[1:],
    bars="residual robustness",
)


def _tables(layout: ReportLayout[CandidateSummary], section: str, models: Models[CandidateSummary]) -> Iterator[Table]:
    yield by_transform(layout, section, ACCURACY_TABLE, models, "candidate")
    if any(row.residual_robustness is not None for each in models.values() for row in each.rows):
        yield by_transform(layout, section, ROBUSTNESS_TABLE, models, "candidate")


RESIDUAL_ROBUSTNESS = Figure(
    "residual robustness",
    lambda summary: summary.residual_robustness,
    over=lambda row: row.residual_robustness,
    higher_is_better=False,
    of_clean=True,
)
MEAN_ACCURACY = Figure(
    "mean accuracy", lambda summary: summary.mean_accuracy, over=lambda row: row.accuracy, higher_is_better=True
)


def _is_complete(summary: CandidateSummary) -> bool:
    return set(SYN2NAT) <= {row.name for row in summary.rows}


REPORT = ReportFamily(
    FAMILY.name,
    summarise_candidates,
    ReportLayout[CandidateSummary](
        key="syn2nat",
        figures=(
            RESIDUAL_ROBUSTNESS,
            MEAN_ACCURACY,
            Figure("clean accuracy", lambda summary: summary.clean_accuracy, of_clean=True),
        ),
        leads=(RESIDUAL_ROBUSTNESS, MEAN_ACCURACY),
        note="Percent, with the 95 % confidence interval over images in brackets. Residual robustness is the clean "
        "accuracy minus the mean accuracy on corrupted images: smaller is better. Compare only models of similar clean "
        "accuracy by it.",
        benchmark=Benchmark(len(SYN2NAT), "corruption", _is_complete),
        tables=_tables,
        rows=lambda summary: summary.rows,
        row_figures=ROW_FIGURES,
        clean_accuracy=lambda summary: summary.clean_accuracy,
        clean_images=lambda summary: summary.clean_images,
        calibration=CalibrationTable("candidate"),
        glossary=(
            (
                "Residual robustness (ImageNet-Syn2Nat)",
                "The clean accuracy minus the mean accuracy under the 18 corruptions of ImageNet-Syn2Nat, in "
                "percentage points. Other candidates are not included in means.",
            ),
        ),
        sources=("Laugros, Caplier and Ospici, BMVC 2021 (ImageNet-Syn2Nat)",),
    ),
)
