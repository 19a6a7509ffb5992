"""A store in an object store or any other file system that fsspec supports."""

import base64
import errno
import hashlib
import io
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline.errors import RefusedFileError, UserError
from pipeline.storage.base import FolderEntry, Store, path_sort_key, skip_nothing
from pipeline.storage.lease import check_lease, lease
from pipeline.storage.locations import check_url
from pipeline.storage.retry import with_retries
from pipeline.storage.temporary import temporary_folder

ATOMIC = frozenset({"s3", "s3a", "gs", "gcs", "hf", "abfs", "az"})
"""Protocols that write files atomically. In others, a file is written to a temporary name and then renamed."""

_TEMPORARY = ".partial"

_MD5: Mapping[str, Callable[[str], str]] = {
    "ETag": lambda value: value.strip('"'),
    "md5Hash": lambda value: base64.b64decode(value).hex(),
}
"""Field of fsspec's ``info`` with the checksum of a stored file -> function that returns its MD5 in hexadecimal. The
ETag of Amazon S3 is not an MD5 for large or encrypted objects; the field of Google Cloud Storage always is."""

_WHOLE: Mapping[str, Mapping[str, int]] = {"s3": {"max_concurrency": 1}, "s3a": {"max_concurrency": 1}}
"""Protocol -> arguments that read a whole file by one request. Without them, s3fs asks for the size first."""


