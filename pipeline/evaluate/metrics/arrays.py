"""Array types, argument checks and means that the metrics share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[Any]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

Figures = float | Floats
"""Metric values: a float, or a float64 array with one value per element of the leading axes."""

SLICE_VALUES = 2**18  # maximum number of values processed at a time


def mean_over(values: ArrayLike, axis: int | tuple[int, ...] = -1) -> Figures:
    """Return the mean of the values that are not NaN.

    Args:
        values: Numbers; NaN where there is none.
        axis: The axis or axes that the mean is over.

    Returns:
        Means of the remaining shape: NaN where all values are NaN, and a float if no axis remains.

    Raises:
        ValueError: If a value is infinite.
    """
    array = np.asarray(values, np.float64)
    if np.isinf(array).any():
        raise ValueError("invalid values: some are infinite; use finite numbers, and NaN where there is none")
    known = ~np.isnan(array)
    with np.errstate(invalid="ignore"):
        return float_if_scalar(np.where(known, array, 0).sum(axis=axis) / known.sum(axis=axis))


def fractions(values: ArrayLike, name: str, axes: int, missing: bool = False) -> Floats:
    """Return values as a float64 array, after checking that they are fractions.

    Args:
        values: Numbers 0..1 with at least ``axes`` axes and at least one element.
        name: Name of the values in error messages.
        axes: Minimum number of axes: 0 for a number, 1 for a row, 2 for rows.
        missing: Whether NaN is allowed, for values that are missing.

    Raises:
        ValueError: If there are too few axes, no elements, or a value is masked, outside 0..1, or NaN.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"invalid {name}: a masked array; pass its valid values, for example values.compressed()")
    array = np.asarray(values, np.float64)
    if array.ndim < axes or array.size == 0:
        needed = ("at least one number", "a row of at least one number", "rows of at least one number")[axes]
        raise ValueError(f"invalid {name} of shape {array.shape}: pass {needed}")
    given = array[~np.isnan(array)] if missing else array
    if not ((given >= 0) & (given <= 1)).all():
        raise ValueError(f"invalid {name} {value_range(given)}: use fractions 0..1, not percent")
    return array


def check_number_of(what: str, number: Any, maximum: int) -> None:
    """Raise ValueError if a number of draws or bins is not an integer from 1 to a maximum."""
    from corruptions.validation import is_integer  # the package imports the kernels

    if not is_integer(number) or not 1 <= number <= maximum:
        raise ValueError(f"invalid number of {what} {number!r:.80}: use an integer from 1 to {maximum}")


def value_range(values: Numbers) -> str:
    """Return the minimum and maximum as text, for error messages."""
    return f"{values.min()}..{values.max()}" if values.ndim else str(values)


def float_if_scalar(figures: Numbers) -> Figures:
    """Return a zero-dimensional array as a float, and any other array unchanged."""
    return figures if np.ndim(figures) else float(figures)


def row_slices(rows: int, values_each: int) -> Iterator[slice]:
    """Return consecutive slices of the first axis, each of at most ``SLICE_VALUES`` values and at least one row."""
    step = max(SLICE_VALUES // values_each, 1)
    return (slice(start, start + step) for start in range(0, rows, step))
