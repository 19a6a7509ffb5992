"""Arrays of NumPy that hold all images of a transform: headers are checked, pixels read where they lie."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.datasets.base import MAX_PAYLOAD_BYTES
from pipeline.datasets.index.folders import BESIDE, files_with
from pipeline.datasets.index.found import (
    MAX_LEVEL,
    Entry,
    FoundLayout,
    Listing,
    bare_level,
    condition_of,
    identifier_of_transform,
)
from pipeline.datasets.indexed import PIXELS
from pipeline.errors import UserError
from pipeline.images.encoders import MAX_FRAMES, MAX_NPY_HEADER
from pipeline.sources.base import LONGEST_LIST, MAX_LABEL, UNLABELLED
from pipeline.storage import LocalStore
from pipeline.transforms.family import Condition

ARRAY = ".npy"

LABELS_FILE = "labels.npy"

_HEADERS: Mapping[tuple[int, int], Callable[..., tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Version of a .npy file -> what reads its header."""

_UNSOUND = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError)
"""What NumPy and Python's parser raise for headers that are none."""


class Header(NamedTuple):
    """What an array file says of itself, checked against its length: ``offset`` is that of the first element."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int


def find_arrays(root: Path, classes: Sequence[str], levels: Sequence[int]) -> FoundLayout:
    """Return what ``<corruption>.npy`` (N, H, W, 3) and ``<perturbation>.npy`` (N, T, H, W, 3) hold. Raises UserError.

    The first hold all levels one after another, where their transform has levels.
    """
    if not levels or len(set(levels)) < len(levels) or not all(0 <= level <= MAX_LEVEL for level in levels):
        raise UserError(f"the severities {list(levels)} are invalid: name each once, 0 to {MAX_LEVEL}, as 1,2,3,4,5")
    store, names = LocalStore(str(root)), files_with(root, ARRAY)
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
            here = [Condition(stem, bare)]
        elif sequences:
            here = [condition_of((stem,), str(root / name))]
        else:
            here = [Condition(identifier_of_transform(stem), level) for level in levels]
        count, rest = divmod(header.shape[0], len(here))
        if rest or not count:
            wanted = f"not the same number for each level of {list(levels)}; name those that it holds with --severities"
            raise UserError(f"{root / name} holds {header.shape[0]} images, {wanted}")
        if labels is not None and len(labels) not in (count, header.shape[0]):
            raise UserError(f"{root / LABELS_FILE} holds {len(labels)} labels, {name} has {header.shape[0]} images")
        for place, condition in enumerate(here):
            if condition in conditions:
                raise UserError(f"{root} holds {condition} twice, in {name} and another array; remove one")
            conditions[condition] = partial(_rows, root, name, header, labels, place * count, count)
    beside = [entry.name for entry in store.entries("") if not entry.is_folder]
    return FoundLayout("arrays", root, conditions, classes, len(set(beside).difference(names, BESIDE)))


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
        place = first + row
        label = UNLABELLED if labels is None else labels[place % len(labels)]
        if classes and label >= len(classes):
            raise UserError(f"{root / LABELS_FILE} has the label {label}, but {len(classes)} classes were named")
        known = classes[label] if classes else str(label)
        name = "" if label == UNLABELLED else known
        offset = header.offset + place * size
        yield Entry(f"image_{row:06d}", f"{shard}#{place}", label, name, shard, offset, size, PIXELS, shape)


def _check_images(path: Path, header: Header) -> None:
    shape = header.shape
    if header.dtype != np.uint8 or len(shape) not in (4, 5) or shape[-1] != 3:
        raise UserError(f"{path} holds {header.dtype} {shape}, not uint8 (N, H, W, 3) or (N, T, H, W, 3)")
    frames = shape[1] if len(shape) == 5 else 1
    if not all(shape) or prod(shape[1:]) > MAX_PAYLOAD_BYTES or frames > MAX_FRAMES:
        limits = f"at least 1 pixel, at most {MAX_PAYLOAD_BYTES} bytes and {MAX_FRAMES} frames are allowed"
        raise UserError(f"{path} holds images of {shape[1:]}: {limits}")


def _labels(store: LocalStore) -> list[int]:
    """Return the labels of all images. Raises UserError."""
    where = f"{store.root}/{LABELS_FILE}"
    header = _header(store, LABELS_FILE)
    if header.dtype.kind not in "iu" or len(header.shape) != 1:
        raise UserError(f"{where} holds {header.dtype} {header.shape}, not whole numbers (N,), one for each image")
    content = store.read(LABELS_FILE, limit=LONGEST_LIST)
    labels = np.frombuffer(content, header.dtype, offset=header.offset)
    wrong = labels[(labels < UNLABELLED) | (labels > MAX_LABEL)] if len(labels) else labels
    if len(wrong):
        raise UserError(f"{where} has the label {wrong[0]}: 0 to {MAX_LABEL} are allowed, or {UNLABELLED} for none")
    return [int(label) for label in labels]


def _header(store: LocalStore, name: str) -> Header:
    """Return what a .npy file says of itself; nothing is allocated by it. Raises UserError."""
    where = f"{store.root}/{name}"
    try:
        with store.open(name) as file:
            start = io.BytesIO(file.read(MAX_NPY_HEADER))
            length = file.seek(0, io.SEEK_END)
    except OSError as error:
        raise UserError(f"{where} is no readable array: {error.strerror or error}") from error
    try:
        version = np.lib.format.read_magic(start)
        if version not in _HEADERS:
            raise ValueError(f"its version {version} is not 1.0 or 2.0")
        shape, fortran_order, dtype = _HEADERS[version](start, max_header_size=MAX_NPY_HEADER)
    except _UNSOUND as error:
        raise UserError(f"{where} is no readable array: {type(error).__name__}: {str(error)[:200]}") from error
    if dtype.hasobject or dtype.kind == "V":
        raise UserError(f"{where} is no readable array: it holds objects ({dtype}), which are not unpickled")
    if fortran_order:
        raise UserError(f"{where} is in Fortran order: save it again with numpy.ascontiguousarray")
    if any(type(size) is not int or size < 0 for size in shape):
        raise UserError(f"{where} has the shape {shape}: whole numbers from 0 are allowed")
    expected = start.tell() + prod(shape) * dtype.itemsize
    if expected != length:
        raise UserError(f"{where} is {length} bytes, {shape} of {dtype} takes {expected}: it is cut short or damaged")
    return Header(shape, dtype, start.tell())
