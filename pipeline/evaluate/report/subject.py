"""What a family's measures are computed from: means over images with bootstrap intervals, errors, calibration.

A metric is a function of means over images: of a data set, its transforms and levels.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.arrays import Figures, Floats, Numbers
from pipeline.evaluate.metrics.bootstrap import Bootstrap, intervals, wilson
from pipeline.evaluate.report.context import CleanError, Context
from pipeline.evaluate.report.join import Scores, Untransformed, condition_scores, top1_errors
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import Facts, FamilyReport, Measure, Metric, Results
from pipeline.evaluate.report.views import FINE, PLAIN
from pipeline.evaluate.results.predictions import ConditionPredictions
from pipeline.text import counted
from pipeline.transforms.family import Condition


@dataclass(frozen=True)
class Means:
    """Means over images."""

    cells: Floats  # by transform and level, (..., transforms, levels); NaN where a condition is missing
    others: Floats  # of other values of the same images, such as their clean errors, (..., values)


By = Literal["", "transform", "level", "both"]
"""What a metric has values for: the data set, transforms, levels of all transforms, or transforms at levels."""

Figure = Callable[[Means], Figures]
"""A metric as a function of means: (...) for the data set, (..., transforms), (..., levels), or both."""


class Grid:
    """Means of values by transform and level over the same images, and the same means in bootstrap draws."""

    def __init__(
        self,
        values: Floats,  # (images, conditions)
        conditions: Sequence[Condition],  # of each column
        *,
        resamples: int,
        benchmark: Sequence[str] = (),  # transforms that means are over; over all if there are none of them
        what: str = "transform",  # noun for one of them, such as corruption
        levels: Sequence[int] = (),  # of the benchmark: means over part of them cover part of it
        others: Floats | None = None,  # further values of the same images, (images, values)
    ) -> None:
        """Draw the bootstrap samples."""
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

    def beside(self, others: Numbers) -> "Grid":
        """Return the grid with other values of the same images, (images, values), that are whole numbers."""
        bootstrap, grid = Bootstrap.of(others, resamples=len(self.draws.cells)), copy(self)
        grid.means, grid.draws = (
            replace(self.means, others=bootstrap.means),
            replace(self.draws, others=bootstrap.draws),
        )
        return grid

    def mean(self, values: Floats) -> Floats:
        """Return the mean over the counted transforms of each one's mean over its levels, (...)."""
        return np.asarray(metrics.mean_over(np.asarray(metrics.mean_over(values))[..., self.counted]))

    def among(self, names: Iterable[str]) -> np.ndarray:
        """Return which transforms have one of these names, bool (transforms,)."""
        return np.isin(self.transforms, list(names))

    @property
    def is_complete(self) -> bool:
        """Whether all transforms of the benchmark have all of its levels."""
        return not self.covers()

    def covers(self, benchmark: Sequence[str] = (), what: str = "") -> str:
        """Return what a mean over the benchmark covers, such as ``12 of 15 corruptions``; empty for all of it.

        ``benchmark`` is part of the benchmark, all of it by default, and ``what`` the noun for one of its transforms.
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

    def estimate(self, metric: Metric, figure: Figure, by: By = "", covers: str | None = None) -> Iterator[Measure]:
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

    def points(self, metric: Metric, values: Figures, by: By = "") -> Iterator[Measure]:
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

    A share of 0 or 1 has Wilson's interval, and 0 relative to a baseline has none: all draws are 0, too.
    """
    lows, highs = map(np.asarray, intervals(drawn))
    for index, (value, low, high) in enumerate(zip(values.tolist(), lows.tolist(), highs.tolist(), strict=True)):
        if metric.unit == "fraction" and low == high == value and value in (0, 1):
            low, high = wilson(round(value * images), images)  # noqa: PLW2901
        elif metric.normalised and low == high == value == 0:
            low = high = math.nan  # noqa: PLW2901
        yield Measure(metric.name, value, low, high, images=images, draws=drawn[:, index])


def means_of(of: Sequence[Metric], values: Numbers, resamples: int) -> list[Measure]:
    """Return the means of values of images with intervals: one metric per column, (images, metrics)."""
    bootstrap = Bootstrap.of(values, resamples=resamples)
    found: list[Measure] = []
    for column, metric in enumerate(of):
        found += measures_of(metric, bootstrap.means[[column]], bootstrap.draws[:, [column]], len(values))
    return found


# Evaluations


def prediction_values(evaluation: Evaluation, predicted: ConditionPredictions) -> NDArray[np.float32]:
    """Return error, largest probability, probability of the label, sum of squares and class of images, (S, 5)."""
    columns = [
        top1_errors(evaluation, predicted),
        predicted.confidence[:, 0],
        predicted.label_probability[:, 0],
        predicted.squared_probability[:, 0],
        predicted.top1[:, 0],
    ]
    return np.stack(columns, axis=1, dtype=np.float32, casting="same_kind")


