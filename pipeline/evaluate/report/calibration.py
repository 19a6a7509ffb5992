"""The calibration of a model's probabilities by transform and level."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.metrics.checks import Figures, Floats
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.scores import Evaluation, Scores, Untransformed, condition_scores, top1_errors
from pipeline.evaluate.results.predictions import ConditionPredictions
from pipeline.transforms.family import Condition


@dataclass(frozen=True)
class Calibration:
    """The calibration of probabilities under one condition, or its mean over conditions.

    Attributes:
        ece: Expected calibration error in 15 bins of equal width, 0..1. It has no interval, since a bootstrap draw has
            a larger error than the images it is drawn from.
        adaptive_ece: The same in 15 bins of equal mass.
        nll: Negative log-likelihood in nats.
        brier_score: Brier score 0..2; None if the predictions do not have the sums of squared probabilities.
    """

    ece: float
    adaptive_ece: float
    nll: Estimate
    brier_score: Estimate | None


@dataclass(frozen=True)
class ReliabilityBin:
    """The images whose confidence is above ``low`` and at most ``high``: their number, mean confidence and accuracy."""

    low: float
    high: float
    images: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class LevelCalibration:
    """Calibration by level, and its mean over levels."""

    mean: Calibration
    levels: Mapping[int, Calibration]


@dataclass(frozen=True)
class CalibrationSummary:
    """The calibration of one model on a data set.

    Attributes:
        overall: Mean over the transforms that the family's means are taken over.
        transforms: Calibration by transform. Empty for images without a transform.
        reliability: Bins by level, over the images of all transforms in ``overall``. Empty bins are omitted.
    """

    overall: LevelCalibration
    transforms: Mapping[str, LevelCalibration]
    reliability: Mapping[int, Sequence[ReliabilityBin]]


@dataclass(frozen=True)
class CalibrationTable:
    """The definition of the calibration table of a family.

    Attributes:
        what: Noun for transforms, such as "corruption".
        axis: Noun for levels, such as "severity".
        value: Returns the calibration from a summary; None if it has none.
        of_clean: Whether the images are the clean images of a summary.
    """

    what: str = "transform"
    axis: str = "level"
    value: Callable[[Any], CalibrationSummary | None] = lambda summary: summary.calibration
    of_clean: bool = False


@dataclass(frozen=True)
class Probabilities:
    """Probabilities of images (images, columns), and whether the predictions are correct.

    Attributes:
        conditions: Condition of each column.
        correct: Whether the most probable label is correct.
        confidences: Probability of the most probable label, 0..1.
        labels: Probability of the correct label, 0..1.
        squared: Sum of the squared probabilities of all labels, 0..1; None in predictions of earlier versions.
    """

    conditions: Sequence[Condition]
    correct: NDArray[np.bool_]
    confidences: Floats
    labels: Floats
    squared: Floats | None


def read_probabilities(evaluation: Evaluation) -> tuple[Scores[Condition], Probabilities]:
    """Return the errors of each image by condition, as ``error_scores`` does, and the probabilities in the same shape.

    Raises:
        UserError: If an image has no label, or the predictions are damaged.
    """
    measures = (
        top1_errors,
        lambda evaluation, predicted: predicted.confidence[:, 0],
        lambda evaluation, predicted: predicted.label_probability[:, 0],
        lambda evaluation, predicted: _squared(predicted),
    )
    errors, *others = condition_scores(evaluation, measures)
    return errors, _probabilities(errors.keys, errors.values, *(each.values for each in others))


def probabilities_of(natural: Untransformed) -> Probabilities:
    """Return the probabilities of images without a transform, (images, 1)."""
    predicted = natural.predicted
    errors, squared = natural.top1_errors[:, None], _squared(predicted)[:, None]
    return _probabilities([predicted.condition], errors, predicted.confidence, predicted.label_probability, squared)


def calibration_summary(
    evaluation: Evaluation,
    probabilities: Probabilities,
    context: ReportContext,
    counted: Collection[str] | None = None,
) -> CalibrationSummary:
    """Return the calibration of an evaluation.

    Args:
        evaluation: The evaluation.
        probabilities: Its probabilities (images, columns).
        context: State of the report.
        counted: Transforms that means are taken over. Default: all.
    """
    _warn(evaluation, probabilities, context)
    by_column = _by_column(probabilities, context)
    columns: dict[str, dict[int, int]] = {}
    for column, condition in enumerate(probabilities.conditions):
        columns.setdefault(condition.transform, {})[condition.level] = column
    among = [columns[name] for name in (columns if counted is None else counted)]
    at_level = {
        level: [levels[level] for levels in among if level in levels]
        for level in sorted({level for levels in among for level in levels})
    }

    def by_level(groups: Iterable[Sequence[int]], at_level: Mapping[int, Sequence[int]]) -> LevelCalibration:
        levels = {level: by_column.mean([[column] for column in at]) for level, at in at_level.items()}
        return LevelCalibration(by_column.mean(list(groups)), levels)

    return CalibrationSummary(
        by_level([list(levels.values()) for levels in among], at_level),
        {
            name: by_level([list(levels.values())], {level: [column] for level, column in levels.items()})
            for name, levels in columns.items()
        },
        {level: _reliability(probabilities, at) for level, at in at_level.items()},
    )


def natural_calibration(natural: Untransformed, context: ReportContext) -> CalibrationSummary:
    """Return the calibration of an evaluation on images without a transform."""
    found = calibration_summary(natural.evaluation, probabilities_of(natural), context)
    return replace(found, overall=LevelCalibration(found.overall.mean, {}), transforms={})


def _squared(predicted: ConditionPredictions) -> NDArray[np.float32]:
    """Return the sums of squared probabilities, (S,); NaN if they are unknown."""
    if predicted.squared_probability is None:
        return np.full(len(predicted.labels), np.nan, np.float32)
    return predicted.squared_probability[:, 0]


def _probabilities(
    conditions: Sequence[Condition],
    errors: NDArray[Any],
    confidences: NDArray[Any],
    labels: NDArray[Any],
    squared: NDArray[Any],
) -> Probabilities:
    """Return probabilities within 0..1. Rounding of float32 can exceed 1."""
    confidences, labels, squared = (each.astype(np.float64).clip(max=1) for each in (confidences, labels, squared))
    return Probabilities(conditions, errors == 0, confidences, labels, None if np.isnan(squared).any() else squared)


@dataclass(frozen=True)
class _ByColumn:
    """Calibration errors of each column, (columns,), and bootstraps of the columns of NLL and Brier scores."""

    ece: Floats
    adaptive_ece: Floats
    nll: Bootstrap
    brier_scores: Bootstrap | None

    def mean(self, groups: Sequence[Sequence[int]]) -> Calibration:
        """Return the mean over groups of each group's mean over its columns."""

        def over_groups(values: Floats) -> Figures:
            means = {str(index): values[..., list(group)].mean(axis=-1) for index, group in enumerate(groups)}
            return metrics.mean_over_transforms(means)

        return Calibration(
            float(over_groups(self.ece)),
            float(over_groups(self.adaptive_ece)),
            self.nll.estimate(over_groups),
            self.brier_scores.estimate(over_groups) if self.brier_scores else None,
        )


