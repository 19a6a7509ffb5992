"""Thrift's compact protocol, in which Parquet writes footers and the headers of pages; read, and never written."""

from __future__ import annotations

from typing import Any

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = frozenset({4, 5, 6})
"""Types of the protocol. Maps are in nothing that Parquet writes."""

_DEEPEST = 16
_LONGEST_INTEGER = 10
"""Bytes of an integer with 64 bits."""


def structure(data: bytes, place: int = 0, depth: int = _DEEPEST) -> tuple[dict[int, Any], int]:
    """Return a structure as field number -> value, and where it ends.

    Raises ValueError where it is damaged, and IndexError where the data end before it does.
    """
    if not depth:
        raise ValueError("it is nested too deeply")
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
        return structure(data, place, depth - 1)
    if kind in (_LIST, _SET):
        return _list(data, place, depth)
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind in (_BYTE, _DOUBLE):
        return None, place + (1 if kind == _BYTE else 8)
    raise ValueError(f"it has values of type {kind}")


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
    """Return a signed integer: its sign is in its lowest bit."""
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
    raise ValueError("an integer has more than 64 bits")
