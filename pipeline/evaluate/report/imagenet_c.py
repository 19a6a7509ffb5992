"""The report on ImageNet-C and its editions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import corruptions
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.alexnet import SEVERITIES
from pipeline.evaluate.report.baseline import Baseline
from pipeline.evaluate.report.belonging import CleanError
from pipeline.evaluate.report.estimates import Estimate, _column, _Figures, _mean_of
from pipeline.evaluate.report.family import Column, Content, Family, Figure, Table
from pipeline.evaluate.report.formats import shown_short
from pipeline.evaluate.report.scores import About, Scores
from pipeline.evaluate.report.tables import (
    _by_transform,
    _extra_note,
    _marked,
    _part_notes,
    accuracy,
    marked_names,
    rows_of,
)
from pipeline.transforms.family import Condition


def _corruption_tables(family: Family, section: str, models: Mapping[str, Any]) -> Iterator[Table]:
    yield _curve_table(family, section, models)
    yield _accuracies(section, models)
    yield _by_transform(section, CE_TABLE, models, "corruption")
    if any(all(row.corruption_error is None for row in each.rows) for each in models.values()):
        yield _by_transform(section, MEAN_ERROR_TABLE, models, "corruption")


def _curve_table(family: Family, section: str, models: Mapping[str, Any]) -> Table:
    """Severities downwards, models side by side."""
    severities = sorted({severity for each in models.values() for severity in each.curve})
    rows = [
        [str(s), *(_marked(family, each, CURVE, each.curve.get(s)) for each in models.values())] for s in severities
    ]
    note = "Percent, mean over the corruptions of the benchmark, with the 95 % interval over images. Higher is better."
    note = " ".join((note, *_part_notes(family, models, [CURVE])))
    columns = [Column("severity", number=False), *(Column(model) for model in models)]
    return Table(section, "accuracy by severity", note, columns, rows, "curve")


def _accuracies(section: str, models: Mapping[str, Any]) -> Table:
    """A row for each corruption and model."""
    severities = sorted({s for each in models.values() for row in each.rows for s in row.errors})
    found = {model: rows_of(each) for model, each in models.items()}
    rows = []
    for name, words in marked_names(models).items():
        for model in models:
            if row := found[model].get(name):
                cells = (accuracy(row.errors[s]) if s in row.errors else None for s in severities)
                rows.append([words, model, *map(shown_short, cells), shown_short(accuracy(row.mean_error))])
    columns = [Column("corruption", number=False), Column("model", number=False)]
    columns += [*(Column(str(severity)) for severity in severities), Column("mean")]
    note = f"Percent by severity, ± half of the 95 % interval. Higher is better.{_extra_note(rows)}"
    return Table(section, "accuracy by corruption and severity", note, columns, rows, "accuracies")


CORRUPTION_FIGURES = (
    Figure("mCE", "mean_corruption_error", normalised=True, over="corruption_error"),
    Figure("relative mCE", "relative_mean_corruption_error", normalised=True, over="relative_corruption_error"),
    Figure("mean corruption error (unnormalised)", "mean_error", over="mean_error"),
    Figure("residual robustness", "residual_robustness", over="mean_error"),
    Figure("clean error", "clean_error"),
)


CURVE = Figure("mean accuracy", "curve", over="mean_error")


CORRUPTION_ROWS = (
    Figure("CE", "corruption_error", normalised=True),
    Figure("relative CE", "relative_corruption_error", normalised=True),
    Figure("mean error (unnormalised)", "mean_error"),
)


CE_TABLE = Content(
    "corruption errors",
    "corruption error (CE)",
    "Percent of the baseline's errors, ± half of the 95 % interval. Lower is better, 100 is the baseline.",
    CORRUPTION_ROWS[:2],
)


MEAN_ERROR_TABLE = Content(
    "mean errors",
    "mean error over the severities (unnormalised)",
    "Percent, with the 95 % interval over images. Lower is better.",
    CORRUPTION_ROWS[2:],
)


@dataclass(frozen=True)
class CorruptionRow:
    """One corruption: top-1 error by severity, their mean, and what a baseline makes of them."""

    name: str
    group: str
    benchmark: bool
    errors: Mapping[int, Estimate]
    mean_error: Estimate
    corruption_error: Estimate | None
    relative_corruption_error: float | None


@dataclass(frozen=True)
class CorruptionSummary:
    """ImageNet-C and its editions, of one model.

    The means are over the benchmark's corruptions that are there, ``complete`` tells whether that is all 15 at all five
    severities. ``mean_error`` is the mean corruption error (unnormalised). ``curve``: severity -> mean accuracy.
    """

    model: str
    data_set: str
    images: int
    failed: int
    baseline: str | None
    complete: bool
    rows: Sequence[CorruptionRow]
    curve: Mapping[int, Estimate]
    mean_error: Estimate | None
    mean_corruption_error: Estimate | None
    relative_mean_corruption_error: float | None
    clean_error: float | None
    residual_robustness: float | None
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


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
