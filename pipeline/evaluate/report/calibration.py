"""The calibration of a model's probabilities: measures by transform and level, and bins of reliability diagrams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.arrays import Figures, Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.grid import By, Means
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import Facts, Measure, Metric
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


def read_scores(evaluation: Evaluation) -> Scores[Condition]:
    """Return what ``prediction_values`` returns for each condition, (images, conditions, 5).

    Raises:
        UserError: If an image has no label, or the predictions are damaged.
    """
    return condition_scores(evaluation, prediction_values)


def calibration_of(
    evaluation: Evaluation, scores: Scores[Condition], context: Context, **options: Any
) -> tuple[list[Measure], Facts]:
    """Return the calibration of an evaluation by transform and level, and the bins of its reliability diagrams.

    Args:
        evaluation: The evaluation.
        scores: Its scores, as ``read_scores`` returns them.
        context: State of the report.
        options: Benchmark, and noun for its transforms, as for ``Grid``.

    Returns:
        The measures, and bins by level over the images of all transforms that means are over. Empty bins are omitted.
    """
    labels, squared = (_probabilities(scores, column) for column in (2, 3))
    known = not np.isnan(squared).any()
    _warn(evaluation, labels, known, context)
    likelihoods = metrics.negative_log_likelihoods(labels)
    brier_scores = metrics.brier_scores(labels, squared) if known else None
    del labels, squared  # up to 60 MB each
    grid = context.grid(scores, likelihoods, others=brier_scores, **options)
    confidences, correct = _probabilities(scores, 1), scores.values[..., 0] == 0
    ece, adaptive_ece = (
        grid.cells(np.asarray(error(confidences.T, correct.T)))
        for error in (metrics.expected_calibration_error, metrics.adaptive_calibration_error)
    )
    views: dict[By, Callable[[Floats], Figures]] = {
        "": grid.mean,
        "level": lambda cells: metrics.mean_over(cells[..., grid.counted, :], axis=-2),
        "transform": metrics.mean_over,
        "both": lambda cells: cells,
    }
    found: list[Measure] = []
    for by, view in views.items():  # a bootstrap would make ECE too large
        found += [*grid.points(ECE, view(ece), by), *grid.points(ADAPTIVE_ECE, view(adaptive_ece), by)]
        found += grid.estimate(NLL, partial(_viewed, view, lambda means: means.cells), by)
        if known:
            found += grid.estimate(BRIER, partial(_viewed, view, lambda means: grid.cells(means.others)), by)
    names = {name for name, inside in zip(grid.transforms, grid.counted, strict=True) if inside}
    bins = {}
    for level in grid.levels:
        at = [column for column, key in enumerate(scores.keys) if key.level == level and key.transform in names]
        if at:
            bins[str(level)] = _bins(confidences[:, at].ravel(), correct[:, at].ravel())
    return found, {RELIABILITY: bins}


def _viewed(view: Callable[[Floats], Figures], cells: Callable[[Means], Floats], means: Means) -> Figures:
    """Return what a view makes of means by transform and level."""
    return view(cells(means))


def _probabilities(scores: Scores[Condition], column: int) -> Floats:
    """Return one of the values of ``prediction_values``, (images, conditions). Rounding of float32 can exceed 1."""
    return np.minimum(scores.values[..., column], 1, dtype=np.float64)


def natural_calibration(natural: Untransformed, context: Context) -> tuple[list[Measure], Facts]:
    """Return the calibration of an evaluation on images without a transform, and the bins of its diagram."""
    values = prediction_values(natural.evaluation, natural.predicted)[:, None]
    scores = Scores[Condition](natural.images, (natural.predicted.condition,), values)
    measures, bins = calibration_of(natural.evaluation, scores, context)
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
