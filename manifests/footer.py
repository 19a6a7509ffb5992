"""The footer of a Parquet file, read by ourselves: Arrow's own getters end the process at some damaged ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from manifests.thrift import structure

_TEXT = 6
"""Parquet's number for the physical type of texts."""


class Column(NamedTuple):
    """What a footer says of a column in a row group. ``lowest`` and ``highest`` as the file stores them, or None."""

    name: str
    is_text: bool
    has_dictionary: bool
    compressed: int
    uncompressed: int
    lowest: bytes | None
    highest: bytes | None


class RowGroup(NamedTuple):
    """What a footer says of a row group."""

    rows: int
    size: int
    columns: tuple[Column, ...]


def row_groups(footer: bytes) -> Iterator[RowGroup]:
    """Yield what a footer says. Raises ValueError where it is damaged."""
    try:
        content, _ = structure(footer)
        for group in content[4]:
            yield RowGroup(int(group[3]), int(group[2]), tuple(_column(chunk[3]) for chunk in group[1]))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"its footer is damaged: {error}") from error


def _column(about: dict[int, Any]) -> Column:
    statistics = about.get(12, {})
    name = b".".join(about[3]).decode()
    sizes = int(about[7]), int(about[6])
    return Column(name, about[1] == _TEXT, 11 in about, *sizes, statistics.get(6), statistics.get(5))
