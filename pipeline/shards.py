"""Byte-stable WebDataset tars."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

_BLOCK = tarfile.BLOCKSIZE
_BUFFER = 1 << 18

OWNER = "robustshards"
MODE = 0o644
MTIME = 0


class ShardWriter:
    """A tar whose bytes depend on its members alone: fixed time, owner and mode, members in the order of arrival."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb", buffering=_BUFFER)  # noqa: SIM115 - see close()
        self._hash = hashlib.sha256()
        self._position = 0

    def add(self, name: str, data: bytes) -> int:
        """Append a member; returns the offset of its first byte of data in the tar."""
        self._write(_header(name, len(data)))
        offset = self._position
        self._write(data)
        self._write(bytes(-len(data) % _BLOCK))
        return offset

    def finish(self) -> tuple[str, int]:
        """End the tar; returns its sha256 (hex) and length in bytes."""
        self._write(bytes(2 * _BLOCK))
        self._write(bytes(-self._position % tarfile.RECORDSIZE))
        self.close()
        return self._hash.hexdigest(), self._position

    def close(self) -> None:
        """Let go of the file; an unfinished tar stays unfinished."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self._position += len(data)


def _header(name: str, size: int) -> bytes:
    """The member's header; long or non-ASCII names take a PAX header before it."""
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, MTIME, MODE
    member.uname = member.gname = OWNER
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
