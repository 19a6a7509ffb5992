"""Sources that hold pixels: CIFAR's pickles and downsampled ImageNet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from pipeline.errors import UserError
from pipeline.sources import pickles
from pipeline.sources.base import Pixels, SourceImage
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
        stem = self._file.name.rpartition("/")[2].split(".")[0]
        for index, label in enumerate(table.labels):
            name = table.class_names[label] if 0 <= label < len(table.class_names) else str(label)
            yield SourceImage(f"{stem}_{index:06d}", label, name, f"{self._file.name}#{index}", table.rows.shape[1])

    def read(self, image: SourceImage) -> Pixels:
        """The pixels of one row. Raises OSError."""
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
            if side * side * CHANNELS != table.rows.shape[1]:
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
        content = pickles.load(self._file.store.read(self._file.name), where)
        rows = pickles.pixels(content, "data", where)
        return Table(rows, pickles.labels(content, self.label_key, len(rows), where), self._class_names())

    def _class_names(self) -> list[str]:
        meta = Place(self._file.store, self.meta_file)
        if meta.store.size(meta.name) < 0:
            return []
        names = pickles.load(meta.store.read(meta.name), meta.location).get(self.names_key, [])
        return [name.decode("latin1") if isinstance(name, bytes) else str(name) for name in names]


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
            try:
                with np.load(self._file.store.path(self._file.name), allow_pickle=False) as archive:
                    content = {key: archive[key] for key in ("data", "labels")}
            except (OSError, ValueError, KeyError) as error:
                raise UserError(f"{where} is refused: {error}") from error
        else:
            content = pickles.load(self._file.store.read(self._file.name), where)
        rows = pickles.pixels(content, "data", where)
        return Table(rows, [label - 1 for label in pickles.labels(content, "labels", len(rows), where)], [])
