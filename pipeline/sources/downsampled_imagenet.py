"""Downsampled ImageNet (64 x 64 pixels and smaller)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.errors import UserError
from pipeline.sources import npz, pickles, values
from pipeline.sources.array_rows import ArraySource, ArrayTable
from pipeline.storage import Place

DOWNSAMPLED_FILES = ("val_data", "val_data.npz")
"""File names of the validation images: a pickle, or an archive of arrays."""


CLASSES = 1000
"""Number of classes."""


class DownsampledImageNet(ArraySource):
    """The validation images of downsampled ImageNet. Labels in the file start at 1; labels of this source at 0.

    The published files number the classes as in ``map_clsloc.txt`` of the development kit, not by sorted WordNet id:
    models that were trained on these files have this order, but other models of ImageNet do not.
    """

    def __init__(self, place: Place) -> None:
        """Open the validation images.

        Args:
            place: The file, or the folder that contains it.

        Raises:
            UserError: The file does not exist.
        """
        if place.is_folder:
            found = [name for name in DOWNSAMPLED_FILES if place.has(name)]
            if not found:
                raise UserError(f"{place.location} contains none of the files {', '.join(DOWNSAMPLED_FILES)}")
            place = Place(place.store, found[0])
        super().__init__(place)

    def load(self) -> ArrayTable:
        """Return the content of the file, which is loaded into memory. Raise UserError if it is invalid."""
        where = self.location
        if self._file.name.endswith(".npz"):
            content: Mapping[str, Any] = npz.load(self._file, ("data", "labels"))
        else:
            content = pickles.load_file(self._file)
        rows = values.pixels(content, "data", where)
        numbers = values.labels(content, "labels", len(rows), where)
        if (wrong := next((index for index, label in enumerate(numbers) if label < 1), None)) is not None:
            raise UserError(f"{where}, image {wrong}, has the label {numbers[wrong]}: labels in this file start at 1")
        return ArrayTable(rows, [label - 1 for label in numbers], [], CLASSES)