def _by_column(probabilities: Probabilities, context: ReportContext) -> _ByColumn:
    confidences, correct = probabilities.confidences.T, probabilities.correct.T
    squared = probabilities.squared
    return _ByColumn(
        np.asarray(metrics.expected_calibration_error(confidences, correct)),
        np.asarray(metrics.adaptive_calibration_error(confidences, correct)),
        context.bootstrap(metrics.negative_log_likelihoods(probabilities.labels)),
        None if squared is None else context.bootstrap(metrics.brier_scores(probabilities.labels, squared)),
    )


def _reliability(probabilities: Probabilities, columns: Sequence[int]) -> list[ReliabilityBin]:
    """Return the bins of the images of some columns."""
    chosen = list(columns)
    found = metrics.reliability(probabilities.confidences[:, chosen].ravel(), probabilities.correct[:, chosen].ravel())
    return [
        ReliabilityBin(
            index / metrics.BINS,
            (index + 1) / metrics.BINS,
            int(images),
            float(found.confidence[index]),
            float(found.accuracy[index]),
        )
        for index, images in enumerate(found.images)
        if images
    ]


def _warn(evaluation: Evaluation, probabilities: Probabilities, context: ReportContext) -> None:
    """Warn of probabilities that are not stored exactly enough."""
    if zeros := int((probabilities.labels == 0).sum()):
        context.warn(
            f"{evaluation.folder}: the probability of the label is stored as 0 for {zeros:,} of "
            f"{probabilities.labels.size:,} predictions; NLL counts it as the smallest float32, so it may be too low"
        )
    if probabilities.squared is None:
        context.warn(
            f"{evaluation.folder}: no Brier score, because its predictions are of an earlier version and lack the sum "
            "of squared probabilities: evaluate again into a new folder"
        )
