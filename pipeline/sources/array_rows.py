"""Sources that hold pixels: CIFAR's pickles and downsampled ImageNet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from pipeline.errors import UserError
from pipeline.sources.base import Pixels, SourceImage, check_size, identifier, named_class
from pipeline.storage import Place

CHANNELS = 3


@dataclass(frozen=True)
class ArrayTable:
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
        self._table: ArrayTable | None = None

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

    def load(self) -> ArrayTable:
        """The content of the file. Raises UserError."""
        raise NotImplementedError

    def _loaded(self) -> ArrayTable:
        if self._table is None:
            table = self.load()
            side = isqrt(table.rows.shape[1] // CHANNELS)
            if side < 1 or side * side * CHANNELS != table.rows.shape[1]:
                raise UserError(f"{self.location} has rows of {table.rows.shape[1]} bytes: no square RGB images")
            self._table = table
        return self._table
