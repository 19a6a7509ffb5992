"""A folder of this machine, or of a file system that it mounts."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.errors import UserError
from pipeline.storage.base import Entry, by_parts

_SCRATCH = ".partial"
_LOCK = ".lock"


class LocalStore:
    """A folder. Files appear in it whole or not at all."""

    def __init__(self, root: str) -> None:
        """Raises UserError for URLs, which are not paths."""
        if "://" in root:
            raise UserError(f"{root} is a URL; here only a local folder will do")
        self.root = root
        self._folder = Path(root)

    def above(self) -> LocalStore:
        """The folder that holds this one."""
        return LocalStore(str(self._folder.parent))

    def path(self, name: str) -> Path:
        """The file's path. Raises UserError where ``name`` would lead out of the store."""
        path = self._folder / name
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise UserError(f"{name!r} leads out of {self.root}")
        return path

    def open(self, name: str) -> io.BufferedReader:
        """A file to read from, at any place in it. Raises OSError."""
        return open(self.path(name), "rb")

    def read(self, name: str, offset: int = 0, size: int | None = None) -> bytes:
        """``size`` bytes of a file from ``offset`` on, or all that follow. Raises OSError."""
        # Not through path(), which asks the disk about every folder on the way: names here come from our own listing.
        with open(self._folder / name, "rb") as file:
            if offset:
                file.seek(offset)
            return file.read(-1 if size is None else size)

    def size(self, name: str) -> int:
        """Length in bytes; -1 where there is no such file."""
        try:
            return self.path(name).stat().st_size
        except FileNotFoundError:
            return -1

    def entries(self, folder: str) -> list[Entry]:
        """What lies in a folder, by name, without hidden names. Raises UserError where it cannot be listed.

        A link to one of the folders that hold it is refused.
        """
        place = self._folder / folder
        try:
            with os.scandir(place) as found:
                listed = sorted((each for each in found if not each.name.startswith(".")), key=lambda each: each.name)
        except OSError as error:
            raise _unlisted(error) from error
        for each in listed:
            if each.is_symlink() and each.is_dir() and _leads_back(place.absolute(), Path(each.path)):
                raise UserError(f"the folder {each.path} links back to one that holds it; remove the link")
        return [Entry(each.name, each.is_dir(), -1 if each.is_dir() else _size(each)) for each in listed]

    def listing(self, folder: str, suffix: str) -> dict[str, int]:
        """Name -> bytes of all files below ``folder`` that end in ``suffix``, in the order of their names.

        Raises UserError for a folder below it that cannot be listed.
        """
        found = ((Path(place), names) for place, _, names in os.walk(self._folder / folder, onerror=_refuse_unlisted))
        ending = (place / name for place, names in found for name in names if name.endswith(suffix))
        paths = (path for path in ending if path.is_file())
        named = {path.relative_to(self._folder).as_posix(): path.stat().st_size for path in paths}
        return {name: named[name] for name in sorted(named, key=by_parts)}

    def scratch(self) -> Path:
        """A new path to write aside, unknown to any other writer."""
        folder = self._folder / _SCRATCH
        folder.mkdir(parents=True, exist_ok=True)
        return folder / uuid.uuid4().hex

    def publish(self, written: Path, name: str) -> None:
        """Give a finished scratch file its name: it is on the disk before the name is."""
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        _sync(written)
        os.replace(written, target)

    def publish_bytes(self, data: bytes, name: str) -> None:
        """Write a small file at once."""
        scratch = self.scratch()
        scratch.write_bytes(data)
        self.publish(scratch, name)

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        self.path(name).unlink(missing_ok=True)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the store for one build; what an earlier one left unfinished is cleared away.

        The lock is the kernel's and dies with the process, however that ends. Raises UserError where another build
        holds it or the folder cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = open(self._folder / _LOCK, "w")  # noqa: SIM115 - held open for as long as the build
        except OSError as error:
            raise UserError(f"cannot write to {self.root}: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._held() from None
            shutil.rmtree(self._folder / _SCRATCH, ignore_errors=True)
            try:
                yield
            finally:
                shutil.rmtree(self._folder / _SCRATCH, ignore_errors=True)

    def check_exclusive(self) -> None:
        """Raises UserError where :meth:`exclusive` would; creates and changes nothing."""
        place, fault = self._existing(), 0
        if not place.is_dir():
            fault = errno.EEXIST if place == self._folder.absolute() else errno.ENOTDIR
        elif not os.access(place, os.W_OK | os.X_OK):
            fault = errno.EACCES
        if fault:
            raise UserError(f"cannot write to {self.root}: {os.strerror(fault)}")
        with suppress(FileNotFoundError), open(self._folder / _LOCK) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._held() from None

    def free(self) -> int:
        """Bytes that the disk has left."""
        return shutil.disk_usage(self._existing()).free

    def _existing(self) -> Path:
        """The folder, or the nearest above it that exists."""
        folder = self._folder.absolute()
        return next(path for path in (folder, *folder.parents) if path.exists())

    def _held(self) -> UserError:
        return UserError(f"another build is writing to {self.root}; wait for it or choose another folder")


def _leads_back(folder: Path, link: Path) -> bool:
    """Whether a link in a folder leads to one through which the folder was reached."""
    return link.resolve() in {each.resolve() for each in (folder, *folder.parents)}


def _unlisted(error: OSError) -> UserError:
    return UserError(f"cannot list the folder {error.filename}: {error.strerror}")


def _refuse_unlisted(error: OSError) -> None:
    """Of ``os.walk``, which would leave the folder out. One that is not there, or gone by now, holds nothing."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise _unlisted(error) from error


def _size(entry: os.DirEntry[str]) -> int:
    """Length in bytes; -1 for a dangling link, whose reading then fails and is recorded."""
    try:
        return entry.stat().st_size
    except OSError:
        return -1


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
