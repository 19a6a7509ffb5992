"""What the figures share: checks of arguments, ratios, and slices that bound the memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
Floats = NDArray[np.float64]

CHUNK_VALUES = 2**22
"""Values worked on at a time, which bounds the memory."""


def chunks(rows: int, values_each: int) -> Iterator[slice]:
    """Slices of the first axis that bound the values worked on at a time."""
    step = max(CHUNK_VALUES // values_each, 1)
    return (slice(start, start + step) for start in range(0, rows, step))


def fractions(values: Sequence[float] | Floats, name: str) -> Floats:
    """Return values as an array. Raises ValueError unless they are a row of fractions, 0..1."""
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} of shape {array.shape}; allowed is a row of at least one number")
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"{name} {array.min()}..{array.max()}; fractions 0..1 are allowed, not percent")
    return array


def ratio(figure: float, baseline: float, name: str) -> float:
    """Return a figure divided by the baseline's. Raises ValueError for a baseline that is not above 0."""
    if not (np.isfinite(figure) and np.isfinite(baseline) and baseline > 0):
        raise ValueError(
            f"{figure} over a baseline of {baseline} for {name}; allowed are finite ones, the latter above 0"
        )
    return float(figure / baseline)


def check_covers(figures: Mapping[str, object], baseline: Mapping[str, object]) -> None:
    """Raise ValueError where there is no figure, and where the baseline lacks one."""
    missing = [name for name in figures if name not in baseline]
    if not figures:
        raise ValueError("no figures; a mean is taken over at least one")
    if missing:
        raise ValueError(f"the baseline lacks {', '.join(missing)}; it has {', '.join(baseline) or 'nothing'}")
