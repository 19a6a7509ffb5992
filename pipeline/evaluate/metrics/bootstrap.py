"""Bootstrap confidence intervals of metrics. The draws depend only on the seed and the number of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Figures, Floats, Numbers, check_number_of
from pipeline.evaluate.metrics.slices import row_slices

CONFIDENCE = 0.95
"""Default confidence level: the fraction of draws within an interval."""

RESAMPLES = 10_000
"""Default number of draws. With other seeds, the ends of an interval vary by less than 1 % of its width."""

MAX_COUNTS, MIN_ROWS = 2**24, 64
"""Maximum number of counts in memory (128 MiB as float64), and minimum number of rows of counts, however long."""

MAX_EXACT = 2**24
"""Integers up to this one are exact in float32."""

MAX_RESAMPLES = 1_000_000
"""Maximum number of draws."""


@dataclass(frozen=True)
class Estimate:
    """The value of a metric, and the lower and upper ends of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Bootstrap:
    """Means of per-image values, and the same means in each bootstrap draw of images.

    All columns, and all metrics computed from them, share the same draws.

    Attributes:
        means: Mean of each column, shape (columns,), or () for values without columns.
        draws: The same means in each draw, shape (draws, columns), or (draws,) for values without columns.
    """

    means: Floats
    draws: Floats

    @classmethod
    def of(cls, values: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Bootstrap:
        """Draw images with replacement and compute the means.

        Args:
            values: Numbers or bool of shape (images,) or (images, columns), one row per image or sequence.
            resamples: Number of draws, 1 to 1,000,000.
            seed: Seed of the draws.

        Raises:
            ValueError: If the shape or dtype is wrong, a value is not finite, or ``resamples`` is out of range.
        """
        draws = bootstrap_means(values, resamples=resamples, seed=seed)
        return cls(np.asarray(_check_values(values).mean(axis=0, dtype=np.float64)), draws)

    def estimate(self, figure: Callable[[Floats], Figures], confidence: float = CONFIDENCE) -> Estimate:
        """Return the value of a metric and its confidence interval.

        Args:
            figure: The metric: a function from means (..., columns) to values (...). It is called with ``means`` and
                with ``draws``.
            confidence: Fraction of the draws within the interval, between 0 and 1 (exclusive).

        Raises:
            ValueError: If ``figure`` does not return one finite number per draw, or ``confidence`` is out of range.
        """
        figures = np.asarray(figure(self.draws))
        if figures.shape != self.draws.shape[:1]:
            raise ValueError(
                f"invalid figures of shape {figures.shape}: return one value for each of {len(self.draws)} draws"
            )
        return Estimate(float(figure(self.means)), *percentile_interval(figures, confidence))


def bootstrap_means(values: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Return the means over images in each bootstrap draw. Images are drawn with replacement.

    The means are a matrix product of counts (draws, images) and values. If there are more than ``MAX_COUNTS`` counts,
    those of the first draws are used again for the images in other random orders: each draw is still a random one, and
    any two are uncorrelated.

    Args:
        values: Numbers or bool of shape (images,) or (images, columns), one row per image or sequence.
        resamples: Number of draws, 1 to 1,000,000.
        seed: Seed of the draws. The draws depend only on it and on the number of images.

    Returns:
        Means, float64 of shape (resamples,) or (resamples, columns).

    Raises:
        ValueError: If the shape or dtype is wrong, a value is not finite, or ``resamples`` is out of range.
    """
    array = _check_values(values).astype(np.float64)
    size, generator = len(array), _generator(resamples, seed)
    # Sums of errors, which are 0 or 1, are exact in float32 in any order, and take half the time.
    if np.abs(array).max() * size < MAX_EXACT and (array == np.rint(array)).all():
        array = array.astype(np.float32)
    counts = np.empty((min(resamples, max(MAX_COUNTS // size, MIN_ROWS)), size), array.dtype)
    for part in row_slices(len(counts), size):
        drawn = generator.integers(size, size=counts[part].shape)
        drawn += size * np.arange(len(drawn))[:, None]
        counts[part] = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
    means = np.empty((resamples, *array.shape[1:]))
    for start in range(0, resamples, len(counts)):
        if start:
            array = array[generator.permutation(size)]
        block = means[start : start + len(counts)]
        block[:] = counts[: len(block)] @ array
    return means / size


def estimate_of_groups(
    figure: Callable[[list[Numbers]], Figures],
    groups: Sequence[ArrayLike],
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Return a metric that is not a function of means, such as AUPR, and its confidence interval.

    Args:
        figure: The metric: a function from a list of groups to a number. It is called once per draw.
        groups: Groups of images: numbers or bool, each of shape (images,) or (images, columns). Each group is resampled
            independently.
        resamples: Number of draws, 1 to 1,000,000.
        seed: Seed of the draws. A single group gets the same draws as in ``bootstrap_means``.
        confidence: Fraction of the draws within the interval, between 0 and 1 (exclusive).

    Raises:
        ValueError: If a shape or dtype is wrong, a value or metric is not finite, or ``resamples`` or ``confidence`` is
            out of range.
    """
    arrays = [_check_values(group) for group in groups]
    generator = _generator(resamples, seed)
    figures = [
        float(figure([array[generator.integers(len(array), size=len(array))] for array in arrays]))
        for _ in range(resamples)
    ]
    return Estimate(float(figure(arrays)), *percentile_interval(figures, confidence))


def percentile_interval(figures: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the ends of the central interval that contains a fraction ``confidence`` of the draws.

    Args:
        figures: Value of the metric in each draw, shape (draws,).
        confidence: Fraction of the draws within the interval, between 0 and 1 (exclusive).

    Raises:
        ValueError: If the shape is wrong, a value is not finite, or ``confidence`` is out of range.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"invalid confidence {confidence}: use a number between 0 and 1, for example {CONFIDENCE}")
    if np.ndim(figures) != 1:
        raise ValueError(f"invalid figures of shape {np.shape(figures)}: pass an array of shape (draws,)")
    low, high = np.quantile(_check_values(figures), [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _generator(resamples: int, seed: int) -> np.random.Generator:
    """Return the generator of draws. Raise ValueError if the number of draws is out of range."""
    check_number_of("resamples", resamples, MAX_RESAMPLES)
    return np.random.default_rng(seed)


def _check_values(values: ArrayLike) -> Numbers:
    """Return per-image values as an array. Raise ValueError if they are invalid."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim not in {1, 2} or array.size == 0:
        raise ValueError(
            f"invalid values of shape {array.shape} and type {array.dtype}: "
            "pass numbers or bool of shape (images,) or (images, columns)"
        )
    if not np.isfinite(array).all():
        raise ValueError("invalid values: some are not finite; pass a finite number for every image")
    return array
