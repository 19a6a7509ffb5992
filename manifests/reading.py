"""Reading of manifests: a row group in memory at a time, what it holds checked before it is believed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from manifests.footer import ParquetColumn, RowGroup, read_footer, row_groups
from manifests.limits import SHOWN, THRIFT, check_announced, check_indices, check_values
from manifests.schema import COLUMNS, SCHEMA, Row
from manifests.seal import FACT_SEAL

Where = Mapping[str, Collection[str | int]]
"""Column -> values that are wanted."""

EVERYWHERE: Where = MappingProxyType({})

_ROWS_AT_A_TIME = 4096
"""Rows that are Python objects at one time."""

_ARROW = b"ARROW:schema"
"""What Arrow adds to a file's facts."""


def read_facts(path: Path) -> dict[str, str]:
    """Return the facts of a merged manifest or of a part; empty where there is no readable file."""
    try:
        announced(path)
        with _parquet(path) as file:
            return facts_of(file.metadata)
    except (OSError, ValueError, pa.ArrowException):
        return {}


def facts_of(metadata: pq.FileMetaData) -> dict[str, str]:
    """Return the facts in a footer. Raises ValueError where they are no text."""
    told = (metadata.metadata or {}).items()
    return {key.decode(): value.decode() for key, value in told if key not in (_ARROW, FACT_SEAL.encode())}


def read_rows(path: Path, where: Where = EVERYWHERE) -> Iterator[Row]:
    """Yield the rows of a part or of a merged manifest, a bounded number in memory; ``where``: as of ``read_columns``.

    Raises FileNotFoundError, or ValueError where the file is damaged, its columns are not those of :class:`Row`, or it
    holds what no sound manifest holds.
    """
    return (Row(*values) for values in read_columns(path, COLUMNS, where))


def read_slice(path: Path, first: int, count: int) -> list[Row]:
    """Consecutive rows of a merged manifest, reading no more of it than the row groups that hold them.

    Raises FileNotFoundError, and ValueError as ``read_rows``.
    """
    rows, start, file = list[Row](), 0, _opened(path)
    for group, length in enumerate(each.rows for each in file.groups):
        if start < first + count and first < start + length:
            skipped = max(first - start, 0)
            some = _kept_group(file, group).slice(skipped, first + count - start - skipped)
            rows += (Row(*values) for values in _python_rows(path, some))
        start += length
    return rows


def read_columns(path: Path, names: Sequence[str], where: Where = EVERYWHERE) -> Iterator[tuple[Any, ...]]:
    """Yield some columns of a manifest, row by row, a bounded number in memory. Raises as ``read_rows``.

    ``where`` tells which rows: column -> values that it may have. Row groups that hold none of them are not read, by
    their statistics: those of one transform are a part of the file by itself.
    """
    file = _opened(path)
    wanted = list(dict.fromkeys((*names, *where)))
    for group in range(len(file.groups)):
        if file.may_hold(group, where):
            table = file.row_group(group, wanted)
            for column, values in where.items():
                table = table.filter(pc.is_in(table[column].cast(SCHEMA.field(column).type), pa.array(list(values))))
            yield from _python_rows(path, table.select(list(names)))


