"""Flat folders and tars of images whose labels stand in a file beside them: ILSVRC2012 validation, Tiny ImageNet."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from xml.etree import ElementTree

from pipeline.errors import UserError
from pipeline.sources.base import (
    SUFFIXES,
    Box,
    SourceImage,
    identifier,
    read_lines,
    refuse_duplicates,
    suffix,
)
from pipeline.sources.tars import TarIndex
from pipeline.storage import Place, Store

TINY_IMAGES = "val/images"

BOX_FOLDERS = ("Annotation/CLS-LOC/val", "val")
"""Where the development kit has its XML files: one for each image."""

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
                return _wnids_of(Place(store, name))
    raise UserError(
        f"{folder.root} has no labels: put one of {', '.join(LABEL_FILES)} into it or into the folder above it"
    )


def _wnids_of(place: Place) -> dict[str, str]:
    lines = read_lines(place)
    if place.name.endswith(".csv"):
        rows = csv.DictReader(lines)
        if not {"ImageId", "PredictionString"} <= set(rows.fieldnames or ()):
            raise UserError(f"{place.location} has no columns ImageId and PredictionString")
        return {row["ImageId"]: row["PredictionString"].split()[0] for row in rows}
    if not lines[0].isdigit():
        return {f"ILSVRC2012_val_{index:08d}": wnid for index, wnid in enumerate(lines, start=1)}
    kit = Place(place.store, KIT_CLASSES)
    if kit.store.size(kit.name) < 0:
        raise UserError(
            f"{place.location} has the development kit's own class numbers, which are not in the order of the wnids: "
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

    def __init__(self, place: Place) -> None:
        """Raises UserError where this is no folder, or there are no labels."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._folder = _folder(place)
        wnids = validation_wnids(self._folder)
        self._labels = _labels(wnids, sorted(set(wnids.values())))

    def __iter__(self) -> Iterator[SourceImage]:
        """All images by name. Raises UserError."""
        self.ignored = Counter()
        listed = self._folder.entries("")
        images = [entry for entry in listed if not entry.is_folder and suffix(entry.name) in SUFFIXES]
        refuse_duplicates(f"{self.location} has images", ((identifier(entry.name), entry.name) for entry in images))
        for entry in images:
            label, wnid = _labelled(self._labels, entry.name)
            yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, entry.size)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one file."""
        return self._folder.read(image.origin)


class ValidationTar:
    """``ILSVRC2012_img_val.tar``, read in place: in the order of its names, with labels from a file beside it."""

    def __init__(self, place: Place) -> None:
        """Raises UserError where there are no labels."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._index = TarIndex(place.store, place.name)
        wnids = validation_wnids(place.store)
        self._labels = _labels(wnids, sorted(set(wnids.values())))

    def __iter__(self) -> Iterator[SourceImage]:
        """All images by name. Raises UserError."""
        self.ignored = Counter()
        for name, member in sorted(self._index.members().items()):
            if suffix(name) not in SUFFIXES:
                self.ignored[suffix(name) or "no suffix"] += 1
                continue
            label, wnid = _labelled(self._labels, PurePosixPath(name).name)
            yield SourceImage(f"{wnid}/{identifier(PurePosixPath(name).name)}", label, wnid, name, member.size)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one member."""
        return self._index.read(image.origin)


class TinyImageNet:
    """``tiny-imagenet-200``: its validation images, ``val_annotations.txt``, and ``wnids.txt``, sorted."""

    def __init__(self, place: Place) -> None:
        """Raises UserError where one of its files is missing."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._folder = _folder(place)
        pairs = [line.split("\t")[:2] for line in read_lines(Place(self._folder, "val/val_annotations.txt"))]
        wnids = {name.rpartition(".")[0]: wnid for name, wnid in pairs}
        self._labels = _labels(wnids, sorted(read_lines(Place(self._folder, "wnids.txt"))))

    def __iter__(self) -> Iterator[SourceImage]:
        """All images by name. Raises UserError."""
        for entry in self._folder.entries(TINY_IMAGES):
            label, wnid = _labelled(self._labels, entry.name)
            yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, entry.size)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one file."""
        return self._folder.read(f"{TINY_IMAGES}/{image.origin}")


class BoxedValidation:
    """The flat validation folder, each image of a listed class cut to the first box of its XML.

    So the published Tiny ImageNet-C came about. ``wnids.txt`` (in the folder or above it) lists the classes;
    the XML files stand in ``Annotation/CLS-LOC/val`` or ``val`` beside the folder.
    """

    def __init__(self, place: Place) -> None:
        """Raises UserError where the class list or the boxes are missing."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._folder = _folder(place)
        near = (self._folder, self._folder.above())
        lists = [Place(store, "wnids.txt") for store in near if store.size("wnids.txt") >= 0]
        if not lists:
            raise UserError(f"{self.location} has no class list: put Tiny ImageNet's wnids.txt into it or above it")
        boxes = [Place(store, folder) for store in near for folder in BOX_FOLDERS if any(store.listing(folder, ".xml"))]
        if not boxes:
            raise UserError(f"{self.location} has no boxes: put {BOX_FOLDERS[0]}/*.xml into it or beside it")
        self._boxes = boxes[0]
        self._labels = _labels(validation_wnids(self._folder), sorted(read_lines(lists[0])))

    def __iter__(self) -> Iterator[SourceImage]:
        """The images of the listed classes by name. Raises UserError."""
        self.ignored = Counter()
        for entry in self._folder.entries(""):
            name = entry.name.rpartition(".")[0]
            if suffix(entry.name) in SUFFIXES and name in self._labels:
                label, wnid = self._labels[name]
                box = first_box(Place(self._boxes.store, f"{self._boxes.name}/{name}.xml"))
                yield SourceImage(f"{wnid}/{identifier(entry.name)}", label, wnid, entry.name, entry.size, box)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of the whole file; its box says what of it counts."""
        return self._folder.read(image.origin)


def first_box(place: Place) -> Box:
    """The first bounding box of an annotation. Raises UserError; documents that declare entities are refused."""
    try:
        text = place.store.read(place.name)
    except OSError as error:
        raise UserError(f"cannot read the boxes in {place.location}: {error.strerror}") from error
    if b"<!" in text.replace(b"<!--", b""):
        raise UserError(f"{place.location} declares document types or entities: no annotation does")
    try:
        box = ElementTree.fromstring(text).find("object/bndbox")
        left, top, right, bottom = (int(box.findtext(side, "")) for side in ("xmin", "ymin", "xmax", "ymax"))  # type: ignore[union-attr]
    except (ElementTree.ParseError, AttributeError, ValueError) as error:
        raise UserError(f"{place.location} has no bounding box with whole numbers") from error
    return left, top, right, bottom


def _labelled(labels: Mapping[str, tuple[int, str]], name: str) -> tuple[int, str]:
    stem = name.rpartition(".")[0]
    if stem not in labels:
        raise UserError(f"the image {name} has no label in the label file")
    return labels[stem]


def _folder(place: Place) -> Store:
    """A place that must be a folder. Raises UserError."""
    if not place.is_folder:
        raise UserError(f"the source {place.location} is not a folder")
    return place.store
