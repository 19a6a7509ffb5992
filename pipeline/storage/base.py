"""The interface of stores: folders on disk and URLs."""

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, Protocol

LARGEST_READ = 2**28
"""Default size limit in bytes for a file that is read as a whole: 256 MiB."""

SMALL_FILE = 2**22
"""Size limit in bytes for a settings file or a list of names: 4 MiB."""


class FolderEntry(NamedTuple):
    """A file or subfolder. ``size`` is in bytes; -1 for folders and for files of unknown size."""

    name: str
    is_folder: bool
    size: int


def skip_nothing(folder: str) -> bool:
    """Return False: skip no folder."""
    return False


def path_sort_key(name: str) -> list[str]:
    """Return a sort key for paths: component by component, so that the order is the same in every store."""
    return name.split("/")


class Store(Protocol):
    """A folder on disk or behind a URL. File names are paths relative to it, separated by slashes.

    A published file is always complete: readers see all of its content, or no file. Every method may raise OSError, and
    UnreachableError if the storage service does not respond.
    """

    root: str

    def above(self) -> "Store":
        """Return the parent folder as a store."""

    def path(self, name: str) -> Path:
        """Return a local path with the content of ``name``: the file, or a copy deleted when the process ends."""

    def open(self, name: str) -> io.BufferedReader:
        """Open a file for reading; the result supports seeking."""

    def read(self, name: str, offset: int = 0, size: int | None = None, limit: int | None = None) -> bytes:
        """Read ``size`` bytes of a file from ``offset``, or everything after ``offset``.

        Args:
            name: Path of the file relative to the store.
            offset: Position of the first byte.
            size: Number of bytes. Default: all bytes after ``offset``.
            limit: Maximum number of bytes to read if ``size`` is omitted. Default: ``LARGEST_READ``.

        Raises:
            RefusedFileError: The file exceeds ``limit``, or is not a regular file (local folders only).
            OSError: The file cannot be read.
        """

    def read_at(self, name: str, offset: int, size: int) -> bytes:
        """Read ``size`` bytes of a file from ``offset``, or fewer at its end; raise OSError if it cannot be read.

        For random access to files that a manifest names: a local folder checks a name once, like :meth:`open`, and
        keeps files open.
        """

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, or -1 if it does not exist."""

    def entries(self, folder: str) -> list[FolderEntry]:
        """Return the visible files and subfolders of a folder by name. Raise UserError if it cannot be listed."""

    def listing(self, folder: str, suffix: str) -> dict[str, int]:
        """Return name -> size in bytes of all files below ``folder`` with this suffix, sorted by path."""

    def walk(self, folder: str, skipped: Callable[[str], bool] = skip_nothing) -> Iterator[tuple[str, int]]:
        """Yield the name and size in bytes of all visible files below ``folder``, unordered. Links are followed.

        Args:
            folder: Path relative to the store.
            skipped: Function that takes the name of a subfolder and returns True if it must be skipped.

        Raises:
            UserError: A folder cannot be listed, or is reached twice through a link.
        """

    def scratch(self) -> Path:
        """Return a new local path for a temporary file, not used by any other writer."""

    def publish(self, written: Path, name: str) -> None:
        """Move or upload a finished temporary file to ``name``, atomically."""

    def publish_bytes(self, data: bytes, name: str) -> None:
        """Write a small file atomically."""
        scratch = self.scratch()
        scratch.write_bytes(data)
        self.publish(scratch, name)

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Lock the store for one run. Raise UserError if another run holds the lock or the store is read-only."""

    def check_exclusive(self) -> None:
        """Raise UserError if :meth:`exclusive` would. Create and change nothing."""

    def free(self) -> int | None:
        """Return the free disk space in bytes, or None for stores without that information."""


@dataclass(frozen=True)
class Place:
    """A folder (``name`` is empty), a file, or the files of a folder whose names match a pattern."""

    store: Store
    name: str
    is_pattern: bool = False

    @property
    def location(self) -> str:
        """The path or URL as a user would write it."""
        return f"{self.store.root}/{self.name}" if self.name else self.store.root

    @property
    def is_folder(self) -> bool:
        """Whether this is a folder."""
        return not self.name

    def has(self, name: str) -> bool:
        """Return whether this is a folder that contains the file ``name``."""
        return self.is_folder and self.store.size(name) >= 0

    def files(self, suffix: str) -> list[str]:
        """Return the files whose names end with ``suffix``, ignoring case: this file, or those of the folder."""
        if self.is_pattern:
            listed = (entry.name for entry in self.store.entries("") if not entry.is_folder)
            return [name for name in listed if fnmatchcase(name, self.name) and name.lower().endswith(suffix)]
        if not self.is_folder:
            return [self.name] if self.name.lower().endswith(suffix) else []
        return list(self.store.listing("", suffix))
