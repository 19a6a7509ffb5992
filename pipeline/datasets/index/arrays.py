"""Indexing of NumPy arrays that contain all images of a transform. Headers are checked; pixels are not copied."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.datasets.base import MAX_PAYLOAD_BYTES
from pipeline.datasets.index.detected import (
    MAX_LEVEL,
    DetectedLayout,
    Entry,
    Listing,
    bare_level,
    condition_of,
    identifier_of_transform,
    max_level,
)
from pipeline.datasets.index.folders import GENERATED_FILES, files_with
from pipeline.datasets.indexed import PIXELS
from pipeline.errors import UserError
from pipeline.images.encoders import MAX_FRAMES, MAX_NPY_HEADER
from pipeline.sources.base import LONGEST_LIST, UNLABELLED
from pipeline.sources.files import counted_as
from pipeline.storage import LocalStore
from pipeline.tasks.labels import MAX_LABEL, LabelSpace, Numbering
from pipeline.transforms.family import Condition

ARRAY = ".npy"

LABELS_FILE = "labels.npy"

_HEADERS: Mapping[tuple[int, int], Callable[..., tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Version of the .npy format -> function that reads its header."""

_HEADER_ERRORS = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError)
"""Exceptions of NumPy and of Python's parser for invalid headers."""


class Header(NamedTuple):
    """The checked header of an array file. ``offset`` is the position of the first element in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int


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
    space = None
    if labels is not None and classes:
        present = len(set(labels) - {UNLABELLED})
        space = LabelSpace(numbering=Numbering.LISTED, classes=len(classes), present=present)
    ignored = Counter(map(counted_as, set(beside).difference(names, GENERATED_FILES)))
    return DetectedLayout("arrays", root, conditions, space, ignored)


def _rows(
    root: Path,
    shard: str,
    header: Header,
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


def _check_images(path: Path, header: Header) -> None:
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


def _header(store: LocalStore, name: str) -> Header:
    """Return the header of a .npy file without reading the array. Raise UserError if it is invalid."""
    where = f"{store.root}/{name}"
    try:
        with store.open(name) as file:
            start = io.BytesIO(file.read(MAX_NPY_HEADER))
            length = file.seek(0, io.SEEK_END)
    except OSError as error:
        raise UserError(f"cannot read the array {where}: {error.strerror or error}") from error
    try:
        version = np.lib.format.read_magic(start)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of the format is not supported; use 1.0 or 2.0")
        shape, fortran_order, dtype = _HEADERS[version](start, max_header_size=MAX_NPY_HEADER)
    except _HEADER_ERRORS as error:
        raise UserError(f"cannot read the array {where}: {type(error).__name__}: {str(error)[:200]}") from error
    if dtype.hasobject or dtype.kind == "V":
        raise UserError(f"cannot read the array {where}: it contains Python objects ({dtype}), which are not unpickled")
    if fortran_order:
        raise UserError(f"{where} is in Fortran order: save it in C order, with numpy.ascontiguousarray")
    if any(type(size) is not int or size < 0 for size in shape):
        raise UserError(f"{where} has the invalid shape {shape}: use non-negative integers")
    expected = start.tell() + prod(shape) * dtype.itemsize
    if expected != length:
        what = f"has {length} bytes instead of {expected}, for shape {shape} of {dtype}"
        raise UserError(f"{where} {what}: it is truncated or damaged; copy or download it again")
    return Header(shape, dtype, start.tell())
