"""The figures of one evaluation, from the values of its images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import corruptions
import perturbations
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.alexnet import SEVERITIES
from pipeline.evaluate.metrics.bootstrap import bootstrap_means, percentile_interval
from pipeline.evaluate.report.belonging import CleanError
from pipeline.evaluate.report.scores import Clean, Column, Evaluation, ImagesOf, Scores, joined, reading
from pipeline.evaluate.report.summary import (
    CleanSummary,
    CorruptionRow,
    CorruptionSummary,
    Estimate,
    PairRow,
    PerturbationRow,
    PerturbationSummary,
    SystemNoiseSummary,
)
from pipeline.transforms.family import Condition
from pipeline.transforms.imagenet_s import PAIRS

Errors = Callable[[str, Sequence[int]], Sequence[float] | None]
"""A corruption and severities -> its error at each, where all are known."""


@dataclass(frozen=True)
class About:
    """What a summary says of its evaluation besides figures."""

    model: str
    data_set: str
    failed: int
    manifest_sha256: str
    source_ids_sha256: str


@dataclass(frozen=True)
class SequenceScores:
    """Flip probabilities and top-5 distances of the same sequences, by perturbation."""

    flips: Scores[str]
    moves: Scores[str]


@dataclass(frozen=True)
class Baseline:
    """What figures are divided by: errors by corruption and severity, flip probabilities and top-5 distances by
    perturbation and difficulty, all as far as they are known.

    ``relative_errors`` are over the images of which the clean error is known.
    """

    name: str
    clean_error: float | None
    errors: Errors
    relative_errors: Errors
    flip_probabilities: Mapping[tuple[str, int], float]
    top5_distances: Mapping[tuple[str, int], float]


class _Figures:
    """Per-image values in columns, whose means make figures; all figures share the draws of the bootstrap."""

    def __init__(self, values: NDArray[np.float64], resamples: int) -> None:
        self._means = values.mean(axis=0, dtype=np.float64)
        self._draws = bootstrap_means(values, resamples=resamples)

    def estimate(self, figure: Callable[[NDArray[np.float64]], Any]) -> Estimate:
        """``figure`` maps means (..., C) to figures (...)."""
        return Estimate(float(figure(self._means)), *percentile_interval(figure(self._draws)))


def _column(place: int) -> Callable[[NDArray[np.float64]], Any]:
    return lambda means: means[..., place]


def _mean_of(places: Sequence[int], weights: Sequence[float] | None = None) -> Callable[[NDArray[np.float64]], Any]:
    """The mean over columns, each times its weight."""
    factors = np.ones(len(places)) if weights is None else np.asarray(weights)
    return lambda means: (means[..., list(places)] * factors).mean(axis=-1)


def clean_figures(clean: Clean, about: About, resamples: int) -> CleanSummary:
    """Return top-1 and top-5 error of clean images."""
    figures = _Figures(np.stack([clean.errors, clean.beyond], axis=1).astype(np.float64), resamples)
    return CleanSummary(
        about.model,
        about.data_set,
        len(clean.errors),
        about.failed,
        figures.estimate(_column(0)),
        figures.estimate(_column(1)),
        about.manifest_sha256,
        about.source_ids_sha256,
    )


def corruption_figures(
    scores: Scores[Condition], clean: CleanError | None, baseline: Baseline | None, about: About, resamples: int
) -> CorruptionSummary:
    """Return the figures of ImageNet-C and its editions."""
    figures = _Figures(scores.values, resamples)
    places: dict[str, dict[int, int]] = {}
    for place, condition in enumerate(scores.keys):
        places.setdefault(condition.transform, {})[condition.level] = place
    published, of_benchmark = set(corruptions.names("all")), set(corruptions.names("benchmark"))
    over = scores.values[clean.rows].mean(axis=0) if clean else None
    rows, weights = [], dict[str, float]()
    for name, levels in places.items():
        here = list(levels.values())
        reference = baseline.errors(name, list(levels)) if baseline else None
        if reference is not None and sum(reference) > 0:
            weights[name] = len(here) / sum(reference)
        rows.append(
            CorruptionRow(
                name,
                corruptions.get(name).group if name in published else "",
                name in of_benchmark,
                {level: figures.estimate(_column(place)) for level, place in levels.items()},
                figures.estimate(_mean_of(here)),
                figures.estimate(_mean_of(here, [weights[name]] * len(here))) if name in weights else None,
                _relative(over[here], list(levels), name, clean, baseline)
                if clean and over is not None and name in weights
                else None,
            )
        )
    # The benchmark's corruptions, or, of others' own, all.
    benchmark = [name for name in places if name in of_benchmark]
    counted = benchmark or list(places)
    columns = [list(places[name].values()) for name in counted]
    known = baseline is not None and all(name in weights for name in counted)
    relatives = [row.relative_corruption_error for row in rows if row.name in set(counted)]
    at_level = {
        level: [places[name][level] for name in counted if level in places[name]]
        for level in sorted({level for levels in places.values() for level in levels})
    }
    clean_accuracy = 1 - clean.value if clean else None
    return CorruptionSummary(
        about.model,
        about.data_set,
        len(scores.images.ids),
        about.failed,
        baseline.name if baseline and weights else None,
        tuple(benchmark) == tuple(corruptions.names("benchmark"))
        and all(set(places[name]) == set(SEVERITIES) for name in benchmark),
        rows,
        {level: figures.estimate(_accuracy(here)) for level, here in at_level.items() if here},
        figures.estimate(_mean_of_means(columns)),
        figures.estimate(_mean_of_means(columns, [weights[name] for name in counted])) if known else None,
        float(np.mean([each for each in relatives if each is not None])) if None not in relatives else None,
        clean.value if clean else None,
        metrics.residual_robustness(clean_accuracy, 1 - float(_mean_of_means(columns)(over)))
        if clean_accuracy is not None and over is not None
        else None,
        about.manifest_sha256,
        about.source_ids_sha256,
    )


def _accuracy(places: Sequence[int]) -> Callable[[NDArray[np.float64]], Any]:
    return lambda means: 1 - means[..., list(places)].mean(axis=-1)


def _mean_of_means(
    groups: Sequence[Sequence[int]], weights: Sequence[float] | None = None
) -> Callable[[NDArray[np.float64]], Any]:
    """The mean over groups of the mean over the columns of each, times the group's weight."""
    factors = [1.0] * len(groups) if weights is None else weights

    def figure(means: NDArray[np.float64]) -> Any:
        each = [means[..., list(group)].mean(axis=-1) * factor for group, factor in zip(groups, factors, strict=True)]
        return np.mean(each, axis=0)

    return figure


