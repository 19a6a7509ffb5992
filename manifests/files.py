"""Manifest files: one part per shard, and all of them merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from operator import and_
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import dataset

from manifests.schema import COLUMNS, SCHEMA, Row

_ROW_GROUP = 1 << 16
_PART_COMPRESSION, _COMPRESSION = "snappy", "zstd"
"""Parts are many and short-lived, and zstd takes as long again to set up for each of their columns."""

_REPEATING = frozenset(
    {
        *("shard", "shard_sha256", "label", "class_name", "transform", "version", "level", "profile", "decoder"),
        *("resize", "frames", "height", "width", "encoder", "status", "error"),
    }
)
"""Columns whose values come again from row to row: of these a dictionary leaves a few bytes, and zstd nothing to do.
The others' values hardly ever do: a dictionary would hold them all, and zstd alone makes less of them. Without this
distinction merging takes twice as long, and the file is a tenth larger."""

_ARROW = b"ARROW:schema"
"""What Arrow adds to a file's facts."""

_A_FEW_AT_A_TIME: Mapping[str, Any] = MappingProxyType({"batch_size": 4096, "batch_readahead": 1, "use_threads": False})
"""What a reader of rows holds, beside the compressed row group that they come from."""

Where = Mapping[str, Collection[str | int]]
"""Column -> values that are wanted."""

EVERYWHERE: Where = MappingProxyType({})


Part = Path | tuple[str, bytes]
"""A file, or what it is called and its content."""


class MergeError(Exception):
    """A part is missing, unreadable, has another schema, or lacks a fact."""


class Merged(NamedTuple):
    """What was merged: the number of rows, and the facts about the whole."""

    rows: int
    facts: dict[str, str]


def write_part(rows: Sequence[Row], facts: Mapping[str, str], path: Path) -> None:
    """Write the rows of one shard, with ``facts`` about them in the file's metadata. Same rows, same bytes."""
    columns = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    table = pa.table(columns, schema=SCHEMA.with_metadata(dict(facts)))
    # Nobody asks a part for statistics, and its columns' dictionaries take as long as all else about a small one.
    plain = {"use_dictionary": False, "write_statistics": False}
    content = pa.BufferOutputStream()  # whole in memory first: Parquet writes a column in a dozen pieces
    pq.write_table(table, content, compression=_PART_COMPRESSION, row_group_size=_ROW_GROUP, **plain)
    path.write_bytes(content.getvalue())


def read_facts(file: Part) -> dict[str, str]:
    """The facts of a part or of a merged manifest; empty where there is no readable file."""
    try:
        return _facts(pq.read_metadata(_readable(file)))
    except (OSError, pa.ArrowInvalid):
        return {}


def _facts(file: pq.FileMetaData) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (file.metadata or {}).items() if key != _ARROW}


def read_rows(path: Path, where: Where = EVERYWHERE) -> Iterator[Row]:
    """The rows of a part or of a merged manifest, a bounded number in memory; ``where``: as of ``read_columns``.

    Raises FileNotFoundError, or ValueError where the file is damaged or its columns are not those of :class:`Row`.
    """
    return (Row(*values) for values in read_columns(path, COLUMNS, where))


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


def read_columns(path: Path, names: Sequence[str], where: Where = EVERYWHERE) -> Iterator[tuple[Any, ...]]:
    """Some columns of a manifest, row by row, a bounded number in memory. Raises as ``read_rows``.

    ``where`` tells which rows: column -> values that it may have. Row groups that hold none of them are not read, by
    their statistics: those of one transform are a part of the file by itself.
    """
    wanted = reduce(and_, (pc.field(name).isin(list(values)) for name, values in where.items()), pc.scalar(True))
    try:
        file = dataset.dataset(path, format="parquet")
        _check_columns(path, file.schema)
        for batch in file.to_batches(columns=list(names), filter=wanted, **_A_FEW_AT_A_TIME):
            columns = batch.to_pydict()
            yield from zip(*(columns[name] for name in names), strict=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error


def _check_columns(path: Path, schema: pa.Schema) -> None:
    if not schema.remove_metadata().equals(SCHEMA):
        raise ValueError(f"{path} has other columns than a manifest: {', '.join(schema.names)}")


def _readable(part: Part) -> Any:
    return part if isinstance(part, Path) else pa.BufferReader(part[1])


def _name(part: Part) -> str:
    return str(part if isinstance(part, Path) else part[0])


def merge(
    groups: Iterable[Iterable[Part]],
    facts: Mapping[str, str],
    path: Path,
    columns: pa.Schema = SCHEMA,
    summed: Collection[str] = (),
) -> Merged:
    """Write all rows of the parts, in their order, to one file. The parts have these ``columns``.

    A group is the parts of one transform and level: no row group of the file holds rows of two, so that a reader finds
    those of one transform by the statistics. Large groups are cut, small parts are collected, so that memory and the
    file's footer stay bounded. The file's facts are ``facts`` and, of each fact ``summed``, the sum over the parts.
    Raises MergeError.
    """
    total, sums = 0, Counter[str]()
    repeating = [name for name in columns.names if name in _REPEATING]
    compression = {name: "none" if name in _REPEATING else _COMPRESSION for name in columns.names}
    with pq.ParquetWriter(path, columns, compression=compression, use_dictionary=repeating) as writer:
        for parts in groups:
            for table in _row_groups(_read_and_sum(part, columns, summed, sums) for part in parts):
                writer.write_table(table, row_group_size=table.num_rows)
                total += table.num_rows
        whole = {**facts, **{name: str(sums[name]) for name in summed}}
        writer.add_key_value_metadata(whole)
    return Merged(total, whole)


def _read_and_sum(part: Part, columns: pa.Schema, summed: Iterable[str], sums: Counter[str]) -> pa.Table:
    """The rows of a part; its facts of the names ``summed`` are added to the sums."""
    table, facts = _read_part(part, columns)
    for name in summed:
        if name not in facts:
            raise MergeError(f"the manifest part {_name(part)} does not tell {name}")
        sums[name] += int(facts[name])
    return table


def _row_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of the parts, as many together as a row group holds."""
    waiting: list[pa.Table] = []
    held = 0
    for part in parts:
        waiting.append(part)
        held += part.num_rows
        if held >= _ROW_GROUP:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, held = [], 0
    if held:
        yield pa.concat_tables(waiting).combine_chunks()


def _read_part(part: Part, columns: pa.Schema) -> tuple[pa.Table, dict[str, str]]:
    """All rows of a part, and its facts, by one read of the file: to map it into memory takes twice as long."""
    try:
        content = part.read_bytes() if isinstance(part, Path) else part[1]
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            table, facts = file.read(use_threads=False).replace_schema_metadata(None), _facts(file.metadata)
    except (OSError, pa.ArrowInvalid) as error:
        raise MergeError(f"the manifest part {_name(part)} cannot be read: {error}") from error
    if not table.schema.equals(columns):
        raise MergeError(f"the manifest part {_name(part)} has other columns: {', '.join(table.schema.names)}")
    return table, facts
