"""Types that the metrics share, and checks of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[Any]
Floats = NDArray[np.float64]

Figures = float | Floats
"""A figure: a float, or a float64 array with one figure for each element of the leading axes."""


def fractions(values: ArrayLike, name: str, axes: int) -> Floats:
    """Return values as an array.

    Args:
        values: Numbers 0..1 with at least ``axes`` axes, at least one number.
        name: What an error message calls them.
        axes: Number of axes that one figure needs: 0 for a single number, 1 for a row.

    Raises:
        ValueError: For fewer axes, no number, and numbers outside 0..1, which includes NaN.
    """
    array = np.asarray(values, np.float64)
    if array.ndim < axes or array.size == 0:
        needed = "a row of at least one number" if axes else "at least one number"
        raise ValueError(f"invalid {name} of shape {array.shape}: pass {needed}")
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"invalid {name} {span(array)}: use fractions 0..1, not percent")
    return array


def check_covers(figures: Mapping[str, object], baseline: Mapping[str, object]) -> None:
    """Raise ValueError if there is no figure, or if the baseline lacks one of them."""
    if not figures:
        raise ValueError("no figures: a mean needs at least one")
    if missing := [name for name in figures if name not in baseline]:
        raise ValueError(
            f"the baseline lacks {', '.join(missing)} (it has {', '.join(baseline) or 'nothing'}): "
            "use a baseline with all of them"
        )


def span(values: Numbers) -> str:
    """Return the smallest and the largest value for an error message."""
    return f"{values.min()}..{values.max()}" if values.ndim else str(values)


def plain(figures: Numbers) -> Figures:
    """Return a single figure as a float, and an array of figures unchanged."""
    return figures if figures.ndim else float(figures)
