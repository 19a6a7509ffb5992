"""The analysis of candidates: overlaps, categories, benchmarks, and how well these predict natural robustness."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

import corruptions
from pipeline.errors import UserError
from pipeline.evaluate.metrics import residual_robustness
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.selection import groups
from pipeline.evaluate.selection import measures as metrics
from pipeline.evaluate.selection.accuracies import Measurements
from pipeline.evaluate.selection.measures import Indices
from pipeline.evaluate.selection.records import (
    Categories,
    ChosenBenchmark,
    Correlations,
    Overlaps,
    Prediction,
    Selection,
    SelectionSettings,
)
from pipeline.text import shown

SYN2NAT = "ImageNet-Syn2Nat"

Members = Mapping[str, Sequence[str]]
"""Corruptions by category."""


def analyse(
    settings: SelectionSettings,
    trained: tuple[Sequence[str], Floats] | None = None,
    measured: Measurements | None = None,
    members: Members | None = None,
    warnings: Sequence[str] = (),
    on_step: Callable[[str], None] = lambda step: None,
) -> Selection:
    """Return the analysis of candidates.

    Args:
        settings: Settings.
        trained: Names and accuracies of models trained with corruptions, as ``read_trained`` returns them.
        measured: Accuracies of models on candidates and natural images.
        members: Categories. Default: those of the overlaps; without overlaps, benchmarks have no categories.
        warnings: Warnings about the input.
        on_step: Called with each step before it begins.

    Raises:
        UserError: There is nothing to analyse, a corruption is unknown, or a value is undefined.
    """
    if trained is None and measured is None:
        raise UserError(
            "nothing to analyse: give --trained, or accuracies of several models on candidates and natural images "
            "(evaluations, or --candidates and --natural)"
        )
    overlaps = _overlaps(*trained, normalised=settings.normalised) if trained else None
    pool = list(overlaps.names if overlaps else measured.names if measured else ())
    if members is None and overlaps:
        members = _found_categories(overlaps, settings, on_step)
    index = _IndexOf(pool, "--trained" if overlaps else "the accuracies on candidates")
    drawn_from = tuple(index.all(names) for names in members.values()) if members else (tuple(range(len(pool))),)
    by_size = {
        size: groups.balanced_group(drawn_from, size, settings.count, settings.seed)
        for size in groups.sizes(drawn_from, settings.sizes)
    }
    chosen = dict(_chosen(settings, measured.names if measured else pool))
    if overlaps and members:
        chosen |= _least_overlap(by_size, overlaps, drawn_from)
    on_step("comparing benchmarks ...")
    predictions: list[Prediction] = []
    by_spread: list[Prediction] = []
    if measured:
        predictor = _Predictor(measured)
        titles = {size: f"n={size[0]}, k={size[1]}" if members else f"{size[1]} random" for size in by_size}
        predictions = [
            *(predictor.of_group(titles[size], pool, group) for size, group in by_size.items()),
            *(predictor.of_scores(name, scores[None]) for name, scores in measured.scores.items()),
            *(predictor.of_names(name, names) for name, names in chosen.items()),
        ]
        by_spread = [
            predictor.of_group(value, pool, group)
            for value, group in groups.spread_groups(drawn_from, settings.count, settings.seed).items()
        ]
    return Selection(
        settings,
        measured.models if measured else (),
        overlaps,
        _categories(members, overlaps, measured) if members else None,
        [_benchmark(name, names, members, overlaps) for name, names in chosen.items()],
        predictions,
        by_spread,
        warnings,
    )


class _IndexOf:
    """The indices of names, with an error for unknown ones."""

    def __init__(self, names: Sequence[str], where: str) -> None:
        self._index = {name: index for index, name in enumerate(names)}
        self._where = where

    def all(self, names: Sequence[str]) -> Indices:
        """Return the indices of names. Raise UserError if one is unknown."""
        if missing := [name for name in names if name not in self._index]:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise UserError(
                f"{self._where} lacks {shown(missing[0])}{more}: add it, or leave it out of categories and benchmarks"
            )
        return tuple(self._index[name] for name in names)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Convert the ValueError of a metric into a UserError."""
    try:
        yield
    except ValueError as error:
        raise UserError(f"{what}: {error}") from error


# Overlaps and categories


def _overlaps(names: Sequence[str], accuracies: Floats, normalised: bool) -> Overlaps:
    listed = ", ".join(f"{index} {name}" for index, name in enumerate(names))
    with _explained(f"no overlaps of the corruptions {shown(listed)}"):
        return Overlaps(names, metrics.overlap_scores(accuracies, normalised))


