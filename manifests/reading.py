"""Reading of manifests: one row group in memory at a time, with all values checked."""

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
from manifests.limits import MAX_QUOTED, THRIFT, check_footer, check_indices, check_values
from manifests.schema import COLUMNS, LISTING, SCHEMA, ListedImage, Row
from manifests.seal import FACT_SEAL

Filters = Mapping[str, Collection[str | int]]
"""Column -> accepted values. A row is read if it matches every column."""

NO_FILTERS: Filters = MappingProxyType({})
"""Filters that accept every row."""

_BATCH = 4096
"""Number of rows that are converted to Python objects at a time."""

_ARROW = b"ARROW:schema"
"""Metadata key that Arrow adds to a file."""


def read_facts(path: Path) -> dict[str, str]:
    """Return the key-value metadata of a manifest or a part, or an empty dictionary if the file is not readable."""
    try:
        read_row_groups(path)
        with _parquet(path) as file:
            return facts_of(file.metadata)
    except (OSError, ValueError, pa.ArrowException):
        return {}


def facts_of(metadata: pq.FileMetaData) -> dict[str, str]:
    """Return the key-value metadata of a footer as text.

    Raises:
        ValueError: If it is not UTF-8.
    """
    pairs = (metadata.metadata or {}).items()
    return {key.decode(): value.decode() for key, value in pairs if key not in (_ARROW, FACT_SEAL.encode())}


def read_rows(path: Path, filters: Filters = NO_FILTERS) -> Iterator[Row]:
    """Yield the rows of a manifest or a part that filters accept, with bounded memory.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: If the file is damaged, has other columns than :class:`Row`, or has invalid values.
    """
    return (Row(*values) for values in read_columns(path, COLUMNS, filters))


def read_slice(path: Path, first: int, count: int) -> list[Row]:
    """Return consecutive rows of a manifest, see :func:`read_slices`."""
    return [Row(*values) for table in read_slices(path, first, count) for values in _python_rows(path, table)]


def read_listing(path: Path, first: int, count: int) -> list[ListedImage]:
    """Return consecutive rows of a listing, see :func:`read_slices`."""
    tables = read_slices(path, first, count, LISTING)
    return [ListedImage(*values) for table in tables for values in _python_rows(path, table)]


def read_slices(path: Path, first: int, count: int, schema: pa.Schema = SCHEMA) -> Iterator[pa.Table]:
    """Yield consecutive rows, as a table for each row group that holds some of them; others are not read.

    Args:
        path: The Parquet file.
        first: Index of the first row.
        count: Number of rows. There are fewer at the end of the file.
        schema: Columns of the file, SCHEMA or LISTING.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: As in ``read_rows``.
    """
    file, start = _open(path, schema), 0
    for group, length in enumerate(each.rows for each in file.groups):
        if start < first + count and first < start + length:
            skipped = max(first - start, 0)
            yield _cached_row_group(file, group).slice(skipped, first + count - start - skipped)
        start += length


def listing_rows(path: Path) -> int:
    """Return the number of rows of a listing. Raise ValueError as in ``read_rows``."""
    return sum(group.rows for group in _open(path, LISTING).groups)


def read_columns(path: Path, names: Sequence[str], filters: Filters = NO_FILTERS) -> Iterator[tuple[Any, ...]]:
    """Yield some columns of a manifest, row by row, with bounded memory. Arguments are those of :func:`read_tables`."""
    return (row for table in read_tables(path, names, filters) for row in _python_rows(path, table))


def read_tables(
    path: Path, names: Sequence[str], filters: Filters = NO_FILTERS, schema: pa.Schema = SCHEMA
) -> Iterator[pa.Table]:
    """Yield some columns of a manifest or a listing, one row group at a time, each column as one chunk.

    Dictionary-encoded texts stay dictionary arrays. Decode a few rows at a time: a row group may have many rows with
    long texts.

    Args:
        path: The Parquet file.
        names: Columns to read, in this order.
        filters: Column -> accepted values. Row groups whose statistics exclude them are not read. Since a row group
            holds one transform and level (of the first 2,048), filtering by these reads only their part of the file.
        schema: Columns of the file, SCHEMA or LISTING.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: As in ``read_rows``.
    """
    file, needed = _open(path, schema), list(dict.fromkeys((*names, *filters)))
    for group in range(len(file.groups)):
        if file.may_match(group, filters):
            table = matching_rows(file.row_group(group, needed), filters).select(list(names))
            if table.num_rows:
                yield table


def matching_rows(table: pa.Table, filters: Filters) -> pa.Table:
    """Return the rows of a table with columns of a manifest that match the filters."""
    for column, values in filters.items():
        table = table.filter(pc.is_in(table[column].cast(SCHEMA.field(column).type), pa.array(list(values))))
    return table


