"""Flip probabilities and top-5 distances of sequences, and the baseline that ImageNet-P normalises them by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import perturbations
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import alexnet
from pipeline.evaluate.report.baseline import ALEXNET, EvaluatedBaseline, has_published_baseline
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.scores import ConditionImages, Evaluation, ScoreColumn, Scores, join_columns, reading
from pipeline.text import printable
from pipeline.transforms.imagenet_p import FAMILY


@dataclass(frozen=True)
class SequenceScores:
    """Flip probabilities and top-5 distances of the same sequences; one column per perturbation."""

    flips: Scores[str]
    distances: Scores[str]


@dataclass(frozen=True)
class SequenceBaseline:
    """The baseline's flip probabilities and top-5 distances by perturbation; unknown ones are omitted."""

    name: str = ""
    flips: Mapping[str, float] = field(default_factory=dict)
    distances: Mapping[str, float] = field(default_factory=dict)


def sequence_scores(evaluation: Evaluation) -> dict[int, SequenceScores]:
    """Return the flip probability and the top-5 distance of each sequence, by difficulty.

    Raises:
        UserError: If a transform is not a perturbation of ImageNet-P, or all sequences have one frame.
    """
    flips: dict[int, dict[str, ScoreColumn]] = {}
    distances: dict[int, dict[str, ScoreColumn]] = {}
    images, difficulties = ConditionImages(evaluation), evaluation.levels()
    for predicted in evaluation.predictions():
        name = predicted.condition.transform
        if name not in FAMILY.names:
            raise UserError(
                f"{evaluation.folder}: {printable(name)!r} is not a perturbation of ImageNet-P, so no metric is "
                "defined for it"
            )
        ordered = not FAMILY.grain(name)
        # Noise sequences are built for each difficulty. For other perturbations, a higher difficulty compares frames
        # that are further apart.
        for difficulty in difficulties if ordered else [predicted.condition.level]:
            options: dict[str, Any] = {"ordered": ordered, "difficulty": difficulty if ordered else 1}
            if difficulty < predicted.top1.shape[1]:
                with reading(evaluation.folder):
                    flip = metrics.flip_probabilities_by_sequence(predicted.top1, **options)
                    distance = metrics.top5_distances_of_lists_by_sequence(predicted.top5, **options)
                flips.setdefault(difficulty, {})[name] = ScoreColumn(images(predicted), flip)
                distances.setdefault(difficulty, {})[name] = ScoreColumn(images(predicted), distance)
    if not flips:
        raise UserError(
            f"{evaluation.folder} contains sequences of one frame: at least two are needed to compare predictions"
        )
    return {
        difficulty: SequenceScores(
            join_columns(evaluation, flips[difficulty]), join_columns(evaluation, distances[difficulty])
        )
        for difficulty in sorted(flips)
    }


def sequence_baselines(
    evaluation: Evaluation, scores: Mapping[int, SequenceScores], context: ReportContext
) -> dict[int, SequenceBaseline]:
    """Return the baseline by difficulty; difficulties without a baseline are omitted.

    Args:
        evaluation: Evaluation to normalise.
        scores: Its scores by difficulty.
        context: State of the report.

    Raises:
        UserError: If the evaluated baseline does not match the evaluation.
    """
    if context.evaluated_baseline:
        return _evaluated_baselines(context.evaluated_baseline, evaluation, scores)
    if has_published_baseline(evaluation.table):
        return {1: SequenceBaseline(ALEXNET, alexnet.ALEXNET_FLIP_PROBABILITIES)}
    return {}


def _evaluated_baselines(
    baseline: EvaluatedBaseline, evaluation: Evaluation, scores: Mapping[int, SequenceScores]
) -> dict[int, SequenceBaseline]:
    """Return the metrics of an evaluated model on the same sequences, by difficulty."""
    evaluations = baseline.scores_of(evaluation, sequence_scores)
    if not evaluations:
        return {}
    baselines = {}
    for difficulty, wanted in scores.items():
        theirs = {other.location: by_level[difficulty] for other, by_level in evaluations if difficulty in by_level}
        candidates = [(other, theirs[other.location].flips) for other, _ in evaluations if other.location in theirs]
        if not candidates:
            raise UserError(
                f"{evaluation.folder}: the baseline {baseline.name!r} was not evaluated at difficulty {difficulty}: "
                "evaluate it on the same data set"
            )
        columns = baseline.match_columns(evaluation, wanted.flips, candidates)
        baseline.check_complete(evaluation, wanted.flips.keys, columns, perturbations.names("benchmark"), str)
        flips = {name: column.mean() for name, column in columns.items()}
        distances = {
            name: column.mean(theirs[column.evaluation.location].distances) for name, column in columns.items()
        }
        baselines[difficulty] = SequenceBaseline(baseline.name, flips, distances)
    return baselines
