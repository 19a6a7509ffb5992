"""Rows of a manifest with random access, held as Arrow columns: about 0.6 KB per row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import manifests
from manifests import Row
from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED
from pipeline.text import counted, shown


class RowTable:
    """Rows with random access. Raise IndexError for positions outside of -len .. len - 1."""

    def __init__(self, tables: Sequence[pa.Table], places: NDArray[np.int64] | None = None) -> None:
        """Initialise it.

        Args:
            tables: All columns of the rows.
            places: Index of each row in the concatenated tables. Default: the order of the tables.
        """
        self.tables = tables
        self._starts = np.cumsum([0, *(table.num_rows for table in tables)])
        self._places = places

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, position: int) -> Row:
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range: there are {counted(len(self), 'sample')}")
        place = position % len(self) if self._places is None else self._places[position]
        number = int(np.searchsorted(self._starts, place, side="right")) - 1
        offset = int(place - self._starts[number])
        return Row(*(column[offset].as_py() for column in self.tables[number].columns))


def all_rows(tables: Iterable[pa.Table]) -> RowTable:
    """Return all rows of tables."""
    return RowTable(list(tables))


def rows_at(tables: Iterable[pa.Table], positions: NDArray[np.int64]) -> RowTable:
    """Return the rows at positions of tables, in the order of ``positions``; one table at a time is held in full."""
    ascending = np.argsort(positions, kind="stable")
    wanted = positions[ascending]
    kept, start = [], 0
    for table in tables:
        low, high = np.searchsorted(wanted, [start, start + table.num_rows])
        if low < high:
            kept.append(table.take(pa.array(wanted[low:high] - start)))
        start += table.num_rows
    places = np.empty_like(ascending)
    places[ascending] = np.arange(len(ascending))
    return RowTable(kept, places)


def filters(
    transform: str | None = None, level: int | None = None, ids: Collection[str] | None = None
) -> manifests.Filters:
    """Return filters for the samples that did not fail, of one transform, level and collection of source images."""
    chosen: dict[str, Collection[str | int]] = {"status": [manifests.OK]}
    if transform is not None:
        chosen["transform"] = [transform]
    if level is not None:
        chosen["level"] = [level]
    if ids is not None:
        chosen["source_id"] = ids
    return chosen


def check_ids(ids: Iterable[str] | None) -> frozenset[str] | None:
    """Return ids of source images, or None for all; raise UserError for other values."""
    if ids is None:
        return None
    listed = [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else list(ids)
    if not listed or not all(isinstance(each, str) for each in listed):
        raise UserError(f"invalid ids {shown(repr(ids))}: pass the values of source_id to use, at least one")
    return frozenset(listed)


def check_samples(tables: Iterable[pa.Table], ids: frozenset[str] | None, unlabelled: bool, name: str) -> None:
    """Raise UserError if source images are missing, or samples have no labels.

    Args:
        tables: The column ``label`` of the chosen samples and, for ``ids``, ``source_id``.
        ids: Ids of the chosen source images. None for all.
        unlabelled: Whether samples without labels are accepted.
        name: Name of the data set.
    """
    found, without = set[str](), 0
    for table in tables:
        if ids is not None:
            found.update(pc.unique(table["source_id"].cast(pa.string())).to_pylist())
        without += pc.sum(pc.equal(table["label"], UNLABELLED)).as_py() or 0
    if ids is not None and (missing := sorted(ids - found)):
        raise UserError(
            f"{name} has no samples of {len(missing)} of the {len(ids)} ids, for example {shown(missing[0])}: use "
            "values of the column source_id of its manifest"
        )
    if without and not unlabelled:
        raise UserError(
            f"{name} has {counted(without, 'image')} without labels, so no accuracy can be computed: pass "
            f"unlabelled=True to get {UNLABELLED} as their label"
        )