class UrlStore(Store):
    """A folder behind a URL. Network calls are retried, and written files are verified."""

    def __init__(self, root: str) -> None:
        """Open a store. Raise UserError if the URL is invalid or the library for its protocol is not installed."""
        from fsspec.core import url_to_fs  # most commands have no URL

        check_url(root)
        self.root = root.rstrip("/")
        if self._atomic and not urlsplit(root).netloc:
            raise UserError(f"the URL {root} names no bucket or repository: give one, as in s3://bucket/folder")
        try:
            self._folder = url_to_fs(self.root)[1].rstrip("/")
        except (ImportError, ValueError, TypeError, OSError) as error:
            raise UserError(
                f"cannot open {root}: {error}; s3:// requires pip install 'robustshards[s3]', gs:// requires "
                "'robustshards[gs]', hf:// requires 'robustshards[hf]'"
            ) from error

    @property
    def _files(self) -> Any:
        """The file system. fsspec caches one per process, because a child process cannot use those of its parent."""
        from fsspec.core import url_to_fs

        return url_to_fs(self.root, use_listings_cache=False)[0]

    @property
    def _atomic(self) -> bool:
        return urlsplit(self.root).scheme in ATOMIC

    def above(self) -> "UrlStore":
        """Return the parent folder as a store."""
        above = self.root.rpartition("/")[0]
        return self if above.endswith(":/") else UrlStore(above)

    def path(self, name: str) -> Path:
        """Return a local copy of the current file, which is deleted when this process ends."""
        path = self._path(name)
        try:
            state = with_retries(f"read {self.root}/{name}", self._files.ukey, path)
        except FileNotFoundError:
            return temporary_folder() / "nothing" / name
        copy = temporary_folder() / str(state) / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            aside = copy.with_name(uuid.uuid4().hex)
            with_retries(f"read {self.root}/{name}", self._files.get_file, path, str(aside))
            os.replace(aside, copy)
        return copy

    def open(self, name: str) -> io.BufferedReader:
        """Open a file for reading; the result supports seeking."""
        what = f"read {self.root}/{name}"
        return io.BufferedReader(_RetriedReader(what, with_retries(what, self._files.open, self._path(name), "rb")))

    def read(self, name: str, offset: int = 0, size: int | None = None, limit: int | None = None) -> bytes:
        """Read ``size`` bytes of a file from ``offset``, or everything after ``offset``.

        Without ``limit``, nothing is checked; with it, the size is requested first.
        """
        if limit is not None and self.size(name) - offset > limit:
            raise RefusedFileError(
                errno.EFBIG, f"the file is larger than {limit} bytes, the maximum", f"{self.root}/{name}"
            )
        if size is not None:
            asked: Mapping[str, int] = {"start": offset, "end": offset + size}
        else:
            asked = {"start": offset} if offset else _WHOLE.get(urlsplit(self.root).scheme, {})
        return with_retries(f"read {self.root}/{name}", partial(self._files.cat_file, self._path(name), **asked))

    read_at = read

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, or -1 if it does not exist."""
        info = self._info(name)
        return -1 if info is None or info["type"] != "file" else int(info["size"])

    def is_folder(self) -> bool:
        """Return whether the URL is a folder that contains files."""
        info = self._info("")
        return info is not None and info["type"] == "directory"

    def modified(self, name: str) -> datetime | None:
        """Return when a file was last written, by the clock of the store, or None if it does not exist."""
        try:
            return with_retries(f"read {self.root}/{name}", self._files.modified, self._path(name))
        except (FileNotFoundError, IsADirectoryError):
            return None

    def entries(self, folder: str) -> list[FolderEntry]:
        """Return the visible files and subfolders of a folder by name. Raise UserError if it cannot be listed."""
        try:
            listed = self._list(folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(f"cannot list the folder {self.root}/{folder}: {error}") from error
        for each in listed:
            if each["type"] not in ("directory", "file"):  # possible with file:// and sftp://
                raise UserError(
                    f"{self.root}: {each['name']} is neither a file nor a folder, but a dangling link, a pipe or a "
                    "device: remove it"
                )
        found = (
            FolderEntry(each["name"].rstrip("/").rpartition("/")[2], True, -1)
            if each["type"] == "directory"
            else FolderEntry(each["name"].rpartition("/")[2], False, int(each["size"]))
            for each in listed
        )
        return sorted(entry for entry in found if not entry.name.startswith("."))

    def listing(self, folder: str, suffix: str) -> dict[str, int]:
        """Return name -> size in bytes of all files below ``folder`` with this suffix, sorted by path."""
        find = self._find_at_once if self._atomic else self._find_by_folder
        found = ((each["name"].removeprefix(f"{self._folder}/"), int(each["size"])) for each in find(folder))
        named = {name: size for name, size in found if name.endswith(suffix)}
        return {name: named[name] for name in sorted(named, key=path_sort_key)}

    def walk(self, folder: str, skipped: Callable[[str], bool] = skip_nothing) -> Iterator[tuple[str, int]]:
        """Yield the name and size in bytes of all visible files below ``folder``, unordered."""
        for entry in self.entries(folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not entry.is_folder:
                yield path, entry.size
            elif not skipped(entry.name):
                yield from self.walk(path, skipped)

    def scratch(self) -> Path:
        """Return a new local path for a temporary file, not used by any other writer."""
        return temporary_folder() / uuid.uuid4().hex

    def publish(self, written: Path, name: str) -> None:
        """Upload a finished temporary file, verify the upload, and delete the temporary file."""
        with_retries(f"write {self.root}/{name}", self._upload, written, name)
        written.unlink()

    def create(self, data: bytes, name: str) -> bool:
        """Write a small file, not an empty one, unless it exists. Return whether its content is ``data`` now.

        The content tells, because an earlier attempt may have written the file without an answer.
        """
        return with_retries(f"write {self.root}/{name}", self._create, data, self._path(name))

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""
        try:
            with_retries(f"remove {self.root}/{name}", self._files.rm_file, self._path(name))
        except FileNotFoundError:
            return

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the store for one run with a lease. Raise UserError if another run holds it or no bucket exists."""
        with ExitStack() as stack:
            try:
                stack.enter_context(lease(self))
            except FileNotFoundError as error:
                raise UserError(f"cannot write to {self.root}: {error}") from error
            yield

    def check_exclusive(self) -> None:
        """Raise UserError if another run holds the lease. Write nothing."""
        check_lease(self)

    def free(self) -> None:
        """Return None, because the free space of these stores is unknown."""
        return

    def _upload(self, written: Path, name: str) -> None:
        files, target = self._files, self._path(name)
        path = target if self._atomic else self._path(f"{_TEMPORARY}/{uuid.uuid4().hex}")
        if not self._atomic:
            for each in (path, target):
                files.makedirs(each.rpartition("/")[0], exist_ok=True)
        files.put_file(str(written), path)
        _verify_upload(written, files, path)
        if not self._atomic:
            files.mv(path, target)

    def _create(self, data: bytes, path: str) -> bool:
        files = self._files
        if not self._atomic:
            files.makedirs(path.rpartition("/")[0], exist_ok=True)
        try:
            with files.open(path, "xb") as file:
                file.write(data)
        except Exception:  # of many kinds if the file exists
            if not files.exists(path):
                raise
        return bool(files.cat_file(path) == data)

    def _find_at_once(self, folder: str) -> Iterable[Mapping[str, Any]]:
        """Return all files below a folder with one request, for object stores, which list by prefix."""
        try:
            found: Mapping[str, Any] = with_retries(
                f"list {self.root}/{folder}", partial(self._files.find, self._path(folder), detail=True)
            )
        except FileNotFoundError:
            return []
        return found.values()

    def _find_by_folder(self, folder: str) -> Iterator[Mapping[str, Any]]:
        """Yield all files below a folder. fsspec's own ``find`` silently skips folders that it cannot list."""
        try:
            listed = self._list(folder)
        except FileNotFoundError:  # missing, or deleted in the meantime
            return
        for each in listed:
            if each["type"] == "directory":
                yield from self._find_by_folder(each["name"].rstrip("/").removeprefix(f"{self._folder}/"))
            else:
                yield each

    def _list(self, folder: str) -> list[Mapping[str, Any]]:
        """Return the content of a folder, without the empty object that some stores keep for the folder itself."""
        path = self._path(folder)
        listed = with_retries(f"list {self.root}/{folder}", partial(self._files.ls, path, detail=True))
        return [each for each in listed if each["name"].rstrip("/") != path]

    def _info(self, name: str) -> Mapping[str, Any] | None:
        try:
            info: Mapping[str, Any] = with_retries(f"read {self.root}/{name}", self._files.info, self._path(name))
        except FileNotFoundError:
            return None
        return info

    def _path(self, name: str) -> str:
        if ".." in name.split("/"):
            raise UserError(f"{name!r} is outside of {self.root}")
        return f"{self._folder}/{name}" if name else self._folder


class _RetriedReader(io.RawIOBase):
    """A file of fsspec whose reads are retried."""

    def __init__(self, what: str, file: Any) -> None:
        self._what, self._file = what, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        data = with_retries(self._what, self._read, self._file.tell(), len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _read(self, position: int, size: int) -> bytes:
        self._file.seek(position)
        data: bytes = self._file.read(size)
        return data


def _verify_upload(written: Path, files: Any, path: str) -> None:
    """Raise OSError if an uploaded file differs in size or checksum, or in content if there is no checksum."""
    info, size = files.info(path), written.stat().st_size
    if int(info["size"]) != size:
        raise OSError(f"upload incomplete: {path} has {info['size']} of {size} bytes")
    with open(written, "rb") as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if any(field in info and read(info[field]) == md5 for field, read in _MD5.items()):
        return
    with open(written, "rb") as sent, files.open(path, "rb") as arrived:
        if hashlib.file_digest(sent, "sha256").digest() != hashlib.file_digest(arrived, "sha256").digest():
            raise OSError(f"upload damaged: the content of {path} differs from what was sent")
