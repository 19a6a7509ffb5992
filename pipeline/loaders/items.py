"""Items of data sets for PyTorch: an image in the requested form, its label, and columns of its manifest row."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    return torch.from_numpy(np.array(np.moveaxis(pixels, -1, -3), order="C"))


def _float(pixels: NDArray[np.uint8]) -> torch.Tensor:
    """Return pixels (..., H, W, 3) as a tensor (..., 3, H, W) of numbers from 0 to 1."""
    return _tensor(pixels).float().div_(255)


def _array(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return an array that the user may change."""
    return np.require(pixels, requirements=["C", "W"])


FORMS: Mapping[str, Callable[[NDArray[np.uint8]], Any]] = {
    "pil": PillowImage.fromarray,
    "tensor": _tensor,
    "array": _array,
    "float": _float,
}
"""Form -> function of the decoded pixels."""

EXTRA_COLUMNS = tuple(field.name for field in manifests.SCHEMA if not field.nullable)
"""Columns of the manifest that items can contain: those that always have a value, so that they can be collated."""


class Item(tuple[Any, ...]):
    """An item of a data set: (image, label) or (image, label, columns). It has a batching of its own."""

    __slots__ = ()


def stacked(items: Sequence[tuple[Any, ...]], **options: Any) -> Any:
    """Return a batch as ``default_collate`` does. Raise UserError for images of different shapes."""
    try:
        return default_collate([tuple(item) for item in items])
    except RuntimeError as error:
        shapes = sorted({str(tuple(np.shape(image))) for image, *_ in items})
        if len(shapes) == 1:
            raise
        raise UserError(
            f"the images of a batch have different shapes, for example {' and '.join(shapes[:2])}: pass an "
            "input_transform that resizes and crops them; or batch lists of images, with as_lists=True for Stream and "
            "DataLoader(images, collate_fn=robustshards.torch.as_lists) for Images"
        ) from error


def as_lists(items: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return a batch whose images are a list, of any sizes; a ``collate_fn`` for loaders of ``Images``.

    Args:
        items: Tuples (image, label), or (image, label, {name: value}).

    Returns:
        (list of images, tensor of labels), or with a third entry {name: list of texts or tensor of numbers}.
    """
    images, *others = zip(*items, strict=True)
    return ([*images], *(default_collate([*each]) for each in others))


default_collate_fn_map[Item] = stacked


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
        """Initialise it.

        Args:
            data_set: The data set.
            as_: Form of the images. Default: PIL images for an ``input_transform``, else tensors.
            input_transform: Function applied to each image. None for none.
            columns: Columns of the manifest that items contain.

        Raises:
            UserError: If an argument is invalid.
        """
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
        # Clients of object stores, and OpenCV's threads, do not survive a fork.
        if self._opened is None or self._opened[0] != os.getpid():
            if get_worker_info() is not None:
                cv2.setNumThreads(1)
            self._opened = os.getpid(), open_data_set(*self._location)
        return self._opened[1]

    def of(self, row: Row) -> tuple[Any, ...]:
        """Return the item of a row: (image, label) or (image, label, columns). Raise UserError if it is damaged."""
        sample = self.data_set.pick(row)
        try:
            image = FORMS[self.form](sample.pixels())
        except ValueError as error:
            raise UserError(f"cannot decode {row.key} in {row.shard} ({error}): run robustshards verify") from error
        if self.input_transform is not None:
            image = self.input_transform(image)
        extra = ({name: getattr(row, name) for name in self._columns},) if self._columns else ()
        return Item((image, row.label, *extra))


def empty(shape: tuple[int, ...], dtype: type[np.generic]) -> torch.Tensor:
    """Return memory for a batch. Raise RuntimeError in a loader process that has no shared memory.

    That of a loader process is shared with its parent: torch would copy it, in a thread whose errors nobody receives.
    """
    if get_worker_info() is None:
        return torch.from_numpy(np.empty(shape, dtype))
    size = math.prod(shape) * np.dtype(dtype).itemsize
    storage = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
    return torch.from_numpy(np.empty(0, dtype)).set_(storage).view(shape)
