"""Sources that hold pixels: CIFAR's pickles and downsampled ImageNet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np

from pipeline.errors import UserError
from pipeline.sources import npz, pickles
from pipeline.sources.base import Pixels, SourceImage, check_size, identifier, named_class
from pipeline.storage import Place

CHANNELS = 3

DOWNSAMPLED_FILES = ("val_data", "val_data.npz")


@dataclass(frozen=True)
class Table:
    """Images as rows of bytes, channel after channel, and what is known of each."""

    rows: np.ndarray
    labels: Sequence[int]
    class_names: Sequence[str]


class ArraySource:
    """Rows of one file, in its order; ids are ``<stem>_<row>``. The file is read when it is first needed, and kept."""

    def __init__(self, file: Place) -> None:
        """Raises UserError where there is no such file."""
        if file.store.size(file.name) < 0:
            raise UserError(f"the file {file.location} does not exist")
        self.location = file.location
        self.ignored: Counter[str] = Counter()
        self._file = file
        self._table: Table | None = None

    def __iter__(self) -> Iterator[SourceImage]:
        """All rows. Raises UserError where the file is not what it should be."""
        table = self._loaded()
        stem = identifier(self._file.name.rpartition("/")[2].split(".")[0])
        for index, label in enumerate(table.labels):
            name = named_class(label, table.class_names, str(label), f"{self.location}, image {index},")
            yield SourceImage(f"{stem}_{index:06d}", label, name, f"{self._file.name}#{index}", table.rows.shape[1])

    def read(self, image: SourceImage) -> Pixels:
        """The pixels of one row. Raises OSError."""
        check_size(image)
        table, index = self._loaded(), int(image.origin.rpartition("#")[2])
        side = isqrt(table.rows.shape[1] // CHANNELS)
        return np.ascontiguousarray(table.rows[index].reshape(CHANNELS, side, side).transpose(1, 2, 0))

    def load(self) -> Table:
        """The content of the file. Raises UserError."""
        raise NotImplementedError

    def _loaded(self) -> Table:
        if self._table is None:
            table = self.load()
            side = isqrt(table.rows.shape[1] // CHANNELS)
            if side < 1 or side * side * CHANNELS != table.rows.shape[1]:
                raise UserError(f"{self.location} has rows of {table.rows.shape[1]} bytes: no square RGB images")
            self._table = table
        return self._table


class Cifar(ArraySource):
    """A batch of CIFAR-10 or CIFAR-100 as distributed in Python's format, with the class names that lie beside it."""

    label_key = "labels"
    meta_file, names_key = "batches.meta", "label_names"
    folder_file = "test_batch"

    def __init__(self, place: Place) -> None:
        """``place``: the folder as distributed, of which the test images are taken, or one of its files."""
        super().__init__(Place(place.store, self.folder_file) if place.is_folder else place)

    def load(self) -> Table:
        """The batch. Raises UserError."""
        where = self.location
        content = pickles.load_file(self._file)
        rows = pickles.pixels(content, "data", where)
        return Table(rows, pickles.labels(content, self.label_key, len(rows), where), self._class_names())

    def _class_names(self) -> list[str]:
        meta = Place(self._file.store, self.meta_file)
        if meta.store.size(meta.name) < 0:
            return []
        return pickles.names(pickles.load_file(meta), self.names_key, meta.location)


class Cifar100(Cifar):
    """CIFAR-100 with its 100 fine labels."""

    label_key = "fine_labels"
    meta_file, names_key = "meta", "fine_label_names"
    folder_file = "test"


class Cifar100Coarse(Cifar100):
    """CIFAR-100 with its 20 coarse labels."""

    label_key, names_key = "coarse_labels", "coarse_label_names"


class DownsampledImageNet(ArraySource):
    """Downsampled ImageNet (64 x 64, 32 x 32 ...): ``val_data`` as a pickle, or ``val_data.npz``; labels from 1."""

    def __init__(self, place: Place) -> None:
        """``place``: the folder of the file, or the file."""
        if place.is_folder:
            found = [name for name in DOWNSAMPLED_FILES if place.has(name)]
            if not found:
                raise UserError(f"{place.location} holds none of {', '.join(DOWNSAMPLED_FILES)}")
            place = Place(place.store, found[0])
        super().__init__(place)

    def load(self) -> Table:
        """The images. A pickle is read whole (600 MB for 50,000 images of 64 x 64). Raises UserError."""
        where = self.location
        if self._file.name.endswith(".npz"):
            content: Mapping[str, Any] = npz.load(self._file, ("data", "labels"))
        else:
            content = pickles.load_file(self._file)
        rows = pickles.pixels(content, "data", where)
        numbers = pickles.labels(content, "labels", len(rows), where)
        if (wrong := next((index for index, label in enumerate(numbers) if label < 1), None)) is not None:
            raise UserError(f"{where}, image {wrong}, has the label {numbers[wrong]}: its labels count from 1")
        return Table(rows, [label - 1 for label in numbers], [])
