"""Byte-stable WebDataset tars."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_BUFFER = 2**16
"""Bytes: samples are written at once, and many shards are open side by side."""

_SETTLED = 2**20
"""Bytes after which the system is asked to bring a tar to the disk and to keep no copy of it in memory. Nobody reads it
soon; without this a build fills all memory with shards, which takes longer than writing into the same memory again
and again, and the flush at the end of a block has everything still to do."""

OWNER = "robustshards"
MODE = 0o644
MTIME = 0

_NAME, _SIZE, _CHECKSUM = slice(0, 100), slice(124, 136), slice(148, 156)
"""Fields of a header that differ between members of one kind (POSIX.1-1988, ustar)."""


class ShardWriter:
    """A tar whose bytes depend on its members alone: fixed time, owner and mode, members in the order of arrival."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb", buffering=_BUFFER)  # noqa: SIM115 - see close()
        self._hash = hashlib.sha256()
        self._position = 0

    def add(self, members: Mapping[str, bytes]) -> list[int]:
        """Append members, name -> data; returns the offset of each one's first byte of data in the tar."""
        pieces, offsets, position = [], [], self._position
        for name, data in members.items():
            header = member_header(name, len(data))
            padding = bytes(-len(data) % tarfile.BLOCKSIZE)
            offsets.append(position + len(header))
            position = offsets[-1] + len(data) + len(padding)
            pieces += [header, data, padding]
        self._write(b"".join(pieces))
        return offsets

    def finish(self) -> tuple[str, int]:
        """End the tar; returns its sha256 (hex) and length in bytes."""
        self._write(bytes(2 * tarfile.BLOCKSIZE))
        self._write(bytes(-self._position % tarfile.RECORDSIZE))
        self.close()
        return self._hash.hexdigest(), self._position

    def close(self) -> None:
        """Let go of the file; an unfinished tar stays unfinished."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        settled = self._position // _SETTLED
        self._position += len(data)
        if self._position // _SETTLED > settled and hasattr(os, "posix_fadvise"):  # not on macOS
            self._file.flush()
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def tar_length(end: int, members: Mapping[str, bytes]) -> int:
    """Return the bytes of a tar whose data so far end at ``end``, and that ends after these members."""
    for name, data in members.items():
        end = _rounded(end, tarfile.BLOCKSIZE) + len(member_header(name, len(data))) + len(data)
    return _rounded(_rounded(end, tarfile.BLOCKSIZE) + 2 * tarfile.BLOCKSIZE, tarfile.RECORDSIZE)


def _rounded(size: int, unit: int) -> int:
    return size + -size % unit


def member_header(name: str, size: int) -> bytes:
    """Return the header of a member, as tarfile writes it; long or non-ASCII names take a PAX header before it."""
    if not name.isascii() or len(name) > tarfile.LENGTH_NAME:
        return _tarfile_header(name, size)
    # tarfile takes 40 microseconds for a header, three times for each sample: here only what differs is filled in.
    template, total = _template()
    encoded, length = name.encode(), b"%011o\0" % size
    return template % (encoded.ljust(tarfile.LENGTH_NAME, b"\0"), length, total + sum(encoded) + sum(length))


@cache
def _template() -> tuple[bytes, int]:
    """Return the header of a member with places for name, size and checksum, and the sum of its other bytes.

    For its own checksum, that of a header counts as eight spaces.
    """
    header = _tarfile_header("", 0)
    before, between, after = (
        header[_NAME.stop : _SIZE.start],
        header[_SIZE.stop : _CHECKSUM.start],
        header[_CHECKSUM.stop :],
    )
    return b"%b" + before + b"%b" + between + b"%06o\0 " + after, sum(before + between + after + b" " * 8)


def _tarfile_header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, MTIME, MODE
    member.uname = member.gname = OWNER
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
