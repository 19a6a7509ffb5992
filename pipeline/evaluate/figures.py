"""From the predictions of one evaluation to its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import corruptions
import perturbations
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.folder import PREDICTIONS_FILE, EvaluationTable, read_table, require_finished
from pipeline.evaluate.intervals import bootstrap_means, percentile_interval
from pipeline.evaluate.records import StepPredictions, read_predictions
from pipeline.evaluate.summary import (
    CleanSummary,
    CorruptionRow,
    CorruptionSummary,
    Estimate,
    PairRow,
    PerturbationRow,
    PerturbationSummary,
    SystemNoiseSummary,
)
from pipeline.storage import Store, open_store
from pipeline.system_noise import PAIRS


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: what was shown to which model, and where its predictions are."""

    folder: str
    table: EvaluationTable
    store: Store

    def steps(self) -> Iterator[StepPredictions]:
        """Its predictions, one step at a time."""
        return read_predictions(self.store.path(PREDICTIONS_FILE))


def open_evaluation(folder: str) -> Evaluation:
    """Raises UserError where there is none, UnfinishedError where it is not whole."""
    store = open_store(folder)
    table = read_table(store)
    require_finished(store)
    return Evaluation(folder, table, store)


@dataclass(frozen=True)
class Baseline:
    """What figures are divided by: errors by corruption and severity, flip probabilities and top-5 distances by
    perturbation and difficulty, all as far as they are known."""

    name: str
    clean_error: float | None
    errors: Callable[[str, Sequence[int]], Sequence[float] | None]
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


def _common(columns: Mapping[Any, tuple[Sequence[str], NDArray[Any]]]) -> NDArray[np.float64]:
    """Per-image values as (images, columns), of the images that every column has."""
    ids = [tuple(names) for names, _ in columns.values()]
    if len(set(ids)) == 1:
        return np.stack([values for _, values in columns.values()], axis=1).astype(np.float64)
    shared = set(ids[0]).intersection(*ids[1:])
    if not shared:
        raise UserError("the transforms have no image in common")
    rows = [
        [value for name, value in zip(names, values, strict=True) if name in shared]
        for names, values in columns.values()
    ]
    return np.array(rows, np.float64).T


def wrong(step: StepPredictions, where: str) -> NDArray[np.bool_]:
    """Whether the first class of each image is not its label, (S,). Raises UserError without labels."""
    if (step.labels < 0).any():
        raise UserError(f"{where} has images without labels: there is no error to tell")
    return step.top1[:, 0] != step.labels


def clean_figures(each: Evaluation, resamples: int) -> CleanSummary:
    """Top-1 and top-5 error of clean images. Raises UserError without labels."""
    (step,) = each.steps()
    errors = wrong(step, each.folder)
    beyond = step.label_rank[:, 0] > metrics.TOP
    figures = _Figures(np.stack([errors, beyond], axis=1).astype(np.float64), resamples)
    about = each.table
    return CleanSummary(
        about.model.name,
        about.data_set.name,
        len(errors),
        about.data_set.failed,
        figures.estimate(_column(0)),
        figures.estimate(_column(1)),
    )


def _corruptions(
    each: Evaluation, clean: CleanSummary | None, baseline: Baseline | None, resamples: int
) -> list[CorruptionSummary]:
    columns = {step.step: (step.source_ids, wrong(step, each.folder)) for step in each.steps()}
    values = _common(columns)
    figures, places = _Figures(values, resamples), {step: place for place, step in enumerate(columns)}
    names = list(dict.fromkeys(step.transform for step in columns))
    levels = {name: [step.level for step in columns if step.transform == name] for name in names}
    clean_error = clean.error.value if clean else None
    published = set(corruptions.names("all"))
    benchmark = [name for name in names if name in set(corruptions.names("benchmark"))]
    rows, weights = [], dict[str, float]()
    for name in names:
        here = [places[step] for step in columns if step.transform == name]
        reference = baseline.errors(name, levels[name]) if baseline else None
        relative = None
        if reference is not None and sum(reference) > 0:
            weights[name] = len(here) / sum(reference)
            relative = _relative(values.mean(axis=0)[here], clean_error, reference, baseline)
        rows.append(
            CorruptionRow(
                name,
                corruptions.get(name).group if name in published else "",
                name in benchmark,
                {level: figures.estimate(_column(place)) for level, place in zip(levels[name], here, strict=True)},
                figures.estimate(_mean_of(here)),
                figures.estimate(_mean_of(here, [weights[name]] * len(here))) if name in weights else None,
                relative,
            )
        )
    # The benchmark's corruptions, or, of others' own, all.
    counted = benchmark or names
    columns_of = {name: [places[step] for step in columns if step.transform == name] for name in counted}
    known = baseline is not None and all(name in weights for name in counted)
    relatives = [row.relative_corruption_error for row in rows if row.name in counted]
    curve = {
        level: figures.estimate(_accuracy([places[step] for step in columns if _at(step, level, counted)]))
        for level in sorted({step.level for step in columns})
    }
    mean_error = figures.estimate(_mean_of_means(list(columns_of.values())))
    about = each.table
    return [
        CorruptionSummary(
            about.model.name,
            about.data_set.name,
            len(values),
            about.data_set.failed,
            baseline.name if baseline and weights else None,
            tuple(benchmark) == tuple(corruptions.names("benchmark"))
            and all(len(levels[name]) == 5 for name in benchmark),
            rows,
            curve,
            mean_error,
            figures.estimate(_mean_of_means(list(columns_of.values()), [weights[name] for name in counted]))
            if known
            else None,
            float(np.mean([each for each in relatives if each is not None])) if None not in relatives else None,
            clean_error,
            metrics.residual_robustness(1 - clean_error, 1 - mean_error.value) if clean_error is not None else None,
        )
    ]


