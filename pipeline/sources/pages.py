"""Sizes of Parquet pages, checked before Arrow reads them.

Arrow allocates the size that a page header declares. The sizes in the footer can be forged, so every page is checked.
The headers are parsed in the process, since each worker reads millions of rows from such files.
"""

from __future__ import annotations

from manifests.footer import ParquetColumn
from manifests.thrift import read_struct
from pipeline.storage import Store

LARGEST_PAGE = 2**29
"""Maximum size in bytes of a decompressed page: 512 MiB. Writers check the size of a page only every 1,024 values."""

MAX_PAGES = 200_000
"""Maximum number of pages of a column in a row group."""

_FIRST_READ, _LAST_READ = 2**14, 2**20
"""Number of bytes read to parse a page header, and in a second attempt: headers contain minimum and maximum values."""

_UNCOMPRESSED, _COMPRESSED = 2, 3
"""Thrift field numbers of the page sizes in bytes."""


class UnsafePageError(ValueError):
    """A column or page is damaged or too large to read. The message is complete for users."""


def largest_page(store: Store, name: str, column: ParquetColumn) -> int:
    """Return the decompressed size in bytes of the largest page of a column.

    Args:
        store: Store of the file.
        name: Path of the file in the store.
        column: Column of one row group, from the footer.

    Raises:
        UnsafePageError: A page is damaged or too large.
        OSError: The file cannot be read.
    """
    start, end, count, largest = column.start, column.start + column.compressed, 0, 0
    if not 0 <= start <= end <= store.size(name):
        raise UnsafePageError(f"a column extends from byte {start} to {end}, beyond the end of the file")
    while start < end:
        header, uncompressed, compressed = _page(store, name, start)
        count += 1
        if uncompressed > LARGEST_PAGE:
            raise UnsafePageError(
                f"a page of {compressed} bytes decompresses to {uncompressed} bytes; the maximum is {LARGEST_PAGE}: "
                "write smaller row groups"
            )
        if uncompressed < 0 or compressed < 0 or count > MAX_PAGES:
            raise UnsafePageError(f"it has a page of negative size, or more than {MAX_PAGES} pages in a row group")
        start += header + compressed
        largest = max(largest, uncompressed)
    return largest


def _page(store: Store, name: str, start: int) -> tuple[int, int, int]:
    """Return the sizes in bytes of the header at a position, of its page after decompression, and in the file."""
    for size in (_FIRST_READ, _LAST_READ):
        data = store.read(name, start, size)
        try:
            fields, end = read_struct(data)
        except IndexError:
            if len(data) < size:
                break
            continue
        except ValueError as error:
            raise UnsafePageError(f"a page header is invalid: {error}") from error
        uncompressed, compressed = fields.get(_UNCOMPRESSED), fields.get(_COMPRESSED)
        if not isinstance(uncompressed, int) or not isinstance(compressed, int):
            raise UnsafePageError("a page header has no sizes")
        return end, uncompressed, compressed
    raise UnsafePageError(f"the page header at byte {start} is truncated, or longer than {_LAST_READ} bytes")
