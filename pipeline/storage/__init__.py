"""Where data sets are written, and sources and data sets read from: folders, and URLs that fsspec knows."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice, tee

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
    "open_regular",
    "open_store",
    "read_ahead",
    "read_groups_ahead",
]

PATTERN = re.compile(r"[*?\[]")
"""What makes the last part of a location a pattern."""

READERS = 16
"""Small files that are read at one time: each waits for a network or a disk."""


def open_store(location: str) -> Store:
    """Return the store at a path or URL. Raises UserError."""
    return UrlStore(location) if is_url(location) else LocalStore(location)


def find_place(location: str) -> Place | None:
    """Return the folder or file at a path or URL, or the files that a pattern in its last part matches; None if none.

    It is for reading: links are followed wherever they lead. Raises UserError.
    """
    if not is_url(location):
        path = local_path(location)
        try:
            if path.is_dir():
                return Place(LocalStore(location, links_out=True), "")
            beside = LocalStore(str(path.parent), links_out=True)
            if path.exists():
                return Place(beside, path.name)
            return _matching(beside, path.name) if path.parent.is_dir() else None
        except OSError as error:  # a name that is too long, for example
            raise UserError(f"{location} cannot be used: {error.strerror}") from error
    store = UrlStore(location)
    if store.is_folder():
        return Place(store, "")
    above, name = store.above(), store.root.rpartition("/")[2]
    return Place(above, name) if above.size(name) >= 0 else _matching(above, name)


def _matching(store: Store, pattern: str) -> Place | None:
    """Return the files in a folder whose names match a pattern; None where none does."""
    place = Place(store, pattern, is_pattern=True)
    return place if PATTERN.search(pattern) and place.files("") else None


def read_ahead(store: Store, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Small files, each as its name and its content, in order; some are read in advance."""
    waiting: deque[tuple[str, Future[bytes]]] = deque()
    with ThreadPoolExecutor(READERS) as pool:
        for name in names:
            waiting.append((name, pool.submit(store.read, name)))
            if len(waiting) >= 2 * READERS:
                first, content = waiting.popleft()
                yield first, content.result()
        for last, content in waiting:
            yield last, content.result()


def read_groups_ahead(store: Store, groups: Iterable[Sequence[str]]) -> Iterator[Iterator[tuple[str, bytes]]]:
    """Small files as ``read_ahead`` gives them, by groups, each to be taken before the next: groups may be of one."""
    names, lengths = tee(groups)
    contents = read_ahead(store, chain.from_iterable(names))
    for group in lengths:
        yield islice(contents, len(group))
