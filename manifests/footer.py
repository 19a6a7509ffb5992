"""A reader of Parquet footers that is safe for damaged files: Arrow's own getters abort the process at some of them.

It runs in the process: every worker opens manifests, and importing Arrow in a child takes longer than reading one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from manifests.thrift import read_struct

MAX_FOOTER = 2**23
"""Maximum size of the footer of a manifest, in bytes."""

_MAGIC, _TAIL = b"PAR1", 8
"""A Parquet file ends with the length of its footer in four bytes, and the magic bytes: eight bytes together."""

_TEXT = 6
"""Parquet's number for the physical type of byte arrays, which texts have."""


@dataclass(frozen=True, kw_only=True)
class ParquetColumn:
    """The metadata of a column chunk, which is one column in one row group.

    Attributes:
        name: Path of the column in the schema, joined by dots.
        is_text: Whether the physical type is a byte array.
        has_dictionary: Whether the chunk has a dictionary page.
        start: Offset of the first page in the file, in bytes.
        compressed: Size in the file, in bytes.
        uncompressed: Size after decompression, in bytes.
        lowest: Minimum in Parquet's plain encoding, or None if the file has no statistics.
        highest: Maximum, likewise.
    """

    name: str
    is_text: bool
    has_dictionary: bool
    start: int
    compressed: int
    uncompressed: int
    lowest: bytes | None
    highest: bytes | None


class RowGroup(NamedTuple):
    """The metadata of a row group: number of rows, uncompressed size in bytes, and columns."""

    rows: int
    size: int
    columns: tuple[ParquetColumn, ...]


def read_footer(file: BinaryIO, max_size: int = MAX_FOOTER) -> bytes:
    """Return the footer of a Parquet file, encoded with Thrift.

    Raises:
        ValueError: If the file does not end like a Parquet file, or the footer has more than ``max_size`` bytes.
    """
    size = file.seek(0, 2)
    file.seek(max(size - _TAIL, 0))
    length = int.from_bytes(file.read(_TAIL - len(_MAGIC)), "little")
    if file.read(len(_MAGIC)) != _MAGIC or length > size - _TAIL:
        raise ValueError("the file does not end like a Parquet file: it is cut short, damaged, or has another format")
    if length > max_size:
        raise ValueError(f"the file has a footer of {length} bytes: at most {max_size} are allowed")
    file.seek(size - _TAIL - length)
    return file.read(length)


def row_groups(footer: bytes) -> Iterator[RowGroup]:
    """Yield the metadata of the row groups in a footer. Raise ValueError if it is damaged."""
    try:
        content, _ = read_struct(footer)
        for group in content[4]:
            yield RowGroup(int(group[3]), int(group[2]), tuple(_column(chunk[3]) for chunk in group[1]))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the footer is damaged: {error}") from error


def _column(fields: dict[int, Any]) -> ParquetColumn:
    statistics = fields.get(12, {})
    return ParquetColumn(
        name=b".".join(fields[3]).decode(),
        is_text=fields[1] == _TEXT,
        has_dictionary=11 in fields,
        start=min(int(fields[9]), int(fields.get(11, fields[9]))),
        compressed=int(fields[7]),
        uncompressed=int(fields[6]),
        lowest=statistics.get(6),
        highest=statistics.get(5),
    )