@dataclass(frozen=True, eq=False)  # hashing the footer, for the cache of row groups, takes longer than reading a group
class _File:
    """An opened manifest or listing, whose footer has been checked."""

    path: Path
    metadata: pq.FileMetaData
    groups: tuple[RowGroup, ...]

    def row_group(self, group: int, names: Sequence[str]) -> pa.Table:
        """Return some columns of a row group, dictionary-encoded texts as dictionary arrays; raise ValueError."""
        columns = self.groups[group].columns
        dictionaries = [each.name for each in columns if each.is_text and each.has_dictionary and each.name in names]
        with _as_value_errors(self.path), _parquet(self.path, self.metadata, dictionaries) as file:
            table = file.read_row_group(group, columns=list(names), use_threads=False).replace_schema_metadata(None)
            check_indices(str(self.path), table)
            table = table.unify_dictionaries().combine_chunks()
            check_values(str(self.path), {name: table[name].chunk(0) for name in names if table.num_rows})
            return table

    def may_match(self, group: int, filters: Filters) -> bool:
        """Return False if the statistics of a row group show that none of its rows matches the filters."""
        known = {column.name: column for column in self.groups[group].columns}
        return all(_may_contain(known[name], values) for name, values in filters.items() if name in known)


def _may_contain(column: ParquetColumn, values: Collection[str | int]) -> bool:
    if column.lowest is None or column.highest is None:
        return True
    if column.is_text:
        return any(column.lowest <= str(value).encode() <= column.highest for value in values)
    lowest, highest = (int.from_bytes(each, "little", signed=True) for each in (column.lowest, column.highest))
    return any(lowest <= int(value) <= highest for value in values)


def _open(path: Path, schema: pa.Schema = SCHEMA) -> _File:
    status = path.stat()
    return _open_cached(path, status.st_size, status.st_mtime_ns, schema)


@lru_cache(maxsize=4)
def _open_cached(path: Path, size: int, modified: int, expected: pa.Schema) -> _File:
    """Open a file and check its footer; size and time of modification are part of the cache key."""
    try:
        groups = read_row_groups(path)
    except ValueError as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error
    check_footer(str(path), size, groups)
    with _as_value_errors(path), _parquet(path) as parquet:
        schema = parquet.schema_arrow.remove_metadata()
        if not schema.equals(expected):
            what = "manifest" if expected is SCHEMA else "listing"
            raise ValueError(f"{path} has other columns than a {what}: {', '.join(schema.names)[:MAX_QUOTED]!a}")
        if parquet.num_row_groups != len(groups):
            raise ValueError(f"{path} is not a readable Parquet file: the footer is damaged")
        return _File(path, parquet.metadata, groups)


def read_row_groups(path: Path) -> tuple[RowGroup, ...]:
    """Return the metadata of the row groups of a Parquet file, from its footer.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: If the path is not a regular file, or its footer is damaged or too large.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        return tuple(row_groups(read_footer(file)))


@lru_cache(maxsize=2)
def _cached_row_group(file: _File, group: int) -> pa.Table:
    """Return a row group, cached because slices are mostly read one after another."""
    return file.row_group(group, file.metadata.schema.names)


def _parquet(path: Path, metadata: pq.FileMetaData | None = None, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    return pq.ParquetFile(path, metadata=metadata, read_dictionary=list(dictionaries), **THRIFT)


@contextmanager
def _as_value_errors(path: Path) -> Iterator[None]:
    """Convert errors caused by damaged files to ValueError; errors of the disk, which have an errno, pass through."""
    try:
        yield
    except (pa.ArrowException, OSError, OverflowError, MemoryError, LookupError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error


def table_rows(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table, whose columns have one chunk each. Raise ValueError as in ``read_rows``."""
    return (Row(*values) for values in _python_rows("the manifest", table))


def _python_rows(path: Path | str, table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table as Python objects, converted in batches."""
    try:
        columns = [_python_values(column.chunk(0)) for column in table.columns if table.num_rows]
        for first in range(0, table.num_rows, _BATCH):
            yield from zip(*(values(first) for values in columns), strict=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} has text that is not UTF-8: {error}") from error


def _python_values(column: pa.Array) -> Callable[[int], Sequence[Any]]:
    """Return a function of a row index that converts the batch of values from there on; dictionary texts are shared."""
    if not isinstance(column, pa.DictionaryArray):
        return lambda first: column.slice(first, _BATCH).to_pylist()
    texts, indices = [*column.dictionary.to_pylist(), None], column.indices.fill_null(len(column.dictionary))
    return lambda first: [texts[index] for index in indices.slice(first, _BATCH).to_pylist()]
