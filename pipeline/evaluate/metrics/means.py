"""Means over transforms, and ratios to a baseline."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Figures, check_covers, plain, span


def mean_over_transforms(figures: Mapping[str, ArrayLike]) -> Figures:
    """Return the mean over transforms, not normalised by a baseline.

    Args:
        figures: Transform -> figures (...), all of one shape.

    Returns:
        Means (...), a float for scalar figures.

    Raises:
        ValueError: For no transform, different shapes and numbers that are not finite.
    """
    arrays = [np.asarray(figure, np.float64) for figure in figures.values()]
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1:
        raise ValueError(f"invalid figures of shapes {sorted(shapes)}: pass one or more of the same shape")
    if not np.isfinite(arrays).all():
        raise ValueError("invalid figures: some are not finite; leave out transforms without a figure")
    return plain(np.mean(arrays, axis=0))


def ratio(figures: ArrayLike, baseline: float, name: str) -> Figures:
    """Return figures (...) divided by the baseline's figure.

    ``name`` is what an error message calls them. Raises ValueError for figures that are not finite, and for a baseline
    that is not finite and above 0.
    """
    array = np.asarray(figures, np.float64)
    if not (np.isfinite(array).all() and np.isfinite(baseline) and baseline > 0):
        raise ValueError(
            f"cannot divide {span(array)} by a baseline of {baseline} for {name}: use finite figures and a baseline "
            "above 0"
        )
    return plain(array / baseline)


def mean_ratio(figures: Mapping[str, ArrayLike], baseline: Mapping[str, float]) -> Figures:
    """Return the mean over transforms of figures (...) divided by the baseline's. Raises ValueError as ``ratio``."""
    check_covers(figures, baseline)
    return mean_over_transforms({name: ratio(figure, baseline[name], name) for name, figure in figures.items()})
