"""What every store offers: one small interface for paths and URLs."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, Protocol

LARGEST_READ = 2**28
"""Bytes of a file that is read whole, where its reader sets no other limit: 256 MiB."""

SMALL_FILE = 2**22
"""Bytes of a file with settings or a list of names: 4 MiB."""


class FolderEntry(NamedTuple):
    """A name in a folder; ``size`` in bytes, -1 of folders and where nobody can tell."""

    name: str
    is_folder: bool
    size: int


def nothing_skipped(folder: str) -> bool:
    """Leave out no folder."""
    return False


def by_parts(name: str) -> list[str]:
    """Return the key that names are sorted by: folder by folder, on every machine and in every store alike."""
    return name.split("/")


class Store(Protocol):
    """A folder, wherever it is. Names are paths below it, with slashes.

    What is not published does not exist: a name is there with all of its content, or not at all. All may raise
    OSError, and UnreachableError where the machine behind the store does not answer for long.
    """

    root: str

    def above(self) -> Store:
        """Return the folder that holds this one."""

    def path(self, name: str) -> Path:
        """Return a local file with the content of ``name``: the file itself, or a copy that ends with this process."""

    def open(self, name: str) -> io.BufferedReader:
        """Return a file to read from, at any place in it."""

    def read(self, name: str, offset: int = 0, size: int | None = None, limit: int | None = None) -> bytes:
        """``size`` bytes of a file from ``offset`` on, or all that follow.

        Raises RefusedFileError where all that follow are more than ``limit`` (default: LARGEST_READ), and in a folder
        of this machine for what is no regular file.
        """

    def size(self, name: str) -> int:
        """Length in bytes; -1 where there is no such file."""

    def entries(self, folder: str) -> list[FolderEntry]:
        """Return what lies in a folder, by name, without hidden names. Raises UserError where it cannot be listed."""

    def listing(self, folder: str, suffix: str) -> dict[str, int]:
        """Name -> bytes of all files below ``folder`` that end in ``suffix``, in the order of their names."""

    def walk(self, folder: str, skipped: Callable[[str], bool] = nothing_skipped) -> Iterator[tuple[str, int]]:
        """Name -> bytes of all files below ``folder``, in no order, without hidden names; links are followed.

        ``skipped`` is asked about the name of each folder on the way; those that it affirms are left out.
        Raises UserError where a folder cannot be listed, or is reached a second time.
        """

    def scratch(self) -> Path:
        """Return a new local path to write aside, unknown to any other writer."""

    def publish(self, written: Path, name: str) -> None:
        """Give a finished scratch file its name."""

    def publish_bytes(self, data: bytes, name: str) -> None:
        """Write a small file at once."""

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the store for one build. Raises UserError where another build holds it, or nothing can be written."""

    def check_exclusive(self) -> None:
        """Raise UserError where :meth:`exclusive` would; creates and changes nothing."""

    def free(self) -> int | None:
        """Bytes that the disk has left; None where it is no disk."""


@dataclass(frozen=True)
class Place:
    """A folder (``name`` is empty), a file in one, or the files right in it whose names match a pattern."""

    store: Store
    name: str
    is_pattern: bool = False

    @property
    def location(self) -> str:
        """As the user would write it."""
        return f"{self.store.root}/{self.name}" if self.name else self.store.root

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return not self.name

    def has(self, name: str) -> bool:
        """Whether this is a folder with such a file in it."""
        return self.is_folder and self.store.size(name) >= 0

    def files(self, suffix: str) -> list[str]:
        """Return the files that end in ``suffix`` (in any case): itself, those that match, or all of the folder."""
        if self.is_pattern:
            listed = (entry.name for entry in self.store.entries("") if not entry.is_folder)
            return [name for name in listed if fnmatchcase(name, self.name) and name.lower().endswith(suffix)]
        if not self.is_folder:
            return [self.name] if self.name.lower().endswith(suffix) else []
        return list(self.store.listing("", suffix))
