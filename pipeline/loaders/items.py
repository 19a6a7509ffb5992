"""Items of data sets for PyTorch: an image in the requested form, its label, and columns of its manifest row."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as PillowImage
from torch.utils.data import default_collate, get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

import manifests
from manifests import Row
from pipeline.datasets.base import DataSet
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.samples import Sample
from pipeline.errors import UserError

Data = str | os.PathLike[str] | DataSet
"""Folder or URL of a data set, or an opened data set."""

Form = Literal["pil", "tensor", "float", "array"]
"""Form of the images: PIL image, uint8 tensor (3, H, W), the same as float32 from 0 to 1, or uint8 array (H, W, 3);
(T, 3, H, W) and (T, H, W, 3) for sequences."""

InputTransform = Callable[[Any], Any]
"""A function of an image in its form, for example a transform of torchvision or timm."""


def _tensor(pixels: NDArray[np.uint8]) -> torch.Tensor:
    """Return pixels (..., H, W, 3) as a tensor (..., 3, H, W)."""
    *frames, height, width, channels = pixels.shape
    planes = np.empty((*frames, channels, height, width), pixels.dtype)
    images, targets = pixels.reshape(-1, *pixels.shape[-3:]), planes.reshape(-1, *planes.shape[-3:])
    for image, target in zip(images, targets, strict=True):
        cv2.split(image, list(target))  # several times as fast as NumPy and torch
    return torch.from_numpy(planes)


def _array(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return an array that the user may change."""
    return np.require(pixels, requirements=["C", "W"])


FORMS: Mapping[str, Callable[[NDArray[np.uint8]], Any]] = {
    "pil": PillowImage.fromarray,
    "tensor": _tensor,
    "array": _array,
    "float": lambda pixels: _tensor(pixels).float().div_(255),
}
"""Form -> function of the decoded pixels."""


COLLATED: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "tensor": lambda pixels: pixels.movedim(-1, -3),
    "array": lambda pixels: pixels,
    "float": lambda pixels: empty(tuple(pixels.shape), np.float32).copy_(pixels).div_(255).movedim(-1, -3),
}
"""Form -> function of a batch of decoded pixels (N, ..., H, W, 3), whose result may share its memory."""

EXTRA_COLUMNS = tuple(field.name for field in manifests.SCHEMA if not field.nullable)
"""Columns of the manifest that items can contain: those that always have a value, so that they can be collated."""


class Item(tuple[Any, ...]):
    """An item of a data set: (image, label) or (image, label, columns). It may belong to a batch that is collated.

    Attributes:
        batch: The batch, or None.
        number: Its number in the batch.
    """

    batch: list[Any] | None = None
    number = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


