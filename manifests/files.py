"""Manifest parts, one per shard, and their merging."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from manifests.limits import LONGEST_ERROR, SHOWN, THRIFT, check_row_group
from manifests.reading import facts_of
from manifests.schema import COLUMNS, SCHEMA, Row
from manifests.seal import is_sealed, seal, with_blank_seal

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

_WHOLE = re.compile("[0-9]{1,18}")
"""A fact that can be summed."""

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
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    columns["error"] = [error and error[:LONGEST_ERROR] for error in columns["error"]]
    # Nobody asks a part for statistics, and its columns' dictionaries take as long as all else about a small one.
    plain = {"use_dictionary": False, "write_statistics": False}
    content = pa.BufferOutputStream()  # whole in memory first: Parquet writes a column in a dozen pieces
    with pq.ParquetWriter(content, SCHEMA, compression=_PART_COMPRESSION, **plain) as writer:
        writer.write_table(pa.table(columns, schema=SCHEMA), row_group_size=_ROW_GROUP)
        writer.add_key_value_metadata(with_blank_seal(facts))
    path.write_bytes(seal(content.getvalue().to_pybytes()))


def part_facts(part: Part) -> dict[str, str]:
    """Return the facts of a part; empty where it is missing, or its bytes are not those of its digest."""
    try:
        content = _content(part)
        return facts_of(_parquet(content).metadata) if is_sealed(content) else {}
    except (OSError, ValueError, pa.ArrowException):
        return {}


def _content(part: Part) -> bytes:
    return part.read_bytes() if isinstance(part, Path) else part[1]


def _parquet(content: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(content), **THRIFT)


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
    """Return the rows of a part; its facts of the names ``summed`` are added to the sums."""
    table, facts = _read_part(part, columns)
    for name in summed:
        if name not in facts:
            raise MergeError(f"the manifest part {_name(part)} does not tell {name}")
        if not _WHOLE.fullmatch(facts[name]):
            raise MergeError(f"the manifest part {_name(part)} has {facts[name][:SHOWN]!r} as {name}, no whole number")
        sums[name] += int(facts[name])
    return table


def _row_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of the parts, as many together as a row group holds."""
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
    name = f"the manifest part {_name(part)}"
    try:
        content = _content(part)
        if not is_sealed(content):
            raise MergeError(f"{name} is damaged, or from a version without digests: its bytes are not those written")
        with _parquet(content) as file:
            about = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
            check_row_group(name, sum(group.num_rows for group in about), sum(group.total_byte_size for group in about))
            table, facts = file.read(use_threads=False).replace_schema_metadata(None), facts_of(file.metadata)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise MergeError(f"{name} cannot be read: {error}") from error
    if not table.schema.equals(columns):
        raise MergeError(f"{name} has other columns: {', '.join(table.schema.names)[:SHOWN]!a}")
    return table, facts
