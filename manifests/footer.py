"""The footer of a Parquet file, read by ourselves: Arrow's own getters end the process at some damaged ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = frozenset({4, 5, 6})
"""Types of Thrift's compact protocol. Maps are in no footer."""

_DEEPEST = 16
_LONGEST_INTEGER = 10
"""Bytes of an integer with 64 bits."""

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
        content, _ = _struct(footer, 0, _DEEPEST)
        for group in content[4]:
            yield RowGroup(int(group[3]), int(group[2]), tuple(_column(chunk[3]) for chunk in group[1]))
    except (LookupError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"its footer is damaged: {error}") from error


def _column(about: dict[int, Any]) -> Column:
    statistics = about.get(12, {})
    name = b".".join(about[3]).decode()
    sizes = int(about[7]), int(about[6])
    return Column(name, about[1] == _TEXT, 11 in about, *sizes, statistics.get(6), statistics.get(5))


def _struct(data: bytes, place: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return a structure as field number -> value, and where it ends."""
    if not depth:
        raise ValueError("its footer is nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[place]:
        place += 1
        if head >> 4:
            number += head >> 4
        else:
            number, place = _integer(data, place)
        fields[number], place = _value(data, place, head & 15, depth)
    return fields, place + 1


def _value(data: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        return _integer(data, place)
    if kind == _BINARY:
        return _binary(data, place)
    if kind == _STRUCT:
        return _struct(data, place, depth - 1)
    if kind in (_LIST, _SET):
        return _list(data, place, depth)
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind in (_BYTE, _DOUBLE):
        return None, place + (1 if kind == _BYTE else 8)
    raise ValueError(f"its footer is damaged: it has values of type {kind}")


def _list(data: bytes, place: int, depth: int) -> tuple[list[Any], int]:
    length, kind, place = data[place] >> 4, data[place] & 15, place + 1
    if length == 15:
        length, place = _varint(data, place)
    if kind in (_TRUE, _FALSE):
        return list(data[place : place + length]), place + length
    found = []
    for _ in range(length):
        value, place = _value(data, place, kind, depth)
        found.append(value)
    return found, place


def _binary(data: bytes, place: int) -> tuple[bytes, int]:
    length, place = _varint(data, place)
    return data[place : place + length], place + length


def _integer(data: bytes, place: int) -> tuple[int, int]:
    """A signed integer: its sign is in its lowest bit."""
    value, place = _varint(data, place)
    return (value >> 1) ^ -(value & 1), place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = data[place]
    if value < 128:
        return value, place + 1
    value &= 127
    for index in range(1, _LONGEST_INTEGER):
        byte = data[place + index]
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, place + index + 1
    raise ValueError("its footer is damaged: an integer has more than 64 bits")
