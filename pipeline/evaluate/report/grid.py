"""Metrics as functions of means over images, with bootstrap intervals: of a data set, its transforms and levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from pipeline.evaluate.metrics import mean_over
from pipeline.evaluate.metrics.arrays import Figures, Floats, Numbers
from pipeline.evaluate.metrics.bootstrap import Bootstrap, intervals, wilson
from pipeline.evaluate.report.measures import Measure, Metric
from pipeline.text import counted
from pipeline.transforms.family import Condition


@dataclass(frozen=True)
class Means:
    """Means over images.

    Attributes:
        cells: By transform and level, (..., transforms, levels); NaN where a condition is missing.
        others: Of other values of the same images, such as their clean errors, (..., values).
    """

    cells: Floats
    others: Floats


By = Literal["", "transform", "level", "both"]
"""What a metric has values for: the data set, transforms, levels of all transforms, or transforms at levels."""

Figure = Callable[[Means], Figures]
"""A metric as a function of means: (...) for the data set, (..., transforms), (..., levels), or both."""


class Grid:
    """Means of values by transform and level over the same images, and the same means in bootstrap draws."""

    def __init__(
        self,
        values: Floats,
        conditions: Sequence[Condition],
        *,
        resamples: int,
        benchmark: Sequence[str] = (),
        what: str = "transform",
        levels: Sequence[int] = (),
        others: Floats | None = None,
    ) -> None:
        """Draw the bootstrap samples.

        Args:
            values: Values (images, conditions).
            conditions: Transform and level of each column.
            resamples: Number of draws.
            benchmark: Transforms that means are over. If there are none of them, means are over all transforms.
            what: Noun for one of them, such as "corruption".
            levels: Levels of the benchmark: means over part of them cover part of it.
            others: Further values of the same images, (images, values).
        """
        self.transforms = list(dict.fromkeys(each.transform for each in conditions))
        self.levels = sorted({each.level for each in conditions})
        rows = [self.transforms.index(each.transform) for each in conditions]
        columns = [self.levels.index(each.level) for each in conditions]
        bootstrap = Bootstrap.of(values if others is None else np.c_[values, others], resamples=resamples)
        self.images, self._places = len(values), (rows, columns)
        self.means, self.draws = (
            Means(self.cells(each[..., : len(conditions)]), each[..., len(conditions) :])
            for each in (bootstrap.means, bootstrap.draws)
        )
        self._benchmark, self._what, self._expected = list(benchmark), what, set(levels)
        self.counted = self.among(benchmark) if self.among(benchmark).any() else self.among(self.transforms)

    def cells(self, values: Floats) -> Floats:
        """Return values (..., conditions) by transform and level, (..., transforms, levels)."""
        found = np.full((*values.shape[:-1], len(self.transforms), len(self.levels)), np.nan)
        found[..., self._places[0], self._places[1]] = values
        return found

    def mean(self, values: Floats) -> Floats:
        """Return the mean over the counted transforms of each one's mean over its levels, (...)."""
        return np.asarray(mean_over(np.asarray(mean_over(values))[..., self.counted]))

    def among(self, names: Iterable[str]) -> np.ndarray:
        """Return which transforms have one of these names, bool (transforms,)."""
        return np.isin(self.transforms, list(names))

    @property
    def is_complete(self) -> bool:
        """Whether all transforms of the benchmark have all of its levels."""
        return not self.covers()

    def covers(self, benchmark: Sequence[str] = (), what: str = "") -> str:
        """Return what a mean over the benchmark covers, such as ``12 of 15 corruptions``; empty for all of it.

        Args:
            benchmark: Part of the benchmark. Default: all of it.
            what: Noun for one of its transforms. Default: that of the grid.
        """
        names, what = benchmark or self._benchmark, what or self._what
        if not names:
            return ""
        inside = self.among(names)
        if not self.among(self._benchmark).any():
            are = "is" if len(self.transforms) == 1 else "are"
            return f"{counted(len(self.transforms), what)} that {are} not in the benchmark"
        known = ~np.isnan(self.means.cells[inside])
        whole = not self._expected or (self._expected <= set(self.levels) and known.all())
        if inside.sum() == len(names) and whole:
            return ""
        levels = ", with missing severities" if inside.sum() == len(names) else ""
        return f"{inside.sum()} of {counted(len(names), what)}{levels}"

    def estimate(
        self,
        metric: Metric,
        figure: Figure,
        by: By = "",
        covers: str | None = None,
    ) -> Iterator[Measure]:
        """Yield a metric with confidence intervals: of the data set, by transform, by level, or by both.

        Values that are NaN are left out.

        Args:
            metric: The metric.
            figure: Its function of means.
            by: What it has a value for.
            covers: What it covers. Default: what means over the benchmark cover.
        """
        values, drawn = np.asarray(figure(self.means)), np.asarray(figure(self.draws))
        found = measures_of(metric, values.ravel(), drawn.reshape(len(drawn), -1), self.images)
        yield from self._placed(found, by, covers)

    def points(self, metric: Metric, values: Any, by: By = "") -> Iterator[Measure]:
        """Yield values of a metric that have no intervals, as ``estimate`` does."""
        found = (Measure(metric.name, value, images=self.images) for value in np.ravel(values).tolist())
        yield from self._placed(found, by, None)

    def _placed(self, found: Iterable[Measure], by: By, covers: str | None) -> Iterator[Measure]:
        """Yield measures with their transforms and levels, without those that are NaN."""
        places: Mapping[By, list[tuple[str, int | None]]] = {
            "": [("", None)],
            "transform": [(name, None) for name in self.transforms],
            "level": [("", level) for level in self.levels],
            "both": [(name, level) for name in self.transforms for level in self.levels],
        }
        covered = self.covers() if covers is None else covers
        for (transform, level), each in zip(places[by], found, strict=True):
            if not math.isnan(each.value):
                of = covered if not transform else ""
                yield replace(each, transform=transform, level=level, covers=of, draws=None if by else each.draws)


def measures_of(metric: Metric, values: Floats, drawn: Floats, images: int) -> Iterator[Measure]:
    """Yield values of a metric, (values,), with intervals from their draws, (draws, values).

    A share of 0 or 1 has Wilson's interval.
    """
    lows, highs = map(np.asarray, intervals(drawn))
    for index, (value, low, high) in enumerate(zip(values.tolist(), lows.tolist(), highs.tolist(), strict=True)):
        if metric.unit == "fraction" and low == high == value and value in (0, 1):
            low, high = wilson(round(value * images), images)  # noqa: PLW2901
        yield Measure(metric.name, value, low, high, images=images, draws=drawn[:, index])


def means_of(metrics: Sequence[Metric], values: Numbers, resamples: int) -> list[Measure]:
    """Return the means of values of images with intervals: one metric per column, (images, metrics)."""
    bootstrap = Bootstrap.of(values, resamples=resamples)
    pairs = (
        measures_of(metric, bootstrap.means[[column]], bootstrap.draws[:, [column]], len(values))
        for column, metric in enumerate(metrics)
    )
    return list(chain.from_iterable(pairs))
