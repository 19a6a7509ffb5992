"""Zip archives of untrusted files, whose sizes are checked before anything is decompressed."""

import os
import sys
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, cast

MAX_DIRECTORY = 16 * 2**20
"""Maximum size of the directory of an archive in bytes: about 100,000 members. ``zipfile`` loads all of it."""


class UnsafeZipError(ValueError):
    """An archive is damaged, or its sizes conflict. The message follows the name of the file."""


class _Directory:
    """A file whose reads are limited while ``zipfile`` reads the directory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.limit = file, MAX_DIRECTORY

    def read(self, size: int = -1) -> bytes:
        """Read bytes. Raise UnsafeZipError if they are more than the limit."""
        data = self._file.read(min(size, self.limit + 1) if size >= 0 else self.limit + 1)
        if len(data) > self.limit:
            raise UnsafeZipError(f"its zip directory exceeds the maximum of {MAX_DIRECTORY} bytes")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def open_zip(file: BinaryIO, max_decompressed: int) -> zipfile.ZipFile:
    """Open an archive.

    Args:
        file: The archive.
        max_decompressed: Maximum total size in bytes of the compressed members after decompression.

    Raises:
        UnsafeZipError: It is not an archive, a name occurs twice (in any case), or members overlap or are too large.
    """
    total = file.seek(0, os.SEEK_END)
    file.seek(0)
    opened = _Directory(file)
    try:
        archive = zipfile.ZipFile(cast(Any, opened))
    except UnsafeZipError:
        raise
    except Exception as error:  # zipfile raises many exception types for damaged files
        raise UnsafeZipError(f"it is not a zip archive or is truncated ({error})") from error
    opened.limit = sys.maxsize - 1  # members are read to their declared size
    members = archive.infolist()
    stored = sum(each.file_size for each in members if each.compress_type == zipfile.ZIP_STORED)
    decompressed = sum(each.file_size for each in members) - stored
    if decompressed > max_decompressed:
        raise UnsafeZipError(f"it decompresses to {decompressed} bytes; the maximum is {max_decompressed}")
    if len({each.filename.lower() for each in members}) != len(members) or stored > total:
        raise UnsafeZipError("its members overlap or have the same name")
    return archive


def check_records(path: Path) -> None:
    """Compare each member of an archive with its checksum. Damage can crash torch's reader of TorchScript.

    Raises:
        zipfile.BadZipFile: The file is not an archive.
        UnsafeZipError: A member is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        if (name := archive.testzip()) is not None:
            raise UnsafeZipError(f"its record {name} is damaged")
