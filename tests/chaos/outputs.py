"""Outputs of the trials: a folder, a small disk, a bucket."""

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
    """An output for one data set. ``location``: the value of ``--out``."""

    location: str

    def committed(self) -> int:
        """Return the number of published manifest parts."""

    def fetched(self, folder: Path) -> Path:
        """Return a local folder with the data set. It is copied to ``folder`` if it is not local."""


class FolderOutput:
    """A folder on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.location = str(folder)

    def committed(self) -> int:
        parts = self.folder / "manifest"
        return len(os.listdir(parts)) if parts.is_dir() else 0

    def fetched(self, folder: Path) -> Path:
        return self.folder


class BucketOutput:
    """A prefix of a bucket, accessed without the proxy."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._files: s3fs.S3FileSystem = store.files()
        self._prefix = f"{store.bucket}/{name}"
        self.location = f"{store.url}/{name}"

    def committed(self) -> int:
        return len(self._files.find(f"{self._prefix}/manifest"))

    def fetched(self, folder: Path) -> Path:
        """Copy all objects to ``folder``."""
        folder.mkdir(parents=True)
        for path in self._files.find(self._prefix):
            copy = folder / path.removeprefix(f"{self._prefix}/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(self._files.cat_file(path))
        return folder

    def remove(self) -> None:
        """Remove all objects."""
        if self._files.exists(self._prefix):
            self._files.rm(self._prefix, recursive=True)


class UnavailableError(Exception):
    """A scenario cannot run on this machine."""


@contextmanager
def _folder(work: Path, name: str, store: ObjectStore, capacity: int) -> Iterator[Output]:
    try:
        yield FolderOutput(work / name / "data")
    finally:
        shutil.rmtree(work / name, ignore_errors=True)


@contextmanager
def _bucket(work: Path, name: str, store: ObjectStore, capacity: int) -> Iterator[Output]:
    output = BucketOutput(store, name)
    try:
        yield output
    finally:
        output.remove()


@contextmanager
def _small_disk(work: Path, name: str, store: ObjectStore, capacity: int) -> Iterator[Output]:
    disk = work / name
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={capacity}", "robustshards-chaos", str(disk)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError as error:
        raise UnavailableError(f"cannot mount a small disk: {error}") from error
    if done.returncode:
        raise UnavailableError(f"cannot mount a small disk: {done.stderr.strip()}")
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
"""Context managers by kind: (work folder, name, object store, capacity in bytes) -> Output. Raise UnavailableError."""
