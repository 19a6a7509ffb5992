"""Hugging Face parquet: image bytes and labels, read row group by row group."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED, SourceImage
from pipeline.storage import Place, Store

IMAGE_COLUMNS = ("image", "img", "jpg")
LABEL_COLUMNS = ("label", "fine_label", "labels")


class HuggingFaceParquet:
    """The rows of a parquet file, or of all of a folder by name; ids are ``<file>_<row>``.

    The image column is a struct with ``bytes``, or binary; class names come from the features that ``datasets`` keeps
    in the file's metadata.
    """

    def __init__(self, place: Place) -> None:
        """Raises UserError where there is no parquet file, or one without images."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._store = place.store
        self._names = place.files(".parquet")
        if not self._names:
            raise UserError(f"{self.location} holds no .parquet")
        schema = _schema(self._store, self._names[0])
        self._image = _column(schema, IMAGE_COLUMNS, self._names[0])
        self._label = next((name for name in LABEL_COLUMNS if name in schema.names), None)
        self._class_names = _class_names(schema, self._label)
        self._held: tuple[tuple[str, int], list[Any]] | None = None

    def __iter__(self) -> Iterator[SourceImage]:
        """All rows. Raises UserError."""
        for name in self._names:
            stem = name.removesuffix(".parquet").replace(".", "_")
            row = 0
            for group, (sizes, labels) in enumerate(self._groups(name)):
                for place, (size, label) in enumerate(zip(sizes, labels, strict=True)):
                    class_name = self._class_names[label] if 0 <= label < len(self._class_names) else ""
                    yield SourceImage(f"{stem}_{row:06d}", label, class_name, f"{name}#{group}#{place}", size)
                    row += 1

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one row; the row group read last is kept. Raises OSError."""
        name, group, place = image.origin.rsplit("#", 2)
        key = (name, int(group))
        if self._held is None or self._held[0] != key:
            with self._store.open(name) as opened, pq.ParquetFile(opened) as file:
                self._held = key, _bytes(file.read_row_group(key[1], columns=[self._image])[0]).to_pylist()
        data = self._held[1][int(place)]
        if data is None:
            raise OSError("the row holds no image bytes")
        return bytes(data)

    def _groups(self, name: str) -> Iterator[tuple[list[int], list[int]]]:
        """Of each row group the lengths of its images and its labels."""
        try:
            with self._store.open(name) as opened, pq.ParquetFile(opened) as file:
                columns = [self._image] + ([self._label] if self._label else [])
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group, columns=columns)
                    images = _bytes(table.column(self._image))
                    sizes = [-1 if size is None else size for size in pc.binary_length(images).to_pylist()]
                    labels = table.column(self._label).to_pylist() if self._label else [UNLABELLED] * len(sizes)
                    yield sizes, [UNLABELLED if label is None else int(label) for label in labels]
        except (OSError, pa.ArrowException, ValueError) as error:
            raise UserError(f"{name} in {self.location} cannot be read: {error}") from error


def _schema(store: Store, name: str) -> pa.Schema:
    try:
        with store.open(name) as file:
            return pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{name} in {store.root} is no readable parquet file: {error}") from error


def _column(schema: pa.Schema, names: tuple[str, ...], file: str) -> str:
    for name in names:
        if name in schema.names:
            return name
    raise UserError(f"{file} has no column of images: one of {', '.join(names)}; it has {', '.join(schema.names)}")


def _bytes(column: Any) -> Any:
    """A column of images as binary."""
    if pa.types.is_struct(column.type):
        return pc.struct_field(column, "bytes")
    return column


def _class_names(schema: pa.Schema, label: str | None) -> list[str]:
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        return [str(name) for name in features[label]["names"]]
    except (KeyError, TypeError, ValueError):
        return []
