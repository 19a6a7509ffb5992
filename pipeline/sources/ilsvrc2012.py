"""Flat folders and tars of images whose labels stand in a file beside them: ILSVRC2012 validation, Tiny ImageNet."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from pipeline.errors import UserError
from pipeline.sources.base import (
    SUFFIXES,
    SourceImage,
    check_class,
    check_size,
    identifier,
    is_passed_over,
    is_system_folder,
    read_lines,
    read_text,
    refuse_duplicates,
    suffix,
)
from pipeline.storage import FolderEntry, Place, Store
from pipeline.storage.tar_index import TarIndex

LONGEST_CLASS = 200
"""Characters of a class name in a label file."""


LABEL_FILES = (
    "LOC_val_solution.csv",
    "imagenet_2012_validation_synset_labels.txt",
    "ILSVRC2012_validation_ground_truth.txt",
)
"""Kaggle's solution; one wnid per line in the order of the images; the development kit's numbers."""

KIT_CLASSES = "map_clsloc.txt"
"""Lines ``wnid number name``: what the development kit's numbers mean. They are not in the order of the wnids."""


def validation_wnids(folder: Store) -> dict[str, str]:
    """Image name without suffix -> wnid, from a label file in the folder or in the one above it. Raises UserError."""
    for store in (folder, folder.above()):
        for name in LABEL_FILES:
            if store.size(name) >= 0:
                wnids = _wnids_of(Place(store, name))
                if not wnids:
                    raise UserError(f"{store.root}/{name} holds no labels: it is empty or damaged")
                return wnids
    raise UserError(
        f"{folder.root} has no labels: put one of {', '.join(LABEL_FILES)} into it or into the folder above it"
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
            f"{place.location} has the development kit's own class numbers, which are not in the order of the wnids: "
            f"put the kit's {KIT_CLASSES} beside it, or use {LABEL_FILES[0]}"
        )
    wnids = _kit_classes(kit)
    for index, number in enumerate(lines, start=1):
        if number not in wnids:
            raise UserError(
                f"{place.location}, line {index}, has the class {number[:40]!r}; {KIT_CLASSES} has {len(wnids)} classes"
            )
    return {f"ILSVRC2012_val_{index:08d}": wnids[number] for index, number in enumerate(lines, start=1)}


def _solution(place: Place) -> dict[str, str]:
    """Kaggle's rows: an image, and its class before the boxes. Raises UserError."""
    found: dict[str, str] = {}
    rows = csv.reader(io.StringIO(read_text(place), newline=""), strict=True)
    try:
        columns = next(rows, [])
        if not all(columns.count(name) == 1 for name in ("ImageId", "PredictionString")):
            raise UserError(f"{place.location} has no columns ImageId and PredictionString")
        image, prediction = columns.index("ImageId"), columns.index("PredictionString")
        for row in rows:
            if not any(map(str.strip, row)):
                continue
            where = f"{place.location}, line {rows.line_num},"
            if len(row) != len(columns):
                raise UserError(f"{where} has {len(row)} fields, not {len(columns)}")
            name, words = row[image].strip(), row[prediction].split()
            if not name or not words:
                raise UserError(f"{where} has no image, or no class for it")
            if name in found:
                raise UserError(f"{where} has the image {name[:80]!r} a second time")
            found[name] = class_name(words[0], where)
    except csv.Error as error:
        raise UserError(f"{place.location}, line {rows.line_num}, cannot be read: {error}") from error
    return found


def _kit_classes(kit: Place) -> dict[str, str]:
    """Number -> wnid of the development kit. Raises UserError."""
    wnids: dict[str, str] = {}
    seen: set[str] = set()
    for index, line in enumerate(read_lines(kit), start=1):
        words, where = line.split(), f"{kit.location}, line {index},"
        if len(words) < 2 or not words[1].isdigit() or words[1] in wnids or words[0] in seen:
            raise UserError(f"{where} is not 'wnid number name', or comes a second time: {line[:80]!r}")
        wnids[words[1]] = class_name(words[0], where)
        seen.add(words[0])
    return wnids


def class_name(text: str, where: str) -> str:
    """Return a class as a label file names it. Raises UserError."""
    if len(text) > LONGEST_CLASS or any(map(str.isspace, text)):
        raise UserError(f"{where} has {text[:80]!r} where one class name belongs")
    return check_class(text, where)


