"""The report on ImageNet-C-bar and CIFAR-10-C-bar: summary, metrics, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.report.calibration import (
    CalibrationSummary,
    CalibrationTable,
    calibration_summary,
    read_probabilities,
)
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.corruption_rows import (
    ACCURACY_TABLE,
    CE,
    CURVE,
    MCE,
    MEAN_ERROR,
    MEAN_ERROR_OF_ROW,
    MEAN_ERROR_TABLE,
    Columns,
    CorruptionRow,
    ce_table,
    columns_of,
    curve_of,
    curve_table,
    divisors_of,
    is_complete,
    mean_corruption_error,
    mean_error_of,
    row_of,
)
from pipeline.evaluate.report.error_baseline import error_baseline
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Benchmark, Figure, LevelFigure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.formats import COUNT
from pipeline.evaluate.report.imagenet_c_errors import errors_on_imagenet_c
from pipeline.evaluate.report.scores import Evaluation
from pipeline.evaluate.report.tables import by_level, by_transform
from pipeline.evaluate.report.validation import complete_images
from pipeline.transforms.imagenet_c_bar import FAMILY, PUBLISHED

TEN = 10
"""Number of corruptions of ImageNet-C-bar, and of CIFAR-10-C-bar."""

GROUP = "benchmark"
"""Title of the plot of the corruptions of the benchmark, which has no groups."""


# Summary


@dataclass(frozen=True)
class BarSummary:
    """Errors of one model on ImageNet-C-bar or CIFAR-10-C-bar.

    Means are over the ten corruptions that were published for the profile of the images; if the data set has none of
    them, over all its corruptions.

    Attributes:
        model: Name of the model.
        data_set: Name of the data set.
        images: Number of images.
        failed: Number of failed samples.
        complete: Whether the data set has all ten corruptions at all five severities.
        rows: Errors by corruption.
        curve: Mean accuracy by severity.
        mean_error: Mean corruption error, unnormalised.
        imagenet_c_error: The same on ImageNet-C or its edition, over the images that both evaluations have; None if it
            was not evaluated completely.
        difference: Mean corruption error minus that on ImageNet-C, over the same images.
        clean_error: Error on the clean images.
        clean_images: How the clean images are stored; empty if they were not evaluated.
        baseline: Name of the evaluated baseline; None if errors are not normalised.
        mean_corruption_error: mCE by the evaluated baseline.
        manifest_sha256: Digest of the data set's manifest.
        source_ids_sha256: Digest of the sorted source ids of the images.
        calibration: Calibration of the probabilities.
        complete_images: Number of images of the complete data set; 0 if unknown.
    """

    model: str
    data_set: str
    images: int
    failed: int
    complete: bool
    rows: Sequence[CorruptionRow]
    curve: Mapping[int, Estimate]
    mean_error: Estimate
    imagenet_c_error: Estimate | None = None
    difference: Estimate | None = None
    clean_error: float | None = None
    baseline: str | None = None
    mean_corruption_error: Estimate | None = None
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    calibration: CalibrationSummary | None = None
    complete_images: int = 0
    clean_images: str = ""


# Metrics


def summarise_bar(evaluation: Evaluation, context: ReportContext) -> list[BarSummary]:
    """Return the summary of an evaluation on ImageNet-C-bar or CIFAR-10-C-bar."""
    scores, probabilities = read_probabilities(evaluation)
    ten = PUBLISHED.get(evaluation.table.data_set.profile, ())
    clean = context.clean_error(evaluation, scores.images)
    baseline = error_baseline(evaluation, scores, clean, context, ten)
    about = context.about(evaluation, scores.images)
    columns, bootstrap = columns_of(scores.keys), context.bootstrap(scores.values)
    benchmark = {name: columns[name] for name in columns if name in ten}
    counted = benchmark or columns
    rows = [row_of(name, GROUP, name in ten, levels, bootstrap, baseline) for name, levels in columns.items()]
    on_imagenet_c = errors_on_imagenet_c(evaluation, scores.images, context)
    paired = on_imagenet_c and context.bootstrap(np.c_[scores.values[on_imagenet_c.rows], on_imagenet_c.errors])
    return [
        BarSummary(
            model=about.model,
            data_set=about.data_set,
            images=len(scores.images.ids),
            failed=about.failed,
            complete=is_complete(benchmark, ten),
            rows=rows,
            curve=curve_of(counted, bootstrap),
            mean_error=bootstrap.estimate(lambda means: mean_error_of(means, counted)),
            imagenet_c_error=column_mean(paired, -1) if paired else None,
            difference=_difference(paired, counted) if paired else None,
            clean_error=clean.value if clean else None,
            baseline=baseline.name if baseline and any(row.corruption_error for row in rows) else None,
            mean_corruption_error=mean_corruption_error(bootstrap, counted, divisors_of(counted, baseline)),
            manifest_sha256=about.manifest_sha256,
            source_ids_sha256=about.source_ids_sha256,
            calibration=calibration_summary(evaluation, probabilities, context, counted),
            complete_images=complete_images(evaluation, scores.images.ids),
            clean_images=clean.encoded if clean else "",
        )
    ]


def _difference(paired: Bootstrap, counted: Columns) -> Estimate:
    """Return the mean corruption error minus that on ImageNet-C, which is the last column."""
    return paired.estimate(lambda means: mean_error_of(means, counted) - means[..., -1])


# Tables and plots

DIFFERENCE = Figure(
    "difference to ImageNet-C's corruptions",
    lambda summary: summary.difference,
    over=lambda row: row.mean_error,
    higher_is_better=False,
)
FIGURES = (
    MEAN_ERROR,
    Figure("mean error on ImageNet-C's corruptions", lambda summary: summary.imagenet_c_error),
    DIFFERENCE,
    MCE,
    Figure("clean error", lambda summary: summary.clean_error, of_clean=True),
)


def _tables(layout: ReportLayout[BarSummary], section: str, models: Models[BarSummary]) -> Iterator[Table]:
    yield by_transform(layout, section, MEAN_ERROR_TABLE, models, "corruption")
    yield by_level(layout, section, ACCURACY_TABLE, models)
    yield curve_table(layout, section, models)
    yield by_transform(layout, section, ce_table(CE), models, "corruption")


REPORT = ReportFamily(
    FAMILY.name,
    summarise_bar,
    ReportLayout[BarSummary](
        key="c_bar",
        figures=FIGURES,
        leads=(MEAN_ERROR,),
        note="Percent, with the 95 % confidence interval over images in brackets. Lower is better. The difference, in "
        "percentage points, is the mean corruption error minus that of the same model on the same images under the 15 "
        "corruptions of ImageNet-C, which are also those of CIFAR-10-C.",
        normalised_note="mCE is in percent of the baseline's errors.",
        counts=(
            Figure("images", lambda summary: summary.images, COUNT, total=lambda summary: summary.complete_images),
            Figure("failed", lambda summary: summary.failed, COUNT),
        ),
        benchmark=Benchmark(TEN, "corruption", lambda summary: summary.complete),
        tables=_tables,
        rows=lambda summary: summary.rows,
        row_figures=(MEAN_ERROR_OF_ROW, CE),
        level_figures=(CURVE,),
        row_level_figures=(LevelFigure("error", lambda row: row.errors),),
        baseline=lambda summary: summary.baseline,
        clean_accuracy=lambda summary: None if summary.clean_error is None else 1 - summary.clean_error,
        clean_images=lambda summary: summary.clean_images,
        calibration=CalibrationTable("corruption", "severity"),
        glossary=(
            (
                "Difference to ImageNet-C's corruptions",
                "The mean corruption error on ImageNet-C-bar minus that on ImageNet-C, or CIFAR-10-C-bar minus "
                "CIFAR-10-C, both unnormalised, in percentage points. Both sets are about equally hard for a plain "
                "ResNet-50, so a large difference shows that a model is robust to the corruptions of ImageNet-C more "
                "than to others.",
            ),
        ),
        sources=("Mintun, Kirillov and Xie, NeurIPS 2021 (ImageNet-C-bar, CIFAR-10-C-bar)",),
    ),
)
