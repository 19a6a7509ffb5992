"""Where a data set is written, and read from: publishing is atomic, and what is not published does not exist."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import fsspec
import fsspec.core

from pipeline.errors import UserError

_SCRATCH = ".partial"
_LOCK = ".lock"


class LocalStore:
    """A folder. Files appear in it whole or not at all."""

    def __init__(self, root: str) -> None:
        """Raises UserError for URLs, which are not paths."""
        if "://" in root:
            raise UserError(f"{root} is a URL, which is only read from; give a local folder")
        self.root = Path(root)

    def path(self, name: str) -> Path:
        """The file's path. Raises UserError where ``name`` would lead out of the store."""
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise UserError(f"{name!r} leads out of {self.root}")
        return path

    def open(self, name: str) -> io.BufferedReader:
        """A file to read from, at any place in it. Raises OSError."""
        return open(self.path(name), "rb")

    def scratch(self) -> Path:
        """A new path to write aside, unknown to any other writer."""
        folder = self.root / _SCRATCH
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

    def size(self, name: str) -> int:
        """Length in bytes; -1 where there is no such file."""
        try:
            return self.path(name).stat().st_size
        except FileNotFoundError:
            return -1

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        self.path(name).unlink(missing_ok=True)

    def names(self, folder: str, suffix: str) -> Iterator[str]:
        """All files below ``folder`` that end in ``suffix``, sorted."""
        for path in sorted((self.root / folder).rglob(f"*{suffix}")):
            yield path.relative_to(self.root).as_posix()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the store for one build; what an earlier one left unfinished is cleared away.

        The lock is the kernel's and dies with the process, however that ends. Raises UserError where another build
        holds it or the folder cannot be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = open(self.root / _LOCK, "w")  # noqa: SIM115 - held open for as long as the build
        except OSError as error:
            raise UserError(f"cannot write to {self.root}: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._held() from None
            shutil.rmtree(self.root / _SCRATCH, ignore_errors=True)
            try:
                yield
            finally:
                shutil.rmtree(self.root / _SCRATCH, ignore_errors=True)

    def check_exclusive(self) -> None:
        """Raises UserError where :meth:`exclusive` would; creates and changes nothing."""
        place, fault = self._existing(), 0
        if not place.is_dir():
            fault = errno.EEXIST if place == self.root.absolute() else errno.ENOTDIR
        elif not os.access(place, os.W_OK | os.X_OK):
            fault = errno.EACCES
        if fault:
            raise UserError(f"cannot write to {self.root}: {os.strerror(fault)}")
        with suppress(FileNotFoundError), open(self.root / _LOCK) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._held() from None

    def free(self) -> int:
        """Bytes that the disk has left."""
        return shutil.disk_usage(self._existing()).free

    def _existing(self) -> Path:
        """The folder, or the nearest above it that exists."""
        root = self.root.absolute()
        return next(path for path in (root, *root.parents) if path.exists())

    def _held(self) -> UserError:
        return UserError(f"another build is writing to {self.root}; wait for it or choose another folder")


class UrlStore:
    """A folder of an object store, or of whatever else fsspec reaches, to read from.

    Tars are read where they are; files that are asked for by path are copied here once, and go with the process.
    """

    def __init__(self, root: str) -> None:
        """Raises UserError for a URL of a kind that is unknown, or whose library is not installed."""
        try:
            self._files, self._folder = fsspec.core.url_to_fs(root.rstrip("/"))
        except (ImportError, ValueError) as error:
            raise UserError(f"{root} cannot be read: {error}; s3:// needs pip install s3fs, gs:// gcsfs") from error
        self.root = root.rstrip("/")
        self._copies = tempfile.TemporaryDirectory(prefix="robustshards-")

    def path(self, name: str) -> Path:
        """A copy of a file. Raises OSError, and UserError where ``name`` would lead out of the store."""
        copies = Path(self._copies.name)
        copy = copies / name
        if not copy.resolve().is_relative_to(copies.resolve()):
            raise UserError(f"{name!r} leads out of {self.root}")
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            self._files.get_file(self._place(name), str(copy))
        return copy

    def open(self, name: str) -> io.BufferedReader:
        """A file to read from, at any place in it. Raises OSError."""
        file: io.BufferedReader = self._files.open(self._place(name), "rb")
        return file

    def size(self, name: str) -> int:
        """Length in bytes; -1 where there is no such file."""
        try:
            return int(self._files.info(self._place(name))["size"])
        except FileNotFoundError:
            return -1

    def names(self, folder: str, suffix: str) -> Iterator[str]:
        """All files below ``folder`` that end in ``suffix``, sorted."""
        for place in sorted(self._files.find(self._place(folder))):
            if place.endswith(suffix):
                yield place.removeprefix(f"{self._folder}/")

    def _place(self, name: str) -> str:
        if ".." in name.split("/"):
            raise UserError(f"{name!r} leads out of {self.root}")
        return f"{self._folder}/{name}"


ReadStore = LocalStore | UrlStore
"""What a finished data set is read from."""


def reading(location: str) -> ReadStore:
    """The store at a path or URL. Raises UserError."""
    return UrlStore(location) if "://" in location else LocalStore(location)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