def _relative(
    errors: NDArray[np.float64], levels: Sequence[int], name: str, clean: CleanError, baseline: Baseline | None
) -> float | None:
    """Relative corruption error, where both clean errors are known and the baseline loses anything at all."""
    reference = baseline.relative_errors(name, levels) if baseline else None
    if reference is None or baseline is None or baseline.clean_error is None:
        return None
    if sum(reference) <= baseline.clean_error * len(reference):
        return None
    return metrics.relative_corruption_error(errors, clean.value, reference, baseline.clean_error)


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


def system_noise_figures(scores: Scores[Condition], about: About, resamples: int) -> SystemNoiseSummary:
    """Return the figures of ImageNet-S."""
    figures = _Figures(1 - scores.values, resamples)
    names = [condition.transform for condition in scores.keys]
    return SystemNoiseSummary(
        about.model,
        about.data_set,
        len(scores.images.ids),
        about.failed,
        [
            PairRow(name, PAIRS[name].decoder, PAIRS[name].resize, figures.estimate(_column(place)))
            for place, name in enumerate(names)
        ],
        figures.estimate(_mean_of(range(len(names)))),
        figures.estimate(lambda means: -100 * means.std(axis=-1)),
        about.manifest_sha256,
        about.source_ids_sha256,
    )
