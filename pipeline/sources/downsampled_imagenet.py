"""Downsampled ImageNet (64 x 64 pixels and smaller)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pipeline.errors import UserError
from pipeline.sources import npz, pickles, values
from pipeline.sources.array_rows import ArraySource, ArrayTable
from pipeline.storage import Place

DOWNSAMPLED_FILES = ("val_data", "val_data.npz")
"""File names of the validation images: a pickle, or an archive of arrays."""


CLASSES = 1000
"""Number of classes."""


def downsampled_imagenet(place: Place) -> ArraySource:
    """Return the validation images of downsampled ImageNet. Labels in the file start at 1; labels of this source at 0.

    The published files number the classes as in ``map_clsloc.txt`` of the development kit, not by sorted WordNet id:
    models that were trained on these files have this order, but other models of ImageNet do not.

    Args:
        place: The file, or the folder that contains it.

    Raises:
        UserError: The file does not exist.
    """
    found = [name for name in DOWNSAMPLED_FILES if place.has(name)] if place.is_folder else [place.name]
    if not found:
        raise UserError(f"{place.location} contains none of the files {', '.join(DOWNSAMPLED_FILES)}")
    file = Place(place.store, found[0])
    return ArraySource(file, partial(_load, file))


def _load(file: Place) -> ArrayTable:
    """Return the content of the file. Raise UserError if it is invalid."""
    where = file.location
    is_archive = file.name.endswith(".npz")
    content: Mapping[str, Any] = npz.load(file, ("data", "labels")) if is_archive else pickles.load_file(file)
    rows = values.pixels(content, "data", where)
    numbers = values.labels(content, "labels", len(rows), where)
    if (wrong := next((index for index, label in enumerate(numbers) if label < 1), None)) is not None:
        raise UserError(f"{where}, image {wrong}, has the label {numbers[wrong]}: labels in this file start at 1")
    return ArrayTable(rows, [label - 1 for label in numbers], [], CLASSES)
