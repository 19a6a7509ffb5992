"""Hugging Face parquet: image bytes and labels, read a few rows at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from manifests.footer import RowGroup, read_footer, row_groups
from pipeline.errors import UserError
from pipeline.sources.base import (
    UNLABELLED,
    SourceImage,
    check_label,
    check_size,
    identifier,
    named_class,
    refuse_duplicates,
    refuse_mixed,
    source_files,
)
from pipeline.sources.pages import UnsafePageError, largest_page
from pipeline.storage import Place, Store

IMAGE_COLUMNS = ("image", "img", "jpg")
LABEL_COLUMNS = ("label", "fine_label", "labels", "cls")

BATCH_ROWS, BATCH_BYTES = 64, 2**27
"""Rows that are unfolded together, and bytes that they may have: a value may be as large as a page, and a dictionary
repeats one in every row."""

BYTES_PER_ROW, UNSUSPECTED_ROWS = 16, 10_000
"""A file of more rows than these has at least so many bytes for each."""

LARGEST_RATIO, UNSUSPECTED_BYTES = 100, 2**28
"""How many times smaller a packed column may be, and up to how many bytes nobody asks: images are packed already."""

LARGEST_FOOTER = 2**24
"""Bytes of a footer, which is read whole: features with thousands of class names have some 100,000."""

_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)

_DAMAGED = (OSError, pa.ArrowException, ValueError, KeyError, IndexError, MemoryError, RecursionError, OverflowError)


@dataclass(frozen=True)
class _Columns:
    """What is read of a file: the column of images, or of structures with their bytes, that of labels, their names."""

    image: str
    packed: bool
    label: str | None
    class_names: Sequence[str]

    @property
    def bytes_column(self) -> str:
        """The column of bytes, as Parquet calls it."""
        return f"{self.image}.bytes" if self.packed else self.image


class HuggingFaceParquet:
    """The rows of a parquet file, or of all of a folder by name; ids are ``<file>_<row>``.

    The image column is a struct with ``bytes``, or binary; class names come from the features that ``datasets`` keeps
    in the file's metadata. Files of one source are of one split, and have the same columns and class names.
    """

    def __init__(self, place: Place) -> None:
        """Raises UserError where there is no parquet file, one without images, or files of several splits."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._store = place.store
        self._names = source_files(place, ".parquet", self.ignored)
        if not self._names:
            raise UserError(f"{self.location} holds no .parquet")
        refuse_mixed(place, self._names)
        refuse_duplicates(f"{self.location} has files", ((identifier(name), name) for name in self._names))
        with _opened(self._store, self._names[0]) as opened:
            self._columns = _columns(opened.file.schema_arrow, f"{self.location}: {self._names[0]}")
        self._held: _Rows | None = None

    def __iter__(self) -> Iterator[SourceImage]:
        """All rows. Raises UserError."""
        for name in self._names:
            stem = identifier(name)
            row = 0
            for group, (sizes, labels) in self._groups(name):
                for place, (size, label) in enumerate(zip(sizes, labels, strict=True), start=group[1]):
                    class_name = named_class(label, self._columns.class_names, "", f"{name}, row {row},")
                    yield SourceImage(f"{stem}_{row:06d}", label, class_name, f"{name}#{group[0]}#{place}", size)
                    row += 1

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one row; the row group read last stays open. Raises OSError."""
        check_size(image)
        name, group, place = image.origin.rsplit("#", 2)
        try:
            data = self._rows(name, int(group), int(place)).at(int(place))
        except (UserError, *_DAMAGED) as error:
            self._let_go()
            raise OSError(f"the row cannot be read: {type(error).__name__}: {str(error)[:200]}") from error
        if data is None:
            raise OSError("the row holds no image bytes")
        return data

    def _rows(self, name: str, group: int, place: int) -> _Rows:
        """The rows of a group, not yet beyond a place in it."""
        if self._held is None or not self._held.reaches(name, group, place):
            self._let_go()
            self._held = _Rows(self._store, name, group, self._columns)
        return self._held

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
        self._held = None

    def _groups(self, name: str) -> Iterator[tuple[tuple[int, int], tuple[list[int], list[int]]]]:
        """Of a few rows at a time their row group and place in it, and the lengths of their images and their labels."""
        with _opened(self._store, name) as opened:
            columns = _columns(opened.file.schema_arrow, f"{self.location}: {name}")
            if columns != self._columns:
                raise UserError(
                    f"{self.location} mixes files: {name} has other columns or class names than {self._names[0]}; name "
                    "one file, or a pattern such as 'data/test-*.parquet'"
                )
            wanted = [columns.bytes_column] + ([columns.label] if columns.label else [])
            for group in range(len(opened.groups)):
                start = 0
                for batch in _batches(self._store, name, opened, group, wanted):
                    images = _bytes(batch.column(0))
                    sizes = [-1 if size is None else size for size in pc.binary_length(images).to_pylist()]
                    labels = batch.column(1).to_pylist() if columns.label else [None] * len(sizes)
                    yield (group, start), (sizes, [_label(name, columns.label, each) for each in labels])
                    start += len(sizes)


class _Opened(NamedTuple):
    """A parquet file, and what its footer says of its row groups: Arrow's own answers may end the process."""

    file: Any
    groups: tuple[RowGroup, ...]


