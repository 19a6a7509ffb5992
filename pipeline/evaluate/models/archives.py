"""Zip archives of torch, checked and copied before torch reads them.

torch's own reader accepts archives that decompress to any size, and archives that two readers see differently. Sizes
are bounded here, and torch reads a new archive that contains only what was checked.
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
"""Largest total size, decompressed, of all compressed records of an archive."""

MAX_DIRECTORY = 16 * 2**20
"""Largest directory of a zip file: 100,000 records."""

COPIED_AT_ONCE = 16 * 2**20
"""Bytes of a record that are in memory while it is copied."""


def is_zip(path: Path) -> bool:
    """Return whether a file begins as a zip archive does."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


class _Directory(io.FileIO):
    """A zip file while its directory is read: reads of limited size."""

    limit: int | None = MAX_DIRECTORY

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as any file does. Raise BadZipFile for more than the limit."""
        left = os.fstat(self.fileno()).st_size - self.tell()
        wanted = left if size is None or size < 0 else min(size, left)
        if self.limit is not None and wanted > self.limit:
            raise zipfile.BadZipFile(f"its directory has {wanted} bytes; at most {self.limit} are allowed")
        return super().read(wanted) or b""


class Archive:
    """The records of a zip file of torch, all of them in one folder. A context manager.

    Raises:
        UserError: The file is not a zip file, decompresses to too much, or contains a name twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        file = _Directory(path)
        try:
            self._zip = zipfile.ZipFile(file)
        except Exception as error:  # damaged files raise more than BadZipFile
            file.close()
            raise self.refusal(f"it is not a valid zip file ({error})") from error
        file.limit = None
        self._file = file
        infos = self._zip.infolist()
        folder = infos[0].filename.split("/")[0] + "/" if infos else ""
        self._records = {info.filename.removeprefix(folder): info for info in infos}
        stored = sum(info.file_size for info in infos if info.compress_type == zipfile.ZIP_STORED)
        decompressed = sum(info.file_size for info in infos) - stored
        names = {name.lower() for name in self._records}  # torch's reader ignores case
        if len(names) != len(infos) or stored > path.stat().st_size or decompressed > MAX_COMPRESSED:
            self._close()
            raise self.refusal(
                f"its records overlap, share a name, or decompress to more than {MAX_COMPRESSED} bytes; save it again "
                "with torch.save"
            )

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def refusal(self, reason: str) -> UserError:
        """Return the error that says why this file is not read."""
        return UserError(f"{self.path} is refused: {reason}")

    def size(self, name: str) -> int:
        """Return the size of a record in bytes, decompressed. Raise UserError where it is missing."""
        if name not in self._records:
            raise self.refusal(f"its record {name} is missing")
        return self._records[name].file_size

    def read(self, name: str, limit: int) -> bytes:
        """Return the bytes of a record, at most ``limit``. Raise UserError for a larger or damaged one."""
        if self.size(name) > limit:
            raise self.refusal(f"its record {name} has {self.size(name)} bytes; at most {limit} are allowed")
        with self._damage(name):
            return self._zip.read(self._records[name])

    def parts_of_numbers(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a tensor, part by part. Raise UserError for compressed and damaged ones."""
        if self.size(name) and self._records[name].compress_type != zipfile.ZIP_STORED:
            raise self.refusal(f"its record {name} is compressed; torch.save compresses no tensors")
        left = self.size(name)
        with self._damage(name):
            record = self._zip.open(self._records[name])
        with record:
            while left:
                with self._damage(name):
                    part = record.read(COPIED_AT_ONCE)
                if not part:
                    raise self.refusal(f"its record {name} is truncated")
                left -= len(part)
                yield part

    def _close(self) -> None:
        self._zip.close()
        self._file.close()

    @contextmanager
    def _damage(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # damaged files raise more than BadZipFile
            raise self.refusal(f"its record {name} is damaged ({error})") from error


@contextmanager
def rewritten(archive: Archive, records: Mapping[str, bytes | None]) -> Iterator[Path]:
    """Write a new archive for torch into a temporary folder, and remove it at the end.

    Args:
        archive: Where tensors are copied from.
        records: Name -> content, or None for the bytes of a tensor, which are copied part by part.
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
                        target.writelines(archive.parts_of_numbers(name))
        except OSError as error:
            message = f"{archive.path} cannot be copied to {folder} ({error}); set TMPDIR to a folder with more room"
            raise UserError(message) from error
        yield path
