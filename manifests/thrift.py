"""A reader of Thrift's compact protocol, the encoding of footers and page headers in Parquet files."""

from typing import Any

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = frozenset({4, 5, 6})
"""Numbers of the types. Parquet uses no maps."""

_MAX_DEPTH = 16
"""Maximum depth of nested structs."""

_MAX_VARINT = 10
"""Size of the longest encoding of a 64-bit integer, in bytes."""


def read_struct(data: bytes, offset: int = 0, depth: int = _MAX_DEPTH) -> tuple[dict[int, Any], int]:
    """Decode the struct at an offset, with at most ``depth`` levels of others in it.

    Returns:
        The struct as field number -> value, and the offset of the first byte after it. Floating-point values are None.

    Raises:
        ValueError: If the data are damaged.
        IndexError: If the data end inside of the struct.
    """
    if not depth:
        raise ValueError(f"structs are nested more than {_MAX_DEPTH} levels deep")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[offset]:
        offset += 1
        if head >> 4:
            number += head >> 4
        else:
            number, offset = _integer(data, offset)
        fields[number], offset = _value(data, offset, head & 15, depth)
    return fields, offset + 1


def _value(data: bytes, offset: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        return _integer(data, offset)
    if kind == _BINARY:
        length, offset = _varint(data, offset)
        return data[offset : offset + length], offset + length
    if kind == _STRUCT:
        return read_struct(data, offset, depth - 1)
    if kind in (_LIST, _SET):
        return _list(data, offset, depth)
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, offset
    if kind in (_BYTE, _DOUBLE):
        return None, offset + (1 if kind == _BYTE else 8)
    raise ValueError(f"unsupported value type {kind}")


def _list(data: bytes, offset: int, depth: int) -> tuple[list[Any], int]:
    length, kind, offset = data[offset] >> 4, data[offset] & 15, offset + 1
    if length == 15:
        length, offset = _varint(data, offset)
    if kind in (_TRUE, _FALSE):
        return list(data[offset : offset + length]), offset + length
    values = []
    for _ in range(length):
        value, offset = _value(data, offset, kind, depth)
        values.append(value)
    return values, offset


def _integer(data: bytes, offset: int) -> tuple[int, int]:
    """Decode a signed integer in zigzag encoding."""
    value, offset = _varint(data, offset)
    return (value >> 1) ^ -(value & 1), offset


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = data[offset]
    if value < 128:
        return value, offset + 1
    value &= 127
    for index in range(1, _MAX_VARINT):
        byte = data[offset + index]
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, offset + index + 1
    raise ValueError("an integer is longer than 64 bits")
