"""Flat folders and tars of images whose labels stand in a file beside them: ILSVRC2012 validation, Tiny ImageNet."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from pipeline.errors import UserError
from pipeline.sources.base import (
    SUFFIXES,
    Box,
    SourceImage,
    file_size,
    identifier,
    read_lines,
    refuse_duplicates,
    suffix,
    visible,
)
from pipeline.sources.tars import TarIndex

VALIDATION_IMAGES = 50_000
LABEL_FILES = (
    "LOC_val_solution.csv",
    "imagenet_2012_validation_synset_labels.txt",
    "ILSVRC2012_validation_ground_truth.txt",
)
"""Kaggle's solution; one wnid per line in the order of the images; the development kit's numbers."""

KIT_CLASSES = "map_clsloc.txt"
"""Lines ``wnid number name``: what the development kit's numbers mean. They are not in the order of the wnids."""


def validation_wnids(folder: Path) -> dict[str, str]:
    """Image name without suffix -> wnid, from a label file in the folder or in the one above it. Raises UserError."""
    for place in (folder, folder.parent):
        for name in LABEL_FILES:
            if (place / name).is_file():
                return _wnids_of(place / name)
    raise UserError(f"{folder} has no labels: put one of {', '.join(LABEL_FILES)} into it or into the folder above it")


def _wnids_of(path: Path) -> dict[str, str]:
    lines = read_lines(path)
    if path.suffix == ".csv":
        rows = csv.DictReader(lines)
        if not {"ImageId", "PredictionString"} <= set(rows.fieldnames or ()):
            raise UserError(f"{path} has no columns ImageId and PredictionString")
        return {row["ImageId"]: row["PredictionString"].split()[0] for row in rows}
    if not lines[0].isdigit():
        return {f"ILSVRC2012_val_{index:08d}": wnid for index, wnid in enumerate(lines, start=1)}
    kit = path.parent / KIT_CLASSES
    if not kit.is_file():
        raise UserError(
            f"{path} has the development kit's own class numbers, which are not in the order of the wnids: "
            f"put the kit's {KIT_CLASSES} beside it, or use {LABEL_FILES[0]}"
        )
    wnids = {number: wnid for wnid, number, *_ in map(str.split, read_lines(kit))}
    return {f"ILSVRC2012_val_{index:08d}": wnids[number] for index, number in enumerate(lines, start=1)}


def _labels(wnids: Mapping[str, str], classes: list[str]) -> Mapping[str, tuple[int, str]]:
    """Image name -> (label, wnid), labels counting the sorted wnids from 0; images of other classes are left out."""
    numbers = {wnid: label for label, wnid in enumerate(classes)}
    return {name: (numbers[wnid], wnid) for name, wnid in wnids.items() if wnid in numbers}


class FlatValidation:
    """A flat folder of images, by name, with labels by name; those without a label are an error."""

    def __init__(self, folder: Path) -> None:
        """Raises UserError where there is no such folder, or no labels."""
        self.location = str(folder)
        self.ignored: Counter[str] = Counter()
        self._folder = folder
        wnids = validation_wnids(folder)
        self._labels = _labels(wnids, sorted(set(wnids.values())))

    def __iter__(self) -> Iterator[SourceImage]:
        """All images by name. Raises UserError."""
        self.ignored = Counter()
        images = [entry for entry in visible(self._folder) if entry.is_file() and suffix(entry.name) in SUFFIXES]
        refuse_duplicates(f"{self._folder} has images", ((identifier(entry.name), entry.name) for entry in images))
        for entry in images:
            label, wnid = _labelled(self._labels, entry.name)
            yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, file_size(entry))

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one file."""
        return (self._folder / image.origin).read_bytes()


class ValidationTar:
    """``ILSVRC2012_img_val.tar``, read in place: in the order of its names, with labels from a file beside it."""

    def __init__(self, tar: Path) -> None:
        """Raises UserError where there are no labels."""
        self.location = str(tar)
        self.ignored: Counter[str] = Counter()
        self._index = TarIndex(tar)
        wnids = validation_wnids(tar.parent)
        self._labels = _labels(wnids, sorted(set(wnids.values())))

    def __iter__(self) -> Iterator[SourceImage]:
        """All images by name. Raises UserError."""
        self.ignored = Counter()
        for name, member in sorted(self._index.members().items()):
            if suffix(name) not in SUFFIXES:
                self.ignored[suffix(name) or "no suffix"] += 1
                continue
            label, wnid = _labelled(self._labels, Path(name).name)
            yield SourceImage(f"{wnid}/{identifier(Path(name).name)}", label, wnid, name, member.size)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one member."""
        return self._index.read(image.origin)


