"""The report on ImageNet-C and its editions: summary, metrics, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import corruptions
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import alexnet
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.metrics.checks import Floats
from pipeline.evaluate.report.baseline import warn_of_image_count
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
    errors_of,
    is_complete,
    mean_corruption_error,
    mean_error_of,
    row_of,
)
from pipeline.evaluate.report.error_baseline import ErrorBaseline, error_baseline
from pipeline.evaluate.report.estimates import column_mean, complement
from pipeline.evaluate.report.family import (
    Benchmark,
    Figure,
    LevelFigure,
    Models,
    ReportFamily,
    ReportLayout,
    Table,
)
from pipeline.evaluate.report.formats import COUNT
from pipeline.evaluate.report.matching import CleanError
from pipeline.evaluate.report.real_errors import real_errors
from pipeline.evaluate.report.scores import Evaluation
from pipeline.evaluate.report.tables import (
    TransformTable,
    by_level,
    by_transform,
)
from pipeline.evaluate.report.validation import complete_images
from pipeline.transforms.imagenet_c import FAMILY

CATEGORIES: Mapping[str, Sequence[str]] = {
    category: [name for name in corruptions.names("benchmark") if corruptions.get(name).group == category]
    for category in dict.fromkeys(corruptions.get(name).group for name in corruptions.names("benchmark"))
}
"""Corruptions of the benchmark by category."""


# Summary


@dataclass(frozen=True)
class CorruptionSummary:
    """Errors of one model on ImageNet-C or one of its editions.

    Means are over the benchmark's corruptions in the data set; if it has none of them, over all its corruptions.

    Attributes:
        model: Name of the model.
        data_set: Name of the data set.
        images: Number of images.
        failed: Number of failed samples.
        baseline: Name of the baseline; None if errors are not normalised.
        complete: Whether the data set has all 15 corruptions of the benchmark at all five severities.
        rows: Errors by corruption.
        curve: Mean accuracy by severity.
        mean_error: Mean corruption error, unnormalised.
        mean_corruption_error: mCE.
        relative_mean_corruption_error: Relative mCE.
        clean_error: Error on the clean images.
        clean_images: How the clean images are stored; empty if they were not evaluated.
        residual_robustness: Clean accuracy minus the mean accuracy on corrupted images.
        manifest_sha256: Digest of the data set's manifest.
        source_ids_sha256: Digest of the sorted source ids of the images.
        robustness: 1 - mCE.
        calibration: Calibration of the probabilities.
        mean_accuracy: Mean corruption accuracy, unnormalised.
        real_accuracy: The same by the reassessed labels; None if there are none.
        real_images: Number of images that have reassessed labels.
        complete_images: Number of images of the complete data set; 0 if unknown.
        category_errors: Mean CE over the corruptions of the benchmark by category, such as "noise".
    """

    model: str
    data_set: str
    images: int
    failed: int
    baseline: str | None
    complete: bool
    rows: Sequence[CorruptionRow]
    curve: Mapping[int, Estimate]
    mean_error: Estimate | None
    mean_corruption_error: Estimate | None
    relative_mean_corruption_error: float | None
    clean_error: float | None
    residual_robustness: float | None
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    robustness: Estimate | None = None
    calibration: CalibrationSummary | None = None
    mean_accuracy: Estimate | None = None
    real_accuracy: Estimate | None = None
    real_images: int | None = None
    complete_images: int = 0
    category_errors: Mapping[str, Estimate] = field(default_factory=dict)
    clean_images: str = ""


# Metrics


def summarise_corruptions(evaluation: Evaluation, context: ReportContext) -> list[CorruptionSummary]:
    """Return the summary of an evaluation on ImageNet-C or one of its editions."""
    scores, probabilities = read_probabilities(evaluation)
    clean = context.clean_error(evaluation, scores.images)
    baseline = error_baseline(evaluation, scores, clean, context, corruptions.names("benchmark"))
    about = context.about(evaluation, scores.images)
    columns = columns_of(scores.keys)
    bootstrap = context.bootstrap(scores.values)
    common_errors = scores.values[clean.rows].mean(axis=0) if clean else None
    rows = [_row(name, levels, bootstrap, common_errors, clean, baseline) for name, levels in columns.items()]
    benchmark = {name: columns[name] for name in columns if name in set(corruptions.names("benchmark"))}
    counted = benchmark or columns
    divisors = divisors_of(counted, baseline)
    normalised = any(row.corruption_error is not None for row in rows)
    mean_error = bootstrap.estimate(lambda means: mean_error_of(means, counted))
    real = real_errors(evaluation, scores.images, context)
    real_bootstrap = context.bootstrap(real.values) if real else None
    if real_bootstrap:
        rows = [_with_real_accuracy(row, columns[row.name], real_bootstrap) for row in rows]
    if baseline and normalised and not context.evaluated_baseline:
        warn_of_image_count(evaluation, len(scores.images.ids), context.warn)
    return [
        CorruptionSummary(
            model=about.model,
            data_set=about.data_set,
            images=len(scores.images.ids),
            failed=about.failed,
            baseline=baseline.name if baseline and normalised else None,
            complete=is_complete(benchmark, corruptions.names("benchmark")),
            rows=rows,
            curve=curve_of(counted, bootstrap),
            mean_error=mean_error,
            mean_corruption_error=mean_corruption_error(bootstrap, counted, divisors),
            relative_mean_corruption_error=_mean([r.relative_corruption_error for r in rows if r.name in counted]),
            clean_error=clean.value if clean else None,
            residual_robustness=_residual_robustness(clean, common_errors, counted),
            manifest_sha256=about.manifest_sha256,
            source_ids_sha256=about.source_ids_sha256,
            robustness=bootstrap.estimate(
                lambda means: metrics.corruption_robustness(errors_of(means, counted), divisors)
            )
            if divisors
            else None,
            calibration=calibration_summary(evaluation, probabilities, context, counted),
            mean_accuracy=complement(mean_error),
            real_accuracy=complement(real_bootstrap.estimate(lambda means: mean_error_of(means, counted)))
            if real_bootstrap
            else None,
            real_images=len(real.images.ids) if real else None,
            complete_images=complete_images(evaluation, scores.images.ids),
            clean_images=clean.encoded if clean else "",
            category_errors=_category_errors(benchmark, bootstrap, baseline),
        )
    ]


def _row(
    name: str,
    levels: Mapping[int, int],
    bootstrap: Bootstrap,
    common_errors: Floats | None,
    clean: CleanError | None,
    baseline: ErrorBaseline | None,
) -> CorruptionRow:
    """Return the row of one corruption; ``common_errors`` (columns,) are over the images that have a clean version."""
    published, benchmark = corruptions.names("all"), corruptions.names("benchmark")
    group = corruptions.get(name).group if name in published else ""
    row = row_of(name, group, name in benchmark, levels, bootstrap, baseline)
    if row.corruption_error is None or clean is None or common_errors is None:
        return row
    relative = _relative(name, list(levels), common_errors[list(levels.values())], clean, baseline)
    return replace(row, relative_corruption_error=relative)


def _with_real_accuracy(row: CorruptionRow, levels: Mapping[int, int], errors: Bootstrap) -> CorruptionRow:
    """Return the row with accuracies by reassessed labels, from the errors by these labels."""
    columns = list(levels.values())
    return replace(
        row,
        real_accuracies={level: complement(column_mean(errors, column)) for level, column in levels.items()},
        real_accuracy=complement(errors.estimate(lambda means: metrics.mean_error(means[..., columns]))),
    )


def _relative(
    name: str, levels: Sequence[int], errors: Floats, clean: CleanError, baseline: ErrorBaseline | None
) -> float | None:
    """Return the relative CE; None if a clean error is unknown or the baseline loses no accuracy."""
    reference = baseline.relative_errors(name, levels) if baseline else None
    if reference is None or baseline is None or baseline.clean_error is None:
        return None
    if sum(reference) <= baseline.clean_error * len(reference):
        return None
    return float(metrics.relative_corruption_error(errors, clean.value, reference, baseline.clean_error))


def _mean(relatives: Sequence[float | None]) -> float | None:
    """Return the relative mCE, the mean of the relative CEs; None if one is unknown."""
    known = {str(index): each for index, each in enumerate(relatives) if each is not None}
    return float(metrics.mean_over_transforms(known)) if len(known) == len(relatives) else None


def _category_errors(benchmark: Columns, bootstrap: Bootstrap, baseline: ErrorBaseline | None) -> dict[str, Estimate]:
    """Return the mean CE by category, without categories of which an error of the baseline is unknown."""
    found = {}
    for category, names in CATEGORIES.items():
        columns = {name: benchmark[name] for name in names if name in benchmark}
        if error := mean_corruption_error(bootstrap, columns, divisors_of(columns, baseline)):
            found[category] = error
    return found


def _residual_robustness(clean: CleanError | None, common_errors: Floats | None, counted: Columns) -> float | None:
    if clean is None or common_errors is None:
        return None
    return float(metrics.residual_robustness(1 - clean.value, 1 - mean_error_of(common_errors, counted)))


# Tables and plots


def _category_figure(category: str) -> Figure:
    """Return the mean CE over the corruptions of the benchmark in a category."""
    names = CATEGORIES[category]

    def is_complete(summary: CorruptionSummary) -> bool:
        return all(set(row.errors) == set(alexnet.SEVERITIES) for row in summary.rows if row.name in names)

    return Figure(
        f"mean CE ({category})",
        lambda summary: summary.category_errors.get(category),
        normalised=True,
        over=lambda row: row.corruption_error if row.name in names else None,
        benchmark=Benchmark(len(names), f"{category} corruption", is_complete),
    )


ROBUSTNESS = Figure(
    "1 - mCE", lambda summary: summary.robustness, normalised=True, over=lambda row: row.corruption_error
)
FIGURES = (
    MCE,
    Figure(
        "relative mCE",
        lambda summary: summary.relative_mean_corruption_error,
        normalised=True,
        over=lambda row: row.relative_corruption_error,
        of_clean=True,
    ),
    ROBUSTNESS,
    MEAN_ERROR,
    Figure(
        "mean corruption accuracy (unnormalised)",
        lambda summary: summary.mean_accuracy,
        over=lambda row: row.mean_error,
    ),
    Figure("accuracy (ReaL)", lambda summary: summary.real_accuracy, over=lambda row: row.real_accuracy),
    Figure("images (ReaL)", lambda summary: summary.real_images, COUNT),
    *map(_category_figure, CATEGORIES),
    Figure(
        "residual robustness",
        lambda summary: summary.residual_robustness,
        over=lambda row: row.mean_error,
        of_clean=True,
    ),
    Figure("clean error", lambda summary: summary.clean_error, of_clean=True),
)
ROW_FIGURES = (
    CE,
    Figure("relative CE", lambda row: row.relative_corruption_error, normalised=True, of_clean=True),
    MEAN_ERROR_OF_ROW,
    Figure("accuracy (ReaL)", lambda row: row.real_accuracy),
)
REAL_TABLE = TransformTable(
    "accuracy by reassessed labels (ReaL)",
    "Mean accuracy over the severities in percent, with the 95 % confidence interval over images in brackets. Higher "
    "is better.",
    ROW_FIGURES[3:],
)

CorruptionLayout = ReportLayout[CorruptionSummary]
CorruptionModels = Models[CorruptionSummary]


def _tables(layout: CorruptionLayout, section: str, models: CorruptionModels) -> Iterator[Table]:
    yield curve_table(layout, section, models)
    yield by_level(layout, section, ACCURACY_TABLE, models)
    yield by_transform(layout, section, ce_table(*ROW_FIGURES[:2]), models, "corruption")
    if any(all(row.corruption_error is None for row in each.rows) for each in models.values()):
        yield by_transform(layout, section, MEAN_ERROR_TABLE, models, "corruption")
    yield by_transform(layout, section, REAL_TABLE, models, "corruption")


GLOSSARY = (
    (
        "CE, mCE",
        "Corruption error: the error rates at all severities, summed and divided by the baseline's sum. mCE is the "
        "mean CE over the 15 corruptions of the benchmark. Below 100, the model makes fewer errors than the baseline.",
    ),
    (
        "Relative CE, relative mCE",
        "As CE and mCE, but with the clean error rate subtracted from every error rate of the model and of the "
        "baseline. They measure how much accuracy corruptions cost, regardless of the accuracy on clean images.",
    ),
    (
        "Mean corruption error (unnormalised)",
        "The mean error rate over the corruptions of the benchmark and their severities. It is not divided by a "
        "baseline, so it must not be compared with mCE.",
    ),
    (
        "Residual robustness",
        "The clean accuracy minus the mean accuracy on corrupted images, in percentage points. 0 means that "
        "corruptions cost no accuracy.",
    ),
)

REPORT = ReportFamily(
    FAMILY.name,
    summarise_corruptions,
    CorruptionLayout(
        key="corruptions",
        figures=FIGURES,
        leads=(MCE, MEAN_ERROR),
        note="Percent, with the 95 % confidence interval over images in brackets. Lower is better, except for "
        "accuracies. Residual robustness is the clean accuracy minus the mean accuracy on corrupted images.",
        normalised_note="mCE and relative mCE are in percent of the baseline's errors. For 1 - mCE, higher is better.",
        counts=(
            Figure("images", lambda summary: summary.images, COUNT, total=lambda summary: summary.complete_images),
            Figure("failed", lambda summary: summary.failed, COUNT),
        ),
        benchmark=Benchmark(len(corruptions.names("benchmark")), "corruption", lambda summary: summary.complete),
        tables=_tables,
        rows=lambda summary: summary.rows,
        row_figures=ROW_FIGURES,
        level_figures=(CURVE,),
        row_level_figures=(
            LevelFigure("error", lambda row: row.errors),
            LevelFigure("accuracy (ReaL)", lambda row: row.real_accuracies),
        ),
        baseline=lambda summary: summary.baseline,
        clean_accuracy=lambda summary: None if summary.clean_error is None else 1 - summary.clean_error,
        clean_images=lambda summary: summary.clean_images,
        calibration=CalibrationTable("corruption", "severity"),
        glossary=GLOSSARY,
        sources=("Hendrycks and Dietterich, ICLR 2019 (ImageNet-C, ImageNet-P)",),
    ),
)
