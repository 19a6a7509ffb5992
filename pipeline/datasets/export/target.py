"""The output folder of an export. A record in it prevents overwriting files that do not belong to the export."""

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

import tomli_w

from pipeline.config import StrictTable, differences, read_toml, validated
from pipeline.datasets.paths import content_of
from pipeline.errors import UnfinishedError, UserError, file_error_message
from pipeline.execution.resumable import JobFolder
from pipeline.sources.base import folded
from pipeline.sources.files import is_system_folder
from pipeline.storage import SMALL_FILE, LocalStore
from pipeline.text import shown

RECORD_FILE = "export.toml"
"""File that records which data set and layout the folder contains. It is written before all other files."""

CLASSES_FILE = "classes.txt"
"""File with the names of the class folders in label order, one per line."""

OWN_FILES = (RECORD_FILE, CLASSES_FILE)

EXPORT = JobFolder("export", RECORD_FILE, remedy="or delete this one")
"""The output of an export."""

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_PROBES = ((b"probe", b"PROBE"), ("\u00e9".encode(), "e\u0301".encode()))
"""Pairs of names that differ only in case or in Unicode normalisation."""


class ExportRecord(StrictTable):
    """The content of ``export.toml``: data set, layout, sha256 of the manifest, state and counts.

    ``unlabelled`` lists the class folders of images without a label.
    """

    name: str
    layout: str
    manifest: str
    state: Literal["unfinished", "finished"] = "unfinished"
    samples: int = 0
    files: int = 0
    unlabelled: tuple[str, ...] = ()


@dataclass
class Target:
    """An output folder. ``written`` counts written files; ``there`` counts files that already had the right content."""

    store: LocalStore
    written: int = 0
    there: int = 0
    _created: set[Path] = field(default_factory=set)
    _key: Callable[[str], str] = str
    _origins: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def locked(self, record: ExportRecord) -> Iterator[None]:
        """Lock the folder for an export with this record.

        Raises:
            UserError: Another process has locked the folder, or it contains another export or something else.
        """
        with self.store.exclusive(), _write_errors_reported(self.store.root):
            EXPORT.claim(self.store, content_of, lambda: self._conflicts(record))
            self.write_record(record)
            self._key = folded if _ignores_case(self.store.scratch().parent) else str
            yield

    def write_record(self, record: ExportRecord) -> None:
        """Write ``export.toml``."""
        self.store.publish_bytes(tomli_w.dumps(record.model_dump()).encode(), RECORD_FILE)

    def write_classes(self, names: Iterable[str]) -> list[str]:
        """Write the list of class folders, in label order, and return it with further classes of an earlier run.

        Raises:
            UserError: An earlier run had other classes.
        """
        listed = list(names)
        if self.store.size(CLASSES_FILE) >= 0:
            before = self._read(CLASSES_FILE).splitlines()
            shared = min(len(before), len(listed))
            if before[:shared] != listed[:shared]:
                raise UserError(
                    f"{self.store.root} contains an export with other class folders: give the same --classes as "
                    "before, or choose an empty folder"
                )
            listed = before if len(before) > shared else listed
        self.store.publish_bytes("".join(f"{name}\n" for name in listed).encode(), CLASSES_FILE)
        return listed

    def start_folder(self) -> None:
        """Start a new folder, in which file names of earlier folders may occur again."""
        self._origins.clear()

    def reserve_name(self, name: str, origin: str) -> None:
        """Reserve a file name for a sample. Raise UserError if another sample has the same name on this file system."""
        if (first := self._origins.get(self._key(name))) is not None:
            raise UserError(f"{shown(first)} and {shown(origin)} have the same file name {shown(name)}: rename one")
        self._origins[self._key(name)] = origin

    def write(self, name: str, data: bytes) -> None:
        """Write a file, unless it exists with this content."""
        path = self.path(name)
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            self.there += 1
            return
        with self.aside() as (file, aside):
            file.write(data)
        self.publish(aside, path)

    @contextmanager
    def aside(self) -> Iterator[tuple[BinaryIO, Path]]:
        """Open a temporary file for writing. Yield the file and its path."""
        aside = self.store.scratch()
        with open(aside, "xb") as file:
            yield file, aside

    def publish(self, aside: Path, path: Path) -> None:
        """Rename a finished temporary file to ``path``. Raise UserError if ``path`` is a folder."""
        if path.is_dir():
            raise UserError(f"cannot write the file {path}: a folder has this name; remove it")
        os.replace(aside, path)
        self.written += 1

    def path(self, name: str) -> Path:
        """Return the path of a file and create its folder. Raise UserError if the path is outside of the export."""
        path = self.store.path(name)
        if path.parent not in self._created:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._created.add(path.parent)
        return path

    def make_folder(self, name: str) -> None:
        """Create a folder if it does not exist."""
        self.path(f"{name}/x")

    def refuse_other_folders(self, name: str, folders: Collection[str]) -> None:
        """Raise UserError if a folder contains others than these, because readers would count them as classes."""
        for entry in self.store.entries(name):
            if entry.is_folder and entry.name not in folders and not is_system_folder(entry.name):
                where = f"{self.store.root}/{name}"
                raise UserError(
                    f"{where} contains the folder {shown(entry.name)}, which readers would count as a class: remove it"
                )

    def count(self, names: Iterable[str]) -> int:
        """Return the number of files with these paths or in folders with these paths."""
        paths = ((name, self.store.path(name)) for name in names)
        return sum(sum(1 for _ in self.store.walk(name)) if path.is_dir() else path.is_file() for name, path in paths)

    def _conflicts(self, record: ExportRecord) -> list[str]:
        """Return the differences of the export in the folder and that of a record."""
        where = f"{self.store.root}/{RECORD_FILE}"
        before = validated(ExportRecord, read_toml(self._read(RECORD_FILE), where), where)
        return differences(*(each.model_dump(include={"layout", "manifest"}) for each in (before, record)))

    def _read(self, name: str) -> str:
        try:
            return self.store.read(name, limit=SMALL_FILE).decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{self.store.root}/{name} is not UTF-8 text: {error}; choose an empty folder") from error


@contextmanager
def _write_errors_reported(root: str) -> Iterator[None]:
    """Raise UnfinishedError instead of OSError if the disk is full, and UserError for a name that is too long."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            what = f"cannot write {file_error_message(error)}; the layout parquet has no file per image"
            raise UserError(what) from error
        if error.errno not in _DISK_FULL:
            raise
        what = f"cannot write to {root}: {error.strerror}; free disk space, then run the same command again"
        raise UnfinishedError(what) from error


def _ignores_case(folder: Path) -> bool:
    """Return whether this file system treats names that differ only in case or normalisation as equal."""
    for name, alias in _PROBES:
        with suppress(OSError):
            os.close(os.open(os.path.join(os.fsencode(folder), name), os.O_CREAT | os.O_WRONLY))
            if os.path.exists(os.path.join(os.fsencode(folder), alias)):
                return True
    return False
