"""A Parquet file that carries the digest of its own bytes, so that a single changed bit is noticed.

The digest stands in the file's metadata and is that of the whole file with zeros in its place.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping
from pathlib import Path

FACT_SEAL = "seal"
"""Metadata that holds the digest: ``sha256:`` and 64 hexadecimal digits."""

_MARK, _DIGITS = b"sha256:", 64
_BLANK = b"0" * _DIGITS
_MAGIC, _FOOTER_LENGTH = b"PAR1", 4
"""A Parquet file ends with its footer, the footer's length, and the magic bytes."""

Buffer = bytes | mmap.mmap


def with_blank_seal(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata with room for the digest: a file that is written with it can be sealed."""
    return {**facts, FACT_SEAL: (_MARK + _BLANK).decode()}


def seal(content: bytes) -> bytes:
    """Return a Parquet file that was written ``with_blank_seal`` with its digest filled in."""
    place = _place(content)
    if place < 0:
        raise ValueError("the file has no room for a seal: write it with the metadata of with_blank_seal()")
    return content[:place] + _digest(content, place) + content[place + _DIGITS :]


def is_sealed(content: Buffer) -> bool:
    """Whether a Parquet file carries a digest, and it is that of these bytes."""
    place = _place(content)
    return place >= 0 and content[place : place + _DIGITS] == _digest(content, place)


def seal_file(path: Path) -> None:
    """Fill in the digest of a file, as :func:`seal` does it in memory."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        place = _place(content)
        if place < 0:
            raise ValueError(f"{path} has no room for a seal: write it with the metadata of with_blank_seal()")
        content[place : place + _DIGITS] = _digest(content, place)


def is_sealed_file(path: Path) -> bool:
    """Whether a file carries a digest, and it is that of its bytes; False where there is no such file."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return is_sealed(content)
    except (OSError, ValueError):  # not there, or empty
        return False


def _place(content: Buffer) -> int:
    """Where the digest stands; -1 where there is none. It is among the last that a footer says, after all columns."""
    if len(content) < len(_MAGIC) + _FOOTER_LENGTH or content[-len(_MAGIC) :] != _MAGIC:
        return -1
    end = len(content) - len(_MAGIC) - _FOOTER_LENGTH
    footer = max(end - int.from_bytes(content[end : end + _FOOTER_LENGTH], "little"), 0)
    place = content.rfind(_MARK, footer, end)
    return place + len(_MARK) if 0 <= place <= end - len(_MARK) - _DIGITS else -1


def _digest(content: Buffer, place: int) -> bytes:
    state = hashlib.sha256()
    with memoryview(content) as whole:
        for part in (whole[:place], memoryview(_BLANK), whole[place + _DIGITS :]):
            state.update(part)
            part.release()
    return state.hexdigest().encode()
