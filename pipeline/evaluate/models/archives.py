"""Checks of the zip archives that torch.save writes.

torch's reader does not limit the decompressed size, and it can read an archive differently from Python's ``zipfile``.
This module limits the sizes and writes a new archive with only the checked records, which torch then reads.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import UserError

MAX_COMPRESSED = 64 * 2**20
"""Maximum total decompressed size of the compressed records of an archive, in bytes."""

MAX_DIRECTORY = 16 * 2**20
"""Maximum size of the directory of a zip file, in bytes: about 100,000 records."""

COPY_BYTES = 16 * 2**20
"""Number of bytes copied at a time."""


def is_zip(path: Path) -> bool:
    """Return whether a file starts with the signature of a zip archive."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


class _Directory(io.FileIO):
    """A zip file with a limited read size, for reading its directory."""

    limit: int | None = MAX_DIRECTORY

    def read(self, size: int | None = -1, /) -> bytes:
        """Read bytes. Raise BadZipFile if more than the limit is requested."""
        remaining = os.fstat(self.fileno()).st_size - self.tell()
        size_to_read = remaining if size is None or size < 0 else min(size, remaining)
        if self.limit is not None and size_to_read > self.limit:
            raise zipfile.BadZipFile(f"its directory has {size_to_read} bytes; the limit is {self.limit}")
        return super().read(size_to_read) or b""


class Archive:
    """A context manager for the records of a torch zip archive, which are all in one folder.

    Raises:
        UserError: The file is not a zip file, exceeds a size limit, or contains a record name twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        file = _Directory(path)
        try:
            self._zip = zipfile.ZipFile(file)
        except Exception as error:  # zipfile raises many exception types for damaged files
            file.close()
            raise self.rejection(f"it is not a valid zip file ({error})") from error
        file.limit = None
        self._file = file
        infos = self._zip.infolist()
        folder = infos[0].filename.split("/")[0] + "/" if infos else ""
        self._records = {info.filename.removeprefix(folder): info for info in infos}
        stored = sum(info.file_size for info in infos if info.compress_type == zipfile.ZIP_STORED)
        decompressed = sum(info.file_size for info in infos) - stored
        names = {name.lower() for name in self._records}  # torch's reader is case-insensitive
        if len(names) != len(infos) or stored > path.stat().st_size or decompressed > MAX_COMPRESSED:
            self._close()
            raise self.rejection(
                f"its records overlap, have the same name, or decompress to more than {MAX_COMPRESSED} bytes; save it "
                "again with torch.save"
            )

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def rejection(self, reason: str) -> UserError:
        """Return a UserError that names this file and the reason for rejecting it."""
        return UserError(f"{self.path} was rejected: {reason}")

    def size(self, name: str) -> int:
        """Return the decompressed size of a record in bytes. Raise UserError if it is missing."""
        if name not in self._records:
            raise self.rejection(f"its record {name} is missing")
        return self._records[name].file_size

    def read(self, name: str, limit: int) -> bytes:
        """Return the bytes of a record. Raise UserError if it is damaged or larger than ``limit``."""
        if self.size(name) > limit:
            raise self.rejection(f"its record {name} has {self.size(name)} bytes; the limit is {limit}")
        with self._damage(name):
            return self._zip.read(self._records[name])

    def tensor_parts(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a tensor record in parts. Raise UserError if it is compressed or damaged."""
        if self.size(name) and self._records[name].compress_type != zipfile.ZIP_STORED:
            raise self.rejection(f"its record {name} is compressed; save it again with torch.save")
        remaining = self.size(name)
        with self._damage(name):
            record = self._zip.open(self._records[name])
        with record:
            while remaining:
                with self._damage(name):
                    part = record.read(COPY_BYTES)
                if not part:
                    raise self.rejection(f"its record {name} is truncated")
                remaining -= len(part)
                yield part

    def _close(self) -> None:
        self._zip.close()
        self._file.close()

    @contextmanager
    def _damage(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # zipfile raises many exception types for damaged files
            raise self.rejection(f"its record {name} is damaged ({error})") from error


@contextmanager
def rewritten_archive(archive: Archive, records: Mapping[str, bytes | None]) -> Iterator[Path]:
    """Write selected records to a temporary archive, and delete it on exit.

    Args:
        archive: Archive that tensors are copied from.
        records: Mapping from record name to content. None copies the bytes of a tensor from ``archive``.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "archive.pt"
        try:
            with zipfile.ZipFile(path, "w") as copy:
                for name, content in records.items():
                    if content is not None:
                        copy.writestr(f"archive/{name}", content)
                        continue
                    with copy.open(f"archive/{name}", "w", force_zip64=True) as target:
                        target.writelines(archive.tensor_parts(name))
        except OSError as error:
            message = f"{archive.path} cannot be copied to {folder} ({error}); set TMPDIR to a larger disk"
            raise UserError(message) from error
        yield path