class Subject:
    """An evaluation on transformed images, and what a family's measures are computed from.

    ``scores`` are values of images, (images, conditions) or (images, conditions, values), of which the first is the
    error; by default those of ``prediction_values``. ``options`` are benchmark, noun and levels, as for ``Grid``.
    """

    def __init__(self, evaluation: Evaluation, context: Context, scores: Scores | None = None, **options: Any) -> None:
        self.evaluation, self.context, self.options = evaluation, context, options
        self.scores = scores or condition_scores(evaluation, prediction_values)
        self.errors = self.scores.values[..., 0] if self.scores.values.ndim > 2 else self.scores.values

    @cached_property
    def clean(self) -> CleanError | None:
        """The clean error of the images that have a clean version; None if there is none."""
        return self.context.clean_error(self.evaluation, self.scores.images)

    @cached_property
    def grid(self) -> Grid:
        """The errors of all images."""
        return self.grid_of(self.errors)

    @cached_property
    def paired(self) -> Grid | None:
        """The errors of the images that have a clean version, and their clean errors as other values."""
        if self.clean is None:
            return None
        if len(self.clean.rows) == len(self.errors):
            return self.grid.beside(self.clean.errors[:, None])  # sums of errors are exact, so draws need no repetition
        return self.grid_of(self.errors[self.clean.rows], self.clean.errors[:, None])

    def grid_of(self, values: Numbers, others: Numbers | None = None) -> Grid:
        """Return the means of some values, (images, conditions), and of other values of the same images."""
        return Grid(values, self.scores.keys, resamples=self.context.resamples, others=others, **self.options)

    def results(self, report: FamilyReport, measures: Iterable[Measure], **fields: Any) -> Results:
        """Return results with these measures and the calibration, if the report has one; see ``Context.results``."""
        found = list(measures)
        if report.calibrated:
            calibration, bins = calibration_of(self)
            found, fields["details"] = [*found, *calibration], {**fields.get("details", {}), **bins}
        if any(each.of_clean for each in report.metrics) and (clean := self.clean):
            fields |= {"clean_images": clean.encoded, "clean_accuracy": 1 - clean.value}
        return self.context.results(report, self.evaluation, self.scores.images, measures=found, **fields)


# Calibration

ECE, ADAPTIVE_ECE = Metric("ECE", unit="ECE", key=False), Metric("adaptive ECE", unit="ECE", key=False)
NLL = Metric("NLL", unit="nats", format=PLAIN, key=False)
BRIER = Metric("Brier score", unit="0 to 2", format=FINE, key=False)
CALIBRATION = (ECE, ADAPTIVE_ECE, NLL, BRIER)
CALIBRATION_OF_CLEAN = tuple(replace(each, of_clean=True) for each in CALIBRATION)

RELIABILITY = "reliability"
"""Key of the bins in the details of results: by level, bounds, number of images, mean confidence, accuracy."""

GLOSSARY = {
    "ECE, adaptive ECE": "Expected calibration error: images are sorted into 15 bins by confidence, the probability of "
    "the predicted class. ECE is the mean distance between accuracy and mean confidence over the bins, weighted by "
    "their images. The bins have equal width or, for adaptive ECE, equally many images. Reliability diagrams show "
    "accuracy against confidence for the bins of equal width: below the diagonal, the model is overconfident.",
    "NLL, Brier score": "Negative log-likelihood: the mean of -ln p, where p is the probability of the label. Brier "
    "score: the mean squared distance of all probabilities from 1 for the label and 0 for other classes, from 0 to 2.",
}

SOURCES = ("Guo et al., ICML 2017 (ECE)", "Nixon et al., CVPR Workshops 2019 (adaptive ECE)")


def calibration_of(subject: Subject) -> tuple[list[Measure], Facts]:
    """Return the calibration of an evaluation by transform and level, and the bins of its reliability diagrams.

    The bins are those of each level, over the images of all transforms that means are over. Empty bins are omitted.
    """
    evaluation, scores, context = subject.evaluation, subject.scores, subject.context
    labels, squared = (_probabilities(scores, column) for column in (2, 3))
    likelihoods, scores_of_all = metrics.negative_log_likelihoods(labels), metrics.brier_scores(labels, squared)
    grids = {NLL: subject.grid_of(likelihoods), BRIER: subject.grid_of(scores_of_all)}
    if zeros := int((labels == 0).sum()):
        context.warn(
            f"{evaluation.folder}: the probability of the label is stored as 0 for {zeros:,} of {labels.size:,} "
            "predictions; NLL counts it as the smallest float32, so it may be too low"
        )
    del labels, squared  # up to 30 MB each
    grid, confidences, correct = grids[NLL], _probabilities(scores, 1), scores.values[..., 0] == 0
    errors = {
        ECE: metrics.expected_calibration_error(confidences.T, correct.T),
        ADAPTIVE_ECE: metrics.adaptive_calibration_error(confidences.T, correct.T),
    }
    views: dict[By, Callable[[Floats], Figures]] = {
        "": grid.mean,
        "level": lambda cells: metrics.mean_over(cells[..., grid.counted, :], axis=-2),
        "transform": metrics.mean_over,
        "both": lambda cells: cells,
    }
    found: list[Measure] = []
    for by, view in views.items():
        for metric, error in errors.items():  # a bootstrap would make ECE too large
            found += grid.points(metric, view(grid.cells(np.asarray(error))), by)
        for metric, of_metric in grids.items():
            found += of_metric.estimate(metric, lambda means, view=view: view(means.cells), by)  # type: ignore[misc]
    names = {name for name, inside in zip(grid.transforms, grid.counted, strict=True) if inside}
    bins = {}
    for level in grid.levels:
        at = [column for column, key in enumerate(scores.keys) if key.level == level and key.transform in names]
        if at:
            bins[str(level)] = _bins(confidences[:, at].ravel(), correct[:, at].ravel())
    return found, {RELIABILITY: bins}


def _probabilities(scores: Scores, column: int) -> Floats:
    """Return one of the values of ``prediction_values``, (images, conditions). Rounding of float32 can exceed 1."""
    return np.minimum(scores.values[..., column], 1, dtype=np.float64)


def natural_calibration(natural: Untransformed, context: Context) -> tuple[list[Measure], Facts]:
    """Return the calibration of an evaluation on images without a transform, and the bins of its diagram."""
    values = prediction_values(natural.evaluation, natural.predicted)[:, None]
    scores = Scores(natural.images, (natural.predicted.condition,), values)
    measures, bins = calibration_of(Subject(natural.evaluation, context, scores))
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