def _at(step: Any, level: int, names: Sequence[str]) -> bool:
    return step.level == level and step.transform in names


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
    errors: NDArray[np.float64], clean_error: float | None, reference: Sequence[float], baseline: Baseline | None
) -> float | None:
    """Relative corruption error, where both clean errors are known and the baseline loses anything at all."""
    if clean_error is None or baseline is None or baseline.clean_error is None:
        return None
    if sum(reference) <= baseline.clean_error * len(reference):
        return None
    return metrics.relative_corruption_error(errors, clean_error, reference, baseline.clean_error)


def _perturbations(
    each: Evaluation, clean: CleanSummary | None, baseline: Baseline | None, resamples: int
) -> list[PerturbationSummary]:
    flips: dict[tuple[str, int], tuple[Sequence[str], NDArray[Any]]] = {}
    moves: dict[tuple[str, int], tuple[Sequence[str], NDArray[Any]]] = {}
    steps = list(each.steps())
    difficulties = sorted({step.step.level for step in steps})
    for step in steps:
        name, ordered = step.step.transform, perturbations.get(step.step.transform).group != "noise"
        # Only noise has data of its own at each difficulty: of the others, frames further apart are compared.
        for difficulty in difficulties if ordered else (step.step.level,):
            options: dict[str, Any] = {"ordered": ordered, "difficulty": difficulty if ordered else 1}
            if difficulty < step.top1.shape[1]:
                place = (name, difficulty)
                flips[place] = step.source_ids, metrics.flip_probabilities_by_sequence(step.top1, **options)
                moves[place] = step.source_ids, metrics.top5_distances_of_lists_by_sequence(step.top5, **options)
    about = each.table
    found = []
    for difficulty in difficulties:
        names = [name for name, other in flips if other == difficulty]
        flip = _Figures(_common({name: flips[name, difficulty] for name in names}), resamples)
        move = _Figures(_common({name: moves[name, difficulty] for name in names}), resamples)
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
        found.append(
            PerturbationSummary(
                about.model.name,
                about.data_set.name,
                len(next(iter(flips.values()))[0]),
                about.data_set.failed,
                difficulty,
                baseline.name if baseline and (flip_weights or move_weights) else None,
                tuple(row.name for row in rows if row.benchmark) == tuple(perturbations.names("benchmark")),
                rows,
                flip.estimate(_mean_of(counted)),
                _mean_ratio(flip, counted, names, flip_weights),
                move.estimate(_mean_of(counted)),
                _mean_ratio(move, counted, names, move_weights),
            )
        )
    return found


def _weights(names: Sequence[str], difficulty: int, reference: Mapping[tuple[str, int], float]) -> dict[str, float]:
    """One over the baseline's figure, where there is one above zero."""
    return {name: 1 / reference[name, difficulty] for name in names if reference.get((name, difficulty), 0) > 0}


def _mean_ratio(
    figures: _Figures, counted: Sequence[int], names: Sequence[str], weights: Mapping[str, float]
) -> Estimate | None:
    if any(names[place] not in weights for place in counted):
        return None
    return figures.estimate(_mean_of(counted, [weights[names[place]] for place in counted]))


def _system_noise(
    each: Evaluation, clean: CleanSummary | None, baseline: Baseline | None, resamples: int
) -> list[SystemNoiseSummary]:
    right = {step.step.transform: (step.source_ids, ~wrong(step, each.folder)) for step in each.steps()}
    values = _common(right)
    figures, about = _Figures(values, resamples), each.table
    rows = [
        PairRow(name, PAIRS[name].decoder, PAIRS[name].resize, figures.estimate(_column(place)))
        for place, name in enumerate(right)
    ]
    return [
        SystemNoiseSummary(
            about.model.name,
            about.data_set.name,
            len(values),
            about.data_set.failed,
            rows,
            figures.estimate(_mean_of(range(len(rows)))),
            figures.estimate(lambda means: -100 * means.std(axis=-1)),
        )
    ]


SUMMARIES: Mapping[str, Callable[[Evaluation, CleanSummary | None, Baseline | None, int], list[Any]]] = {
    "corruptions": _corruptions,
    "perturbations": _perturbations,
    "system-noise": _system_noise,
}
"""Family of transforms -> its figures."""
