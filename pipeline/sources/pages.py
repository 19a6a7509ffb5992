"""Pages of Parquet files, looked at before they are read: what each announces to unfold to.

A footer may say anything of a column, and a reader makes room for what the header of a page says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pipeline.storage import Store

LARGEST_PAGE = 2**29
"""Bytes that a page may unfold to: 512 MiB. Writers put 1,024 values of a column into one before they look."""

MAX_PAGES = 200_000
"""Pages of one column in one row group."""

MAX_DEPTH = 8
"""Of structures in a page's header; there are three."""

_FIRST_READ, _LAST_READ = 2**14, 2**20
"""Bytes in which the header of a page is looked for; values at the rim of a page may be in it."""

_WIDTHS = {1: 0, 2: 0, 3: 1, 7: 8}
_VARIABLE, _TEXT, _STRUCT = frozenset({4, 5, 6}), 8, 12
"""Types of Thrift's compact protocol: fixed widths in bytes, numbers of any length, text, structures.

The headers of pages have no others."""


class UnsafePageError(ValueError):
    """A page that is not read. The message stands by itself."""


class _Page(NamedTuple):
    header: int
    unfolded: int
    stored: int


def largest_page(store: Store, name: str, chunk: Any) -> int:
    """Return the bytes that the largest page of a column chunk unfolds to. Raises UnsafePageError, and OSError."""
    return max((page.unfolded for page in _pages(store, name, chunk)), default=0)


def _pages(store: Store, name: str, chunk: Any) -> Iterator[_Page]:
    start: int = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        start = min(start, chunk.dictionary_page_offset)
    end, count = start + chunk.total_compressed_size, 0
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
    sizes = {}
    place = field = 0
    while data[place]:
        kind, delta = data[place] & 15, data[place] >> 4
        place += 1
        if not delta:
            number, place = _varint(data, place)
            field = _signed(number)
        field += delta
        if field in (2, 3) and kind in _VARIABLE:
            number, place = _varint(data, place)
            sizes[field] = _signed(number)
        else:
            place = _after(data, place, kind, 0)
    if sizes.keys() != {2, 3}:
        raise UnsafePageError("the header of a page says no sizes: the file is damaged")
    return _Page(place + 1, sizes[2], sizes[3])


def _after(data: bytes, place: int, kind: int, depth: int) -> int:
    """Where a value of this kind ends."""
    if depth > MAX_DEPTH:
        raise UnsafePageError("the header of a page is nested deeply")
    if kind in _WIDTHS:
        return place + _WIDTHS[kind]
    if kind in _VARIABLE:
        return _varint(data, place)[1]
    if kind == _TEXT:
        length, place = _varint(data, place)
        return place + length
    if kind == _STRUCT:
        while data[place]:
            inner, delta = data[place] & 15, data[place] >> 4
            place += 1
            if not delta:
                place = _varint(data, place)[1]
            place = _after(data, place, inner, depth + 1)
        return place + 1
    raise UnsafePageError("the header of a page cannot be read: the file is damaged")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits to the byte, and where it ends."""
    number = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise UnsafePageError("the header of a page has a number without end: the file is damaged")


def _signed(number: int) -> int:
    """A number whose last bit is its sign."""
    return (number >> 1) ^ -(number & 1)
