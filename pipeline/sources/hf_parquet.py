"""Hugging Face Parquet files with encoded images and labels, read in small batches."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from manifests.footer import ParquetColumn, RowGroup, read_footer, row_groups
from manifests.thrift import read_struct
from pipeline.errors import UserError
from pipeline.sources.base import (
    UNLABELLED,
    SourceImage,
    check_label,
    check_size,
    class_name_of,
    identifier,
    refuse_duplicates,
    refuse_mixed,
    source_files,
)
from pipeline.storage import Place, Store
from pipeline.tasks.labels import Numbering, space_of

IMAGE_COLUMNS = ("image", "img", "jpg")
"""Accepted names of the image column, in order of preference."""

LABEL_COLUMNS = ("label", "fine_label", "labels", "cls")
"""Accepted names of the label column, in order of preference."""

BATCH_ROWS, BATCH_BYTES = 64, 2**27
"""Maximum number of rows in a batch, and maximum size in bytes of a decompressed batch. Each value is assumed to be as
large as the largest page, because a dictionary can repeat one value in every row."""

MIN_BYTES_PER_ROW, UNCHECKED_ROWS = 16, 10_000
"""Minimum size of a row in bytes, checked for files with more than ``UNCHECKED_ROWS`` rows."""

MAX_COMPRESSION_RATIO, UNCHECKED_BYTES = 100, 2**28
"""Maximum compression ratio of a column, checked if it has more than ``UNCHECKED_BYTES`` decompressed bytes. Encoded
images hardly compress, so a high ratio means a decompression bomb."""

LARGEST_FOOTER = 2**24
"""Size limit in bytes for a footer. A footer with thousands of class names has about 100,000 bytes."""

LARGEST_PAGE = 2**29
"""Maximum size in bytes of a decompressed page: 512 MiB. Writers check the size of a page only every 1,024 values."""

MAX_PAGES = 200_000
"""Maximum number of pages of a column in a row group."""

_FIRST_READ, _LAST_READ = 2**14, 2**20
"""Number of bytes read to parse a page header, and in a second attempt: headers contain minimum and maximum values."""

_UNCOMPRESSED, _COMPRESSED = 2, 3
"""Thrift field numbers of the page sizes in bytes."""

_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)

_DAMAGED = (OSError, pa.ArrowException, ValueError, KeyError, IndexError, MemoryError, RecursionError, OverflowError)


class UnsafePageError(ValueError):
    """A column or page is damaged or too large to read. The message is complete for users."""


@dataclass(frozen=True)
class _Columns:
    """The columns that are read. If ``is_struct``, the image column holds structs with a field ``bytes``."""

    image: str
    is_struct: bool
    label: str | None
    class_names: Sequence[str]

    @property
    def bytes_column(self) -> str:
        """Parquet path of the column with the image bytes."""
        return f"{self.image}.bytes" if self.is_struct else self.image


class HuggingFaceParquet:
    """The rows of one Parquet file, or of all Parquet files of a folder by name. Ids are ``<file>_<row>``.

    The image column contains bytes, or structs with a field ``bytes``. Class names come from the features that
    ``datasets`` writes into the metadata. All files must be of one split, with the same columns and class names.
    """

    def __init__(self, place: Place) -> None:
        """Open the files. Raise UserError if there are none or of several splits, or the first one has no images."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._store = place.store
        self._names = source_files(place, ".parquet", self.ignored)
        if not self._names:
            raise UserError(f"{self.location} contains no .parquet files")
        refuse_mixed(place, self._names)
        refuse_duplicates(f"{self.location} has files", ((identifier(name), name) for name in self._names))
        with _opened(self._store, self._names[0]) as opened:
            self._columns = _columns(opened.file.schema_arrow, f"{self.location}: {self._names[0]}")
        names = self._columns.class_names
        self.labels = space_of(names, Numbering.LISTED) if names else None
        self._current: _Images | None = None

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield all rows. Raise UserError if a file is damaged or does not match the others."""
        for name in self._names:
            stem = identifier(name)
            row = 0
            for group, (sizes, labels) in self._groups(name):
                for index, (size, label) in enumerate(zip(sizes, labels, strict=True), start=group[1]):
                    class_name = class_name_of(label, self._columns.class_names, "", f"{name}, row {row},")
                    yield SourceImage(f"{stem}_{row:06d}", label, class_name, f"{name}#{group[0]}#{index}", size)
                    row += 1

    def read(self, image: SourceImage) -> bytes:
        """Return the image bytes of one row. Raise OSError if it cannot be read.

        The file stays open, so reading its rows in order is fast.
        """
        check_size(image)
        name, group, index = image.origin.rsplit("#", 2)
        try:
            if self._current is None or self._current.name != name:
                self._close()
                self._current = _Images(self._store, name, self._columns.bytes_column)
            data = self._current.at(int(group), int(index))
        except (UserError, *_DAMAGED) as error:
            self._close()
            raise OSError(f"cannot read the row: {type(error).__name__}: {str(error)[:200]}") from error
        if data is None:
            raise OSError("the row contains no image bytes")
        return data

    def _close(self) -> None:
        if self._current is not None:
            self._current.close()
        self._current = None

    def _groups(self, name: str) -> Iterator[tuple[tuple[int, int], tuple[list[int], list[int]]]]:
        """Yield (row group, index of the first row in it) and (image sizes in bytes, labels) of each batch of rows."""
        with _opened(self._store, name) as opened:
            columns = _columns(opened.file.schema_arrow, f"{self.location}: {name}")
            if columns != self._columns:
                raise UserError(
                    f"{self.location} mixes files: {name} has other columns or class names than {self._names[0]}; give "
                    "one file, or a pattern such as 'data/test-*.parquet'"
                )
            wanted = [columns.bytes_column] + ([columns.label] if columns.label else [])
            for group in range(len(opened.groups)):
                start = 0
                for batch in _batches(opened, group, wanted):
                    images = _bytes(batch.column(0))
                    sizes = [-1 if size is None else size for size in pc.binary_length(images).to_pylist()]
                    labels = batch.column(1).to_pylist() if columns.label else [None] * len(sizes)
                    yield (group, start), (sizes, [_label(name, columns.label, each) for each in labels])
                    start += len(sizes)


class _Opened(NamedTuple):
    """A Parquet file, its row groups, its content, and the size of that in bytes.

    The row groups are parsed without Arrow, which can crash the process on damaged footers.
    """

    file: Any
    groups: tuple[RowGroup, ...]
    content: BinaryIO
    size: int


class _Images:
    """A forward reader of the images of one file."""

    def __init__(self, store: Store, name: str, column: str) -> None:
        self.name = name
        self._column = column
        self._context = _opened(store, name)
        self._opened = self._context.__enter__()
        self._group, self._start = -1, 0
        self._images: Any = []
        self._batches: Iterator[Any] = iter(())

    def at(self, group: int, index: int) -> bytes | None:
        """Return the image of a row of a row group, or None if it is null. Raise OSError if the row does not exist."""
        if group != self._group or index < self._start:
            self._group, self._start, self._images = group, 0, []
            self._batches = _batches(self._opened, group, [self._column])
        while index >= self._start + len(self._images):
            start = self._start + len(self._images)
            batch = next(self._batches, None)
            if batch is None:
                raise OSError("the file has fewer rows than before")
            self._start, self._images = start, _bytes(batch.column(0))
        return self._images[index - self._start].as_py()

    def close(self) -> None:
        """Close the file."""
        self._images, self._batches = [], iter(())
        self._context.__exit__(None, None, None)


@contextmanager
def _opened(store: Store, name: str) -> Iterator[_Opened]:
    """Open a Parquet file after checking its footer. Raise UserError if it is damaged, also while it is read."""
    try:
        with store.open(name) as opened:
            content = cast(BinaryIO, opened)
            groups = tuple(row_groups(read_footer(content, LARGEST_FOOTER)))
            size = content.seek(0, 2)
            content.seek(0)
            with pq.ParquetFile(content, buffer_size=2**16, pre_buffer=False) as file:
                rows = file.metadata.num_rows
                if rows > max(UNCHECKED_ROWS, size // MIN_BYTES_PER_ROW):
                    raise UserError(
                        f"{name} in {store.root} is damaged or unsafe: it declares {rows} rows in {size} bytes, but a "
                        f"row needs at least {MIN_BYTES_PER_ROW} bytes"
                    )
                if file.num_row_groups != len(groups):
                    raise UserError(f"{name} in {store.root} is not a valid Parquet file: its footer is damaged")
                yield _Opened(file, groups, content, size)
    except UnsafePageError as error:
        raise UserError(f"{name} in {store.root} is damaged or unsafe: {error}") from error
    except _DAMAGED as error:
        why = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise UserError(f"{name} in {store.root} is not a valid Parquet file: {why}") from error


def _batches(opened: _Opened, group: int, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of a row group in batches of limited memory. Raise UnsafePageError if it is not safe to read."""
    largest = 1
    if not opened.groups[group].rows:  # its columns may have no page
        return
    for column in opened.groups[group].columns:
        if column.name in columns:
            if column.uncompressed > max(UNCHECKED_BYTES, MAX_COMPRESSION_RATIO * column.compressed):
                raise UnsafePageError(
                    f"its column {column.name} decompresses from {column.compressed} to {column.uncompressed} bytes; "
                    f"the maximum ratio is {MAX_COMPRESSION_RATIO}"
                )
            largest = max(largest, _largest_page(opened, column))
    rows = min(BATCH_ROWS, max(1, BATCH_BYTES // largest))
    yield from opened.file.iter_batches(batch_size=rows, row_groups=[group], columns=list(columns), use_threads=False)


def _largest_page(opened: _Opened, column: ParquetColumn) -> int:
    """Return the decompressed size in bytes of the largest page of a column of one row group.

    Arrow allocates the size that a page header declares. The sizes in the footer can be forged, so every page is
    checked. The headers are parsed in the process, since each worker reads millions of rows from such files.

    Raises:
        UnsafePageError: A page is damaged or too large.
        OSError: The file cannot be read.
    """
    start, end, count, largest = column.start, column.start + column.compressed, 0, 0
    if not 0 <= start <= end <= opened.size:
        raise UnsafePageError(f"a column extends from byte {start} to {end}, beyond the end of the file")
    while start < end:
        header, uncompressed, compressed = _page(opened.content, start)
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


def _page(content: BinaryIO, start: int) -> tuple[int, int, int]:
    """Return the sizes in bytes of the header at a position, of its page after decompression, and in the file."""
    for size in (_FIRST_READ, _LAST_READ):
        content.seek(start)
        data = content.read(size)
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


def _columns(schema: pa.Schema, where: str) -> _Columns:
    """Return the image and label columns of a file. Raise UserError if they are missing or invalid."""
    image = next((name for name in IMAGE_COLUMNS if name in schema.names), None)
    if image is None:
        raise UserError(
            f"{where} has no image column: expected one of {', '.join(IMAGE_COLUMNS)}, found "
            f"{', '.join(schema.names)[:300]}"
        )
    label = next((name for name in LABEL_COLUMNS if name in schema.names), None)
    for name in (image, label):
        if name and schema.names.count(name) > 1:
            raise UserError(f"{where} has the column {name} more than once: rename or remove the others")
    kind = schema.field(image).type
    is_struct = pa.types.is_struct(kind)
    if is_struct:
        kind = kind.field("bytes").type if kind.get_field_index("bytes") >= 0 else None
    if kind is None or not any(is_kind(kind) for is_kind in _BINARY):
        found = str(schema.field(image).type)[:200]
        raise UserError(
            f"{where}: the column {image} has type {found}; expected bytes or a struct with a field 'bytes'"
        )
    if label and not (pa.types.is_integer(schema.field(label).type) or pa.types.is_null(schema.field(label).type)):
        raise UserError(
            f"{where}: the column {label} has type {str(schema.field(label).type)[:200]}; expected integers"
        )
    if label is None and (other := _labels_elsewhere(schema)):
        raise UserError(
            f"{where} has labels in the unsupported column {other[:80]!r}: rename it to one of "
            f"{', '.join(LABEL_COLUMNS)}"
        )
    return _Columns(image, is_struct, label, _class_names(schema, label))


def _label(name: str, column: str | None, value: Any) -> int:
    return UNLABELLED if value is None else check_label(value, f"{name}, column {column},")


def _bytes(column: Any) -> Any:
    """Return the image column as binary values."""
    if pa.types.is_struct(column.type):
        column = pc.struct_field(column, "bytes")
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(column.type) else column


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Return the features that ``datasets`` wrote into the metadata, or an empty dictionary."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _labels_elsewhere(schema: pa.Schema) -> str | None:
    """Return the first column that ``datasets`` declares as class labels, or None."""
    features = _features(schema).items()
    return next((name for name, each in features if isinstance(each, dict) and each.get("_type") == "ClassLabel"), None)


def _class_names(schema: pa.Schema, label: str | None) -> tuple[str, ...]:
    try:
        names = _features(schema)[label or ""]["names"]
    except (KeyError, TypeError):
        return ()
    return tuple(map(str, names)) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()
