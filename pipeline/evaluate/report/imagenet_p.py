"""The report on ImageNet-P and its editions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import perturbations
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.report.baseline import Baseline
from pipeline.evaluate.report.estimates import Estimate, _column, _Figures, _mean_of
from pipeline.evaluate.report.family import Content, Family, Figure, Table
from pipeline.evaluate.report.formats import PLAIN
from pipeline.evaluate.report.scores import About, Column, Evaluation, ImagesOf, Scores, joined, reading
from pipeline.evaluate.report.tables import _by_transform


def _perturbation_tables(family: Family, section: str, models: Mapping[str, Any]) -> Iterator[Table]:
    for content in (FLIPS_TABLE, RATES_TABLE, DISTANCES_TABLE):
        yield _by_transform(section, content, models, "perturbation")


PERTURBATION_FIGURES = (
    Figure("mFR", "mean_flip_rate", normalised=True, over="flip_rate"),
    Figure("mean flip probability (unnormalised)", "mean_flip_probability", over="flip_probability"),
    Figure("mT5D", "mean_top5_ratio", normalised=True, over="top5_ratio"),
    Figure("mean top-5 distance (unnormalised)", "mean_top5_distance", PLAIN, over="top5_distance"),
)


PERTURBATION_ROWS = (
    Figure("flip probability", "flip_probability"),
    Figure("flip rate", "flip_rate", normalised=True),
    Figure("top-5 distance", "top5_distance", PLAIN),
    Figure("T5D", "top5_ratio", normalised=True),
)


FLIPS_TABLE = Content(
    "flips",
    "flip probability",
    "How often the prediction changes between frames: percent, with the 95 % interval over sequences. Lower is better.",
    PERTURBATION_ROWS[:1],
)


RATES_TABLE = Content(
    "rates",
    "flip rate (FR)",
    "Percent of the baseline's flip probability, with the 95 % interval over sequences. Lower is better, 100 is the "
    "baseline.",
    PERTURBATION_ROWS[1:2],
)


DISTANCES_TABLE = Content(
    "distances",
    "top-5 distance",
    "How far the first five classes move between frames: 0 to 15; T5D in percent of the baseline's. Lower is better.",
    PERTURBATION_ROWS[2:],
)


@dataclass(frozen=True)
class PerturbationRow:
    """One perturbation at one difficulty: flip probability, top-5 distance, and their ratios to a baseline's."""

    name: str
    group: str
    benchmark: bool
    difficulty: int
    flip_probability: Estimate
    flip_rate: Estimate | None
    top5_distance: Estimate
    top5_ratio: Estimate | None


@dataclass(frozen=True)
class PerturbationSummary:
    """ImageNet-P and its editions, of one model at one difficulty.

    ``mean_flip_probability`` is unnormalised; minus it is RobustART's NmFP. Means over the benchmark's perturbations
    that are there, ``complete``: all ten.
    """

    model: str
    data_set: str
    sequences: int
    failed: int
    difficulty: int
    baseline: str | None
    complete: bool
    rows: Sequence[PerturbationRow]
    mean_flip_probability: Estimate | None
    mean_flip_rate: Estimate | None
    mean_top5_distance: Estimate | None
    mean_top5_ratio: Estimate | None
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


@dataclass(frozen=True)
class SequenceScores:
    """Flip probabilities and top-5 distances of the same sequences, by perturbation."""

    flips: Scores[str]
    moves: Scores[str]


def sequence_scores(each: Evaluation) -> dict[int, SequenceScores]:
    """Return, by difficulty, how often the prediction of each sequence changes, and how far its first classes move."""
    flips: dict[tuple[str, int], Column] = {}
    moves: dict[tuple[str, int], Column] = {}
    images, difficulties = ImagesOf(each), each.levels()
    for predicted in each.predictions():
        name, ordered = predicted.condition.transform, perturbations.get(predicted.condition.transform).group != "noise"
        # Only noise has data of its own at each difficulty: of the others, frames further apart are compared.
        for difficulty in difficulties if ordered else [predicted.condition.level]:
            options: dict[str, Any] = {"ordered": ordered, "difficulty": difficulty if ordered else 1}
            if difficulty < predicted.top1.shape[1]:
                place = (name, difficulty)
                with reading(each.folder):
                    flip = metrics.flip_probabilities_by_sequence(predicted.top1, **options)
                    move = metrics.top5_distances_of_lists_by_sequence(predicted.top5, **options)
                flips[place], moves[place] = Column(images(predicted), flip), Column(images(predicted), move)
    if not flips:
        raise UserError(f"{each.folder} has sequences of one frame, so no prediction can change between frames")
    found = {}
    for difficulty in difficulties:
        names = [name for name, other in flips if other == difficulty]
        if names:
            found[difficulty] = SequenceScores(
                joined(each, {name: flips[name, difficulty] for name in names}),
                joined(each, {name: moves[name, difficulty] for name in names}),
            )
    return found


def perturbation_figures(
    scores: SequenceScores, difficulty: int, baseline: Baseline | None, about: About, resamples: int
) -> PerturbationSummary:
    """Return the figures of ImageNet-P and its editions at one difficulty."""
    names = scores.flips.keys
    flip, move = _Figures(scores.flips.values, resamples), _Figures(scores.moves.values, resamples)
    flip_weights = _weights(names, difficulty, baseline.flip_probabilities if baseline else {})
    move_weights = _weights(names, difficulty, baseline.top5_distances if baseline else {})
    rows = [
        PerturbationRow(
            name,
            perturbations.get(name).group,
            perturbations.get(name).benchmark,
            difficulty,
            flip.estimate(_column(place)),
            flip.estimate(_mean_of([place], [flip_weights[name]])) if name in flip_weights else None,
            move.estimate(_column(place)),
            move.estimate(_mean_of([place], [move_weights[name]])) if name in move_weights else None,
        )
        for place, name in enumerate(names)
    ]
    counted = [place for place, row in enumerate(rows) if row.benchmark] or list(range(len(rows)))
    return PerturbationSummary(
        about.model,
        about.data_set,
        len(scores.flips.images.ids),
        about.failed,
        difficulty,
        baseline.name if baseline and (flip_weights or move_weights) else None,
        tuple(row.name for row in rows if row.benchmark) == tuple(perturbations.names("benchmark")),
        rows,
        flip.estimate(_mean_of(counted)),
        _mean_ratio(flip, counted, names, flip_weights),
        move.estimate(_mean_of(counted)),
        _mean_ratio(move, counted, names, move_weights),
        about.manifest_sha256,
        about.source_ids_sha256,
    )


def _weights(names: Sequence[str], difficulty: int, reference: Mapping[tuple[str, int], float]) -> dict[str, float]:
    """One over the baseline's figure, where there is one above zero."""
    return {name: 1 / reference[name, difficulty] for name in names if reference.get((name, difficulty), 0) > 0}


def _mean_ratio(
    figures: _Figures, counted: Sequence[int], names: Sequence[str], weights: Mapping[str, float]
) -> Estimate | None:
    if any(names[place] not in weights for place in counted):
        return None
    return figures.estimate(_mean_of(counted, [weights[names[place]] for place in counted]))
