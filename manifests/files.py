"""Writing of manifest parts, one per shard, and merging of parts into one manifest."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from manifests.limits import MAX_ERROR, MAX_QUOTED, THRIFT, check_row_group
from manifests.reading import facts_of
from manifests.schema import COLUMNS, LISTING, SCHEMA, ListedImage, Row
from manifests.seal import is_sealed, seal, with_blank_seal

_ROW_GROUP = 1 << 16
_MAX_APART = 1 << 11
"""Number of groups with row groups of their own. Later ones share row groups, so that the footer, about 2 kB for each
row group, does not exceed its limit."""
_PART_COMPRESSION, _COMPRESSION = "snappy", "zstd"
"""Compression of parts and of merged manifests. Parts are small and short-lived; zstd has a set-up cost per column."""

_REPEATING = frozenset(
    {
        *("shard", "shard_sha256", "label", "class_name", "transform", "version", "level", "profile", "decoder"),
        *("resize", "frames", "height", "width", "encoder", "status", "error"),
    }
)
"""Columns with few distinct values: dictionary-encoded and not compressed. The values of other columns are mostly
distinct, so that a dictionary would only make the file larger: compressed with zstd and not dictionary-encoded."""

_FILTERED = frozenset({"transform", "level", "status"})
"""Columns with statistics, by which readers skip row groups. Those of longer texts would fill the footer."""

_INTEGER = re.compile("[0-9]{1,18}")
"""Text of a metadata value that can be summed without overflow."""

Part = Path | tuple[str, bytes]
"""The path of a part, or its name and content."""


class MergeError(Exception):
    """A part is missing, unreadable, has another schema, or lacks a metadata value."""


class Merged(NamedTuple):
    """The result of a merge: the number of rows, and the metadata of the merged file."""

    rows: int
    facts: dict[str, str]


def write_part(rows: Sequence[Row], facts: Mapping[str, str], path: Path) -> None:
    """Write a manifest part: the rows of one shard, in order, and metadata. Equal rows and facts give equal bytes."""
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    columns["error"] = [error and error[:MAX_ERROR] for error in columns["error"]]
    # Parts are only read whole, so statistics and dictionaries would cost time without use.
    plain = {"use_dictionary": False, "write_statistics": False}
    content = pa.BufferOutputStream()  # in memory first, since Parquet writes many small pieces
    with pq.ParquetWriter(content, SCHEMA, compression=_PART_COMPRESSION, **plain) as writer:
        writer.write_table(pa.table(columns, schema=SCHEMA), row_group_size=_ROW_GROUP)
        writer.add_key_value_metadata(with_blank_seal(facts))
    path.write_bytes(seal(content.getvalue().to_pybytes()))


def write_listing(images: Iterable[ListedImage], path: Path) -> None:
    """Write a listing of images, in order, with bounded memory. Equal images give equal bytes."""
    with _writer(path, LISTING) as writer:
        remaining = iter(images)
        while group := list(islice(remaining, _ROW_GROUP)):
            columns = {name: [getattr(image, name) for image in group] for name in LISTING.names}
            columns["error"] = [error and error[:MAX_ERROR] for error in columns["error"]]
            writer.write_table(pa.table(columns, schema=LISTING), row_group_size=_ROW_GROUP)


def _writer(path: Path, columns: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path,
        columns,
        compression={name: "none" if name in _REPEATING else _COMPRESSION for name in columns.names},
        use_dictionary=[name for name in columns.names if name in _REPEATING],
        write_statistics=[name for name in columns.names if name in _FILTERED],
    )


def part_facts(part: Part) -> dict[str, str]:
    """Return the key-value metadata of a part, or an empty dictionary if it is missing or damaged."""
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
    """Write the rows of all parts, in order, to one Parquet file.

    A row group never holds rows of two of the first 2,048 groups, so that readers can skip other transforms and levels
    by the statistics. Large groups are split and small parts are combined, which bounds the memory and the size of the
    footer.

    Args:
        groups: Parts of one transform and level after another.
        facts: Key-value metadata of the merged file.
        path: File to write.
        columns: Schema that every part must have.
        summed: Names of metadata values of the parts whose sums are added to ``facts``.

    Returns:
        The number of rows, and the metadata of the merged file.

    Raises:
        MergeError: If a part is missing, unreadable, has another schema, or lacks a value of ``summed``.
    """
    total, sums = 0, Counter[str]()
    with _writer(path, columns) as writer:
        remaining = iter(groups)
        apart = islice(remaining, _MAX_APART)
        for parts in chain(apart, [chain.from_iterable(remaining)]):
            for table in _row_groups(_read_and_sum(part, columns, summed, sums) for part in parts):
                writer.write_table(table, row_group_size=table.num_rows)
                total += table.num_rows
        metadata = {**facts, **{name: str(sums[name]) for name in summed}}
        writer.add_key_value_metadata(metadata)
    return Merged(total, metadata)


def _read_and_sum(part: Part, columns: pa.Schema, summed: Iterable[str], sums: Counter[str]) -> pa.Table:
    """Return the rows of a part, and add its metadata values named in ``summed`` to ``sums``."""
    table, facts = _read_part(part, columns)
    for name in summed:
        value = facts.get(name)
        if value is None:
            raise MergeError(
                f"the manifest part {_name(part)} has no metadata value {name!r}: run the same command again to "
                "rebuild the part"
            )
        if not _INTEGER.fullmatch(value):
            raise MergeError(
                f"the manifest part {_name(part)} has the metadata value {name} = {value[:MAX_QUOTED]!r} instead of an "
                "integer: run the same command again to rebuild the part"
            )
        sums[name] += int(value)
    return table


def _row_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of the parts, combined into tables of about one row group."""
    buffered: list[pa.Table] = []
    rows = 0
    for part in parts:
        buffered.append(part)
        rows += part.num_rows
        if rows >= _ROW_GROUP:
            yield pa.concat_tables(buffered).combine_chunks()
            buffered, rows = [], 0
    if rows:
        yield pa.concat_tables(buffered).combine_chunks()


def _read_part(part: Part, columns: pa.Schema) -> tuple[pa.Table, dict[str, str]]:
    """Return all rows of a part and its metadata; the file is read once, since mapping small files is slow."""
    name = f"the manifest part {_name(part)}"
    try:
        content = _content(part)
        if not is_sealed(content):
            raise MergeError(
                f"{name} is damaged, or from a version without digests: run the same command again to rebuild it"
            )
        with _parquet(content) as file:
            groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
            size = sum(group.total_byte_size for group in groups)
            check_row_group(name, sum(group.num_rows for group in groups), size)
            table, facts = file.read(use_threads=False).replace_schema_metadata(None), facts_of(file.metadata)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise MergeError(f"{name} cannot be read: {error}") from error
    if not table.schema.equals(columns):
        raise MergeError(f"{name} has other columns than a manifest: {', '.join(table.schema.names)[:MAX_QUOTED]!a}")
    return table, facts
