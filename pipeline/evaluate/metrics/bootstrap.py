"""Bootstrap confidence intervals of metrics. The draws depend only on the seed and the number of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics.arrays import Figures, Floats, Numbers, check_number_of, float_if_scalar, row_slices

CONFIDENCE = 0.95  # default confidence level: the fraction of draws within an interval
RESAMPLES = 10_000
"""Default number of draws. With other seeds, the ends of an interval vary by less than 1 % of its width."""

MAX_COUNTS, MIN_ROWS = 2**24, 64
"""Maximum number of counts in memory (64 MiB as float32), and minimum number of rows of counts, however long."""

MAX_EXACT: Mapping[type[np.floating[Any]], int] = {np.float32: 2**24, np.float64: 2**53}
"""Integers up to this one are exact in a type of floats."""

MAX_DOUBLES, PART = 2**30, 512
"""Most values times draws in float64, and number of images whose values are added in float32 otherwise."""

PAIR = 2**12  # two sums below this one are computed as one number
MAX_RESAMPLES = 1_000_000  # maximum number of draws


@dataclass(frozen=True)
class Estimate:
    """The value of a metric, and the lower and upper ends of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Bootstrap:
    """Means of per-image values, and the same means in each bootstrap draw of images.

    All columns, and all metrics computed from them, share the same draws. Values without columns have no last axis.
    """

    means: Floats  # of each column, (columns,)
    draws: Floats  # the same means in each draw, (draws, columns)

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
        return cls(np.asarray(np.asarray(values).mean(axis=0, dtype=np.float64)), draws)

    def estimate(self, figure: Callable[[Floats], Figures], confidence: float = CONFIDENCE) -> Estimate:
        """Return the value of a metric and its confidence interval.

        Args:
            figure: The metric: a function from means (..., columns) to values (...). It is called with ``means`` and
                with ``draws``.
            confidence: Fraction of the draws within the interval, between 0 and 1 (exclusive).

        Raises:
            ValueError: If ``figure`` does not return one number per draw, one is infinite, or ``confidence`` is out of
                range.
        """
        figures = np.asarray(figure(self.draws))
        if figures.shape != self.draws.shape[:1]:
            raise ValueError(
                f"invalid figures of shape {figures.shape}: return one value for each of {len(self.draws)} draws"
            )
        low, high = intervals(figures, confidence)
        return Estimate(float(figure(self.means)), float(low), float(high))


