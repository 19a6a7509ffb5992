"""The folder that an export is written to: it states what it holds, and nobody's own files are replaced in it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

import tomli_w

from pipeline.config import StrictTable, read_toml, validated
from pipeline.errors import UnfinishedError, UserError
from pipeline.sources.base import folded, is_system_folder, suffix
from pipeline.storage import SMALL_FILE, LocalStore
from pipeline.text import shown

STATEMENT = "export.toml"
"""States what an export is of, from before its first file on."""

CLASSES_FILE = "classes.txt"
"""The class folders in the order of labels, one per line."""

OWN_FILES = (STATEMENT, CLASSES_FILE)

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_PROBES = ((b"probe", b"PROBE"), ("\u00e9".encode(), "e\u0301".encode()))
"""Names that differ in case, and in Unicode normalisation."""


class Statement(StrictTable):
    """``export.toml``: the data set, by the sha256 of its manifest, the layout, and what the export came to.

    ``unlabelled`` are the class folders of images without a label.
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
    """The folder. ``written`` counts files that were written, ``there`` those that had this content before."""

    store: LocalStore
    written: int = 0
    there: int = 0
    _made: set[Path] = field(default_factory=set)
    _key: Callable[[str], str] = str
    _origins: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def claimed(self, statement: Statement, places: Collection[str]) -> Iterator[None]:
        """Hold the folder for this export.

        Raises UserError where another process holds it, it holds an export of another data set or layout, or files of
        somebody else lie where this one's ``places`` are.
        """
        with self.store.exclusive(), _room_told(self.store.root):
            self._refuse_others(statement, places)
            self.state(statement)
            self._key = folded if _folds(self.store.scratch().parent) else str
            yield

    def state(self, statement: Statement) -> None:
        """Write what the folder holds."""
        self.publish_text(tomli_w.dumps(statement.model_dump()), STATEMENT)

    def state_classes(self, names: Iterable[str]) -> list[str]:
        """Write the class folders; more than an earlier run had may follow.

        Returns those that there must be: more than ``names`` where an earlier run had more. Raises UserError where
        others are there.
        """
        listed = list(names)
        if self.store.size(CLASSES_FILE) >= 0:
            before = self._read(CLASSES_FILE).splitlines()
            common = min(len(before), len(listed))
            if before[:common] != listed[:common]:
                raise UserError(
                    f"{self.store.root} was exported with other class folders: give the same --classes as before, or "
                    "choose an empty folder"
                )
            listed = before if len(before) > common else listed
        self.publish_text("".join(f"{name}\n" for name in listed), CLASSES_FILE)
        return listed

    def begin_folder(self) -> None:
        """Forget which files were written: names may come again in another folder."""
        self._origins.clear()

    def claim(self, name: str, origin: str) -> None:
        """Note whose a name is. Raises UserError where another sample has it, on this disk at least."""
        if (first := self._origins.get(self._key(name))) is not None:
            raise UserError(f"{shown(first)} and {shown(origin)} both come to the file {shown(name)}; rename one")
        self._origins[self._key(name)] = origin

    def write(self, name: str, data: bytes) -> None:
        """Write a file, unless it is there with this content."""
        path = self.path(name)
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            self.there += 1
            return
        with self.aside() as (file, aside):
            file.write(data)
        self.publish(aside, path)

    @contextmanager
    def aside(self) -> Iterator[tuple[BinaryIO, Path]]:
        """Open a new file to write to, in a folder of its own. Gives the file and its path."""
        aside = self.store.scratch()
        with open(aside, "xb") as file:
            yield file, aside

    def publish(self, aside: Path, path: Path) -> None:
        """Give a finished file its name. Raises UserError where a folder has it."""
        if path.is_dir():
            raise UserError(f"{path} is a folder where this export has a file: remove it")
        os.replace(aside, path)
        self.written += 1

    def publish_text(self, text: str, name: str) -> None:
        """Write a file that is none of the data set's."""
        self.store.publish_bytes(text.encode(), name)

    def path(self, name: str) -> Path:
        """Return where a file goes; its folder is made. Raises UserError where that would lead out."""
        path = self.store.path(name)
        if path.parent not in self._made:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(path.parent)
        return path

    def make_folder(self, name: str) -> None:
        """Make a folder, if it is not there."""
        self.path(f"{name}/x")

    def refuse_other_folders(self, name: str, folders: Collection[str]) -> None:
        """Raise UserError where a folder holds others than these, which readers would count."""
        for entry in self.store.entries(name):
            if entry.is_folder and entry.name not in folders and not is_system_folder(entry.name):
                what = f"the folder {shown(entry.name)}, which readers would count as a class"
                raise UserError(f"{self.store.root}/{name} holds {what}: remove it")

    def count(self, names: Iterable[str]) -> int:
        """Return how many files have these names, or are in folders that do."""
        return sum(self._count(name) for name in names)

    def _count(self, name: str) -> int:
        path = self.store.path(name)
        return sum(1 for _ in self.store.walk(name)) if path.is_dir() else int(path.is_file())

    def _refuse_others(self, statement: Statement, places: Collection[str]) -> None:
        root = self.store.root
        if self.store.size(STATEMENT) < 0:
            ours = {folded(place.partition("/")[0]) for place in (*places, *OWN_FILES)}
            endings = {suffix(place) for place in places} - {""}
            found = [entry.name for entry in self.store.entries("")]
            mixed = [name for name in found if folded(name) in ours or suffix(name) in endings]
            if mixed:
                raise UserError(
                    f"{root} holds {shown(mixed[0])}, but no {STATEMENT} of an earlier export: choose an empty folder, "
                    "so that no file of yours is overwritten or taken for a part of this"
                )
            return
        where = f"{root}/{STATEMENT}"
        before = validated(Statement, read_toml(self._read(STATEMENT), where), where)
        for what in ("layout", "manifest"):
            there, asked = getattr(before, what), getattr(statement, what)
            if there != asked:
                raise UserError(
                    f"{root} holds an export of {shown(before.name)} with another {what} ({shown(there)}, not "
                    f"{shown(asked)}): choose an empty folder, or remove what is there"
                )

    def _read(self, name: str) -> str:
        try:
            return self.store.read(name, limit=SMALL_FILE).decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{self.store.root}/{name} is not UTF-8 text: {error}; remove what is there") from error


@contextmanager
def _room_told(root: str) -> Iterator[None]:
    """Raise UnfinishedError for a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        what = f"cannot write to {root}: {error.strerror}; free some room and run the same command again"
        raise UnfinishedError(what) from error


def _folds(folder: Path) -> bool:
    """Whether names are one on this disk that differ in case or in Unicode normalisation."""
    for name, alias in _PROBES:
        with suppress(OSError):
            os.close(os.open(os.path.join(os.fsencode(folder), name), os.O_CREAT | os.O_WRONLY))
            if os.path.exists(os.path.join(os.fsencode(folder), alias)):
                return True
    return False
