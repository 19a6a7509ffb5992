"""Pages of Parquet files, looked at before they are read: what each announces to unfold to.

A footer may say anything of a column, and a reader makes room for what the header of a page says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from manifests.footer import ParquetColumn
from manifests.thrift import read_struct
from pipeline.storage import Store

LARGEST_PAGE = 2**29
"""Bytes that a page may unfold to: 512 MiB. Writers put 1,024 values of a column into one before they look."""

MAX_PAGES = 200_000
"""Pages of one column in one row group."""

_FIRST_READ, _LAST_READ = 2**14, 2**20
"""Bytes in which the header of a page is looked for; values at the rim of a page may be in it."""

_UNFOLDED, _STORED = 2, 3
"""Fields of a page's header: bytes once unfolded, and as they are stored."""


class UnsafePageError(ValueError):
    """A page that is not read. The message stands by itself."""


class _Page(NamedTuple):
    header: int
    unfolded: int
    stored: int


def largest_page(store: Store, name: str, column: ParquetColumn) -> int:
    """Return the bytes that the largest page of a column chunk unfolds to. Raises UnsafePageError, and OSError."""
    return max((page.unfolded for page in _pages(store, name, column)), default=0)


def _pages(store: Store, name: str, column: ParquetColumn) -> Iterator[_Page]:
    start, end, count = column.start, column.start + column.compressed, 0
    if not 0 <= start <= end <= store.size(name):
        raise UnsafePageError(f"a column reaches from {start} to {end}, beyond the file")
    while start < end:
        page = _page(store, name, start)
        count += 1
        if page.unfolded > LARGEST_PAGE:
            raise UnsafePageError(
                f"a page of {page.stored} bytes unfolds to {page.unfolded}; {LARGEST_PAGE} are allowed: write smaller "
                "row groups"
            )
        if page.unfolded < 0 or page.stored < 0 or count > MAX_PAGES:
            raise UnsafePageError(f"it has a page without a size, or more than {MAX_PAGES} pages in a row group")
        start += page.header + page.stored
        yield page


def _page(store: Store, name: str, start: int) -> _Page:
    for size in (_FIRST_READ, _LAST_READ):
        data = store.read(name, start, size)
        try:
            return _parsed(data)
        except IndexError:
            if len(data) < size:
                break
    raise UnsafePageError(f"the header of the page at {start} is cut short, or longer than {_LAST_READ} bytes")


def _parsed(data: bytes) -> _Page:
    """The sizes in the header that data begin with. Raises IndexError where it goes on beyond them."""
    try:
        fields, end = read_struct(data)
    except ValueError as error:
        raise UnsafePageError(f"the header of a page cannot be read: {error}") from error
    unfolded, stored = fields.get(_UNFOLDED), fields.get(_STORED)
    if not isinstance(unfolded, int) or not isinstance(stored, int):
        raise UnsafePageError("the header of a page says no sizes: the file is damaged")
    return _Page(end, unfolded, stored)
