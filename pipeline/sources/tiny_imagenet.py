"""The validation images of Tiny ImageNet."""

from __future__ import annotations

from pipeline.errors import UserError
from pipeline.sources.base import read_lines
from pipeline.sources.labelled_files import LabelledFiles, class_name, class_numbers, flat_folder, folder_of
from pipeline.storage import Place
from pipeline.tasks.labels import Numbering, space_of

TINY_IMAGES, TINY_LABELS = "val/images", "val/val_annotations.txt"
"""Folder of the validation images, and their label file."""


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
        lambda name: folder.read(f"{TINY_IMAGES}/{name}"),
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
