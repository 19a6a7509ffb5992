"""Where the builds of the trials write: a folder, a small disk, a bucket."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import s3fs

from tests.factories.object_store import ObjectStore


class Output(Protocol):
    """A place for one data set. ``location``: as the command is told."""

    location: str

    def committed(self) -> int:
        """How many shards have their manifest part."""

    def fetched(self, folder: Path) -> Path:
        """A local folder with the data set, in ``folder`` if it must be copied."""


class FolderOutput:
    """A folder on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.location = str(folder)

    def committed(self) -> int:
        """How many manifest parts there are."""
        parts = self.folder / "manifest"
        return len(os.listdir(parts)) if parts.is_dir() else 0

    def fetched(self, folder: Path) -> Path:
        """The folder itself."""
        return self.folder


class BucketOutput:
    """A prefix of a bucket, looked at without the proxy."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._files: s3fs.S3FileSystem = store.files()
        self._place = f"{store.bucket}/{name}"
        self.location = f"{store.url}/{name}"

    def committed(self) -> int:
        """How many manifest parts there are."""
        return len(self._files.find(f"{self._place}/manifest"))

    def fetched(self, folder: Path) -> Path:
        """A copy of all objects."""
        folder.mkdir(parents=True)
        for place in self._files.find(self._place):
            copy = folder / place.removeprefix(f"{self._place}/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(self._files.cat_file(place))
        return folder

    def remove(self) -> None:
        """Remove all objects."""
        if self._files.exists(self._place):
            self._files.rm(self._place, recursive=True)


class UnavailableError(Exception):
    """This machine does not let a scenario happen, and why."""


@contextmanager
def _folder(work: Path, name: str, store: ObjectStore, room: int) -> Iterator[Output]:
    try:
        yield FolderOutput(work / name / "data")
    finally:
        shutil.rmtree(work / name, ignore_errors=True)


@contextmanager
def _bucket(work: Path, name: str, store: ObjectStore, room: int) -> Iterator[Output]:
    output = BucketOutput(store, name)
    try:
        yield output
    finally:
        output.remove()


@contextmanager
def _small_disk(work: Path, name: str, store: ObjectStore, room: int) -> Iterator[Output]:
    disk = work / name
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={room}", "robustshards-chaos", str(disk)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError as error:
        raise UnavailableError(f"no small disk: {error}") from error
    if done.returncode:
        raise UnavailableError(f"no small disk: {done.stderr.strip()}")
    try:
        yield FolderOutput(disk / "data")
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], timeout=30, check=True)
        disk.rmdir()


OUTPUTS: Mapping[str, Callable[[Path, str, ObjectStore, int], AbstractContextManager[Output]]] = {
    "folder": _folder,
    "disk": _small_disk,
    "s3": _bucket,
}
"""Kind -> a context manager: (work folder, name, object store, bytes of room) -> Output. Raises UnavailableError."""
