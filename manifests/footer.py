"""The footer of a Parquet file, read by ourselves: Arrow's own getters end the process at some damaged ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from manifests.thrift import structure

LARGEST_FOOTER = 2**22
"""Bytes of a manifest's footer; that of 10 million rows has 1 MiB."""

_MAGIC, _TAIL = b"PAR1", 8
"""A Parquet file ends with the length of its footer, in four bytes, and the magic bytes."""

_TEXT = 6
"""Parquet's number for the physical type of texts."""


@dataclass(frozen=True, kw_only=True)
class ParquetColumn:
    """What a footer says of a column in a row group.

    ``name``: its path, parts with dots between. ``start``: the offset of its first page. ``lowest`` and ``highest`` as
    the file stores them, or None.
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
    """What a footer says of a row group."""

    rows: int
    size: int
    columns: tuple[ParquetColumn, ...]


def read_footer(file: BinaryIO, largest: int = LARGEST_FOOTER) -> bytes:
    """Return the footer of a Parquet file. Raises ValueError for one that is too large, before it is read."""
    size = file.seek(0, 2)
    file.seek(max(size - _TAIL, 0))
    length = int.from_bytes(file.read(_TAIL - len(_MAGIC)), "little")
    if file.read(len(_MAGIC)) != _MAGIC or length > size - _TAIL:
        raise ValueError("it does not end as a Parquet file: it is cut short, damaged, or of another kind")
    if length > largest:
        raise ValueError(f"it has a footer of {length} bytes: at most {largest} are allowed")
    file.seek(size - _TAIL - length)
    return file.read(length)


def row_groups(footer: bytes) -> Iterator[RowGroup]:
    """Yield what a footer says. Raises ValueError where it is damaged."""
    try:
        content, _ = structure(footer)
        for group in content[4]:
            yield RowGroup(int(group[3]), int(group[2]), tuple(_column(chunk[3]) for chunk in group[1]))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"its footer is damaged: {error}") from error


def _column(about: dict[int, Any]) -> ParquetColumn:
    statistics = about.get(12, {})
    return ParquetColumn(
        name=b".".join(about[3]).decode(),
        is_text=about[1] == _TEXT,
        has_dictionary=11 in about,
        start=min(int(about[9]), int(about.get(11, about[9]))),
        compressed=int(about[7]),
        uncompressed=int(about[6]),
        lowest=statistics.get(6),
        highest=statistics.get(5),
    )
