"""Means of metrics over transforms, and ratios to a baseline."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Figures, check_covers, float_if_scalar, value_range


def mean_over_transforms(figures: Mapping[str, ArrayLike]) -> Figures:
    """Return the mean of a metric over transforms, without normalisation.

    Args:
        figures: Mapping from transform to metric values of shape (...). All shapes must be equal.

    Returns:
        Means of shape (...), or a float for numbers.

    Raises:
        ValueError: If there are no transforms, the shapes differ, or a value is not finite.
    """
    arrays = [np.asarray(figure, np.float64) for figure in figures.values()]
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1:
        raise ValueError(f"invalid figures of shapes {sorted(shapes)}: pass one or more of the same shape")
    if not np.isfinite(arrays).all():
        raise ValueError("invalid figures: some are not finite; remove transforms without a value")
    return float_if_scalar(np.mean(arrays, axis=0))


def ratio(figures: ArrayLike, baseline: float, name: str) -> Figures:
    """Return metric values divided by the value of the baseline.

    Args:
        figures: Finite numbers of shape (...).
        baseline: Value of the baseline, finite and above 0.
        name: Name of the metric in error messages.

    Raises:
        ValueError: If a value is not finite, or the baseline is not above 0.
    """
    array = np.asarray(figures, np.float64)
    if not (np.isfinite(array).all() and np.isfinite(baseline) and baseline > 0):
        raise ValueError(
            f"cannot divide {value_range(array)} by a baseline of {baseline} for {name}: use finite figures and a "
            "baseline above 0"
        )
    return float_if_scalar(array / baseline)


def mean_ratio(figures: Mapping[str, ArrayLike], baseline: Mapping[str, float]) -> Figures:
    """Return the mean over transforms of the ``ratio`` to the baseline. Raise ValueError if a ratio is undefined."""
    check_covers(figures, baseline)
    return mean_over_transforms({name: ratio(figure, baseline[name], name) for name, figure in figures.items()})