def bootstrap_means(values: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Return the means over images in each bootstrap draw, float64 of shape (resamples,) or (resamples, columns).

    The means are a matrix product of counts (draws, images) and values. If there are more than ``MAX_COUNTS`` counts,
    those of the first draws are used again for the images in other random orders: each draw is still a random one, and
    any two are uncorrelated. The draws depend only on the seed and on the number of images. Arguments: see
    ``Bootstrap.of``.

    All sums are of integers and exact, so the means do not depend on the order in which a CPU or a number of threads
    adds: values are rounded to equal steps, 2**53 / images of them, or about 2**14 for many values. Errors, which are 0
    or 1, are added two columns at a time, since two sums fit one float32.
    """
    array = _check_values(values).astype(np.float64)
    size, low, high, step = len(array), np.float64(0), array.max(axis=0), np.float64(1)
    check_number_of("resamples", resamples, MAX_RESAMPLES)
    counts, orders = _draws(size, resamples, seed)
    most = int(max(counts[:, part].sum(axis=1).max() for part in _parts(size)))
    dtype: type[np.floating[Any]] = np.float32
    largest = max(high.max(), -array.min())
    whole = all((part == np.rint(part)).all() for part in (array[:64], array)) and largest * size <= MAX_EXACT[dtype]
    pairs = whole and array.min() >= 0 and largest * most < PAIR  # errors are 0 or 1
    if not whole:
        if array.size * resamples <= MAX_DOUBLES:
            dtype, most = np.float64, size
        low = array.min(axis=0)
        step = (high - low) / (MAX_EXACT[dtype] // most)
        array -= low
        array /= np.where(step > 0, step, 1)
    units = np.rint(array, out=array).astype(dtype)
    drawn = _sums(units.reshape(size, -1), counts, orders, pairs)[:resamples]
    return np.minimum(drawn.reshape(resamples, *array.shape[1:]) * step / size + low, high)


def _sums(units: Floats, counts: NDArray[np.float32], orders: NDArray[np.int32], pairs: bool) -> Floats:
    """Return the sums of whole numbers, (images, columns), in the draws of each order, (draws, columns).

    ``pairs`` says whether all sums over a part are below ``PAIR``.
    """
    images, columns = units.shape
    if pairs:
        units = np.pad(units, ((0, 0), (0, columns % 2)))
        units = units[:, ::2] + units[:, 1::2] * units.dtype.type(PAIR)
    sums = np.zeros((1 + pairs, len(counts), len(orders) * units.shape[1]))
    for part in _parts(images):
        shuffled = units.take(orders[:, part].T, axis=0, mode="clip")  # the default mode is slower
        product = counts[:, part].astype(units.dtype, copy=False) @ shuffled.reshape(len(shuffled), -1)
        if pairs:
            second = np.floor(product / PAIR)
            sums[1] += second
            product -= second * PAIR
        sums[0] += product
    drawn = sums.reshape(1 + pairs, len(counts), len(orders), -1).transpose(2, 1, 3, 0)
    return drawn.reshape(len(counts) * len(orders), -1)[:, :columns]


def _parts(images: int) -> list[slice]:
    """Return the parts of the images whose values are added in one product."""
    return [slice(start, start + PART) for start in range(0, images, PART)]


@lru_cache(maxsize=1)
def _draws(size: int, resamples: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return how often each image occurs in the first draws, (draws, images), and the orders of images for all draws.

    The orders have the shape (orders, images). All values of the same images have these draws.
    """
    generator = np.random.default_rng(seed)
    counts = np.empty((min(resamples, max(MAX_COUNTS // size, MIN_ROWS)), size), np.float32)
    for part in row_slices(len(counts), size):
        drawn = generator.integers(size, size=counts[part].shape)
        drawn += size * np.arange(len(drawn))[:, None]
        counts[part] = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
    orders = np.empty((-(-resamples // len(counts)), size), np.int32)
    orders[0] = np.arange(size)
    for before, after in pairwise(orders):
        after[:] = before[generator.permutation(size)]
    return counts, orders


def draws_of_groups(
    figure: Callable[[list[Numbers]], Figures], groups: Sequence[ArrayLike], *, resamples: int = 1000, seed: int = 0
) -> Floats:
    """Return the values in each bootstrap draw of a metric that is not a function of means, such as AUPR.

    Args:
        figure: The metric: a function from a list of groups to a number or an array. It is called once per draw.
        groups: Groups of images: numbers or bool, each of shape (images,) or (images, columns). Each group is resampled
            independently.
        resamples: Number of draws, 1 to 1,000,000.
        seed: Seed of the draws. A single group gets the same draws as in ``bootstrap_means``.

    Returns:
        Values of shape (resamples,), followed by the axes of the metric.

    Raises:
        ValueError: If a shape or dtype is wrong, a value is not finite, or ``resamples`` is out of range.
    """
    arrays = [_check_values(group) for group in groups]
    check_number_of("resamples", resamples, MAX_RESAMPLES)
    generator = np.random.default_rng(seed)
    return np.array(
        [
            figure([array[generator.integers(len(array), size=len(array))] for array in arrays])
            for _ in range(resamples)
        ],
        np.float64,
    )


def estimate_of_groups(
    figure: Callable[[list[Numbers]], Figures],
    groups: Sequence[ArrayLike],
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Return a metric that is not a function of means, such as AUPR, and its confidence interval.

    Arguments: see ``draws_of_groups`` and ``intervals``. The metric is a function from a list of groups to a number.
    """
    draws = draws_of_groups(figure, groups, resamples=resamples, seed=seed)
    low, high = intervals(draws, confidence)
    return Estimate(float(figure([np.asarray(group) for group in groups])), float(low), float(high))


def intervals(draws: ArrayLike, confidence: float = CONFIDENCE) -> tuple[Figures, Figures]:
    """Return the ends of the central intervals that contain a fraction ``confidence`` of the draws.

    Args:
        draws: Values of metrics in each draw, shape (draws, ...).
        confidence: Fraction of the draws within the interval, between 0 and 1 (exclusive).

    Returns:
        Lower and upper ends, each of shape (...), or a float. NaN where a draw is NaN.

    Raises:
        ValueError: If there are no draws, a value is infinite, or ``confidence`` is out of range.
    """
    array = np.asarray(draws, np.float64)
    if not array.ndim or not len(array) or np.isinf(array).any():
        raise ValueError(f"invalid draws of shape {array.shape}: pass finite numbers, or NaN, of shape (draws, ...)")
    confidence = _checked(confidence)
    low, high = np.quantile(array, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return float_if_scalar(low), float_if_scalar(high)


def wilson(successes: ArrayLike, n: ArrayLike, confidence: float = CONFIDENCE) -> tuple[Figures, Figures]:
    """Return Wilson's confidence interval of a share: it has a width at 0 of n and n of n, too.

    Args:
        successes: Number of successes, 0..n, of shape (...).
        n: Number of trials, 1 or more, of shape (...).
        confidence: Confidence level, between 0 and 1 (exclusive).

    Returns:
        Lower and upper ends 0..1, each of shape (...), or a float.

    Raises:
        ValueError: If a number or ``confidence`` is out of range.

    Source: Wilson, Journal of the American Statistical Association 1927.
    """
    hits, trials = np.asarray(successes, np.float64), np.asarray(n, np.float64)
    if not ((trials >= 1) & (hits >= 0) & (hits <= trials)).all():
        raise ValueError("invalid numbers of successes or trials: use 0..n successes of n trials, n 1 or more")
    z = NormalDist().inv_cdf((1 + _checked(confidence)) / 2)
    centre = hits + z**2 / 2
    half = z * np.sqrt(hits * (trials - hits) / trials + z**2 / 4)
    low, high = (centre - half) / (trials + z**2), (centre + half) / (trials + z**2)
    return float_if_scalar(np.where(hits == 0, 0.0, low)), float_if_scalar(np.where(hits == trials, 1.0, high))


def _checked(confidence: float) -> float:
    """Return a confidence level. Raise ValueError if it is out of range."""
    if not 0 < confidence < 1:
        raise ValueError(f"invalid confidence {confidence}: use a number between 0 and 1, for example {CONFIDENCE}")
    return confidence


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
