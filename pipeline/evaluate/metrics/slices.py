"""Row slices that limit the memory of array operations."""

from __future__ import annotations

from collections.abc import Iterator

SLICE_VALUES = 2**22
"""Maximum number of values processed at a time."""


def row_slices(rows: int, values_each: int) -> Iterator[slice]:
    """Return consecutive slices of the first axis, each of at most ``SLICE_VALUES`` values and at least one row.

    Args:
        rows: Length of the first axis.
        values_each: Number of values per row.
    """
    step = max(SLICE_VALUES // values_each, 1)
    return (slice(start, start + step) for start in range(0, rows, step))
