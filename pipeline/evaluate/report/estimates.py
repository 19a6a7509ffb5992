"""A figure with its confidence interval, computed from the values of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate.metrics.bootstrap import bootstrap_means, percentile_interval


@dataclass(frozen=True)
class Estimate:
    """A figure, and the 95 % interval that bootstrapping the images gives it. Fractions, not percent."""

    value: float
    low: float
    high: float


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