class TinyImageNet:
    """``tiny-imagenet-200``: its validation images, ``val_annotations.txt``, and ``wnids.txt``, sorted."""

    def __init__(self, folder: Path) -> None:
        """Raises UserError where one of its files is missing."""
        self.location = str(folder)
        self.ignored: Counter[str] = Counter()
        self._images = folder / "val" / "images"
        pairs = [line.split("\t")[:2] for line in read_lines(folder / "val" / "val_annotations.txt")]
        wnids = {name.rpartition(".")[0]: wnid for name, wnid in pairs}
        self._labels = _labels(wnids, sorted(read_lines(folder / "wnids.txt")))

    def __iter__(self) -> Iterator[SourceImage]:
        """All images by name. Raises UserError."""
        for entry in visible(self._images):
            label, wnid = _labelled(self._labels, entry.name)
            yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, file_size(entry))

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one file."""
        return (self._images / image.origin).read_bytes()


class BoxedValidation:
    """The flat validation folder, each image of a listed class cut to the first box of its XML.

    So the published Tiny ImageNet-C came about. ``wnids.txt`` (in the folder or above it) lists the classes;
    the XML files stand in ``Annotation/CLS-LOC/val`` or ``val`` beside the folder.
    """

    def __init__(self, folder: Path) -> None:
        """Raises UserError where the class list or the boxes are missing."""
        self.location = str(folder)
        self.ignored: Counter[str] = Counter()
        self._folder = folder
        lists = [place / "wnids.txt" for place in (folder, folder.parent) if (place / "wnids.txt").is_file()]
        if not lists:
            raise UserError(f"{folder} has no class list: put Tiny ImageNet's wnids.txt into it or above it")
        places = [root / sub for root in (folder, folder.parent) for sub in ("Annotation/CLS-LOC/val", "val")]
        boxes = [place for place in places if place.is_dir()]
        if not boxes:
            raise UserError(f"{folder} has no boxes: put Annotation/CLS-LOC/val/*.xml into it or beside it")
        self._boxes = boxes[0]
        self._labels = _labels(validation_wnids(folder), sorted(read_lines(lists[0])))

    def __iter__(self) -> Iterator[SourceImage]:
        """The images of the listed classes by name. Raises UserError."""
        self.ignored = Counter()
        for entry in visible(self._folder):
            name = entry.name.rpartition(".")[0]
            if suffix(entry.name) in SUFFIXES and name in self._labels:
                label, wnid = self._labels[name]
                box = first_box(self._boxes / f"{name}.xml")
                yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, file_size(entry), box)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of the whole file; its box says what of it counts."""
        return (self._folder / image.origin).read_bytes()


def first_box(path: Path) -> Box:
    """The first bounding box of an annotation. Raises UserError; documents that declare entities are refused."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the boxes in {path}: {error.strerror}") from error
    if b"<!" in text.replace(b"<!--", b""):
        raise UserError(f"{path} declares document types or entities: no annotation does")
    try:
        box = ElementTree.fromstring(text).find("object/bndbox")
        left, top, right, bottom = (int(box.findtext(side, "")) for side in ("xmin", "ymin", "xmax", "ymax"))  # type: ignore[union-attr]
    except (ElementTree.ParseError, AttributeError, ValueError) as error:
        raise UserError(f"{path} has no bounding box with whole numbers") from error
    return left, top, right, bottom


def _labelled(labels: Mapping[str, tuple[int, str]], name: str) -> tuple[int, str]:
    stem = name.rpartition(".")[0]
    if stem not in labels:
        raise UserError(f"the image {name} has no label in the label file")
    return labels[stem]
