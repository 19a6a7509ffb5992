"""Indexing of NumPy arrays that contain all images of a transform. Headers are checked; pixels are not copied."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from pathlib import Path

import numpy as np

from pipeline.datasets.base import MAX_PAYLOAD_BYTES
from pipeline.datasets.index.detected import (
    MAX_LEVEL,
    DetectedLayout,
    Entry,
    Labelled,
    Listing,
    bare_level,
    condition_of,
    identifier_of_transform,
    max_level,
)
from pipeline.datasets.index.folders import GENERATED_FILES, files_with
from pipeline.datasets.indexed import PIXELS
from pipeline.errors import UserError
from pipeline.images.encoders import MAX_FRAMES
from pipeline.sources.base import LONGEST_LIST, UNLABELLED
from pipeline.sources.files import counted_as
from pipeline.storage import LocalStore
from pipeline.storage.arrays import ArrayHeader, read_header
from pipeline.tasks.labels import MAX_LABEL, LabelSpace, Numbering
from pipeline.transforms.family import Condition

ARRAY = ".npy"

LABELS_FILE = "labels.npy"


def find_arrays(root: Path, classes: Sequence[str], levels: Sequence[int]) -> DetectedLayout:
    """Return the layout of ``<corruption>.npy`` (N, H, W, 3) and ``<perturbation>.npy`` (N, T, H, W, 3) in a folder.

    Args:
        root: The folder.
        classes: Class names in label order, or empty.
        levels: Levels stacked in each array of a transform with levels, in order.

    Raises:
        UserError: A file is damaged, or the arrays, labels and levels do not match.
    """
    store, names = LocalStore(str(root)), files_with(root, ARRAY)
    largest = max((max_level(name[: -len(ARRAY)]) for name in names), default=MAX_LEVEL)
    if not levels or len(set(levels)) < len(levels) or not all(0 <= level <= largest for level in levels):
        raise UserError(f"invalid severities {list(levels)}: give each once, from 0 to {largest}, such as 1,2,3,4,5")
    labels = _labels(store) if LABELS_FILE in names else None
    conditions: dict[Condition, Listing] = {}
    for name in names:
        if name == LABELS_FILE:
            continue
        header, stem = _header(store, name), name[: -len(ARRAY)]
        _check_images(root / name, header)
        sequences = len(header.shape) == 5
        bare = bare_level(stem, sequences)
        if bare is not None:
            stacked = [Condition(stem, bare)]
        elif sequences:
            stacked = [condition_of((stem,), str(root / name))]
        else:
            stacked = [Condition(identifier_of_transform(stem), level) for level in levels]
        count, rest = divmod(header.shape[0], len(stacked))
        if rest or not count:
            what = f"which cannot be divided equally among the severities {list(levels)}"
            raise UserError(
                f"{root / name} has {header.shape[0]} images, {what}: give its severities with --severities"
            )
        if labels is not None and len(labels) not in (count, header.shape[0]):
            raise UserError(
                f"{root / LABELS_FILE} has {len(labels)} labels, but {name} has {header.shape[0]} images: give one "
                "label per image"
            )
        for index, condition in enumerate(stacked):
            if condition in conditions:
                raise UserError(f"{root} has {condition} twice, in {name} and in another array: remove one")
            conditions[condition] = partial(_rows, root, name, header, labels, index * count, count, classes)
    beside = [entry.name for entry in store.entries("") if not entry.is_folder]
    labelled = Labelled()
    if labels is not None and classes:
        present = len(set(labels) - {UNLABELLED})
        labelled = Labelled(LabelSpace(numbering=Numbering.LISTED, classes=len(classes), present=present))
    ignored = Counter(map(counted_as, set(beside).difference(names, GENERATED_FILES)))
    return DetectedLayout("arrays", root, conditions, labelled, ignored)


def _rows(
    root: Path,
    shard: str,
    header: ArrayHeader,
    labels: Sequence[int] | None,
    first: int,
    count: int,
    classes: Sequence[str],
) -> Iterator[Entry]:
    shape = header.shape[1:]
    size = prod(shape)
    for row in range(count):
        index = first + row
        label = UNLABELLED if labels is None else labels[index % len(labels)]
        if classes and label >= len(classes):
            where = root / LABELS_FILE
            raise UserError(f"{where} has the label {label}, but --classes has {len(classes)} names: add the others")
        known = classes[label] if classes else str(label)
        name = "" if label == UNLABELLED else known
        offset = header.offset + index * size
        yield Entry(f"image_{row:06d}", f"{shard}#{index}", label, name, shard, offset, size, PIXELS, shape)


def _check_images(path: Path, header: ArrayHeader) -> None:
    shape = header.shape
    if header.dtype != np.uint8 or len(shape) not in (4, 5) or shape[-1] != 3:
        allowed = "uint8 of shape (N, H, W, 3) or (N, T, H, W, 3)"
        raise UserError(f"{path} is an array of {header.dtype} of shape {shape}: only {allowed} is supported")
    frames = shape[1] if len(shape) == 5 else 1
    if not all(shape) or prod(shape[1:]) > MAX_PAYLOAD_BYTES or frames > MAX_FRAMES:
        limits = f"at least 1 pixel, at most {MAX_PAYLOAD_BYTES} bytes and {MAX_FRAMES} frames are allowed"
        raise UserError(f"{path} has images of shape {shape[1:]}: {limits}")


def _labels(store: LocalStore) -> list[int]:
    """Return the labels of all images. Raise UserError if they are invalid."""
    where = f"{store.root}/{LABELS_FILE}"
    header = _header(store, LABELS_FILE)
    if header.dtype.kind not in "iu" or len(header.shape) != 1:
        raise UserError(f"{where} is an array of {header.dtype} of shape {header.shape}: use integers of shape (N,)")
    content = store.read(LABELS_FILE, limit=LONGEST_LIST)
    labels = np.frombuffer(content, header.dtype, offset=header.offset)
    wrong = labels[(labels < UNLABELLED) | (labels > MAX_LABEL)] if len(labels) else labels
    if len(wrong):
        raise UserError(f"{where} has the invalid label {wrong[0]}: use 0 to {MAX_LABEL}; {UNLABELLED} for none")
    return [int(label) for label in labels]


def _header(store: LocalStore, name: str) -> ArrayHeader:
    """Return the header of a .npy file without reading the array. Raise UserError if it is invalid."""
    where = f"{store.root}/{name}"
    try:
        with store.open(name) as file:
            header = read_header(file, max(store.size(name), 0))
    except OSError as error:
        raise UserError(f"cannot read the array {where}: {error.strerror or error}") from error
    except ValueError as error:
        raise UserError(f"cannot read the array {where}: {error}") from error
    if header.by_columns:
        raise UserError(f"{where} is in Fortran order: save it in C order, with numpy.ascontiguousarray")
    return header
