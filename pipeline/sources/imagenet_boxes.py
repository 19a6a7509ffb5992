"""ImageNet's validation images, cropped to their bounding boxes."""

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
from pipeline.sources.ilsvrc2012 import class_list, flat_images, folder_of, labels_of, missing_label, validation_wnids
from pipeline.storage import Place
from pipeline.tasks.labels import Numbering, space_of
from pipeline.tasks.lists import position_by_name

LARGEST_ANNOTATION = 2**20
"""Size limit in bytes for an XML file with boxes. ImageNet's files have at most 16 KB."""

LARGEST_SIDE = 2**20
"""Largest absolute value of a box coordinate in pixels."""

BOX_FOLDERS = ("Annotation/CLS-LOC/val", "val")
"""Folders in which the development kit stores one XML file per image."""


class BoxedValidation:
    """The flat validation folder, each image of a listed class cropped to the first box of its XML file.

    The published Tiny ImageNet-C was made this way. ``wnids.txt`` in the folder or its parent lists the classes, whose
    labels number them in sorted order: models of Tiny ImageNet have one output for each of these classes. The
    XML files are in ``Annotation/CLS-LOC/val`` or ``val`` in the folder or its parent.
    """

    def __init__(self, place: Place) -> None:
        """Read the labels. Raise UserError if the class list, the boxes or the labels are missing."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._folder = folder_of(place)
        near = (self._folder, self._folder.above())
        lists = [Place(store, "wnids.txt") for store in near if store.size("wnids.txt") >= 0]
        if not lists:
            raise UserError(
                f"{self.location} has no class list: put Tiny ImageNet's wnids.txt into it or its parent folder"
            )
        boxes = [Place(store, folder) for store in near for folder in BOX_FOLDERS if any(store.listing(folder, ".xml"))]
        if not boxes:
            raise UserError(f"{self.location} has no boxes: put {BOX_FOLDERS[0]}/*.xml into it or its parent folder")
        self._boxes = boxes[0]
        self._all = validation_wnids(self._folder)
        classes = class_list(lists[0])
        self._labels = labels_of(self._all, position_by_name(classes))
        self.labels = space_of(classes, Numbering.SORTED, len(classes))
        if missing := sorted(set(classes) - set(self._all.values())):
            raise UserError(
                f"{lists[0].location} has the class {missing[0]!r}, but the label file has no image of this class"
            )

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield the images of the listed classes by name. Raise UserError if a label or box is missing."""
        self.ignored = Counter()
        images = flat_images(self._folder, "", self.ignored)
        refuse_duplicates(f"{self.location} has images", ((identifier(entry.name), entry.name) for entry in images))
        for entry in images:
            name = entry.name.rpartition(".")[0]
            if name not in self._all:
                raise missing_label(entry.name)
            if name in self._labels:
                label, wnid = self._labels[name]
                box = first_box(Place(self._boxes.store, f"{self._boxes.name}/{name}.xml"))
                yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, entry.size, box)

    def read(self, image: SourceImage) -> bytes:
        """Return the bytes of the uncropped file. Raise OSError if it cannot be read."""
        check_size(image)
        return self._folder.read(image.origin)


def first_box(place: Place) -> Box:
    """Return the first bounding box of an annotation.

    Args:
        place: XML file of the development kit.

    Raises:
        UserError: The file cannot be read, has no valid box, or declares document types or entities, which are unsafe.
    """
    try:
        text = place.store.read(place.name, limit=LARGEST_ANNOTATION)
    except OSError as error:
        raise UserError(f"cannot read the boxes in {place.location}: {error.strerror or error}") from error
    if b"<!" in text.replace(b"<!--", b"") or b"\0" in text:  # UTF-16 could hide entities
        raise UserError(
            f"{place.location} declares document types or entities, or is not UTF-8: use ImageNet's original annotation"
        )
    try:
        box = ElementTree.fromstring(text, ElementTree.XMLParser(encoding="utf-8")).find("object/bndbox")
        left, top, right, bottom = (int(box.findtext(side, "")) for side in ("xmin", "ymin", "xmax", "ymax"))  # type: ignore[union-attr]
    except (ElementTree.ParseError, AttributeError, ValueError, LookupError, RecursionError) as error:
        raise UserError(f"{place.location} has no bounding box with integer coordinates") from error
    if not all(-LARGEST_SIDE <= side <= LARGEST_SIDE for side in (left, top, right, bottom)):
        raise UserError(f"{place.location} has a box beyond {LARGEST_SIDE} pixels, the largest supported coordinate")
    return left, top, right, bottom
