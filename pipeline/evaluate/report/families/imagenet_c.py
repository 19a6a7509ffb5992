"""The report on ImageNet-C and its editions, and what ImageNet-C-bar has in common with it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

import corruptions
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.alexnet import ALEXNET_CLEAN_ERROR, SEVERITIES, alexnet_errors
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import Facts, FamilyReport, Measure, Metric, Pivot, Results, TransformNames
from pipeline.evaluate.report.real_labels import complete_images, real_images
from pipeline.evaluate.report.subject import CALIBRATION, Grid, Means, Subject
from pipeline.evaluate.report.views import COUNT, INTERVAL, WIDTH
from pipeline.transforms.imagenet_c import FAMILY

BENCHMARK = corruptions.names("benchmark")
CATEGORIES: Mapping[str, Sequence[str]] = {
    category: [name for name in BENCHMARK if corruptions.get(name).group == category]
    for category in dict.fromkeys(corruptions.get(name).group for name in BENCHMARK)
}
"""Corruptions of the benchmark by category."""

MCE, CE = Metric("mCE", -1, "ratio"), Metric("CE", -1, "ratio")
RELATIVE_MCE = Metric("relative mCE", -1, "ratio", of_clean=True)
RELATIVE_CE = Metric("relative CE", -1, "ratio", of_clean=True)
ROBUSTNESS = Metric("1 - mCE", 1, "ratio")
MEAN_ERROR = Metric("mean corruption error (unnormalised)", -1)
MEAN_CORRUPTION_ACCURACY = Metric("mean corruption accuracy (unnormalised)", 1)
REAL_ACCURACY = Metric("accuracy (ReaL)", 1)
OF_CATEGORY = {category: Metric(f"mean CE ({category})", -1, "ratio") for category in CATEGORIES}
RESIDUAL_ROBUSTNESS = Metric("residual robustness", -1, "difference", of_clean=True)
CLEAN_ERROR = Metric("clean error", -1, of_clean=True)
ERROR = Metric("mean error (unnormalised)", -1)
ACCURACY, MEAN_ACCURACY = Metric("accuracy", 1), Metric("mean accuracy", 1)

ALEXNET = "AlexNet (published)"
ALEXNET_IMAGES = 50_000


# Baseline


@dataclass(frozen=True)
class ErrorBaseline:
    """Errors of the baseline."""

    name: str
    errors: Floats  # over all images of the evaluation, (transforms, levels); NaN where unknown
    relative_errors: Floats  # over the images that have a clean version, for relative metrics
    clean_error: float  # NaN if unknown


def has_published_baseline(evaluation: Evaluation) -> bool:
    """Return whether AlexNet's published results apply: 1000 classes, images of 224 x 224."""
    return evaluation.table.data_set.profile == "imagenet" and evaluation.table.labels == 1000


def warn_of_image_count(evaluation: Evaluation, images: int, context: Context) -> None:
    """Warn if results normalised by AlexNet's do not cover the same number of images."""
    if images != ALEXNET_IMAGES:
        context.warn(
            f"{evaluation.folder}: AlexNet's errors were published for {ALEXNET_IMAGES:,} images, not {images:,}, so "
            "normalised metrics are approximate"
        )


def error_baseline(subject: Subject) -> ErrorBaseline | None:
    """Return the baseline of an evaluation's errors; None if there is none.

    Raises:
        UserError: If the evaluated baseline does not match the evaluation.
    """
    evaluation, context, grid, clean = subject.evaluation, subject.context, subject.grid, subject.clean
    if not context.baseline:
        if not has_published_baseline(evaluation):
            return None
        errors = _published_errors(grid)
        return ErrorBaseline(ALEXNET, errors, errors, ALEXNET_CLEAN_ERROR)
    scores = subject.scores
    found = context.baseline_values(evaluation, scores, subject.options["benchmark"])
    if found is None:
        return None
    of_baseline, values = found

    def means(rows: np.ndarray | slice) -> Floats:
        return grid.cells(np.array([values[key][rows].mean() if key in values else np.nan for key in scores.keys]))

    name = context.baseline[0].table.model.name
    if clean is None:
        return ErrorBaseline(name, means(slice(None)), np.full_like(grid.means.cells, np.nan), math.nan)
    images = scores.images.take(clean.rows)
    reference = context.clean_error(of_baseline, images, context.clean_of_baseline)
    if reference is not None and len(reference.rows) < len(images.ids):
        context.warn(
            f"{evaluation.folder}: the baseline has only {len(reference.rows):,} of its {len(images.ids):,} clean "
            "images, so relative metrics are omitted"
        )
        reference = None
    clean_error = reference.value if reference else math.nan
    return ErrorBaseline(name, means(slice(None)), means(clean.rows), clean_error)