def class_list(place: Place) -> list[str]:
    """Return the sorted classes of a ``wnids.txt``. Raises UserError."""
    lines = read_lines(place)
    wnids = [class_name(line, f"{place.location}, line {index},") for index, line in enumerate(lines, start=1)]
    twice = [wnid for wnid, count in Counter(wnids).items() if count > 1]
    if not wnids or twice:
        what = f"has the class {twice[0]!r} more than once" if twice else "holds no classes"
        raise UserError(f"{place.location} {what}")
    return sorted(wnids)


def labels_of(wnids: Mapping[str, str], classes: list[str]) -> Mapping[str, tuple[int, str]]:
    """Return image name -> (label, wnid); labels count the classes from 0, and images of others are left out."""
    numbers = {wnid: label for label, wnid in enumerate(classes)}
    return {name: (numbers[wnid], wnid) for name, wnid in wnids.items() if wnid in numbers}


class FlatValidation:
    """A flat folder of images, by name, with labels by name; those without a label are an error."""

    def __init__(self, place: Place) -> None:
        """Raises UserError where this is no folder, or there are no labels."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._folder = folder_of(place)
        wnids = validation_wnids(self._folder)
        self._labels = labels_of(wnids, sorted(set(wnids.values())))

    def __iter__(self) -> Iterator[SourceImage]:
        """All images by name. Raises UserError."""
        self.ignored = Counter()
        images = flat_images(self._folder, "", self.ignored)
        refuse_duplicates(f"{self.location} has images", ((identifier(entry.name), entry.name) for entry in images))
        for entry in images:
            label, wnid = labelled(self._labels, entry.name)
            yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, entry.size)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one file."""
        check_size(image)
        return self._folder.read(image.origin)


class ValidationTar:
    """``ILSVRC2012_img_val.tar``, read in place: in the order of its names, with labels from a file beside it."""

    def __init__(self, place: Place) -> None:
        """Raises UserError where there are no labels."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._index = TarIndex(place.store, place.name)
        wnids = validation_wnids(place.store)
        self._labels = labels_of(wnids, sorted(set(wnids.values())))

    def __iter__(self) -> Iterator[SourceImage]:
        """All images by name. Raises UserError."""
        self.ignored = Counter()
        images = []
        for name, member in sorted(self._index.members().items()):
            if is_passed_over(name) or suffix(name) not in SUFFIXES:
                self.ignored[suffix(name) or "no suffix"] += 1
            else:
                images.append((name, member))
        named = ((identifier(PurePosixPath(name).name), name) for name, _ in images)
        refuse_duplicates(f"{self.location} has images", named)
        for name, member in images:
            label, wnid = labelled(self._labels, PurePosixPath(name).name)
            yield SourceImage(f"{wnid}/{identifier(PurePosixPath(name).name)}", label, wnid, name, member.size)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one member."""
        check_size(image)
        return self._index.read(image.origin)


def flat_images(folder: Store, below: str, ignored: Counter[str]) -> list[FolderEntry]:
    """Return the images right in a folder, by name; count other files. Raises UserError for images farther below."""
    images = []
    for entry in folder.entries(below):
        if entry.is_folder:
            _refuse_images(folder, f"{below}/{entry.name}" if below else entry.name, ignored)
        elif suffix(entry.name) in SUFFIXES:
            images.append(entry)
        else:
            ignored[suffix(entry.name) or "no suffix"] += 1
    return images


def _refuse_images(folder: Store, below: str, ignored: Counter[str]) -> None:
    """Raise UserError for images in a folder beside the flat ones: they would be left out."""
    name = below.rpartition("/")[2]
    if is_system_folder(name):
        ignored[f"{name}/"] += 1
        return
    for path, _ in folder.walk(below, is_system_folder):
        if suffix(path) in SUFFIXES:
            raise UserError(
                f"{folder.root} holds images in folders ({path}, ...) beside those right in it: move all into one "
                "folder, or into class folders"
            )


def labelled(labels: Mapping[str, tuple[int, str]], name: str) -> tuple[int, str]:
    """Return the label and the wnid of an image. Raises UserError where it has none."""
    stem = name.rpartition(".")[0]
    if stem not in labels:
        raise unlabelled(name)
    return labels[stem]


def unlabelled(name: str) -> UserError:
    """Return the error for an image without a label."""
    return UserError(f"the image {name} has no label in the label file: add it there, or move the image away")


def folder_of(place: Place) -> Store:
    """Return the folder at a place. Raises UserError where it is no folder."""
    if not place.is_folder:
        raise UserError(f"the source {place.location} is not a folder")
    return place.store
