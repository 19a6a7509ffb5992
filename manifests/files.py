"""Manifest files: one part per shard, and all of them merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from manifests.schema import COLUMNS, SCHEMA, Row

_ROW_GROUP = 1 << 16
_PART_COMPRESSION, _COMPRESSION = "snappy", "zstd"
"""Parts are many and short-lived, and zstd takes as long again to set up for each of their columns."""


class MergeError(Exception):
    """A part is missing, unreadable or has another schema."""


def write_part(rows: Sequence[Row], facts: Mapping[str, str], path: Path) -> None:
    """Write the rows of one shard, with ``facts`` about them in the file's metadata. Same rows, same bytes."""
    columns = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    table = pa.table(columns, schema=SCHEMA.with_metadata(dict(facts)))
    # Nobody asks a part for statistics, and its columns' dictionaries take as long as all else about a small one.
    plain = {"use_dictionary": False, "write_statistics": False}
    pq.write_table(table, path, compression=_PART_COMPRESSION, row_group_size=_ROW_GROUP, **plain)


def read_facts(path: Path) -> dict[str, str]:
    """The facts of a part or of a merged manifest; empty where there is no readable file."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return {}
    return {key.decode(): value.decode() for key, value in metadata.items()}


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a part or of a merged manifest, a bounded number in memory.

    Raises FileNotFoundError, or ValueError where the file is damaged or its columns are not those of :class:`Row`.
    """
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow)
            for batch in file.iter_batches(batch_size=4096):
                columns = batch.to_pydict()
                for values in zip(*(columns[name] for name in COLUMNS), strict=True):
                    yield Row(*values)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error


def read_slice(path: Path, first: int, count: int) -> list[Row]:
    """Consecutive rows of a merged manifest, reading no more of it than the row groups that hold them.

    Raises FileNotFoundError, and ValueError as ``read_rows``.
    """
    changed = path.stat().st_mtime_ns
    tables, start = [SCHEMA.empty_table()], 0
    for group, rows in enumerate(_group_sizes(path, changed)):
        if start < first + count and first < start + rows:
            skipped = max(first - start, 0)
            tables.append(_group(path, changed, group).slice(skipped, first + count - start - skipped))
        start += rows
    columns = pa.concat_tables(tables).to_pydict()
    return [Row(*values) for values in zip(*(columns[name] for name in COLUMNS), strict=True)]


@lru_cache(maxsize=4)
def _group_sizes(path: Path, changed: int) -> list[int]:
    """The number of rows in each row group; ``changed`` tells one state of the file from another."""
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow)
            return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error


@lru_cache(maxsize=2)
def _group(path: Path, changed: int, group: int) -> pa.Table:
    """One row group, kept, since slices of it are mostly asked for one after another."""
    with pq.ParquetFile(path) as file:
        return file.read_row_group(group).replace_schema_metadata(None)


def read_columns(path: Path, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Some columns of a manifest, row by row, a bounded number in memory. Raises as ``read_rows``."""
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow)
            for batch in file.iter_batches(batch_size=_ROW_GROUP, columns=list(names)):
                columns = batch.to_pydict()
                yield from zip(*(columns[name] for name in names), strict=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error


def _check_columns(path: Path, schema: pa.Schema) -> None:
    if not schema.remove_metadata().equals(SCHEMA):
        raise ValueError(f"{path} has other columns than a manifest: {', '.join(schema.names)}")


def merge(parts: Iterable[Path], facts: Mapping[str, str], path: Path, columns: pa.Schema = SCHEMA) -> int:
    """Write all rows of the parts, in their order, to one file; returns how many. The parts have these ``columns``.

    Parts are collected into large row groups, so that memory and the file's footer stay bounded. Raises MergeError.
    """
    total, waiting, held = 0, [], 0
    schema = columns.with_metadata(dict(facts))
    with pq.ParquetWriter(path, schema, compression=_COMPRESSION) as writer:
        for part in parts:
            table = _read_part(part, columns)
            waiting.append(table)
            held += table.num_rows
            total += table.num_rows
            if held >= _ROW_GROUP:
                _flush(writer, waiting, schema)
                waiting, held = [], 0
        if waiting or not total:
            _flush(writer, waiting or [columns.empty_table()], schema)
    return total


def _read_part(path: Path, columns: pa.Schema) -> pa.Table:
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            table = file.read(use_threads=False)
    except (OSError, pa.ArrowInvalid) as error:
        raise MergeError(f"the manifest part {path} cannot be read: {error}") from error
    if not table.schema.remove_metadata().equals(columns):
        raise MergeError(f"the manifest part {path} has other columns: {', '.join(table.schema.names)}")
    return table.replace_schema_metadata(None)


def _flush(writer: pq.ParquetWriter, tables: list[pa.Table], schema: pa.Schema) -> None:
    table = pa.concat_tables(tables).combine_chunks().replace_schema_metadata(schema.metadata)
    writer.write_table(table, row_group_size=max(table.num_rows, 1))
