"""A cache of prepared photographs on disk, shared by processes, so that each photograph is decoded only once."""

import hashlib
import mmap
import os
import shutil
import weakref
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corruptions.cache import user_cache
from pipeline.errors import UserError
from pipeline.images.fingerprints import decoder_fingerprint, resizer_fingerprint
from pipeline.recipes.schema import Recipe
from pipeline.storage import is_url, local_path

OFF = "off"
"""Value of ``--cache`` that caches nothing."""

LIMIT_BYTES = 2**34
"""Maximum size of a cache: 16 GiB, which holds 100,000 photographs of 224 x 224."""

PIXELS_FILE, DIGESTS_FILE = "photographs.u8", "sha256.u8"
"""Files of a cache: the pixels of one photograph after another, and their digests, zero where none is stored."""

_PAGE = 4096
"""Entries start at multiples of this number of bytes, so that each has memory pages of its own."""

_MAPPED = 256
"""Number of photographs after which the memory of those that were used is handed back; the system still caches them."""

_DIGEST = 32
"""Length of a SHA-256 in bytes."""


@dataclass(frozen=True)
class CachePlan:
    """What a cache will hold for a data set.

    Attributes:
        folder: Folder of the entries. None if nothing is cached.
        images: Number of photographs that it will hold: the first ones of the listing.
        shape: Height, width and channels of a prepared photograph.
        reason: Why nothing, or not all, is cached. Empty if all is.
    """

    folder: Path | None
    images: int = 0
    shape: tuple[int, int, int] = (0, 0, 3)
    reason: str = ""

    def __str__(self) -> str:
        """Return what is cached, where and how large it is."""
        if not self.images:
            return f"no cache of prepared photographs ({self.reason})"
        more = f"; {self.reason}" if self.reason else ""
        size = f"{self.bytes / 1e6:.1f} MB" if self.bytes < 1e8 else f"{self.bytes / 1e9:.1f} GB"
        content = f"{self.images:,} prepared photographs, up to {size}"
        return f"cache: {content}, in {self.folder} (--cache FOLDER or --cache {OFF}){more}"

    @property
    def entry_bytes(self) -> int:
        """The size of an entry in bytes."""
        return -(-prod(self.shape) // _PAGE) * _PAGE

    @property
    def bytes(self) -> int:
        """The size of the entries in bytes."""
        return self.images * self.entry_bytes


class PreparedCache:
    """Prepared photographs of one listing and one preparation, uint8 RGB (H, W, 3), in one memory-mapped file.

    A photograph is used after its digest was compared once, so that an entry that a crash left unfinished, or that
    belongs to another photograph or preparation, is made again. Processes that write the same entry at the same time
    write the same bytes.
    """

    def __init__(self, plan: CachePlan) -> None:
        self._plan = plan
        self._checked = np.zeros(plan.images, bool)
        self._used = 0

    def has(self, index: int) -> bool:
        """Return whether a photograph is stored for an index, which may be another one."""
        return index < self._plan.images and not self.problem and any(self._digests[index].tobytes())

    def get(self, index: int, sha256: str) -> NDArray[np.uint8] | None:
        """Return the photograph of an index and digest in the listing, not to be modified; None if it is not there."""
        if index >= self._plan.images or self.problem:
            return None
        pixels = self._pixels[index, : prod(self._plan.shape)].reshape(self._plan.shape)
        if not self._checked[index]:
            digest = self._digests[index].tobytes()
            if not any(digest) or self._digest(pixels.data, sha256) != digest:
                return None
            self._checked[index] = True
        self._used += 1
        if self._used % _MAPPED == 0:
            self._mapping.madvise(mmap.MADV_DONTNEED)
        return pixels

    def store(self, index: int, sha256: str, pixels: NDArray[np.uint8]) -> None:
        """Store a photograph, given its index in the listing and its digest. Does nothing where it has no room."""
        if index >= self._plan.images or pixels.shape != self._plan.shape or self.problem:
            return
        data = np.ascontiguousarray(pixels).data
        try:
            os.pwrite(self._files[0], data, index * self._plan.entry_bytes)
            os.pwrite(self._files[1], self._digest(data, sha256), index * _DIGEST)
        except OSError:  # a full disk makes the evaluation slower, not wrong
            return

    def _digest(self, pixels: memoryview, sha256: str) -> bytes:
        """Return the digest of an entry: of its preparation, its source image and its pixels."""
        state = hashlib.sha256(f"{self._plan.folder and self._plan.folder.name} {sha256}\n".encode())
        state.update(pixels)
        return state.digest()

    @cached_property
    def problem(self) -> str:
        """Why the files cannot be created or mapped: then nothing is cached. Empty if they can be used."""
        try:
            _ = self._plan.images and (self._pixels, self._digests)
        except OSError as error:  # a full disk, a quota or a limit makes the evaluation slower, not wrong
            return f"cannot write {self._plan.folder}: {error.strerror or error}"
        return ""

    @cached_property
    def _files(self) -> tuple[int, int]:
        """Descriptors of the two files, which are created where they are missing."""
        folder = self._plan.folder or Path()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        pixels = self._open(folder / PIXELS_FILE, self._plan.bytes)
        return pixels, self._open(folder / DIGESTS_FILE, self._plan.images * _DIGEST)

    def _open(self, path: Path, size: int) -> int:
        """Return a descriptor of a file of at least a size, which is closed together with this object."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        weakref.finalize(self, os.close, descriptor)
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)  # a sparse file: room is taken when an entry is written
        return descriptor

    @cached_property
    def _mapping(self) -> mmap.mmap:
        """The file with the pixels. It counts as writable, for which the kernels are compiled."""
        return mmap.mmap(self._files[0], self._plan.bytes, access=mmap.ACCESS_COPY)

    @cached_property
    def _pixels(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._mapping, np.uint8).reshape(self._plan.images, self._plan.entry_bytes)

    @cached_property
    def _digests(self) -> NDArray[np.uint8]:
        mapped = mmap.mmap(self._files[1], self._plan.images * _DIGEST, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, np.uint8).reshape(self._plan.images, _DIGEST)


def plan_cache(
    location: str | None, recipe: Recipe, listing: str, images: int, size: tuple[int, int] | None
) -> CachePlan:
    """Choose what to cache for a data set.

    Args:
        location: Folder of the cache, ``"off"``, or None for the user's cache folder.
        recipe: The recipe, whose preparation decides the entries.
        listing: Digest of the listing, which decides them too.
        images: Number of photographs.
        size: Height and width of a prepared photograph; None if the family does not prepare plain images.

    Raises:
        UserError: The folder cannot be used.
    """
    if location == OFF:
        return CachePlan(None, reason="off")
    if size is None:
        return CachePlan(None, reason=f"the family {recipe.family.name} does not start from prepared photographs")
    root = _root(location)
    folder = root / _settings_digest(recipe, listing)
    room = min(LIMIT_BYTES, shutil.disk_usage(root).free // 2 + _size(folder))
    wanted = CachePlan(folder, images, (*size, 3))
    if wanted.bytes <= room:
        return wanted
    cached = room // wanted.entry_bytes
    return replace(wanted, images=cached, reason=f"{room / 1e9:.1f} GB of space allow {cached:,} photographs")


def make_room(plan: CachePlan) -> None:
    """Create the folder of a cache. Remove caches of other preparations, the oldest first, if they exceed the limit.

    Raises:
        UserError: The folder cannot be created.
    """
    if plan.folder is None:
        return
    try:
        plan.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(plan.folder)
    except OSError as error:
        raise UserError(
            f"cannot write the cache {plan.folder}: {error.strerror}; use --cache FOLDER or --cache {OFF}"
        ) from error
    others = [each for each in plan.folder.parent.iterdir() if each != plan.folder and each.is_dir()]
    sizes = {each: _size(each) for each in sorted(others, key=lambda each: each.stat().st_mtime, reverse=True)}
    total = plan.bytes
    for other, size in sizes.items():
        total += size
        if total > LIMIT_BYTES:
            shutil.rmtree(other, ignore_errors=True)


def _root(location: str | None) -> Path:
    """Return the folder of this user's caches, which other users cannot write to. Raise UserError if it is invalid."""
    if location is not None and is_url(location):
        raise UserError(f"invalid --cache {location}: use a folder of this machine, which is mapped, or --cache {OFF}")
    root = user_cache() / "prepared" if location is None else local_path(location) / f"robustshards-{os.getuid()}"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.lstat()
    except OSError as error:
        raise UserError(
            f"cannot use the cache folder {location}: {error.strerror}; give a folder that you can write to, or "
            f"--cache {OFF}"
        ) from error
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or root.is_symlink():
        raise UserError(f"the cache folder {root} can be written by other users: give another one, or --cache {OFF}")
    return root


def _settings_digest(recipe: Recipe, listing: str) -> str:
    """Return the digest of everything that decides the pixels of a prepared photograph."""
    table, prepare = recipe.prepare, recipe.family.prepare
    function = (prepare.__module__, prepare.__qualname__)
    used = (decoder_fingerprint(table.decoder), resizer_fingerprint(table.resize))
    return hashlib.sha256(repr((function, table.steps, used, listing)).encode()).hexdigest()[:16]


def _size(folder: Path) -> int:
    """Return the disk space of a cache in bytes."""
    with suppress(OSError), os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_blocks * 512 for entry in entries)
    return 0
