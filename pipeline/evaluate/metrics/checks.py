"""Shared types and argument checks of the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[Any]
Floats = NDArray[np.float64]

Figures = float | Floats
"""Metric values: a float, or a float64 array with one value per element of the leading axes."""


def fractions(values: ArrayLike, name: str, axes: int) -> Floats:
    """Return values as a float64 array, after checking that they are fractions.

    Args:
        values: Numbers 0..1 with at least ``axes`` axes and at least one element.
        name: Name of the values in error messages.
        axes: Minimum number of axes: 0 for a number, 1 for a row.

    Raises:
        ValueError: If there are too few axes, no elements, or a value is NaN, masked or outside 0..1.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"invalid {name}: a masked array; pass its valid values, for example values.compressed()")
    array = np.asarray(values, np.float64)
    if array.ndim < axes or array.size == 0:
        needed = "a row of at least one number" if axes else "at least one number"
        raise ValueError(f"invalid {name} of shape {array.shape}: pass {needed}")
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"invalid {name} {value_range(array)}: use fractions 0..1, not percent")
    return array


def check_number_of(what: str, number: Any, maximum: int) -> None:
    """Raise ValueError if a number of draws or bins is not an integer from 1 to a maximum."""
    from corruptions.validation import is_integer  # the package imports the kernels

    if not is_integer(number) or not 1 <= number <= maximum:
        raise ValueError(f"invalid number of {what} {number!r:.80}: use an integer from 1 to {maximum}")


def check_covers(figures: Mapping[str, object], baseline: Mapping[str, object]) -> None:
    """Raise ValueError if there are no figures, or if the baseline has no value for one of them."""
    if not figures:
        raise ValueError("no figures: pass at least one")
    if missing := [name for name in figures if name not in baseline]:
        raise ValueError(
            f"the baseline lacks {', '.join(missing)}; it has {', '.join(baseline) or 'no values'}: "
            "use a baseline with a value for each"
        )


def value_range(values: Numbers) -> str:
    """Return the minimum and maximum as text, for error messages."""
    return f"{values.min()}..{values.max()}" if values.ndim else str(values)


def float_if_scalar(figures: Numbers) -> Figures:
    """Return a zero-dimensional array as a float, and any other array unchanged."""
    return figures if figures.ndim else float(figures)
