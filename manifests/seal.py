"""Parquet files that contain a digest of their own bytes (a seal), by which any changed bit is detected.

The digest is part of the key-value metadata. It is computed over the whole file with zeros in place of its digits.
"""

import hashlib
import mmap
from collections.abc import Mapping
from pathlib import Path

FACT_SEAL = "seal"
"""Metadata key of the digest, whose value is ``sha256:`` and 64 hexadecimal digits."""

_MARK, _DIGITS = b"sha256:", 64
_BLANK = b"0" * _DIGITS
_MAGIC, _FOOTER_LENGTH = b"PAR1", 4
"""A Parquet file ends with the footer, the length of the footer, and the magic bytes."""

Buffer = bytes | mmap.mmap


def with_blank_seal(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata with a placeholder for the digest. A file must be written with it to be sealed later."""
    return {**facts, FACT_SEAL: (_MARK + _BLANK).decode()}


def seal(content: bytes) -> bytes:
    """Return a Parquet file with its digest filled in. Raise ValueError if it has no placeholder for it."""
    start = _digest_offset(content)
    if start < 0:
        raise ValueError("the file has no placeholder for a seal: write it with the metadata of with_blank_seal()")
    return content[:start] + _digest(content, start) + content[start + _DIGITS :]


def is_sealed(content: Buffer) -> bool:
    """Return whether a Parquet file contains a digest that matches its bytes."""
    start = _digest_offset(content)
    return start >= 0 and content[start : start + _DIGITS] == _digest(content, start)


def seal_file(path: Path) -> None:
    """Fill in the digest of a file in place. Raise ValueError if it has no placeholder for it."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        start = _digest_offset(content)
        if start < 0:
            raise ValueError(f"{path} has no placeholder for a seal: write it with the metadata of with_blank_seal()")
        content[start : start + _DIGITS] = _digest(content, start)


def is_sealed_file(path: Path) -> bool:
    """Return whether a file contains a digest that matches its bytes; False if the file is missing."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return is_sealed(content)
    except (OSError, ValueError):  # missing or empty
        return False


def _digest_offset(content: Buffer) -> int:
    """Return the offset of the digest, or -1; the search starts at the end, since metadata follows the columns."""
    if len(content) < len(_MAGIC) + _FOOTER_LENGTH or content[-len(_MAGIC) :] != _MAGIC:
        return -1
    end = len(content) - len(_MAGIC) - _FOOTER_LENGTH
    footer = max(end - int.from_bytes(content[end : end + _FOOTER_LENGTH], "little"), 0)
    mark = content.rfind(_MARK, footer, end)
    return mark + len(_MARK) if 0 <= mark <= end - len(_MARK) - _DIGITS else -1


def _digest(content: Buffer, start: int) -> bytes:
    state = hashlib.sha256()
    with memoryview(content) as view:
        for part in (view[:start], memoryview(_BLANK), view[start + _DIGITS :]):
            state.update(part)
            part.release()
    return state.hexdigest().encode()
