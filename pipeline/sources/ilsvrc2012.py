"""The ILSVRC2012 validation images as a folder or tar, and their label files."""

import csv
import io
from collections import Counter
from collections.abc import Callable

from pipeline.errors import UserError
from pipeline.sources.base import SourceImage, read_lines, read_text
from pipeline.sources.files import SUFFIXES, counted_as, is_hidden, suffix
from pipeline.sources.labelled_files import LabelledFiles, Listing, class_name, flat_folder, folder_of
from pipeline.storage import Place, Store
from pipeline.storage.tars import TarIndex
from pipeline.tasks.labels import label_folders

LABEL_FILES = (
    "LOC_val_solution.csv",
    "imagenet_2012_validation_synset_labels.txt",
    "ILSVRC2012_validation_ground_truth.txt",
)
"""Accepted label files: Kaggle's solution; one WordNet ID (wnid) per line in the order of the images; the class numbers
of the development kit."""

KIT_CLASSES = "map_clsloc.txt"
"""File of the development kit with lines ``wnid number name``. Its numbers do not follow the order of the wnids."""


def validation_wnids(folder: Store) -> dict[str, str]:
    """Return image name without suffix -> wnid, from a label file in the folder of the images or its parent.

    Raises:
        UserError: No label file exists, or it is invalid.
    """
    for store in (folder, folder.above()):
        for name in LABEL_FILES:
            if store.size(name) >= 0:
                wnids = _wnids_of(Place(store, name))
                if not wnids:
                    raise UserError(f"{store.root}/{name} contains no labels: it is empty or damaged")
                return wnids
    raise UserError(
        f"{folder.root} has no labels: put one of {', '.join(LABEL_FILES)} into it or into its parent folder"
    )


def _wnids_of(place: Place) -> dict[str, str]:
    if place.name.endswith(".csv"):
        return _solution(place)
    lines = read_lines(place)
    if not lines or not lines[0].isdigit():
        named = enumerate(
            (class_name(line, f"{place.location}, line {n},") for n, line in enumerate(lines, start=1)), start=1
        )
        return {f"ILSVRC2012_val_{index:08d}": wnid for index, wnid in named}
    kit = Place(place.store, KIT_CLASSES)
    if kit.store.size(kit.name) < 0:
        raise UserError(
            f"{place.location} has the development kit's class numbers, which are not in the order of the wnids: "
            f"put the kit's {KIT_CLASSES} into the same folder, or use {LABEL_FILES[0]}"
        )
    wnids = _kit_classes(kit)
    for index, number in enumerate(lines, start=1):
        if number not in wnids:
            raise UserError(
                f"{place.location}, line {index}, has the unknown class number {number[:40]!r}: {KIT_CLASSES} defines "
                f"{len(wnids)} classes"
            )
    return {f"ILSVRC2012_val_{index:08d}": wnids[number] for index, number in enumerate(lines, start=1)}


def _solution(place: Place) -> dict[str, str]:
    """Return image name -> wnid from Kaggle's file, whose second column starts with the class. Raise UserError."""
    found: dict[str, str] = {}
    rows = csv.reader(io.StringIO(read_text(place), newline=""), strict=True)
    try:
        columns = next(rows, [])
        if not all(columns.count(name) == 1 for name in ("ImageId", "PredictionString")):
            raise UserError(f"{place.location} must have the columns ImageId and PredictionString, each once")
        image, prediction = columns.index("ImageId"), columns.index("PredictionString")
        for row in rows:
            if not any(map(str.strip, row)):
                continue
            where = f"{place.location}, line {rows.line_num},"
            if len(row) != len(columns):
                raise UserError(f"{where} has {len(row)} fields; expected {len(columns)}")
            name, words = row[image].strip(), row[prediction].split()
            if not name or not words:
                raise UserError(f"{where} has no image name or no class")
            if name in found:
                raise UserError(f"{where} repeats the image {name[:80]!r}")
            found[name] = class_name(words[0], where)
    except csv.Error as error:
        raise UserError(f"{place.location}, line {rows.line_num}, cannot be read: {error}") from error
    return found


def _kit_classes(kit: Place) -> dict[str, str]:
    """Return class number -> wnid of the development kit. Raise UserError if the file is invalid."""
    wnids: dict[str, str] = {}
    seen: set[str] = set()
    for index, line in enumerate(read_lines(kit), start=1):
        words, where = line.split(), f"{kit.location}, line {index},"
        if len(words) < 2 or not words[1].isdigit() or words[1] in wnids or words[0] in seen:
            raise UserError(f"{where} is invalid or repeated: {line[:80]!r}; expected 'wnid number name'")
        wnids[words[1]] = class_name(words[0], where)
        seen.add(words[0])
    return wnids


def flat_validation(place: Place) -> LabelledFiles:
    """Return the flat folder of validation images. Raise UserError if it is not a folder or has no labels."""
    folder = folder_of(place)
    return _validation(place, flat_folder(folder), folder, lambda image: folder.read(image.origin))


def validation_tar(place: Place) -> LabelledFiles:
    """Return ``ILSVRC2012_img_val.tar``, which is not extracted. Raise UserError if there are no labels beside it."""
    index = TarIndex(place.store, place.name)

    def listing(ignored: Counter[str]) -> list[tuple[str, int, int]]:
        images = []
        for name, member in sorted(index.members().items()):
            if is_hidden(name) or suffix(name) not in SUFFIXES:
                ignored[counted_as(name)] += 1
            else:
                images.append((name, member.size, member.offset))
        return images

    return _validation(place, listing, place.store, lambda image: index.read(image.origin, image.offset, image.size))


def _validation(place: Place, listing: Listing, folder: Store, read: Callable[[SourceImage], bytes]) -> LabelledFiles:
    """Return the images of a listing with the labels in or above a folder. Raise UserError if there are none."""
    wnids = validation_wnids(folder)
    labelled = label_folders(list(set(wnids.values())))
    return LabelledFiles(place.location, listing, wnids, labelled.labels, labelled.space, read)
