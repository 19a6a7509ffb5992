"""CIFAR-10 and CIFAR-100 in their Python versions."""

from __future__ import annotations

from functools import partial

from pipeline.sources import pickles, values
from pipeline.sources.array_rows import ArraySource, ArrayTable
from pipeline.storage import Place


def cifar(place: Place, batch: str, labels: str, meta: str, names: str) -> ArraySource:
    """Return the images of a batch, with the class names from the meta file in the same folder.

    Args:
        place: The folder as distributed, or one of its batch files.
        batch: Name of the batch file in the folder.
        labels: Key of the labels.
        meta: Name of the meta file.
        names: Key of the class names in it.

    Raises:
        UserError: The file does not exist.
    """
    file = Place(place.store, batch) if place.is_folder else place
    beside = Place(file.store, meta)

    def load() -> ArrayTable:
        content = pickles.load_file(file)
        rows = values.pixels(content, "data", file.location)
        known: list[str] = []
        if beside.store.size(beside.name) >= 0:
            known = values.names(pickles.load_file(beside), names, beside.location)
        return ArrayTable(rows, values.labels(content, labels, len(rows), file.location), known, len(known))

    return ArraySource(file, load)


cifar_10 = partial(cifar, batch="test_batch", labels="labels", meta="batches.meta", names="label_names")
cifar_100 = partial(cifar, batch="test", labels="fine_labels", meta="meta", names="fine_label_names")
cifar_100_coarse = partial(cifar, batch="test", labels="coarse_labels", meta="meta", names="coarse_label_names")
