"""The ILSVRC2012 validation images as a folder or tar, and functions for other flat folders with a label file."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from pipeline.errors import UserError
from pipeline.sources.base import (
    SourceImage,
    check_class,
    check_size,
    identifier,
    read_lines,
    read_text,
    refuse_duplicates,
)
from pipeline.sources.files import SUFFIXES, counted_as, is_hidden, is_system_folder, suffix
from pipeline.storage import FolderEntry, Place, Store
from pipeline.storage.tar_index import TarIndex
from pipeline.tasks.labels import label_folders

LONGEST_CLASS = 200
"""Maximum number of characters of a class name in a label file."""

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
    """Return image name without suffix -> wnid, from a label file in the folder or its parent.

    Args:
        folder: Folder of the images.

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


def class_name(text: str, where: str) -> str:
    """Return a class name from a label file.

    Args:
        text: The class name.
        where: File and line for the error message.

    Raises:
        UserError: The name is invalid.
    """
    if len(text) > LONGEST_CLASS or any(map(str.isspace, text)):
        raise UserError(
            f"{where} has the invalid class name {text[:80]!r}: use one word of at most {LONGEST_CLASS} characters"
        )
    return check_class(text, where)


def class_list(place: Place) -> list[str]:
    """Return the sorted classes of a ``wnids.txt``. Raise UserError if it is empty or repeats a class."""
    lines = read_lines(place)
    wnids = [class_name(line, f"{place.location}, line {index},") for index, line in enumerate(lines, start=1)]
    repeated = [wnid for wnid, count in Counter(wnids).items() if count > 1]
    if not wnids or repeated:
        what = f"repeats the class {repeated[0]!r}" if repeated else "contains no classes"
        raise UserError(f"{place.location} {what}: list each wnid once, one per line")
    return sorted(wnids)


def labels_of(wnids: Mapping[str, str], labels: Mapping[str, int]) -> Mapping[str, tuple[int, str]]:
    """Return image name -> (label, wnid). Images of classes without a label are omitted.

    Args:
        wnids: Image name -> wnid.
        labels: Label of each wnid.
    """
    return {name: (labels[wnid], wnid) for name, wnid in wnids.items() if wnid in labels}


class FlatValidation:
    """The flat folder of validation images, sorted by name. Every image must have a label."""

    def __init__(self, place: Place) -> None:
        """Read the labels. Raise UserError if the place is not a folder or has no labels."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._folder = folder_of(place)
        wnids = validation_wnids(self._folder)
        labelled = label_folders(list(set(wnids.values())))
        self._labels, self.labels = labels_of(wnids, labelled.labels), labelled.space

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield all images by name. Raise UserError if an image has no label or ids are not unique."""
        self.ignored = Counter()
        images = flat_images(self._folder, "", self.ignored)
        refuse_duplicates(f"{self.location} has images", ((identifier(entry.name), entry.name) for entry in images))
        for entry in images:
            label, wnid = find_label(self._labels, entry.name)
            yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, entry.size)

    def read(self, image: SourceImage) -> bytes:
        """Return the bytes of one file. Raise OSError if it cannot be read."""
        check_size(image)
        return self._folder.read(image.origin)


class ValidationTar:
    """``ILSVRC2012_img_val.tar``, read without extracting it; members sorted by name. Labels come from its folder."""

    def __init__(self, place: Place) -> None:
        """Read the labels. Raise UserError if there are none."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._index = TarIndex(place.store, place.name)
        wnids = validation_wnids(place.store)
        labelled = label_folders(list(set(wnids.values())))
        self._labels, self.labels = labels_of(wnids, labelled.labels), labelled.space

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield all images by name. Raise UserError if the tar is damaged or an image has no label."""
        self.ignored = Counter()
        images = []
        for name, member in sorted(self._index.members().items()):
            if is_hidden(name) or suffix(name) not in SUFFIXES:
                self.ignored[counted_as(name)] += 1
            else:
                images.append((name, member))
        named = ((identifier(PurePosixPath(name).name), name) for name, _ in images)
        refuse_duplicates(f"{self.location} has images", named)
        for name, member in images:
            label, wnid = find_label(self._labels, PurePosixPath(name).name)
            yield SourceImage(f"{wnid}/{identifier(PurePosixPath(name).name)}", label, wnid, name, member.size)

    def read(self, image: SourceImage) -> bytes:
        """Return the bytes of one member. Raise OSError if it cannot be read."""
        check_size(image)
        return self._index.read(image.origin)


def flat_images(folder: Store, below: str, ignored: Counter[str]) -> list[FolderEntry]:
    """Return the images directly in a folder, sorted by name.

    Args:
        folder: The store.
        below: Path of the folder in the store.
        ignored: Counter that receives the suffixes of other files.

    Raises:
        UserError: A subfolder contains images.
    """
    images = []
    for entry in folder.entries(below):
        if entry.is_folder:
            _refuse_images(folder, f"{below}/{entry.name}" if below else entry.name, ignored)
        elif suffix(entry.name) in SUFFIXES:
            images.append(entry)
        else:
            ignored[counted_as(entry.name)] += 1
    return images


def _refuse_images(folder: Store, below: str, ignored: Counter[str]) -> None:
    """Raise UserError if a subfolder contains images, because they would be skipped."""
    name = below.rpartition("/")[2]
    if is_system_folder(name):
        ignored[f"{name}/"] += 1
        return
    for path, _ in folder.walk(below, is_system_folder):
        if suffix(path) in SUFFIXES:
            raise UserError(
                f"{folder.root} contains images both directly and in subfolders ({path}, ...): move all images into "
                "one folder, or all into class folders"
            )


def find_label(labels: Mapping[str, tuple[int, str]], name: str) -> tuple[int, str]:
    """Return the label and the wnid of an image.

    Args:
        labels: Image name without suffix -> (label, wnid).
        name: File name of the image.

    Raises:
        UserError: The image has no label.
    """
    stem = name.rpartition(".")[0]
    if stem not in labels:
        raise missing_label(name)
    return labels[stem]


def missing_label(name: str) -> UserError:
    """Return the error for an image without a label."""
    return UserError(f"the image {name} has no label in the label file: add one, or remove the image")


def folder_of(place: Place) -> Store:
    """Return the folder at a place. Raise UserError if it is not a folder."""
    if not place.is_folder:
        raise UserError(f"the source {place.location} is not a folder: give the folder of the images")
    return place.store
