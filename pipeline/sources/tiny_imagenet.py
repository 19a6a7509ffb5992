"""The validation images of Tiny ImageNet, and those of ImageNet from which Tiny ImageNet-C was made."""

from xml.etree import ElementTree

from pipeline.errors import UserError
from pipeline.sources.base import Box, read_lines
from pipeline.sources.ilsvrc2012 import validation_wnids
from pipeline.sources.labelled_files import LabelledFiles, class_name, class_numbers, flat_folder, folder_of
from pipeline.storage import Place
from pipeline.tasks.labels import Numbering, space_of

TINY_IMAGES, TINY_LABELS = "val/images", "val/val_annotations.txt"
"""Folder of the validation images, and their label file."""

LARGEST_ANNOTATION = 2**20
"""Size limit in bytes for an XML file with boxes. ImageNet's files have at most 16 KB."""

LARGEST_SIDE = 2**20
"""Largest absolute value of a box coordinate in pixels."""

BOX_FOLDERS = ("Annotation/CLS-LOC/val", "val")
"""Folders in which the development kit stores one XML file per image."""


def tiny_imagenet(place: Place) -> LabelledFiles:
    """Return the validation images of ``tiny-imagenet-200``. Labels number the sorted classes of ``wnids.txt`` from 0.

    Raises:
        UserError: A label file is missing or invalid.
    """
    folder = folder_of(place)
    wnids, numbers = _tiny_wnids(Place(folder, TINY_LABELS)), class_numbers(Place(folder, "wnids.txt"))
    present = set(wnids.values())
    if unknown := sorted(present - numbers.keys()):
        raise UserError(f"{place.location}/{TINY_LABELS} has the class {unknown[0]!r}, but wnids.txt does not list it")
    return LabelledFiles(
        place.location,
        flat_folder(folder, TINY_IMAGES),
        wnids,
        numbers,
        space_of(list(numbers), Numbering.SORTED, len(present)),
        lambda image: folder.read(f"{TINY_IMAGES}/{image.origin}"),
    )


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


def boxed_validation(place: Place) -> LabelledFiles:
    """Return the flat validation folder, each image of a listed class cropped to the first box of its XML file.

    The published Tiny ImageNet-C was made this way. ``wnids.txt`` in the folder or its parent lists the classes, whose
    labels number them in sorted order: models of Tiny ImageNet have one output for each of these classes. The
    XML files are in ``Annotation/CLS-LOC/val`` or ``val`` in the folder or its parent.

    Raises:
        UserError: The class list, the boxes or the labels are missing.
    """
    folder = folder_of(place)
    near = (folder, folder.above())
    lists = [Place(store, "wnids.txt") for store in near if store.size("wnids.txt") >= 0]
    if not lists:
        raise UserError(
            f"{place.location} has no class list: put Tiny ImageNet's wnids.txt into it or its parent folder"
        )
    boxes = [Place(store, name) for store in near for name in BOX_FOLDERS if any(store.listing(name, ".xml"))]
    if not boxes:
        raise UserError(f"{place.location} has no boxes: put {BOX_FOLDERS[0]}/*.xml into it or its parent folder")
    wnids, numbers = validation_wnids(folder), class_numbers(lists[0])
    if missing := sorted(numbers.keys() - set(wnids.values())):
        raise UserError(
            f"{lists[0].location} has the class {missing[0]!r}, but the label file has no image of this class"
        )
    return LabelledFiles(
        place.location,
        flat_folder(folder),
        wnids,
        numbers,
        space_of(list(numbers), Numbering.SORTED, len(numbers)),
        lambda image: folder.read(image.origin),
        lambda name: first_box(Place(boxes[0].store, f"{boxes[0].name}/{name}.xml")),
    )


def first_box(place: Place) -> Box:
    """Return the first bounding box of an annotation, an XML file of the development kit.

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
