"""ImageNet's validation photographs, cut to their bounding boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree

from pipeline.errors import UserError
from pipeline.sources.base import (
    Box,
    SourceImage,
    check_size,
    identifier,
    refuse_duplicates,
)
from pipeline.sources.ilsvrc2012 import class_list, flat_images, folder_of, labels_of, unlabelled, validation_wnids
from pipeline.storage import Place

LARGEST_ANNOTATION = 2**20
"""Bytes of an XML file with boxes; those of ImageNet have at most 16 KB."""


LARGEST_SIDE = 2**20
"""Pixels: no box reaches farther."""


BOX_FOLDERS = ("Annotation/CLS-LOC/val", "val")
"""Where the development kit has its XML files: one for each image."""


class BoxedValidation:
    """The flat validation folder, each image of a listed class cut to the first box of its XML.

    So the published Tiny ImageNet-C came about. ``wnids.txt`` (in the folder or above it) lists the classes;
    the XML files stand in ``Annotation/CLS-LOC/val`` or ``val`` beside the folder.
    """

    def __init__(self, place: Place) -> None:
        """Raises UserError where the class list or the boxes are missing."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._folder = folder_of(place)
        near = (self._folder, self._folder.above())
        lists = [Place(store, "wnids.txt") for store in near if store.size("wnids.txt") >= 0]
        if not lists:
            raise UserError(f"{self.location} has no class list: put Tiny ImageNet's wnids.txt into it or above it")
        boxes = [Place(store, folder) for store in near for folder in BOX_FOLDERS if any(store.listing(folder, ".xml"))]
        if not boxes:
            raise UserError(f"{self.location} has no boxes: put {BOX_FOLDERS[0]}/*.xml into it or beside it")
        self._boxes = boxes[0]
        self._all = validation_wnids(self._folder)
        classes = class_list(lists[0])
        self._labels = labels_of(self._all, classes)
        if missing := sorted(set(classes) - set(self._all.values())):
            raise UserError(f"{lists[0].location} has the class {missing[0]!r}, of which the label file has no image")

    def __iter__(self) -> Iterator[SourceImage]:
        """The images of the listed classes by name. Raises UserError."""
        self.ignored = Counter()
        images = flat_images(self._folder, "", self.ignored)
        refuse_duplicates(f"{self.location} has images", ((identifier(entry.name), entry.name) for entry in images))
        for entry in images:
            name = entry.name.rpartition(".")[0]
            if name not in self._all:
                raise unlabelled(entry.name)
            if name in self._labels:
                label, wnid = self._labels[name]
                box = first_box(Place(self._boxes.store, f"{self._boxes.name}/{name}.xml"))
                yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, entry.size, box)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of the whole file; its box says what of it counts."""
        check_size(image)
        return self._folder.read(image.origin)


def first_box(place: Place) -> Box:
    """The first bounding box of an annotation. Raises UserError; documents that declare entities are refused."""
    try:
        text = place.store.read(place.name, limit=LARGEST_ANNOTATION)
    except OSError as error:
        raise UserError(f"cannot read the boxes in {place.location}: {error.strerror or error}") from error
    if b"<!" in text.replace(b"<!--", b"") or b"\0" in text:  # entities could be hidden in UTF-16
        raise UserError(f"{place.location} declares document types or entities, or is no UTF-8: no annotation does")
    try:
        box = ElementTree.fromstring(text, ElementTree.XMLParser(encoding="utf-8")).find("object/bndbox")
        left, top, right, bottom = (int(box.findtext(side, "")) for side in ("xmin", "ymin", "xmax", "ymax"))  # type: ignore[union-attr]
    except (ElementTree.ParseError, AttributeError, ValueError, LookupError, RecursionError) as error:
        raise UserError(f"{place.location} has no bounding box with whole numbers") from error
    if not all(-LARGEST_SIDE <= side <= LARGEST_SIDE for side in (left, top, right, bottom)):
        raise UserError(f"{place.location} has a box beyond {LARGEST_SIDE} pixels, which no image has")
    return left, top, right, bottom