def _found_categories(overlaps: Overlaps, settings: SelectionSettings, on_step: Callable[[str], None]) -> Members:
    def on_count(count: int) -> None:
        on_step(f"grouping {len(overlaps.names)} corruptions into {count} categories ...")

    with _explained("no categories (--categories gives them, --threshold changes the threshold)"):
        found = metrics.categories(overlaps.scores, settings.threshold, settings.seed, on_count)
    return {str(number): [overlaps.names[each] for each in members] for number, members in enumerate(found, 1)}


def _categories(members: Members, overlaps: Overlaps | None, measured: Measurements | None) -> Categories:
    of_overlaps = of_robustness = None
    if overlaps:
        index = _IndexOf(overlaps.names, "--trained")
        of_overlaps = _correlations(overlaps.scores, [index.all(names) for names in members.values()])
    if measured:
        index = _IndexOf(measured.names, "the accuracies on candidates")
        losses = np.asarray(residual_robustness(measured.clean[:, None], measured.candidates))
        of_robustness = _correlations(losses.T, [index.all(names) for names in members.values()])
    return Categories(members, of_overlaps, of_robustness)


def _correlations(vectors: Floats, indices: Sequence[Indices]) -> Correlations | None:
    """Return the mean correlations within and across categories; None if a corruption has equal values only."""
    try:
        means = metrics.category_correlations(vectors, indices)
    except ValueError:
        return None
    same, different = (None if math.isnan(mean) else mean for mean in means)
    return Correlations(same, different)


# Benchmarks


def _chosen(settings: SelectionSettings, available: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the benchmarks by name: the published one if its corruptions are available, and the user's."""
    published = corruptions.names("syn2nat")
    if set(published) <= set(available):
        yield SYN2NAT, published
    yield from settings.benchmarks.items()


def _least_overlap(
    by_size: Mapping[groups.Size, Sequence[Indices]], overlaps: Overlaps, categories: Sequence[Indices]
) -> dict[str, Sequence[str]]:
    """Return the balanced benchmark of the largest size whose corruptions overlap least within categories."""
    several = [size for size in by_size if size[1] > 1]
    if not several:
        return {}
    size = max(several, key=lambda size: (size[0] * size[1], size[0]))
    best = min(by_size[size], key=lambda each: metrics.mean_overlap(each, overlaps.scores, categories))
    return {f"least overlap (n={size[0]}, k={size[1]})": [overlaps.names[each] for each in best]}


def _benchmark(name: str, names: Sequence[str], members: Members | None, overlaps: Overlaps | None) -> ChosenBenchmark:
    """Return a benchmark; without a spread or an overlap where a corruption is in no category."""
    listed = [each for group in members.values() for each in group] if members else []
    if not members or not set(names) <= set(listed):
        return ChosenBenchmark(name, names, None, None)
    index = _IndexOf(overlaps.names if overlaps else listed, name)
    benchmark, categories = index.all(names), [index.all(group) for group in members.values()]
    overlap = metrics.mean_overlap(benchmark, overlaps.scores, categories) if overlaps else math.nan
    return ChosenBenchmark(name, names, metrics.spread(benchmark, categories), None if math.isnan(overlap) else overlap)


class _Predictor:
    """The predictiveness of benchmarks of candidates, for each natural set."""

    def __init__(self, measured: Measurements) -> None:
        self._measured = measured
        self._index = _IndexOf(measured.names, "the accuracies on candidates")
        self._losses = np.asarray(residual_robustness(measured.clean[:, None], measured.candidates))

    def of_names(self, title: str, names: Sequence[str]) -> Prediction:
        """Return the prediction of one benchmark."""
        with _explained(title):
            return self.of_scores(title, metrics.benchmark_scores(self._losses, [self._index.all(names)]))

    def of_group(self, title: str, pool: Sequence[str], benchmarks: Sequence[Indices]) -> Prediction:
        """Return the mean prediction of benchmarks of corruptions of the pool."""
        used = sorted({each for benchmark in benchmarks for each in benchmark})
        column = dict(zip(used, self._index.all([pool[each] for each in used]), strict=True))
        moved = [[column[each] for each in benchmark] for benchmark in benchmarks]
        return self.of_scores(title, metrics.benchmark_scores(self._losses, moved))

    def of_scores(self, title: str, scores: Floats) -> Prediction:
        """Return the mean prediction of scores (B, M)."""
        found = {}
        for name, natural in self._measured.natural.items():
            with _explained(f"{title} on {shown(name)}"):
                found[name] = metrics.score_predictiveness(self._measured.clean, natural, scores)
        correlations, p_values = ({name: pair[at] for name, pair in found.items()} for at in (0, 1))
        return Prediction(title, len(scores), correlations, p_values)
