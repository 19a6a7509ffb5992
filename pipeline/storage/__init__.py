"""Stores, in which data sets are written and read: local folders, and URLs that fsspec supports."""

import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice, tee
from typing import TypeVar

from pipeline.errors import UserError
from pipeline.storage.base import LARGEST_READ, SMALL_FILE, FolderEntry, Place, Store
from pipeline.storage.local import LocalStore, open_regular
from pipeline.storage.locations import is_url, local_path
from pipeline.storage.urls import UrlStore

__all__ = [
    "LARGEST_READ",
    "SMALL_FILE",
    "FolderEntry",
    "LocalStore",
    "Place",
    "Store",
    "UrlStore",
    "find_place",
    "is_url",
    "local_path",
    "map_ahead",
    "open_regular",
    "open_store",
    "read_ahead",
    "read_groups_ahead",
    "read_small",
    "thread_pool",
]

PATTERN = re.compile(r"[*?\[]")
"""Characters that make the last component of a location a pattern."""

READERS = 16
"""Number of small files that are read concurrently, because each read waits for a network or a disk."""

LARGEST_AHEAD = 2**22
"""Maximum size in bytes of an image or sample that is read before it is needed: twice READERS of them are in memory."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def open_store(location: str) -> Store:
    """Return the store at a path or URL. Raise UserError if it is invalid."""
    return UrlStore(location) if is_url(location) else LocalStore(location)


def read_small(store: Store, name: str) -> bytes:
    """Return the content of a settings file, or of another small one. Raise UserError if it cannot be read."""
    try:
        return store.read(name, limit=SMALL_FILE)
    except OSError as error:
        raise UserError(f"cannot read {store.root}/{name}: {error.strerror or error}") from error


def find_place(location: str) -> Place | None:
    """Return the folder, file or files at a location, for reading only.

    Args:
        location: Path or URL. Its last component may be a pattern, for example ``data/*.tar``. Symbolic links may point
            outside of the folder.

    Returns:
        The place, or None if nothing exists there.

    Raises:
        UserError: The location is invalid or cannot be read.
    """
    if not is_url(location):
        path = local_path(location)
        parent = LocalStore(str(path.parent), allow_links_out=True)
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return _matching(parent, path.name) if path.parent.is_dir() else None
        except OSError as error:  # a name that is too long, for example
            raise UserError(f"cannot read {location}: {error.strerror}") from error
        return Place(LocalStore(location, allow_links_out=True), "") if is_folder else Place(parent, path.name)
    store = UrlStore(location)
    if store.is_folder():
        return Place(store, "")
    folder, name = store.above(), store.root.rpartition("/")[2]
    return Place(folder, name) if folder.size(name) >= 0 else _matching(folder, name)


def _matching(store: Store, pattern: str) -> Place | None:
    """Return the files of a folder whose names match a pattern, or None if none does."""
    place = Place(store, pattern, is_pattern=True)
    return place if PATTERN.search(pattern) and place.files("") else None


@contextmanager
def thread_pool(count: int) -> Iterator[ThreadPoolExecutor]:
    """Provide threads for the duration of a block. After an error, waiting calls are cancelled."""
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yield the result of a function for each item, in order. Threads compute a few later results in advance."""
    waiting: deque[Future[Result]] = deque()
    with thread_pool(threads) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()


def read_ahead(store: Store, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of small files in order; later files are read in advance by threads."""
    return map_ahead(lambda name: (name, store.read(name)), names, READERS)


def read_groups_ahead(store: Store, groups: Iterable[Sequence[str]]) -> Iterator[Iterator[tuple[str, bytes]]]:
    """Yield an iterator of (name, content) per group of small files; later files are read in advance by threads.

    Consume each iterator before the next one.
    """
    names, lengths = tee(groups)
    contents = read_ahead(store, chain.from_iterable(names))
    for group in lengths:
        yield islice(contents, len(group))
