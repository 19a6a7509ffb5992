"""A folder of this machine, or of a file system that it mounts."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import RefusedFileError, UserError
from pipeline.storage.base import LARGEST_READ, FolderEntry, by_parts, nothing_skipped
from pipeline.storage.locations import is_url, local_path

_SCRATCH = ".partial"
_LOCK = ".lock"

_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A lock that is a link would be another file, a pipe would be waited for."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class LocalStore:
    """A folder. Files appear in it whole or not at all."""

    def __init__(self, root: str, links_out: bool = False) -> None:
        """``links_out``: links in it may lead out of it, as in a source that the user names and nobody writes to.

        Raises UserError for URLs, which are not paths.
        """
        if is_url(root):
            raise UserError(f"{root} is a URL; here only a local folder will do")
        self._folder = local_path(root)
        self.root = str(self._folder)
        self._links_out = links_out

    def above(self) -> LocalStore:
        """Return the folder that holds this one."""
        return LocalStore(str(self._folder.parent), self._links_out)

    def path(self, name: str) -> Path:
        """Return the file's path.

        Raises UserError where ``name`` would lead out of the store or cannot be a file's, and for what is there but
        neither a regular file nor a folder: whoever opened a pipe would wait for ever.
        """
        if "\0" in name:
            raise UserError(f"the file name {name!r} holds a NUL byte: no file can have that name")
        path = self._folder / name
        try:
            resolved = path.resolve()
            inside = ".." not in name.split("/") if self._links_out else resolved.is_relative_to(self._folder.resolve())
            if not inside:
                raise UserError(f"{name!r} leads out of {self.root}")
            kind = resolved.stat().st_mode
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return path
            raise UserError(f"{path} cannot be used: {error.strerror}") from error
        except RuntimeError as error:  # links that lead to each other
            raise UserError(f"{path} cannot be used: its links lead in a circle") from error
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise UserError(f"{path} is {_KINDS.get(stat.S_IFMT(kind), 'no regular file')}: regular files are allowed")
        return path

    def open(self, name: str) -> io.BufferedReader:
        """Return a file to read from, at any place in it. Raises OSError."""
        return open_regular(self.path(name))

    def read(self, name: str, offset: int = 0, size: int | None = None, limit: int | None = None) -> bytes:
        """``size`` bytes of a file from ``offset`` on, or all that follow. Raises OSError."""
        # Not through path(), which asks the disk about every folder on the way: names here come from our own listing.
        most = LARGEST_READ if limit is None else limit
        with open_regular(self._folder / name) as file:
            if offset:
                file.seek(offset)
            if size is not None:
                return file.read(size)
            too_large = os.fstat(file.fileno()).st_size - offset > most
            content = b"" if too_large else file.read(most + 1)
            if too_large or len(content) > most:  # a file may grow while it is read
                what = f"it has more than the {most} bytes allowed"
                raise RefusedFileError(errno.EFBIG, what, str(self._folder / name))
            return content

    def size(self, name: str) -> int:
        """Length in bytes; -1 where there is no such file."""
        try:
            return self.path(name).stat().st_size
        except FileNotFoundError:
            return -1

    def entries(self, folder: str) -> list[FolderEntry]:
        """Return what lies in a folder, by name, without hidden names. Raises UserError where it cannot be listed."""
        place = self._folder / folder
        try:
            with os.scandir(place) as found:
                listed = sorted((each for each in found if not each.name.startswith(".")), key=lambda each: each.name)
        except OSError as error:
            raise _unlisted(error) from error
        return [FolderEntry(each.name, each.is_dir(), -1 if each.is_dir() else _size(each)) for each in listed]

    def listing(self, folder: str, suffix: str) -> dict[str, int]:
        """Name -> bytes of all files below ``folder`` that end in ``suffix``, in the order of their names.

        Raises UserError for a folder below it that cannot be listed.
        """
        found = ((Path(place), names) for place, _, names in os.walk(self._folder / folder, onerror=_refuse_unlisted))
        ending = (place / name for place, names in found for name in names if name.endswith(suffix))
        paths = (path for path in ending if path.is_file())
        named = {path.relative_to(self._folder).as_posix(): path.stat().st_size for path in paths}
        return {name: named[name] for name in sorted(named, key=by_parts)}

    def walk(self, folder: str, skipped: Callable[[str], bool] = nothing_skipped) -> Iterator[tuple[str, int]]:
        """Name -> bytes of all files below ``folder``, in no order, without hidden names; links are followed.

        Raises UserError where a folder cannot be listed, or is reached a second time: its files would count twice, and
        links to links could make any number of paths.
        """
        seen: dict[tuple[int, int], str] = {}
        waiting = [folder]
        while waiting:
            name = waiting.pop()
            try:
                about = (self._folder / name).stat()
            except OSError as error:
                raise _unlisted(error) from error
            first = seen.setdefault((about.st_dev, about.st_ino), name)
            if first != name:
                raise UserError(f"{self.root}/{name} and {self.root}/{first} are the same folder; remove the link")
            for entry in self.entries(name):
                path = f"{name}/{entry.name}" if name else entry.name
                if not entry.is_folder:
                    yield path, entry.size
                elif not skipped(entry.name):
                    waiting.append(path)

    def scratch(self) -> Path:
        """Return a new path to write aside, unknown to any other writer. Raises UserError where it would lead out."""
        folder = self._folder / _SCRATCH
        if folder.is_symlink():
            raise UserError(f"{folder} is a link: what is written there would lead out of {self.root}; remove it")
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
            lock = os.fdopen(os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666), "r+b")
        except OSError as error:
            raise self._no_lock(error) from error
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
        """Raise UserError where :meth:`exclusive` would; creates and changes nothing."""
        place, fault = self._existing(), 0
        if not place.is_dir():
            fault = errno.EEXIST if place == self._folder.absolute() else errno.ENOTDIR
        elif not os.access(place, os.W_OK | os.X_OK):
            fault = errno.EACCES
        if fault:
            raise UserError(f"cannot write to {self.root}: {os.strerror(fault)}")
        try:
            lock = os.fdopen(os.open(self._folder / _LOCK, os.O_RDONLY | _NO_LINK), "rb")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._no_lock(error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._held() from None

    def free(self) -> int:
        """Bytes that the disk has left."""
        return shutil.disk_usage(self._existing()).free

    def _existing(self) -> Path:
        """Return the folder, or the nearest above it that exists."""
        folder = self._folder.absolute()
        return next(path for path in (folder, *folder.parents) if path.exists())

    def _no_lock(self, error: OSError) -> UserError:
        place = self._folder / _LOCK
        if place.is_symlink() or (place.exists() and not place.is_file()):
            return UserError(f"{place} is a link, a folder or a device, and no lock of a build: remove it")
        return UserError(f"cannot write to {self.root}: {error.strerror}")

    def _held(self) -> UserError:
        return UserError(f"another build is writing to {self.root}; wait for it or choose another folder")


def open_regular(path: Path) -> io.BufferedReader:
    """Return a file to read from. Raises OSError, and RefusedFileError for what is no regular file once open."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = os.fstat(handle).st_mode
        if not stat.S_ISREG(kind):
            what = _KINDS.get(stat.S_IFMT(kind), "no regular file")
            raise RefusedFileError(errno.EINVAL, f"it is {what}: regular files are allowed", str(path))
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


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
