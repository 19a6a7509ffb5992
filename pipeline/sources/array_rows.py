"""Sources that store pixels in one file: CIFAR and downsampled ImageNet."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt

import numpy as np

from pipeline.errors import UserError
from pipeline.sources import npz, pickles
from pipeline.sources.base import UNLABELLED, Pixels, SourceImage, check_size, class_name_of, identifier
from pipeline.sources.pickles import Content
from pipeline.storage import Place
from pipeline.tasks.labels import LabelSpace, Numbering

CHANNELS = 3
"""Number of channels of an image."""

DOWNSAMPLED_FILES = ("val_data", "val_data.npz")
"""File names of the validation images: a pickle, or an archive of arrays."""

CLASSES = 1000
"""Number of classes of downsampled ImageNet."""


@dataclass(frozen=True)
class ArrayTable:
    """Images as rows of bytes, with their labels.

    Attributes:
        rows: uint8 array (images, 3 * side * side); each row has one channel after another.
        labels: Label of each image.
        class_names: Class names by label. Empty if unknown.
        classes: Number of classes that the labels count; 0 if unknown.
    """

    rows: np.ndarray
    labels: Sequence[int]
    class_names: Sequence[str]
    classes: int


class ArraySource:
    """The images of one file, in its order. Ids are ``<stem>_<row>``. The file is loaded once, when first needed."""

    def __init__(self, file: Place, load: Callable[[], ArrayTable]) -> None:
        """Keep a file and the function that loads it. Raise UserError if the file does not exist."""
        if file.store.size(file.name) < 0:
            raise UserError(f"the file {file.location} does not exist")
        self.location = file.location
        self.ignored: Counter[str] = Counter()
        self._file, self._load = file, load
        self._table: ArrayTable | None = None

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield all images. Raise UserError if the file is invalid."""
        table = self._loaded()
        stem = identifier(self._file.name.rpartition("/")[2].split(".")[0])
        for index, label in enumerate(table.labels):
            name = class_name_of(label, table.class_names, str(label), f"{self.location}, image {index},")
            yield SourceImage(f"{stem}_{index:06d}", label, name, f"{self._file.name}#{index}", table.rows.shape[1])

    def read(self, image: SourceImage) -> Pixels:
        """Return the pixels of one image, uint8 RGB (side, side, 3). Raise OSError if it cannot be read."""
        check_size(image)
        table, index = self._loaded(), int(image.origin.rpartition("#")[2])
        side = isqrt(table.rows.shape[1] // CHANNELS)
        return np.ascontiguousarray(table.rows[index].reshape(CHANNELS, side, side).transpose(1, 2, 0))

    @property
    def labels(self) -> LabelSpace | None:
        """What the labels count. The order of the classes is that of the file. None if their number is unknown."""
        table = self._loaded()
        present = len(set(table.labels) - {UNLABELLED})
        return LabelSpace(numbering=Numbering.LISTED, classes=table.classes, present=present) if table.classes else None

    def _loaded(self) -> ArrayTable:
        if self._table is None:
            table = self._load()
            side = isqrt(table.rows.shape[1] // CHANNELS)
            if side < 1 or side * side * CHANNELS != table.rows.shape[1]:
                raise UserError(
                    f"{self.location} has rows of {table.rows.shape[1]} bytes, which are not square RGB images"
                )
            self._table = table
        return self._table


def cifar(place: Place, batch: str, labels: str, meta: str, names: str) -> ArraySource:
    """Return the images of a batch, with the class names from the meta file in the same folder.

    Args:
        place: The folder as distributed, or one of its batch files.
        batch: Name of the batch file in the folder.
        labels: Key of the labels.
        meta: Name of the meta file.
        names: Key of the class names in it.
    """
    file = Place(place.store, batch) if place.is_folder else place
    beside = Place(file.store, meta)

    def load() -> ArrayTable:
        content = pickles.load_file(file)
        rows, known = content.pixels("data"), list[str]()
        if beside.store.size(beside.name) >= 0:
            known = pickles.load_file(beside).names(names)
        return ArrayTable(rows, content.labels(labels, len(rows)), known, len(known))

    return ArraySource(file, load)


cifar_10 = partial(cifar, batch="test_batch", labels="labels", meta="batches.meta", names="label_names")
cifar_100 = partial(cifar, batch="test", labels="fine_labels", meta="meta", names="fine_label_names")
cifar_100_coarse = partial(cifar, batch="test", labels="coarse_labels", meta="meta", names="coarse_label_names")


def downsampled_imagenet(place: Place) -> ArraySource:
    """Return the validation images of downsampled ImageNet. Labels in the file start at 1; labels of this source at 0.

    The published files number the classes as in ``map_clsloc.txt`` of the development kit, not by sorted WordNet id:
    models that were trained on these files have this order, but other models of ImageNet do not.
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
    content = Content(npz.load(file, ("data", "labels")), where) if is_archive else pickles.load_file(file)
    rows = content.pixels("data")
    numbers = content.labels("labels", len(rows))
    if (wrong := next((index for index, label in enumerate(numbers) if label < 1), None)) is not None:
        raise UserError(f"{where}, image {wrong}, has the label {numbers[wrong]}: labels in this file start at 1")
    return ArrayTable(rows, [label - 1 for label in numbers], [], CLASSES)
