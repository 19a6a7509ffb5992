"""A store in a local folder or a mounted file system."""

import errno
import fcntl
import io
import os
import shutil
import stat
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from pipeline.errors import RefusedFileError, UserError
from pipeline.storage.base import LARGEST_READ, FolderEntry, Store, path_sort_key, skip_nothing
from pipeline.storage.lease import another_run, check_lease, lease
from pipeline.storage.locations import is_url, local_path

_SCRATCH = ".partial"
_LOCK = ".lock"

_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags for opening the lock file: do not follow a link, and do not wait for a pipe."""

MAX_OPEN_FILES = 128
"""Number of files that a store keeps open for random access."""

_NO_LOCKS = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK})
"""Error codes of file systems without kernel locks, such as Lustre mounted without them."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Error codes of files that do not exist."""

_OBSTACLES = {errno.EEXIST: "it is a file; give a folder", errno.ENOTDIR: "a part of the path is a file; give a folder"}
"""Error code -> why a folder cannot be made."""


class LocalStore(Store):
    """A local folder. Files are published atomically, so readers never see a partial file."""

    def __init__(self, root: str, allow_links_out: bool = False) -> None:
        """Open a store; the folder need not exist.

        Args:
            root: Path of the folder.
            allow_links_out: Allow links that point outside of the folder. Use it only for reading a folder that the
                user has named.

        Raises:
            UserError: ``root`` is a URL.
        """
        if is_url(root):
            raise UserError(f"{root} is a URL: only a local folder is allowed here")
        self._folder = local_path(root)
        self.root = str(self._folder)
        if ":" in self.root.partition("/")[0]:  # PyArrow would take a relative path for a URL
            self._folder = self._folder.absolute()
        self._allow_links_out = allow_links_out
        self._parents: dict[str, Path] = {}
        self._opened: OrderedDict[str, _OpenFile] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parents": {}, "_opened": OrderedDict()}

    def above(self) -> "LocalStore":
        """Return the parent folder as a store."""
        return LocalStore(str(self._folder.parent), self._allow_links_out)

    def path(self, name: str) -> Path:
        """Return the path of a file.

        Raises:
            UserError: ``name`` is outside of the store or is not a valid file name, or the path exists and is neither a
                regular file nor a folder. Opening a pipe, for example, would block forever.
        """
        if "\0" in name:
            raise UserError(f"invalid file name {name!r}: file names cannot contain NUL bytes")
        path = self._folder / name
        try:
            resolved = path.resolve()
            inside = (
                ".." not in name.split("/")
                if self._allow_links_out
                else resolved.is_relative_to(self._folder.resolve())
            )
            if not inside:
                raise UserError(f"{name!r} is outside of {self.root}")
            kind = resolved.stat().st_mode
        except OSError as error:
            if error.errno in _ABSENT:
                return path
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        except RuntimeError as error:  # links that point to each other
            raise UserError(f"cannot read {path}: its symbolic links form a loop") from error
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise UserError(f"{path} is {_KINDS.get(stat.S_IFMT(kind), 'not a regular file')}: use a regular file")
        return path

    def open(self, name: str) -> io.BufferedReader:
        """Open a regular file for reading; the result supports seeking. Raise OSError if it cannot be read."""
        return _reader(self._descriptor(name))

    def read_at(self, name: str, offset: int, size: int) -> bytes:
        """Read bytes of a file. Some files stay open, for the next call. Raise OSError if it cannot be read."""
        file = self._opened.pop(name, None) or _OpenFile(self._descriptor(name))
        self._opened[name] = file
        if len(self._opened) > MAX_OPEN_FILES:
            with suppress(KeyError):  # another thread may have removed the last one
                self._opened.popitem(last=False)
        return os.pread(file.descriptor, size, offset)

    def _descriptor(self, name: str) -> int:
        """Open a regular file and return its descriptor. Raise UserError or OSError like :meth:`open`.

        A folder is checked once, since :meth:`path` looks at every parent, which takes longer than reading an image.
        """
        folder, _, file = name.rpartition("/")
        if (parent := self._parents.get(folder)) is None:
            parent = self._parents[folder] = self.path(folder)
        try:
            return _open_descriptor(parent / file, os.O_NOFOLLOW)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EINVAL):  # a link, a pipe or a device
                raise
        return _open_descriptor(self.path(name))

    def read(self, name: str, offset: int = 0, size: int | None = None, limit: int | None = None) -> bytes:
        """Read ``size`` bytes of a file from ``offset``, or everything after ``offset``. Raise OSError on failure."""
        # This skips the checks of path(), which access every parent folder: these names come from our own listings.
        most = LARGEST_READ if limit is None else limit
        with open_regular(self._folder / name) as file:
            if offset:
                file.seek(offset)
            if size is not None:
                return file.read(size)
            expected = os.fstat(file.fileno()).st_size - offset
            content = b"" if expected > most else file.read(max(expected, 0) + 1)  # so much is allocated first
            if content and len(content) > expected:  # the file grows while it is read
                content += file.read(most)
            if expected > most or len(content) > most:
                what = f"the file is larger than {most} bytes, the maximum"
                raise RefusedFileError(errno.EFBIG, what, str(self._folder / name))
            return content

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, or -1 if it does not exist."""
        try:
            return self.path(name).stat().st_size
        except OSError as error:
            if error.errno in _ABSENT:
                return -1
            raise

    def entries(self, folder: str) -> list[FolderEntry]:
        """Return the visible files and subfolders of a folder by name. Raise UserError if it cannot be listed."""
        path = self._folder / folder
        try:
            with os.scandir(path) as found:
                listed = sorted((each for each in found if not each.name.startswith(".")), key=lambda each: each.name)
        except OSError as error:
            raise _listing_error(error) from error
        return [FolderEntry(each.name, each.is_dir(), -1 if each.is_dir() else _size(each)) for each in listed]

    def listing(self, folder: str, suffix: str) -> dict[str, int]:
        """Return name -> size in bytes of all files below ``folder`` with this suffix, sorted by path.

        Raises:
            UserError: A subfolder cannot be listed, or is named like a Parquet part, so that this would be missing.
        """
        found = os.walk(self._folder / folder, onerror=_raise_listing_error)
        ending = (Path(path, name) for path, dirs, names in found for name in dirs + names if name.endswith(suffix))
        paths = []
        for path in ending:
            if path.is_file():
                paths.append(path)
            elif (
                folder and suffix == ".parquet" and path.is_dir()
            ):  # in a source, as a whole, folders may have any name
                raise UserError(f"{path} is a folder, but must be a file: move or remove it")
        named = {path.relative_to(self._folder).as_posix(): path.stat().st_size for path in paths}
        return {name: named[name] for name in sorted(named, key=path_sort_key)}

    def walk(self, folder: str, skipped: Callable[[str], bool] = skip_nothing) -> Iterator[tuple[str, int]]:
        """Yield the name and size in bytes of all visible files, see :meth:`folders`."""
        for name, entries in self.folders(folder, skipped):
            for entry in entries:
                if not entry.is_folder:
                    yield f"{name}/{entry.name}" if name else entry.name, entry.size

    def folders(
        self, folder: str, skipped: Callable[[str], bool] = skip_nothing
    ) -> Iterator[tuple[str, list[FolderEntry]]]:
        """Yield a folder and all below it, by name, with their visible files and subfolders. Links are followed.

        Raises:
            UserError: A folder cannot be listed, or is reached twice: its files would be counted twice, and links to
                links could make the walk endless.
        """
        seen: dict[tuple[int, int], str] = {}
        waiting = [folder]
        while waiting:
            name = waiting.pop()
            try:
                about = (self._folder / name).stat()
            except OSError as error:
                raise _listing_error(error) from error
            first = seen.setdefault((about.st_dev, about.st_ino), name)
            if first != name:
                raise UserError(f"{self.root}/{name} and {self.root}/{first} are the same folder; remove the link")
            entries = self.entries(name)
            yield name, entries
            below = [entry.name for entry in entries if entry.is_folder and not skipped(entry.name)]
            waiting += [f"{name}/{each}" if name else each for each in reversed(below)]

    def scratch(self) -> Path:
        """Return a new path for a temporary file. Raise UserError if it would be outside of the store."""
        folder = self._folder / _SCRATCH
        if folder.is_symlink():
            raise UserError(f"{folder} is a link, so temporary files would be outside of {self.root}: remove it")
        folder.mkdir(parents=True, exist_ok=True)
        return folder / uuid.uuid4().hex

    def publish(self, written: Path, name: str) -> None:
        """Flush a finished temporary file to disk, then rename it to ``name``."""
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(written, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(written, target)

    def create(self, data: bytes, name: str) -> bool:
        """Write a small file unless it exists. Return whether its content is ``data`` now."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), open(path, "xb") as file:
            file.write(data)
        return self.read(name) == data

    def modified(self, name: str) -> datetime | None:
        """Return when a file was last written, by the clock of the file system, or None if it does not exist."""
        try:
            with self.open(name) as file:  # a network file system answers this without its cache
                return datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""
        self.path(name).unlink(missing_ok=True)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the store for one build, and delete temporary files that an earlier build left.

        The kernel releases the lock when the process ends for any reason. A lease replaces it on a file system without
        locks.

        Raises:
            UserError: Another build holds the lock, or the folder is not writable.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._lock_file_error(error) from error
        with self._locked(os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) or lease(self):
            shutil.rmtree(self._folder / _SCRATCH, ignore_errors=True)
            try:
                yield
            finally:
                shutil.rmtree(self._folder / _SCRATCH, ignore_errors=True)

    def check_exclusive(self) -> None:
        """Raise UserError if :meth:`exclusive` would. Create and change nothing."""
        existing, fault = self._existing(), 0
        if not existing.is_dir():
            fault = errno.EEXIST if existing == self._folder.absolute() else errno.ENOTDIR
        elif not os.access(existing, os.W_OK | os.X_OK):
            fault = errno.EACCES
        if fault:
            raise self._write_error(fault)
        with suppress(FileNotFoundError):
            lock = self._locked(os.O_RDONLY, fcntl.LOCK_SH)
            if lock:
                lock.close()
            else:
                check_lease(self)

    def _locked(self, flags: int, kind: int) -> BinaryIO | None:
        """Open the lock file and lock it until it is closed. Return None if the file system has no locks.

        Raises:
            UserError: Another build holds the lock, or the file cannot be opened.
        """
        try:
            lock = os.fdopen(os.open(self._folder / _LOCK, flags | _NO_LINK, 0o666), "rb")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._lock_file_error(error) from error
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            if error.errno in _NO_LOCKS:
                return None
            if isinstance(error, BlockingIOError):
                raise another_run(self.root) from None
            raise
        return lock

    def free(self) -> int:
        """Return the free disk space in bytes."""
        return shutil.disk_usage(self._existing()).free

    def _existing(self) -> Path:
        """Return the folder, or its nearest parent that exists."""
        folder = self._folder.absolute()
        return next(path for path in (folder, *folder.parents) if os.path.exists(path))

    def _lock_file_error(self, error: OSError) -> UserError:
        path = self._folder / _LOCK
        if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):  # Path raises for long names
            return UserError(f"{path} is a link, a folder or a device, so it cannot be the lock file: remove it")
        return self._write_error(error.errno or 0)

    def _write_error(self, code: int) -> UserError:
        return UserError(f"cannot write to {self.root}: {_OBSTACLES.get(code) or os.strerror(code)}")


class _OpenFile:
    """An opened file, which is closed when no thread uses it any more."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading. Raise RefusedFileError for other kinds of files, and OSError on failure."""
    return _reader(_open_descriptor(path))


def _open_descriptor(path: Path, flags: int = 0) -> int:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        what = _KINDS.get(stat.S_IFMT(kind), "not a regular file")
        raise RefusedFileError(errno.EINVAL, f"this is {what}: use a regular file", str(path))
    return handle


def _reader(handle: int) -> io.BufferedReader:
    try:
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _listing_error(error: OSError) -> UserError:
    return UserError(f"cannot list the folder {error.filename}: {error.strerror}")


def _raise_listing_error(error: OSError) -> None:
    """Raise UserError for a folder that ``os.walk`` cannot list and would skip. Ignore folders that do not exist."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise _listing_error(error) from error


def _size(entry: os.DirEntry[str]) -> int:
    """Return the size in bytes, or -1 for a dangling link, which is reported when it is read."""
    try:
        return entry.stat().st_size
    except OSError:
        return -1
