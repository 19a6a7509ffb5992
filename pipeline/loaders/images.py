"""A data set with random access for PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch.utils.data import Dataset

import manifests
from corruptions.validation import check_integer
from manifests import Row
from pipeline.datasets.base import check_condition
from pipeline.errors import UserError
from pipeline.loaders.items import Data, Form, InputTransform, Items, open_data
from pipeline.loaders.order import named_conditions
from pipeline.loaders.rows import check_ids, check_samples, filters, joined, rows_of
from pipeline.text import counted, printable


class Images(Dataset[Any]):
    """Samples of a finished data set as a map-style ``torch.utils.data.Dataset`` of (image, label).

    ``len(images)`` is the number of samples, and ``images[i]`` reads and decodes one, compared with its digest. Samples
    that failed to build are left out. The order is that of the manifest: transforms and levels as published, source
    images as listed.

    Images of different sizes cannot be stacked: pass an ``input_transform`` that gives them one size, or batch lists
    with ``DataLoader(images, batch_size=N, collate_fn=robustshards.torch.as_lists)``.

    Instances can be pickled, and work with ``DataLoader(images, num_workers=N)`` under fork and spawn. Rows of the
    manifest are in memory, about 0.6 KB per sample; forked processes share them, spawned ones read them again.

    Args:
        data: Folder or URL of a data set, or what ``robustshards.open`` returns: built, indexed or rendered.
        transform: Name of a corruption, perturbation or pair, for example ``"fog"``. Default: all.
        level: Severity or difficulty, for example 3. Default: all.
        ids: Ids of source images (column ``source_id`` of the manifest); only their samples are used. Default: all.
        input_transform: Function applied to each image before it is returned, for example a transform of torchvision
            v2 or timm that resizes and normalises for a model. Default: none.
        as_: Form of the images, also those given to ``input_transform``: ``"pil"`` (PIL image), ``"tensor"`` (uint8,
            (3, H, W)), ``"float"`` (the same as float32 from 0 to 1) or ``"array"`` (uint8, (H, W, 3)). Sequences, as
            in ImageNet-P, have a leading axis of frames: (T, 3, H, W) or (T, H, W, 3). Default: ``"pil"`` if there is
            an ``input_transform`` for images, else ``"tensor"``.
        columns: Names of manifest columns, for example ``("transform", "level", "source_id")``. Items are then
            (image, label, {name: value}). Default: none.
        unlabelled: Whether to accept samples without labels, whose label is -1.

    Raises:
        UserError: If an argument is invalid, or the data set is not finished or has no such samples. Reading a damaged
            sample raises it as well.
    """

    def __init__(
        self,
        data: Data,
        transform: str | None = None,
        level: int | None = None,
        *,
        ids: Iterable[str] | None = None,
        input_transform: InputTransform | None = None,
        as_: Form | None = None,
        columns: Iterable[str] = (),
        unlabelled: bool = False,
    ) -> None:
        if callable(transform):
            raise UserError("transform is the name of a corruption; pass a function of an image as input_transform")
        data_set = open_data(data)
        self._items = Items(data_set, as_, input_transform, columns)
        chosen = check_ids(ids)
        check_condition(transform, level)
        self._filters = filters(transform, level, chosen)
        self._loaded: pa.Table | None = None
        self._length = self._rows.num_rows
        self._name = data_set.name
        check_samples([self._rows], chosen, unlabelled, data_set.name)
        if not self._length:
            wanted = " ".join(str(part) for part in (transform, level) if part is not None) or "any transform"
            held = named_conditions(data_set.counts())
            raise UserError(f"{data_set.name} has no samples of {wanted}; it has {held}")

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self._items.of(self.row(index))

    def __getitems__(self, indices: Sequence[int]) -> Sequence[tuple[Any, ...]]:
        """Return several samples, as a ``DataLoader`` asks for those of a batch."""
        return self._items.together(rows_of(self._rows, [self._position(index) for index in indices]))

    def __repr__(self) -> str:
        """Return the data set, the condition, the number of samples and their form."""
        chosen = "".join(
            f", {name} {value!r}" for name in ("transform", "level") for value in self._filters.get(name, ())
        )
        samples = counted(self._length, "sample")
        return f"<Images of {printable(self._name)!r}{chosen}: {samples} as {self._items.form}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels of all samples, (samples,); -1 for samples without one."""
        return np.array(self._rows["label"])

    def row(self, index: int) -> Row:
        """Return the manifest row of a sample: its key, source image, class, transform, level and digests.

        Args:
            index: Index of the sample; negative ones count from the end.

        Raises:
            IndexError: If there is no such sample.
            TypeError: If the index is not an integer.
        """
        return rows_of(self._rows, [self._position(index)])[0]

    def _position(self, index: int) -> int:
        number = check_integer(index, "index")
        if not -self._length <= number < self._length:
            raise IndexError(f"index {number} is out of range: there are {counted(self._length, 'sample')}")
        return number % self._length

    @property
    def _rows(self) -> pa.Table:
        if self._loaded is None:
            self._loaded = joined(self._items.data_set.tables(manifests.COLUMNS, self._filters))
        return self._loaded