def as_lists(items: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return a batch whose images are a list, of any sizes; a ``collate_fn`` for loaders of ``Images``.

    Args:
        items: Tuples (image, label), or (image, label, {name: value}).

    Returns:
        (list of images, tensor of labels), or with a third entry {name: list of texts or tensor of numbers}.
    """
    images, *others = zip(*items, strict=True)
    return ([*images], *(default_collate([*each]) for each in others))


def _collate(items: Sequence[Item], **options: Any) -> Any:
    """Return the batch of items, without a copy if they are one batch in its order."""
    batch = items[0].batch
    if (
        batch is not None
        and len(items) == len(batch[0])
        and all(item.batch is batch and item.number == number for number, item in enumerate(items))
    ):
        return batch
    return _stacked(items)


def _stacked(items: Sequence[Item]) -> Any:
    """Return items as a batch. Raise UserError for images of different shapes."""
    try:
        return default_collate([tuple(item) for item in items])
    except RuntimeError as error:
        shapes = {tuple(np.shape(image)) for image, *_ in items}
        if len(shapes) == 1:
            raise
        raise _different_shapes(shapes) from error


def _different_shapes(shapes: Iterable[tuple[int, ...]]) -> UserError:
    """Return the error for images that cannot be batched."""
    named = sorted(map(str, shapes))
    return UserError(
        f"the images of a batch have different shapes, for example {' and '.join(named[:2])}: pass an "
        "input_transform that resizes and crops them; or batch lists of images, with as_lists=True for Stream and "
        "DataLoader(images, collate_fn=robustshards.torch.as_lists) for Images"
    )


default_collate_fn_map[Item] = _collate


@cache
def survive_forks() -> None:
    """Make OpenCV end its threads before each fork of this process, and start them again on use.

    A forked process has none of them, and waits for them forever when it sets their number.
    """
    numbers: list[int] = []

    def end_threads() -> None:
        numbers.append(cv2.getNumThreads())
        cv2.setNumThreads(1)

    def restore_number() -> None:
        cv2.setNumThreads(numbers.pop())

    os.register_at_fork(before=end_threads, after_in_parent=restore_number, after_in_child=restore_number)


def use_one_thread() -> None:
    """Set the number of OpenCV's threads to 1 in a loader process, since there is one for each CPU."""
    if get_worker_info() is not None:
        cv2.setNumThreads(1)


def open_data(data: Data) -> DataSet:
    """Return an opened data set; raise UserError for a location without one, and for other types."""
    if isinstance(data, DataSet):
        return data
    folder = os.fspath(data) if isinstance(data, str | os.PathLike) else data
    if not isinstance(folder, str):
        raise UserError(
            f"invalid data {data!r}: pass the folder or URL of a data set, or what robustshards.open returns"
        )
    return open_data_set(folder)


class Items:
    """Samples of a data set as items. Each process opens the data set itself, on first use."""

    def __init__(
        self, data_set: DataSet, as_: Form | None, input_transform: InputTransform | None, columns: Iterable[str]
    ) -> None:
        """Initialise it. Raise UserError if an argument is invalid; those of ``Images`` have the same meaning."""
        survive_forks()
        sequences = data_set.family.sequences
        self._location = data_set.absolute_location
        self.form = as_ if as_ is not None else "tensor" if input_transform is None or sequences else "pil"
        self.input_transform = input_transform
        self._columns = tuple([columns] if isinstance(columns, str) or not isinstance(columns, Iterable) else columns)
        self._opened: tuple[int, DataSet] | None = (os.getpid(), data_set)
        if self.form not in FORMS:
            raise UserError(f"invalid as_ {as_!r}: use {', '.join(map(repr, FORMS))}")
        if sequences and self.form == "pil":
            raise UserError(f"{data_set.name} contains sequences, which are no PIL images: use as_='tensor' or 'array'")
        if input_transform is not None and not callable(input_transform):
            raise UserError(f"invalid input_transform {input_transform!r}: pass a function of an image")
        if unknown := [name for name in self._columns if name not in EXTRA_COLUMNS]:
            raise UserError(f"invalid columns {unknown!r}: use names among {', '.join(EXTRA_COLUMNS)}")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def data_set(self) -> DataSet:
        """The data set, opened in this process."""
        if self._opened is None or self._opened[0] != os.getpid():  # clients of object stores do not survive a fork
            use_one_thread()
            self._opened = os.getpid(), open_data_set(*self._location)
        return self._opened[1]

    def of(self, row: Row) -> Item:
        """Return the item of a row: (image, label) or (image, label, columns). Raise UserError if it is damaged."""
        return self._item(row, self.data_set.pick(row))

    def each(self, rows: Sequence[Row]) -> Iterator[Item]:
        """Yield the items of rows. Raise UserError if one is damaged."""
        return map(self._item, rows, self.data_set.picked(rows))

    def _item(self, row: Row, sample: Sample) -> Item:
        with _decoding(row):
            image = FORMS[self.form](sample.pixels())
        if self.input_transform is not None:
            image = self.input_transform(image)
        return Item((image, *self._facts(row)))

    def together(self, rows: Sequence[Row]) -> Sequence[tuple[Any, ...]]:
        """Return the items of rows, decoded into one batch where their form and sizes allow it."""
        sizes = {(row.frames, row.height, row.width, row.encoder) for row in rows}
        if self.input_transform is not None or self.form == "pil" or len(sizes) > 1:
            return list(self.each(rows))
        batch = self.batch(rows)
        items = [Item((image, *self._facts(row))) for image, row in zip(batch[0], rows, strict=True)]
        for number, item in enumerate(items):
            item.batch, item.number = batch, number
        return items

    def batch(self, rows: Sequence[Row]) -> list[Any]:
        """Return the items of rows, collated: images, labels and columns. Raise UserError if one is damaged."""
        if self.input_transform is not None:
            return list(_stacked(list(self.each(rows))))
        return [COLLATED[self.form](self._pixels(rows)), *default_collate([self._facts(row) for row in rows])]

    def _pixels(self, rows: Sequence[Row]) -> torch.Tensor:
        """Return decoded images (N, H, W, 3), or frames of sequences (N, T, H, W, 3)."""
        data_set, first, batch = self.data_set, None, torch.empty(0)
        sequences, targets = data_set.family.sequences, np.empty(0, np.uint8)
        for number, (row, sample) in enumerate(zip(rows, data_set.picked(rows), strict=True)):
            frames, height, width = row.frames or 1, row.height or 0, row.width or 0
            shape = (*([frames] if sequences else []), 3, height, width)
            if first is None:
                first, batch = shape, empty((len(rows), frames, height, width, 3), sample.encoder.dtype)
                targets = batch.numpy()
            elif shape != first:
                raise _different_shapes([first, shape])
            with _decoding(row):
                for target, decode_into in zip(targets[number], sample.frames_into(), strict=True):
                    decode_into(target)
        return batch if sequences else batch[:, 0]

    def _facts(self, row: Row) -> tuple[Any, ...]:
        """Return the label of a row and, if requested, columns."""
        return (row.label, *([{name: getattr(row, name) for name in self._columns}] if self._columns else []))


@contextmanager
def _decoding(row: Row) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UserError(f"cannot decode {row.key} in {row.shard} ({error}): run robustshards verify") from error


def empty(shape: tuple[int, ...], dtype: type[np.generic]) -> torch.Tensor:
    """Return memory for a batch. Raise RuntimeError in a loader process that has no shared memory.

    That of a loader process is shared with its parent: torch would copy it, in a thread whose errors nobody receives.
    """
    if get_worker_info() is None:
        return torch.from_numpy(np.empty(shape, dtype))
    size = math.prod(shape) * np.dtype(dtype).itemsize
    storage = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
    return torch.from_numpy(np.empty(0, dtype)).set_(storage).view(shape)