def read_tables(path: Path, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield some columns of a manifest, a row group at a time, each column in one chunk. Raises as ``read_rows``.

    Texts are indices of a dictionary where the file has them so. They may be long, and rows many: unfold a few at a
    time.
    """
    file = _opened(path)
    for group in range(len(file.groups)):
        if (table := file.row_group(group, names)).num_rows:
            yield table


@dataclass(frozen=True)
class _File:
    """A manifest whose footer was looked at."""

    path: Path
    metadata: pq.FileMetaData
    groups: tuple[RowGroup, ...]

    def row_group(self, group: int, names: Sequence[str]) -> pa.Table:
        """Return some columns of a row group, texts with a dictionary as it has them. Raises ValueError."""
        columns = self.groups[group].columns
        dictionaries = [each.name for each in columns if each.is_text and each.has_dictionary and each.name in names]
        with _as_value_errors(self.path), _parquet(self.path, self.metadata, dictionaries) as file:
            table = file.read_row_group(group, columns=list(names), use_threads=False).replace_schema_metadata(None)
            check_indices(str(self.path), table)
            table = table.unify_dictionaries().combine_chunks()
            check_values(str(self.path), {name: table[name].chunk(0) for name in names if table.num_rows})
            return table

    def may_hold(self, group: int, where: Where) -> bool:
        """Whether a row group may hold rows that are asked for, by its statistics."""
        known = {column.name: column for column in self.groups[group].columns}
        return all(_may_hold(known[name], values) for name, values in where.items() if name in known)


def _may_hold(column: ParquetColumn, values: Collection[str | int]) -> bool:
    if column.lowest is None or column.highest is None:
        return True
    if column.is_text:
        return any(column.lowest <= str(value).encode() <= column.highest for value in values)
    lowest, highest = (int.from_bytes(each, "little", signed=True) for each in (column.lowest, column.highest))
    return any(lowest <= int(value) <= highest for value in values)


def _opened(path: Path) -> _File:
    about = path.stat()
    return _looked_at(path, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=4)
def _looked_at(path: Path, size: int, changed: int) -> _File:
    """Return a manifest by its footer; ``changed`` tells one state of the file from another."""
    try:
        groups = announced(path)
    except ValueError as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error
    check_announced(str(path), size, groups)
    with _as_value_errors(path), _parquet(path) as parquet:
        schema = parquet.schema_arrow.remove_metadata()
        if not schema.equals(SCHEMA):
            raise ValueError(f"{path} has other columns than a manifest: {', '.join(schema.names)[:SHOWN]!a}")
        if parquet.num_row_groups != len(groups):
            raise ValueError(f"{path} is not a readable Parquet file: its footer is damaged")
        return _File(path, parquet.metadata, groups)


def announced(path: Path) -> tuple[RowGroup, ...]:
    """Return what the footer of a Parquet file says of its row groups. Raises FileNotFoundError, ValueError."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    with path.open("rb") as file:
        return tuple(row_groups(read_footer(file)))


@lru_cache(maxsize=2)
def _kept_group(file: _File, group: int) -> pa.Table:
    """One row group, kept, since slices of it are mostly asked for one after another."""
    return file.row_group(group, COLUMNS)


def _parquet(path: Path, metadata: pq.FileMetaData | None = None, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    return pq.ParquetFile(path, metadata=metadata, read_dictionary=list(dictionaries), **THRIFT)


@contextmanager
def _as_value_errors(path: Path) -> Iterator[None]:
    """Raise ValueError for what damaged files bring about; errors of the disk, which have a number, pass."""
    try:
        yield
    except (pa.ArrowException, OSError, OverflowError, MemoryError, LookupError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error


def _python_rows(path: Path, table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table, a few of them Python objects at a time."""
    try:
        columns = [_python_values(column.chunk(0)) for column in table.columns if table.num_rows]
        for first in range(0, table.num_rows, _ROWS_AT_A_TIME):
            yield from zip(*(values(first) for values in columns), strict=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} holds text that is not UTF-8: {error}") from error


def _python_values(column: pa.Array) -> Callable[[int], Sequence[Any]]:
    """Return the values of a column from some row on, a few at a time. Each text of a dictionary is made once."""
    if not isinstance(column, pa.DictionaryArray):
        return lambda first: column.slice(first, _ROWS_AT_A_TIME).to_pylist()
    texts, indices = [*column.dictionary.to_pylist(), None], column.indices.fill_null(len(column.dictionary))
    return lambda first: [texts[index] for index in indices.slice(first, _ROWS_AT_A_TIME).to_pylist()]
