"""CCC for PyTorch: an endless stream of photographs under two corruptions that change continuously."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch.utils.data import default_collate

from corruptions import ccc
from pipeline.errors import UserError
from pipeline.loaders.items import COLLATED, FORMS, Form, InputTransform, empty, survive_forks, use_one_thread
from pipeline.loaders.streams import SINGLE_ITEMS, Batch, SharedStream
from pipeline.render.ccc import LONGEST_STREAM, CCCImages, Place, ccc_images
from pipeline.settings import integer
from pipeline.sources.kinds import AUTO
from pipeline.storage.trusted_locations import absolute
from pipeline.transforms.seeds import SEED_LIMIT

COLUMNS = (*ccc.Step._fields, "step", "source_id")
"""What items can contain besides image and label."""

_COUNT = integer(1, LONGEST_STREAM)


class CCC(SharedStream):
    """A stream of CCC (Press et al., NeurIPS 2023) as a ``torch.utils.data.IterableDataset``.

    Its images are made from photographs when they are read.

    Items are batches (images, labels) as tensors. Pass it to ``DataLoader(ccc, batch_size=None, num_workers=N)``.
    Batches are cut from the whole stream, so that one may contain images of two steps. All batches are the same for any
    number of loader processes; ranks, ``seek``, ``state_dict`` and ``load_state_dict`` are those of ``Stream``.

    Args:
        source: Folder or URL of clean images, in any layout of ``robustshards build``. Labels are those of a build.
        accuracies: The accuracy matrix of a fixed model: path or URL of an ``.npz`` file, or its arrays. Key
            ``n1_<first>_n2_<second>`` -> percents, 21 x 21, at severities 0, 0.25 ... 5. Pickles are refused.
        baseline: Target accuracy in percent. Published: 40 (CCC-Easy), 20 (CCC-Medium) and 0 (CCC-Hard).
        speed: Images per step, all different. Published: 1000, 2000 and 5000.
        seed: Seed. Published: 43, 44 and 45.
        batch_size: Images per batch. None: items are single images (image, label).
        images: Length of the stream.
        pixels: Leave out the JPEG of quality 85 through which published images pass. Faster, with other pixels.
        source_kind: Layout of the source. Default: detected.
        classes: All class names in label order. Default: the source numbers its classes.
        input_transform: Function applied to each image, as for ``Images``.
        as_: Form of the images, as for ``Images``.
        columns: Names among ``first``, ``second``, ``first_severity``, ``second_severity``, ``step`` and ``source_id``.
            Items are then (image, label, {name: value}).
        unlabelled: Whether to accept images without labels, whose label is -1.
        rank: Number of this process among those that share the stream, as for ``Stream``.
        world_size: Number of processes that share the stream.
        equal_ranks: Whether all ranks read equally many items, as for ``Stream``.

    Raises:
        UserError: If an argument, the source or the matrix is invalid. Reading a damaged image raises it as well.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        accuracies: str | os.PathLike[str] | Mapping[str, ArrayLike],
        baseline: float = 20,
        speed: int = 1000,
        seed: int = 43,
        batch_size: int | None = 64,
        images: int = 7_500_000,
        *,
        pixels: bool = False,
        source_kind: str = AUTO,
        classes: Sequence[str] = (),
        input_transform: InputTransform | None = None,
        as_: Form | None = None,
        columns: Iterable[str] = (),
        unlabelled: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        equal_ranks: bool = False,
    ) -> None:
        super().__init__(rank, world_size, equal_ranks)
        survive_forks()
        stream = ccc.StreamKey(
            baseline, _COUNT.checked(speed, "speed"), integer(0, SEED_LIMIT - 1).checked(seed, "seed")
        )
        self._batch_size = None if batch_size is None else _COUNT.checked(batch_size, "batch_size")
        self._form = as_ or ("tensor" if input_transform is None else "pil")
        self._input_transform = input_transform
        self._columns = (columns,) if isinstance(columns, str) else tuple(columns)
        if self._form not in FORMS or (self._form == "pil" and input_transform is None and batch_size is not None):
            raise UserError(f"invalid as_ {as_!r}: use 'tensor' or 'array', or 'pil' with an input_transform")
        if unknown := [name for name in self._columns if name not in COLUMNS]:
            raise UserError(f"invalid columns {unknown!r}: use names among {', '.join(COLUMNS)}")
        if not isinstance(accuracies, str | os.PathLike | Mapping):
            raise UserError(f"invalid accuracies {accuracies!r}: pass the path of an .npz file, or arrays by key")
        matrix = accuracies if isinstance(accuracies, Mapping) else os.fspath(accuracies)
        self._images: CCCImages = ccc_images(
            absolute(os.fspath(source)),
            matrix,
            stream,
            _COUNT.checked(images, "images"),
            kind=source_kind,
            classes=classes,
            encode=not pixels,
            unlabelled=unlabelled,
        )

    def __repr__(self) -> str:
        """Return the name of the stream and its length."""
        return f"<CCC {self._images.stream}: {self._images.length:,} images in {len(self._images.steps):,} steps>"

    def _items_of_all(self) -> int:
        return -(-self._images.length // (self._batch_size or 1))

    def _made(self, items: Sequence[int]) -> Iterator[Any]:
        use_one_thread()
        if self._batch_size is None:
            for first in range(0, len(items), SINGLE_ITEMS):
                places = [self._images.at(number) for number in items[first : first + SINGLE_ITEMS]]
                for place, image in zip(places, self._made_of(places), strict=True):
                    yield (image, *self._extra(place))
            return
        for item in items:
            first = item * self._batch_size
            places = [
                self._images.at(each) for each in range(first, min(first + self._batch_size, self._images.length))
            ]
            yield Batch([self._together(places), *default_collate([self._extra(place) for place in places])])

    def _made_of(self, places: Sequence[Place]) -> Iterator[Any]:
        """Yield the images in their form."""
        images = map(FORMS[self._form], self._images.rendered(places))
        return images if self._input_transform is None else map(self._input_transform, images)

    def _extra(self, place: Place) -> tuple[Any, ...]:
        """Return what follows an image: its label, and columns if there are any."""
        known = {**place.step._asdict(), "step": place.number, "source_id": place.image.id}
        return (place.image.label, *([{name: known[name] for name in self._columns}] if self._columns else []))

    def _together(self, places: Sequence[Place]) -> Any:
        """Return images as a batch."""
        if self._input_transform is not None:
            return default_collate(list(self._made_of(places)))
        images = empty((len(places), ccc.SIDE, ccc.SIDE, 3), np.uint8)
        for image, target in zip(self._images.rendered(places), images.numpy(), strict=True):
            target[...] = image
        return COLLATED[self._form](images)

    def _facts(self) -> object:
        return self._images.digest, self._batch_size
