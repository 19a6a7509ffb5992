"""A writer for WebDataset tars with reproducible bytes."""

import hashlib
import os
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_BUFFER = 2**16
"""Size of the write buffer in bytes. It is small because many shards are open at a time."""

_FLUSH_BYTES = 2**20
"""Number of bytes after which the system must write a tar to disk and drop its cached copy. Otherwise a build fills the
memory with shards, and the flush at the end of a block is slow."""

OWNER = "robustshards"
MODE = 0o644
MTIME = 0

_NAME, _SIZE, _CHECKSUM = slice(0, 100), slice(124, 136), slice(148, 156)
"""Fields of a ustar header (POSIX.1-1988) that differ between members."""


class ShardWriter:
    """A tar writer whose output depends only on the members and their order: time, owner and mode are fixed."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb", buffering=_BUFFER)  # noqa: SIM115 - see close()
        self._hash = hashlib.sha256()
        self._position = 0

    def add(self, members: Mapping[str, bytes]) -> list[int]:
        """Append members.

        Args:
            members: Name -> data, in order.

        Returns:
            The offset of each member's data in the tar, in bytes.
        """
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
        """Finish the tar. Return its sha256 in hexadecimal and its size in bytes."""
        self._write(bytes(2 * tarfile.BLOCKSIZE))
        self._write(bytes(-self._position % tarfile.RECORDSIZE))
        self.close()
        return self._hash.hexdigest(), self._position

    def close(self) -> None:
        """Close the file. Without :meth:`finish`, the tar stays incomplete."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        flushes = self._position // _FLUSH_BYTES
        self._position += len(data)
        if self._position // _FLUSH_BYTES > flushes and hasattr(os, "posix_fadvise"):  # not on macOS
            self._file.flush()
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def tar_length(end: int, members: Mapping[str, bytes]) -> int:
    """Return the size in bytes of a tar that ends after ``members``.

    Args:
        end: Offset of the end of the preceding data.
        members: Name -> data of the last members.
    """
    for name, data in members.items():
        end = _rounded(end, tarfile.BLOCKSIZE) + len(member_header(name, len(data))) + len(data)
    return _rounded(_rounded(end, tarfile.BLOCKSIZE) + 2 * tarfile.BLOCKSIZE, tarfile.RECORDSIZE)


def _rounded(size: int, unit: int) -> int:
    return size + -size % unit


def member_header(name: str, size: int) -> bytes:
    """Return the header that tarfile writes for a member. Long or non-ASCII names get an additional PAX header."""
    if not name.isascii() or len(name) > tarfile.LENGTH_NAME:
        return _tarfile_header(name, size)
    # tarfile is slow and runs three times per sample, so this fills in only the fields that differ.
    template, total = _template()
    encoded, length = name.encode(), b"%011o\0" % size
    return template % (encoded.ljust(tarfile.LENGTH_NAME, b"\0"), length, total + sum(encoded) + sum(length))


@cache
def _template() -> tuple[bytes, int]:
    """Return a header with format fields for name, size and checksum, and the sum of its other bytes.

    The checksum of a header counts its own field as eight spaces.
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