class _Rows:
    """The images of one row group in their order: workers read one after another."""

    def __init__(self, store: Store, name: str, group: int, columns: _Columns) -> None:
        self._where = (name, group)
        self._context = _opened(store, name)
        opened = self._context.__enter__()
        self._batches = _batches(store, name, opened, group, [columns.bytes_column])
        self._start = 0
        self._images: Any = []

    def reaches(self, name: str, group: int, place: int) -> bool:
        """Whether a row is of this group and not passed yet."""
        return self._where == (name, group) and place >= self._start

    def at(self, place: int) -> bytes | None:
        """The image of a row. Raises OSError beyond the last."""
        while place >= self._start + len(self._images):
            start = self._start + len(self._images)
            batch = next(self._batches, None)
            if batch is None:
                raise OSError("the file has fewer rows than before")
            self._start, self._images = start, _bytes(batch.column(0))
        data: bytes | None = self._images[place - self._start].as_py()
        return data

    def close(self) -> None:
        """Let go of the file."""
        self._images = []
        self._batches.close()
        self._context.__exit__(None, None, None)


@contextmanager
def _opened(store: Store, name: str) -> Iterator[_Opened]:
    """A parquet file whose footer has been looked at. Raises UserError for what is damaged, now or later."""
    try:
        with store.open(name) as opened:
            groups = tuple(row_groups(read_footer(cast(BinaryIO, opened), LARGEST_FOOTER)))
            size = opened.seek(0, 2)
            opened.seek(0)
            with pq.ParquetFile(opened, buffer_size=2**16, pre_buffer=False) as file:
                rows = file.metadata.num_rows
                if rows > max(UNSUSPECTED_ROWS, size // BYTES_PER_ROW):
                    raise UserError(
                        f"{name} in {store.root} is refused: it has {rows} rows in {size} bytes; a row takes at least "
                        f"{BYTES_PER_ROW}"
                    )
                if file.num_row_groups != len(groups):
                    raise UserError(f"{name} in {store.root} is no readable parquet file: its footer is damaged")
                yield _Opened(file, groups)
    except UnsafePageError as error:
        raise UserError(f"{name} in {store.root} is refused: {error}") from error
    except _DAMAGED as error:
        why = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise UserError(f"{name} in {store.root} is no readable parquet file: {why}") from error


def _batches(
    store: Store, name: str, opened: _Opened, group: int, columns: Sequence[str]
) -> Generator[Any, None, None]:
    """The rows of a row group, so many at a time that they take little memory. Raises UnsafePageError."""
    largest = 1
    for column in opened.groups[group].columns:
        if column.name in columns:
            if column.uncompressed > max(UNSUSPECTED_BYTES, LARGEST_RATIO * column.compressed):
                raise UnsafePageError(
                    f"its column {column.name} unfolds from {column.compressed} to {column.uncompressed} bytes"
                )
            largest = max(largest, largest_page(store, name, column))
    rows = min(BATCH_ROWS, max(1, BATCH_BYTES // largest))
    yield from opened.file.iter_batches(batch_size=rows, row_groups=[group], columns=list(columns), use_threads=False)


def _columns(schema: pa.Schema, where: str) -> _Columns:
    """The columns that are read. Raises UserError."""
    image = next((name for name in IMAGE_COLUMNS if name in schema.names), None)
    if image is None:
        raise UserError(
            f"{where} has no column of images: one of {', '.join(IMAGE_COLUMNS)}; it has "
            f"{', '.join(schema.names)[:300]}"
        )
    label = next((name for name in LABEL_COLUMNS if name in schema.names), None)
    for name in (image, label):
        if name and schema.names.count(name) > 1:
            raise UserError(f"{where} has the column {name} more than once")
    kind = schema.field(image).type
    packed = pa.types.is_struct(kind)
    if packed:
        kind = kind.field("bytes").type if kind.get_field_index("bytes") >= 0 else None
    if kind is None or not any(is_kind(kind) for is_kind in _BINARY):
        found = str(schema.field(image).type)[:200]
        raise UserError(f"{where}: the column {image} holds {found}, not bytes, or structures with a field 'bytes'")
    if label and not (pa.types.is_integer(schema.field(label).type) or pa.types.is_null(schema.field(label).type)):
        raise UserError(f"{where}: the column {label} holds {str(schema.field(label).type)[:200]}, not whole numbers")
    if label is None and (other := _labels_elsewhere(schema)):
        raise UserError(
            f"{where} has labels in the column {other[:80]!r}; they are read from one of {', '.join(LABEL_COLUMNS)}: "
            "rename it"
        )
    return _Columns(image, packed, label, _class_names(schema, label))


def _label(name: str, column: str | None, value: Any) -> int:
    return UNLABELLED if value is None else check_label(value, f"{name}, column {column},")


def _bytes(column: Any) -> Any:
    """A column of images as binary."""
    if pa.types.is_struct(column.type):
        column = pc.struct_field(column, "bytes")
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(column.type) else column


def _features(schema: pa.Schema) -> dict[str, Any]:
    """What ``datasets`` says of the columns; nothing where it has not written the file."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _labels_elsewhere(schema: pa.Schema) -> str | None:
    """A column that ``datasets`` calls one of labels."""
    about = _features(schema).items()
    return next((name for name, each in about if isinstance(each, dict) and each.get("_type") == "ClassLabel"), None)


def _class_names(schema: pa.Schema, label: str | None) -> tuple[str, ...]:
    try:
        names = _features(schema)[label or ""]["names"]
    except (KeyError, TypeError):
        return ()
    return tuple(map(str, names)) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()
