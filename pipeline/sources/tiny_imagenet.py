"""The validation images of Tiny ImageNet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pipeline.errors import UserError
from pipeline.sources.base import (
    SourceImage,
    check_size,
    identifier,
    read_lines,
    refuse_duplicates,
)
from pipeline.sources.ilsvrc2012 import class_list, class_name, find_label, flat_images, folder_of, labels_of
from pipeline.storage import Place
from pipeline.tasks.labels import Numbering, space_of
from pipeline.tasks.lists import position_by_name

TINY_IMAGES, TINY_LABELS = "val/images", "val/val_annotations.txt"
"""Folder of the validation images, and their label file."""


class TinyImageNet:
    """The validation images of ``tiny-imagenet-200``. Labels number the sorted classes of ``wnids.txt`` from 0."""

    def __init__(self, place: Place) -> None:
        """Read the labels. Raise UserError if a label file is missing or invalid."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._folder = folder_of(place)
        wnids = _tiny_wnids(Place(self._folder, TINY_LABELS))
        classes = class_list(Place(self._folder, "wnids.txt"))
        self._labels = labels_of(wnids, position_by_name(classes))
        self.labels = space_of(classes, Numbering.SORTED, len(set(wnids.values())))
        unknown = sorted(set(wnids.values()) - set(classes))
        if unknown:
            raise UserError(
                f"{self.location}/{TINY_LABELS} has the class {unknown[0]!r}, but wnids.txt does not list it"
            )

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield all images by name. Raise UserError if an image has no label or ids are not unique."""
        self.ignored = Counter()
        images = flat_images(self._folder, TINY_IMAGES, self.ignored)
        refuse_duplicates(f"{self.location} has images", ((identifier(entry.name), entry.name) for entry in images))
        for entry in images:
            label, wnid = find_label(self._labels, entry.name)
            yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, entry.size)

    def read(self, image: SourceImage) -> bytes:
        """Return the bytes of one file. Raise OSError if it cannot be read."""
        check_size(image)
        return self._folder.read(f"{TINY_IMAGES}/{image.origin}")


def _tiny_wnids(place: Place) -> dict[str, str]:
    """Return image name without suffix -> wnid, from lines ``image<TAB>wnid<TAB>box``. Raise UserError if invalid."""
    wnids: dict[str, str] = {}
    for index, line in enumerate(read_lines(place), start=1):
        name, _, rest = line.partition("\t")
        stem, where = name.rpartition(".")[0], f"{place.location}, line {index},"
        if not stem or stem in wnids:
            raise UserError(f"{where} has a missing or repeated image name: {line[:80]!r}")
        wnids[stem] = class_name(rest.split("\t")[0], where)
    return wnids
