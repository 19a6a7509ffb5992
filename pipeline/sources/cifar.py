"""CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from pipeline.sources import pickles, values
from pipeline.sources.array_rows import ArraySource, ArrayTable
from pipeline.storage import Place


class Cifar(ArraySource):
    """A batch of CIFAR-10 in its Python version, with the class names from the meta file in the same folder."""

    label_key = "labels"
    meta_file, names_key = "batches.meta", "label_names"
    folder_file = "test_batch"

    def __init__(self, place: Place) -> None:
        """Open the test images.

        Args:
            place: The folder as distributed, or one of its batch files.

        Raises:
            UserError: The file does not exist.
        """
        super().__init__(Place(place.store, self.folder_file) if place.is_folder else place)

    def load(self) -> ArrayTable:
        """Return the content of the batch. Raise UserError if it is invalid."""
        where = self.location
        content = pickles.load_file(self._file)
        rows = values.pixels(content, "data", where)
        names = self._class_names()
        return ArrayTable(rows, values.labels(content, self.label_key, len(rows), where), names, len(names))

    def _class_names(self) -> list[str]:
        meta = Place(self._file.store, self.meta_file)
        if meta.store.size(meta.name) < 0:
            return []
        return values.names(pickles.load_file(meta), self.names_key, meta.location)


class Cifar100(Cifar):
    """CIFAR-100 with its 100 fine labels."""

    label_key = "fine_labels"
    meta_file, names_key = "meta", "fine_label_names"
    folder_file = "test"


class Cifar100Coarse(Cifar100):
    """CIFAR-100 with its 20 coarse labels."""

    label_key, names_key = "coarse_labels", "coarse_label_names"
