"""Confidence intervals of figures that come from finitely many images: bootstrap, by the seed alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics.checks import Floats, Numbers, chunks


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def bootstrap_interval(
    values: ArrayLike,
    *,
    statistic: Callable[[Numbers], float] = np.mean,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a statistic over images drawn again with replacement; ``seed`` alone decides the draws.

    ``values``: (N,) or (N, C) numbers or bool, one row for each image (or sequence). ``statistic(rows)`` gets the N
    rows drawn, in the type that came; the mean of (N,) takes a quicker way. Raises ValueError for other shapes, for
    values that are not finite, a confidence not between 0 and 1 and less than one resample.
    """
    if statistic is np.mean and np.ndim(values) == 1:
        return percentile_interval(bootstrap_means(values, resamples=resamples, seed=seed), confidence)
    array = _images(values)
    return percentile_interval([statistic(array[rows]) for rows in _resamples(len(array), resamples, seed)], confidence)


def bootstrap_means(values: ArrayLike, *, resamples: int = 1000, seed: int = 0) -> Floats:
    """Means over images drawn again with replacement: (N,) -> (resamples,), (N, C) -> (resamples, C).

    All columns are means over the same draws, so a figure made of several means, such as mCE, has its interval:
    ``percentile_interval([figure(row) for row in bootstrap_means(values)])``. The draws are those of
    ``bootstrap_interval``. Raises ValueError as that.
    """
    array = _images(values).astype(np.float64)
    draws = _resamples(len(array), resamples, seed)
    means = np.empty((resamples, *array.shape[1:]))
    for part in chunks(resamples, len(array)):
        counts = np.empty((len(means[part]), len(array)))
        for row in counts:
            row[:] = np.bincount(next(draws), minlength=len(array))
        means[part] = counts @ array
    return means / len(array)


def percentile_interval(figures: Sequence[float] | Floats, confidence: float = 0.95) -> Interval:
    """The middle ``confidence`` of bootstrapped figures, (resamples,). Raises ValueError as ``bootstrap_interval``."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence}; allowed is what lies between 0 and 1")
    if np.ndim(figures) != 1:
        raise ValueError(f"figures of shape {np.shape(figures)}; allowed is (resamples,)")
    low, high = np.quantile(_images(figures), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


def _resamples(images: int, resamples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """The rows of each resample."""
    if resamples < 1:
        raise ValueError(f"{resamples} resamples; at least one is needed")
    generator = np.random.default_rng(seed)
    return (generator.integers(images, size=images) for _ in range(resamples))


def _images(values: ArrayLike) -> Numbers:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim not in {1, 2} or array.size == 0:
        raise ValueError(
            f"values of shape {array.shape} and type {array.dtype}; "
            "allowed are numbers or bool of (images,) or (images, columns)"
        )
    if not np.isfinite(array).all():
        raise ValueError("values that are not finite; every image needs a number")
    return array