def _published_errors(grid: Grid) -> Floats:
    """Return AlexNet's errors at the levels that each transform has; NaN where none is published."""
    errors = np.full_like(grid.means.cells, np.nan)
    for row, name in enumerate(grid.transforms):
        known = np.flatnonzero(~np.isnan(grid.means.cells[row]))
        levels = [grid.levels[column] for column in known]
        if set(levels) <= set(SEVERITIES):
            errors[row, known] = alexnet_errors([name], levels)[0]
    return errors


# Measures


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on ImageNet-C or one of its editions.

    Means are over the benchmark's corruptions in the data set; if it has none of them, over all its corruptions.
    """
    subject = Subject(evaluation, context, benchmark=BENCHMARK, what="corruption", levels=SEVERITIES)
    base, grid, published = error_baseline(subject), subject.grid, set(corruptions.names("all"))
    measures = [
        *error_measures(grid, base),
        *_of_benchmark(grid, base),
        *_of_clean(subject, base),
        *_reassessed(subject),
    ]
    fields = corruption_fields(subject, base, measures)
    robustness = next((each for each in measures if each.metric == ROBUSTNESS.name), None)
    yield subject.results(
        REPORT,
        measures,
        transforms={
            name: TransformNames(corruptions.get(name).group if name in published else "", name in BENCHMARK)
            for name in grid.transforms
        },
        published="imagenet-c" if fields["baseline"] == ALEXNET else "",
        natural={ROBUSTNESS.name: robustness} if robustness and grid.is_complete else {},
        **fields,
    )
    if fields["baseline"] and not context.baseline:
        warn_of_image_count(evaluation, grid.images, context)


def corruption_fields(subject: Subject, base: ErrorBaseline | None, measures: Iterable[Measure]) -> Facts:
    """Return the fields of results on corruptions: numbers of images, the baseline, and whether all are there."""
    complete = complete_images(subject.evaluation, subject.scores.images.ids)
    return {
        "counts": {"images": (subject.grid.images, complete)},
        "baseline": base.name if base and any(each.metric == CE.name for each in measures) else "",
        "details": {"complete": subject.grid.is_complete},
    }


def error_measures(grid: Grid, base: ErrorBaseline | None) -> Iterator[Measure]:
    """Yield accuracies and errors by corruption and severity, their means, and those divided by the baseline's."""
    yield from grid.estimate(MEAN_ERROR, lambda means: grid.mean(means.cells))
    yield from grid.estimate(ACCURACY, lambda means: 1 - means.cells, "both")
    yield from grid.estimate(ACCURACY, lambda means: 1 - metrics.mean_error(means.cells), "transform")
    yield from grid.estimate(ERROR, lambda means: metrics.mean_error(means.cells), "transform")
    curve = lambda means: metrics.robustness_curve(1 - means.cells[..., grid.counted, :])  # noqa: E731
    yield from grid.estimate(MEAN_ACCURACY, curve, "level")
    if base:
        yield from grid.estimate(CE, lambda means: metrics.corruption_error(means.cells, base.errors), "transform")
        yield from grid.estimate(MCE, partial(_mean_ce, base.errors, grid.counted))


def _mean_ce(baseline: Floats, among: np.ndarray, means: Means) -> Floats:
    """Return the mean CE over some corruptions, (...)."""
    return np.asarray(metrics.mean_corruption_error(means.cells[..., among, :], baseline[among]))


def _of_benchmark(grid: Grid, base: ErrorBaseline | None) -> Iterator[Measure]:
    """Yield further means over the benchmark, and over its categories."""
    yield from grid.estimate(MEAN_CORRUPTION_ACCURACY, lambda means: 1 - grid.mean(means.cells))
    if base is None:
        return
    yield from grid.estimate(ROBUSTNESS, lambda means: 1 - _mean_ce(base.errors, grid.counted, means))
    for category, names in CATEGORIES.items():
        if (among := grid.among(names)).any():
            covers = grid.covers(names, f"{category} corruption")
            yield from grid.estimate(OF_CATEGORY[category], partial(_mean_ce, base.errors, among), covers=covers)


def _of_clean(subject: Subject, base: ErrorBaseline | None) -> Iterator[Measure]:
    """Yield the metrics that are relative to the clean error, over the images that have a clean version."""
    if (paired := subject.paired) is None:
        return

    def error(means: Means) -> Floats:
        return np.asarray(means.others[..., 0])

    yield from paired.estimate(
        RESIDUAL_ROBUSTNESS, lambda means: metrics.residual_robustness(1 - error(means), 1 - paired.mean(means.cells))
    )
    yield from paired.estimate(CLEAN_ERROR, error, covers="")
    if base is None:
        return

    def relative(means: Means) -> Floats:
        found = metrics.relative_corruption_error(means.cells, error(means), base.relative_errors, base.clean_error)
        return np.where(np.isnan(metrics.corruption_error(paired.means.cells, base.errors)), np.nan, found)

    yield from paired.estimate(RELATIVE_CE, relative, "transform")
    yield from paired.estimate(RELATIVE_MCE, lambda means: relative(means)[..., paired.counted].mean(axis=-1))


