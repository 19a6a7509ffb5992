"""An evaluation on transformed images: errors, clean errors and calibration, which a family's measures are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.arrays import Figures, Floats, Numbers
from pipeline.evaluate.report.context import CleanError, Context
from pipeline.evaluate.report.grid import By, Grid, Means
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import Facts, FamilyReport, Measure, Metric, Results
from pipeline.evaluate.report.scores import Scores, Untransformed, condition_scores, top1_errors
from pipeline.evaluate.report.views import FINE, PLAIN
from pipeline.evaluate.results.predictions import ConditionPredictions
from pipeline.transforms.family import Condition

ECE, ADAPTIVE_ECE = Metric("ECE", unit="ECE", key=False), Metric("adaptive ECE", unit="ECE", key=False)
NLL = Metric("NLL", unit="nats", format=PLAIN, key=False)
BRIER = Metric("Brier score", unit="0 to 2", format=FINE, key=False)
CALIBRATION = (ECE, ADAPTIVE_ECE, NLL, BRIER)
CALIBRATION_OF_CLEAN = tuple(replace(each, of_clean=True) for each in CALIBRATION)

RELIABILITY = "reliability"
"""Key of the bins in the details of results: by level, bounds, number of images, mean confidence, accuracy."""

GLOSSARY = (
    (
        "ECE, adaptive ECE",
        "Expected calibration error: images are sorted into 15 bins by confidence, the probability of the predicted "
        "class. ECE is the mean distance between accuracy and mean confidence over the bins, weighted by their images. "
        "The bins have equal width or, for adaptive ECE, equally many images. Reliability diagrams show accuracy "
        "against confidence for the bins of equal width: below the diagonal, the model is overconfident.",
    ),
    (
        "NLL, Brier score",
        "Negative log-likelihood: the mean of -ln p, where p is the probability of the label. Brier score: the mean "
        "squared distance of all probabilities from 1 for the label and 0 for other classes, from 0 to 2.",
    ),
)

SOURCES = ("Guo et al., ICML 2017 (ECE)", "Nixon et al., CVPR Workshops 2019 (adaptive ECE)")


def prediction_values(evaluation: Evaluation, predicted: ConditionPredictions) -> NDArray[np.float32]:
    """Return error, largest probability, probability of the label, sum of squares and class of images, (S, 5).

    The sum of squared probabilities is NaN in predictions of earlier versions.
    """
    squared = predicted.squared_probability
    columns = [
        top1_errors(evaluation, predicted),
        predicted.confidence[:, 0],
        predicted.label_probability[:, 0],
        np.full(len(predicted.labels), np.nan) if squared is None else squared[:, 0],
        predicted.top1[:, 0],
    ]
    return np.stack(columns, axis=1).astype(np.float32)


class Subject:
    """An evaluation on transformed images, and what a family's measures are computed from.

    Attributes:
        evaluation: The evaluation.
        context: State of the report.
        scores: Values of images, (images, conditions) or (images, conditions, 5) as of ``prediction_values``; the first
            is the error.
        options: Benchmark, noun for its transforms, and its levels, as for ``Grid``.
    """

    def __init__(
        self, evaluation: Evaluation, context: Context, scores: Scores[Condition] | None = None, **options: Any
    ) -> None:
        """Read the scores, by default those of ``prediction_values``."""
        self.evaluation, self.context, self.options = evaluation, context, options
        self.scores = scores or condition_scores(evaluation, prediction_values)
        self.errors = self.scores.values[..., 0] if self.scores.values.ndim > 2 else self.scores.values

    @cached_property
    def clean(self) -> CleanError | None:
        """The clean error of the images that have a clean version; None if there is none."""
        return self.context.clean_error(self.evaluation, self.scores.images)

    @cached_property
    def grid(self) -> Grid:
        """The errors of all images."""
        return self.grid_of(self.errors)

    @cached_property
    def paired(self) -> Grid | None:
        """The errors of the images that have a clean version, and their clean errors as other values."""
        return self.grid_of(self.errors[self.clean.rows], self.clean.errors[:, None]) if self.clean else None

    def grid_of(self, values: Numbers, others: Numbers | None = None) -> Grid:
        """Return the means of some values, (images, conditions), and of other values of the same images."""
        return Grid(values, self.scores.keys, resamples=self.context.resamples, others=others, **self.options)

    def results(self, report: FamilyReport, measures: Iterable[Measure], **fields: Any) -> Results:
        """Return results with these measures and the calibration, if the report has one; see ``Context.results``."""
        found = list(measures)
        if report.calibrated:
            calibration, bins = calibration_of(self)
            found, fields["details"] = [*found, *calibration], {**fields.get("details", {}), **bins}
        if any(each.of_clean for each in report.metrics) and (clean := self.clean):
            fields |= {"clean_images": clean.encoded, "clean_accuracy": 1 - clean.value}
        return self.context.results(report, self.evaluation, self.scores.images, measures=found, **fields)


def calibration_of(subject: Subject) -> tuple[list[Measure], Facts]:
    """Return the calibration of an evaluation by transform and level, and the bins of its reliability diagrams.

    The bins are those of each level, over the images of all transforms that means are over. Empty bins are omitted.
    """
    evaluation, scores, context = subject.evaluation, subject.scores, subject.context
    labels, squared = (_probabilities(scores, column) for column in (2, 3))
    grids = {NLL: subject.grid_of(metrics.negative_log_likelihoods(labels))}
    if not np.isnan(squared).any():
        grids[BRIER] = subject.grid_of(metrics.brier_scores(labels, squared))
    _warn(evaluation, labels, BRIER in grids, context)
    del labels, squared  # up to 30 MB each
    grid, confidences, correct = grids[NLL], _probabilities(scores, 1), scores.values[..., 0] == 0
    errors = {
        ECE: metrics.expected_calibration_error(confidences.T, correct.T),
        ADAPTIVE_ECE: metrics.adaptive_calibration_error(confidences.T, correct.T),
    }
    views: dict[By, Callable[[Floats], Figures]] = {
        "": grid.mean,
        "level": lambda cells: metrics.mean_over(cells[..., grid.counted, :], axis=-2),
        "transform": metrics.mean_over,
        "both": lambda cells: cells,
    }
    found: list[Measure] = []
    for by, view in views.items():
        for metric, error in errors.items():  # a bootstrap would make ECE too large
            found += grid.points(metric, view(grid.cells(np.asarray(error))), by)
        for metric, of_metric in grids.items():
            found += of_metric.estimate(metric, partial(_viewed, view), by)
    names = {name for name, inside in zip(grid.transforms, grid.counted, strict=True) if inside}
    bins = {}
    for level in grid.levels:
        at = [column for column, key in enumerate(scores.keys) if key.level == level and key.transform in names]
        if at:
            bins[str(level)] = _bins(confidences[:, at].ravel(), correct[:, at].ravel())
    return found, {RELIABILITY: bins}


def _viewed(view: Callable[[Floats], Figures], means: Means) -> Figures:
    """Return what a view makes of means by transform and level."""
    return view(means.cells)


def _probabilities(scores: Scores[Condition], column: int) -> Floats:
    """Return one of the values of ``prediction_values``, (images, conditions). Rounding of float32 can exceed 1."""
    return np.minimum(scores.values[..., column], 1, dtype=np.float64)


def natural_calibration(natural: Untransformed, context: Context) -> tuple[list[Measure], Facts]:
    """Return the calibration of an evaluation on images without a transform, and the bins of its diagram."""
    values = prediction_values(natural.evaluation, natural.predicted)[:, None]
    scores = Scores[Condition](natural.images, (natural.predicted.condition,), values)
    measures, bins = calibration_of(Subject(natural.evaluation, context, scores))
    return [each for each in measures if not each.transform and each.level is None], bins


def _bins(confidences: Floats, correct: NDArray[np.bool_]) -> list[dict[str, float]]:
    """Return the bins of some predictions that are not empty."""
    found = metrics.reliability(confidences, correct)
    return [
        {
            "low": index / metrics.BINS,
            "high": (index + 1) / metrics.BINS,
            "images": int(images),
            "confidence": float(found.confidence[index]),
            "accuracy": float(found.accuracy[index]),
        }
        for index, images in enumerate(found.images)
        if images
    ]


def _warn(evaluation: Evaluation, labels: Floats, known: bool, context: Context) -> None:
    """Warn of probabilities that are not stored exactly enough."""
    if zeros := int((labels == 0).sum()):
        context.warn(
            f"{evaluation.folder}: the probability of the label is stored as 0 for {zeros:,} of {labels.size:,} "
            "predictions; NLL counts it as the smallest float32, so it may be too low"
        )
    if not known:
        context.warn(
            f"{evaluation.folder}: no Brier score, because its predictions are of an earlier version and lack the sum "
            "of squared probabilities: evaluate again into a new folder"
        )
