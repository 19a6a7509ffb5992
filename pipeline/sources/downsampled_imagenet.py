"""Downsampled ImageNet (64x64 and smaller)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.errors import UserError
from pipeline.sources import npz, pickles
from pipeline.sources.array_rows import ArraySource, ArrayTable
from pipeline.storage import Place

DOWNSAMPLED_FILES = ("val_data", "val_data.npz")


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

    def load(self) -> ArrayTable:
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
        return ArrayTable(rows, [label - 1 for label in numbers], [])