def _reassessed(subject: Subject) -> Iterator[Measure]:
    """Yield accuracies by the reassessed labels, over the images that have one."""
    context = subject.context
    real = real_images(subject.evaluation, subject.scores.images, context.real, context.warn)
    if real is None:
        return
    hits = [metrics.real_hits(column.astype(int), real.labels) for column in subject.scores.values[real.rows, :, 4].T]
    grid = subject.grid_of(np.stack(hits, axis=1))
    yield from grid.estimate(REAL_ACCURACY, lambda means: grid.mean(means.cells))
    yield from grid.estimate(REAL_ACCURACY, lambda means: metrics.mean_over(means.cells), "transform")
    yield from grid.estimate(REAL_ACCURACY, lambda means: means.cells, "both")
    yield Measure("images (ReaL)", grid.images)


# Tables

CURVE_TABLE = Pivot(
    "accuracy by severity",
    [MEAN_ACCURACY.name],
    f"Top-1 accuracy in percent, averaged over the corruptions of the benchmark, {INTERVAL}. Higher is better.",
    rows="level",
    plot="lines",
    ticks=SEVERITIES,
)
ACCURACY_TABLE = Pivot(
    "accuracy by corruption and severity",
    [ACCURACY.name],
    f"Top-1 accuracy in percent by severity; {WIDTH}. Higher is better.",
    rows="transform, model",
    columns="level",
    plot="small lines",
    ticks=SEVERITIES,
)
CE_TABLE = Pivot(
    "corruption error (CE)",
    [CE.name, RELATIVE_CE.name],
    f"Errors in percent of the baseline's errors; {WIDTH}. Lower is better; 100 equals the baseline.",
    plot="bars",
)
ERROR_TABLE = Pivot(
    "mean error over the severities (unnormalised)",
    [ERROR.name],
    f"Error rate in percent, {INTERVAL}. Lower is better.",
    plot="bars",
    unless=CE.name,
)
REAL_TABLE = Pivot(
    "accuracy by reassessed labels (ReaL)",
    [REAL_ACCURACY.name],
    f"Mean accuracy over the severities in percent, {INTERVAL}. Higher is better.",
)

REPORT = FamilyReport(
    family=FAMILY.name,
    key="corruptions",
    measure=measure,
    metrics=(
        MCE,
        RELATIVE_MCE,
        ROBUSTNESS,
        MEAN_ERROR,
        MEAN_CORRUPTION_ACCURACY,
        REAL_ACCURACY,
        Metric("images (ReaL)", 0, "count", COUNT),
        *OF_CATEGORY.values(),
        RESIDUAL_ROBUSTNESS,
        CLEAN_ERROR,
        CE,
        RELATIVE_CE,
        ERROR,
        ACCURACY,
        MEAN_ACCURACY,
        *CALIBRATION,
    ),
    leads=(MCE.name, MEAN_ERROR.name),
    note=f"Percent, {INTERVAL}. Lower is better, except for accuracies. Residual robustness is the clean accuracy "
    "minus the mean accuracy on corrupted images.",
    normalised_note="mCE and relative mCE are in percent of the baseline's errors. For 1 - mCE, higher is better.",
    tables=(CURVE_TABLE, ACCURACY_TABLE, CE_TABLE, ERROR_TABLE, REAL_TABLE),
    transform="corruption",
    level="severity",
    calibrated=True,
    reassessed=True,
    glossary={
        "CE, mCE": "Corruption error: the error rates at all severities, summed and divided by the baseline's sum. mCE "
        "is the mean CE over the 15 corruptions of the benchmark. Below 100, the model makes fewer errors than the "
        "baseline.",
        "Relative CE, relative mCE": "As CE and mCE, but with the clean error rate subtracted from every error rate of "
        "the model and of the baseline. They measure how much accuracy corruptions cost, regardless of the accuracy on "
        "clean images.",
        "Mean corruption error (unnormalised)": "The mean error rate over the corruptions of the benchmark and their "
        "severities. It is not divided by a baseline, so it must not be compared with mCE.",
        "Residual robustness": "The clean accuracy minus the mean accuracy on corrupted images, in percentage points. "
        "0 means that corruptions cost no accuracy.",
    },
    sources=("Hendrycks and Dietterich, ICLR 2019 (ImageNet-C, ImageNet-P)",),
)
