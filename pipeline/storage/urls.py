"""A folder of an object store, or of whatever else fsspec reaches."""

from __future__ import annotations

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

import fsspec.core

from pipeline.errors import RefusedFileError, UserError
from pipeline.storage.base import FolderEntry, by_parts, nothing_skipped
from pipeline.storage.lease import check_lease, lease
from pipeline.storage.locations import check_url
from pipeline.storage.retry import patiently
from pipeline.storage.temporary import own_folder

ATOMIC = frozenset({"s3", "s3a", "gs", "gcs", "hf", "abfs", "az"})
"""Protocols in which a file appears whole or not at all. In others it is written aside and then given its name."""

_ASIDE = ".partial"

_MD5: Mapping[str, Callable[[str], str]] = {
    "ETag": lambda told: told.strip('"'),
    "md5Hash": lambda told: base64.b64decode(told).hex(),
}
"""Where a store says what it has received: field of fsspec's ``info`` -> MD5 in hexadecimal. Amazon's ETag may be
something else (large or encrypted objects), Google's field is always one."""


class UrlStore:
    """A folder behind a URL. Every call is made again where the network fails; what is written is compared."""

    def __init__(self, root: str) -> None:
        """Raise UserError for a URL that is refused, or of a kind whose library is not installed."""
        check_url(root)
        self.root = root.rstrip("/")
        try:
            self._folder = fsspec.core.url_to_fs(self.root)[1].rstrip("/")
        except (ImportError, ValueError, TypeError, OSError) as error:
            raise UserError(
                f"{root} cannot be reached: {error}; s3:// needs pip install 'robustshards[s3]', gs:// "
                "'robustshards[gs]', hf:// 'robustshards[hf]'"
            ) from error

    @property
    def _files(self) -> Any:
        """The file system. fsspec keeps it, one for each process: those of a parent cannot be used in a child."""
        return fsspec.core.url_to_fs(self.root, use_listings_cache=False)[0]

    @property
    def _atomic(self) -> bool:
        return urlsplit(self.root).scheme in ATOMIC

    def above(self) -> UrlStore:
        """Return the folder that holds this one."""
        above = self.root.rpartition("/")[0]
        return self if above.endswith(":/") else UrlStore(above)

    def path(self, name: str) -> Path:
        """Return a copy of a file as it is now, which ends with this process."""
        place = self._place(name)
        try:
            state = patiently(f"read {self.root}/{name}", self._files.ukey, place)
        except FileNotFoundError:
            return own_folder() / "nothing" / name
        copy = own_folder() / str(state) / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            aside = copy.with_name(uuid.uuid4().hex)
            patiently(f"read {self.root}/{name}", self._files.get_file, place, str(aside))
            os.replace(aside, copy)
        return copy

    def open(self, name: str) -> io.BufferedReader:
        """Return a file to read from, at any place in it."""
        return patiently(f"read {self.root}/{name}", self._files.open, self._place(name), "rb")

    def read(self, name: str, offset: int = 0, size: int | None = None, limit: int | None = None) -> bytes:
        """``size`` bytes of a file from ``offset`` on, or all that follow.

        A ``limit`` costs a request more; without one, a file is as large as its listing says.
        """
        if limit is not None and self.size(name) - offset > limit:
            raise RefusedFileError(errno.EFBIG, f"it has more than the {limit} bytes allowed", f"{self.root}/{name}")
        asked: dict[str, int] = {} if not offset and size is None else {"start": offset}
        if size is not None:
            asked["end"] = offset + size
        return patiently(f"read {self.root}/{name}", partial(self._files.cat_file, self._place(name), **asked))

    def size(self, name: str) -> int:
        """Length in bytes; -1 where there is no such file."""
        told = self._info(name)
        return -1 if told is None or told["type"] != "file" else int(told["size"])

    def is_folder(self) -> bool:
        """Whether there is anything below it."""
        told = self._info("")
        return told is not None and told["type"] == "directory"

    def modified(self, name: str) -> datetime | None:
        """When a file was last written, by the store's own clock; None where there is none."""
        try:
            return patiently(f"read {self.root}/{name}", self._files.modified, self._place(name))
        except FileNotFoundError:
            return None

    def entries(self, folder: str) -> list[FolderEntry]:
        """Return what lies in a folder, by name, without hidden names. Raises UserError where it cannot be listed."""
        try:
            listed = self._list(folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(f"cannot list the folder {self.root}/{folder}: {error}") from error
        for each in listed:
            if each["type"] not in ("directory", "file"):  # of file:// and sftp://
                raise UserError(
                    f"{self.root}: {each['name']} is neither a file nor a folder (a link to nothing, a pipe, a device)"
                    ": remove it"
                )
        found = (
            FolderEntry(each["name"].rstrip("/").rpartition("/")[2], True, -1)
            if each["type"] == "directory"
            else FolderEntry(each["name"].rpartition("/")[2], False, int(each["size"]))
            for each in listed
        )
        return sorted(entry for entry in found if not entry.name.startswith("."))

    def listing(self, folder: str, suffix: str) -> dict[str, int]:
        """Name -> bytes of all files below ``folder`` that end in ``suffix``, in the order of their names."""
        find = self._find_at_once if self._atomic else self._find_by_folder
        found = ((each["name"].removeprefix(f"{self._folder}/"), int(each["size"])) for each in find(folder))
        named = {name: size for name, size in found if name.endswith(suffix)}
        return {name: named[name] for name in sorted(named, key=by_parts)}

    def walk(self, folder: str, skipped: Callable[[str], bool] = nothing_skipped) -> Iterator[tuple[str, int]]:
        """Name -> bytes of all files below ``folder``, in no order, without hidden names."""
        for entry in self.entries(folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not entry.is_folder:
                yield path, entry.size
            elif not skipped(entry.name):
                yield from self.walk(path, skipped)

    def scratch(self) -> Path:
        """Return a new local path to write aside, unknown to any other writer."""
        return own_folder() / uuid.uuid4().hex

    def publish(self, written: Path, name: str) -> None:
        """Upload a finished scratch file under its name, compare what has arrived, and remove the scratch file."""
        patiently(f"write {self.root}/{name}", self._upload, written, name)
        written.unlink()

    def publish_bytes(self, data: bytes, name: str) -> None:
        """Write a small file at once."""
        scratch = self.scratch()
        scratch.write_bytes(data)
        self.publish(scratch, name)

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        try:
            patiently(f"remove {self.root}/{name}", self._files.rm_file, self._place(name))
        except FileNotFoundError:
            return

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the store for one build, by a lease. Raises UserError where another build holds it, or no bucket is."""
        with ExitStack() as stack:
            try:
                stack.enter_context(lease(self))
            except FileNotFoundError as error:
                raise UserError(f"cannot write to {self.root}: {error}") from error
            yield

    def check_exclusive(self) -> None:
        """Raise UserError where another build holds the store; writes nothing."""
        check_lease(self)

    def free(self) -> None:
        """Nobody can tell."""
        return

    def _upload(self, written: Path, name: str) -> None:
        files, target = self._files, self._place(name)
        place = target if self._atomic else self._place(f"{_ASIDE}/{uuid.uuid4().hex}")
        if not self._atomic:
            for each in (place, target):
                files.makedirs(each.rpartition("/")[0], exist_ok=True)
        files.put_file(str(written), place)
        _compare(written, files, place)
        if not self._atomic:
            files.mv(place, target)

    def _find_at_once(self, folder: str) -> Iterable[Mapping[str, Any]]:
        """All files below a folder, of a store that knows no folders and lists whatever begins alike."""
        try:
            found: Mapping[str, Any] = patiently(
                f"list {self.root}/{folder}", partial(self._files.find, self._place(folder), detail=True)
            )
        except FileNotFoundError:
            return []
        return found.values()

    def _find_by_folder(self, folder: str) -> Iterator[Mapping[str, Any]]:
        """All files below a folder. Not fsspec's ``find``, which leaves out in silence what it fails to list."""
        try:
            listed = self._list(folder)
        except FileNotFoundError:  # never there, or gone in the meantime
            return
        for each in listed:
            if each["type"] == "directory":
                yield from self._find_by_folder(each["name"].rstrip("/").removeprefix(f"{self._folder}/"))
            else:
                yield each

    def _list(self, folder: str) -> list[Mapping[str, Any]]:
        """Return what lies in a folder, without an empty object for the folder itself."""
        place = self._place(folder)
        listed = patiently(f"list {self.root}/{folder}", partial(self._files.ls, place, detail=True))
        return [each for each in listed if each["name"].rstrip("/") != place]

    def _info(self, name: str) -> Mapping[str, Any] | None:
        try:
            told: Mapping[str, Any] = patiently(f"read {self.root}/{name}", self._files.info, self._place(name))
        except FileNotFoundError:
            return None
        return told

    def _place(self, name: str) -> str:
        if ".." in name.split("/"):
            raise UserError(f"{name!r} leads out of {self.root}")
        return f"{self._folder}/{name}" if name else self._folder


def _compare(written: Path, files: Any, place: str) -> None:
    """Raise OSError where a store has not received what was sent: by its own word, or else by reading it back."""
    told, size = files.info(place), written.stat().st_size
    if int(told["size"]) != size:
        raise OSError(f"{told['size']} of {size} bytes have arrived at {place}")
    with open(written, "rb") as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if any(field in told and read(told[field]) == md5 for field, read in _MD5.items()):
        return
    with open(written, "rb") as sent, files.open(place, "rb") as arrived:
        if hashlib.file_digest(sent, "sha256").digest() != hashlib.file_digest(arrived, "sha256").digest():
            raise OSError(f"other bytes than were sent have arrived at {place}")
