"""Confidence intervals of figures over a finite number of images, by the bootstrap; only the seed decides the draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics.checks import Figures, Floats, Numbers
from pipeline.evaluate.metrics.slices import row_slices

CONFIDENCE = 0.95
"""Share of draws within an interval, unless another one is asked for."""


@dataclass(frozen=True)
class Estimate:
    """A figure and its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Bootstrap:
    """Means of columns of per-image values, (C,), and the same means in each bootstrap draw of images, (draws, C).

    All columns and all figures share the draws. Of values without columns the shapes are () and (draws,).
    """

    means: Floats
    draws: Floats

    @classmethod
    def of(cls, values: ArrayLike, *, resamples: int = 1000, seed: int = 0) -> Bootstrap:
        """Draw images with replacement; arguments and errors as of ``bootstrap_means``."""
        draws = bootstrap_means(values, resamples=resamples, seed=seed)
        return cls(np.asarray(_images(values).mean(axis=0, dtype=np.float64)), draws)

    def estimate(self, figure: Callable[[Floats], Figures], confidence: float = CONFIDENCE) -> Estimate:
        """Return a figure and its interval, both by one function.

        Args:
            figure: Maps means (..., C) to figures (...). It is called with the means and with their draws.
            confidence: Share of the draws within the interval, between 0 and 1.

        Raises:
            ValueError: Where ``figure`` does not return one number for each draw, and as ``percentile_interval``.
        """
        found = np.asarray(figure(self.draws))
        if found.shape != self.draws.shape[:1]:
            raise ValueError(f"invalid figures of shape {found.shape}: return one for each of {len(self.draws)} draws")
        return Estimate(float(figure(self.means)), *percentile_interval(found, confidence))


def bootstrap_means(values: ArrayLike, *, resamples: int = 1000, seed: int = 0) -> Floats:
    """Return means over images drawn with replacement.

    Args:
        values: Numbers or bool, (images,) or (images, C), one row for each image or sequence.
        resamples: Number of draws.
        seed: Seed of the draws, the only thing that decides them besides the number of images.

    Returns:
        Means (resamples,) or (resamples, C).

    Raises:
        ValueError: For other shapes and types, numbers that are not finite, and less than one draw.
    """
    array = _images(values).astype(np.float64)
    draws = _resamples([len(array)], resamples, seed)
    means = np.empty((resamples, *array.shape[1:]))
    for part in row_slices(resamples, len(array)):
        counts = np.empty((len(means[part]), len(array)))
        for row in counts:
            row[:] = np.bincount(next(draws)[0], minlength=len(array))
        means[part] = counts @ array
    return means / len(array)


def estimate_of_groups(
    figure: Callable[[list[Numbers]], Figures],
    groups: Sequence[ArrayLike],
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Return a figure of whole groups of images that is not made of means, such as AUPR, and its interval.

    Args:
        figure: Maps groups to a figure. It is called once for each draw.
        groups: Numbers or bool, (images,) or (images, C) each. Every group is drawn from by itself.
        resamples: Number of draws.
        seed: Seed of the draws; those of a single group are the ones of ``bootstrap_means``.
        confidence: Share of the draws within the interval, between 0 and 1.

    Raises:
        ValueError: As ``bootstrap_means`` and ``percentile_interval``.
    """
    arrays = [_images(group) for group in groups]
    draws = _resamples([len(array) for array in arrays], resamples, seed)
    found = [float(figure([array[rows] for array, rows in zip(arrays, drawn, strict=True)])) for drawn in draws]
    return Estimate(float(figure(arrays)), *percentile_interval(found, confidence))


def percentile_interval(figures: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the lower and upper end of the middle ``confidence`` of figures, (draws,).

    Raises:
        ValueError: For other shapes, numbers that are not finite, and a confidence not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"invalid confidence {confidence}: use a number between 0 and 1, for example {CONFIDENCE}")
    if np.ndim(figures) != 1:
        raise ValueError(f"invalid figures of shape {np.shape(figures)}: pass the shape (draws,)")
    low, high = np.quantile(_images(figures), [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _resamples(sizes: Sequence[int], resamples: int, seed: int) -> Iterator[list[NDArray[np.int64]]]:
    """Return, for each draw, the rows of each group."""
    if resamples < 1:
        raise ValueError(f"invalid number of resamples {resamples}: use at least 1")
    generator = np.random.default_rng(seed)
    return ([generator.integers(size, size=size) for size in sizes] for _ in range(resamples))


def _images(values: ArrayLike) -> Numbers:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim not in {1, 2} or array.size == 0:
        raise ValueError(
            f"invalid values of shape {array.shape} and type {array.dtype}: "
            "pass numbers or bool of shape (images,) or (images, columns)"
        )
    if not np.isfinite(array).all():
        raise ValueError("invalid values: some are not finite; pass a finite number for every image")
    return array
