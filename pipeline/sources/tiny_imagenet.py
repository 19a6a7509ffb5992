"""Tiny ImageNet's validation folder."""

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
from pipeline.sources.ilsvrc2012 import class_list, class_name, flat_images, folder_of, labelled, labels_of
from pipeline.storage import Place

TINY_IMAGES, TINY_LABELS = "val/images", "val/val_annotations.txt"


class TinyImageNet:
    """``tiny-imagenet-200``: its validation images, ``val_annotations.txt``, and ``wnids.txt``, sorted."""

    def __init__(self, place: Place) -> None:
        """Raises UserError where one of its files is missing."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._folder = folder_of(place)
        wnids = _tiny_wnids(Place(self._folder, TINY_LABELS))
        classes = class_list(Place(self._folder, "wnids.txt"))
        self._labels = labels_of(wnids, classes)
        unknown = sorted(set(wnids.values()) - set(classes))
        if unknown:
            raise UserError(f"{self.location}/{TINY_LABELS} has the class {unknown[0]!r}, which is not in wnids.txt")

    def __iter__(self) -> Iterator[SourceImage]:
        """All images by name. Raises UserError."""
        self.ignored = Counter()
        images = flat_images(self._folder, TINY_IMAGES, self.ignored)
        refuse_duplicates(f"{self.location} has images", ((identifier(entry.name), entry.name) for entry in images))
        for entry in images:
            label, wnid = labelled(self._labels, entry.name)
            yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, entry.size)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one file."""
        check_size(image)
        return self._folder.read(f"{TINY_IMAGES}/{image.origin}")


def _tiny_wnids(place: Place) -> dict[str, str]:
    """Image name without suffix -> wnid, from lines ``image<TAB>wnid<TAB>box``. Raises UserError."""
    wnids: dict[str, str] = {}
    for index, line in enumerate(read_lines(place), start=1):
        name, _, rest = line.partition("\t")
        stem, where = name.rpartition(".")[0], f"{place.location}, line {index},"
        if not stem or stem in wnids:
            raise UserError(f"{where} names no image, or one a second time: {line[:80]!r}")
        wnids[stem] = class_name(rest.split("\t")[0], where)
    return wnids
