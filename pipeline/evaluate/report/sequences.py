"""Flip probabilities and top-5 distances of sequences, and what ImageNet-P divides them by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import perturbations
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import alexnet
from pipeline.evaluate.report.baseline import ALEXNET, OwnBaseline, has_published_baseline
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.scores import Evaluation, ImagesOf, ScoreColumn, Scores, joined, reading
from pipeline.text import printable
from pipeline.transforms.imagenet_p import FAMILY


@dataclass(frozen=True)
class SequenceScores:
    """Flip probabilities and top-5 distances of the same sequences, by perturbation."""

    flips: Scores[str]
    moves: Scores[str]


@dataclass(frozen=True)
class SequenceBaseline:
    """Flip probabilities and top-5 distances of the baseline, by perturbation, as far as they are known."""

    name: str = ""
    flips: Mapping[str, float] = field(default_factory=dict)
    moves: Mapping[str, float] = field(default_factory=dict)


def sequence_scores(each: Evaluation) -> dict[int, SequenceScores]:
    """Return, by difficulty, how often the prediction of each sequence changes, and how far its first classes move."""
    flips: dict[int, dict[str, ScoreColumn]] = {}
    moves: dict[int, dict[str, ScoreColumn]] = {}
    images, difficulties = ImagesOf(each), each.levels()
    for predicted in each.predictions():
        name = predicted.condition.transform
        if name not in FAMILY.names:
            raise UserError(
                f"{each.folder}: {printable(name)!r} is no perturbation of ImageNet-P, so it has no figures"
            )
        ordered = not FAMILY.grain(name)
        # Only noise has data of its own at each difficulty: of the others, frames further apart are compared.
        for difficulty in difficulties if ordered else [predicted.condition.level]:
            options: dict[str, Any] = {"ordered": ordered, "difficulty": difficulty if ordered else 1}
            if difficulty < predicted.top1.shape[1]:
                with reading(each.folder):
                    flip = metrics.flip_probabilities_by_sequence(predicted.top1, **options)
                    move = metrics.top5_distances_of_lists_by_sequence(predicted.top5, **options)
                flips.setdefault(difficulty, {})[name] = ScoreColumn(images(predicted), flip)
                moves.setdefault(difficulty, {})[name] = ScoreColumn(images(predicted), move)
    if not flips:
        raise UserError(f"{each.folder} has sequences of one frame, so no prediction can change between frames")
    return {
        difficulty: SequenceScores(joined(each, flips[difficulty]), joined(each, moves[difficulty]))
        for difficulty in sorted(flips)
    }


def sequence_baselines(
    each: Evaluation, scores: Mapping[int, SequenceScores], context: ReportContext
) -> dict[int, SequenceBaseline]:
    """Return difficulty -> the baseline's figures."""
    if context.own:
        return _own_baselines(context.own, each, scores)
    if has_published_baseline(each.table):
        return {1: SequenceBaseline(ALEXNET, alexnet.ALEXNET_FLIP_PROBABILITIES)}
    return {}


def _own_baselines(
    own: OwnBaseline, each: Evaluation, scores: Mapping[int, SequenceScores]
) -> dict[int, SequenceBaseline]:
    """Return the figures of an evaluated model over the same sequences."""
    evaluations = own.scores_of(each, sequence_scores)
    if not evaluations:
        return {}
    baselines = {}
    for difficulty, wanted in scores.items():
        theirs = {other.place: found[difficulty] for other, found in evaluations if difficulty in found}
        candidates = [(other, theirs[other.place].flips) for other, _ in evaluations if other.place in theirs]
        if not candidates:
            raise UserError(f"{each.folder}: the baseline {own.name!r} was not evaluated at difficulty {difficulty}")
        found = own.counterparts(each, wanted.flips, candidates)
        own.check_complete(each, wanted.flips.keys, found, perturbations.names("benchmark"), str)
        flips = {name: counterpart.mean() for name, counterpart in found.items()}
        moves = {name: found[name].mean(theirs[found[name].evaluation.place].moves) for name in found}
        baselines[difficulty] = SequenceBaseline(own.name, flips, moves)
    return baselines
