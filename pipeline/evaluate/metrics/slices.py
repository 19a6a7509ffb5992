"""Slices of rows that bound the memory of array operations."""

from __future__ import annotations

from collections.abc import Iterator

SLICE_VALUES = 2**22
"""Values that are processed at a time."""


def row_slices(rows: int, values_each: int) -> Iterator[slice]:
    """Return consecutive slices of the first axis, each with at most ``SLICE_VALUES`` values (but at least one row)."""
    step = max(SLICE_VALUES // values_each, 1)
    return (slice(start, start + step) for start in range(0, rows, step))
