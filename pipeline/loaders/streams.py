"""A stream of conditions for PyTorch, in an order that does not depend on the number of processes."""

from __future__ import annotations

import hashlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from corruptions.validation import is_integer
from pipeline.errors import UserError
from pipeline.loaders.items import Data, Form, InputTransform, Items, as_lists, open_data
from pipeline.loaders.order import Share, check_seed
from pipeline.loaders.rows import read_schedule, stream_rows, with_clean_images
from pipeline.loaders.schedule import Schedule
from pipeline.text import counted, printable

_STREAM, _LOADERS = "stream", "loaders"
"""Keys of a state: the digest of what decides the items, and the number of loader processes, 0 in the main process.
The others are the fields of Position."""

SINGLE_ITEMS = 64
"""Number of samples that a stream without batches takes at a time, because some stores read several together."""


class Batch(tuple[Any, ...]):
    """A batch of a stream, which a loader must not batch again."""

    __slots__ = ()


def _refuse_batches(batches: Any, **options: Any) -> Any:
    raise UserError(
        "this stream makes the batches: pass batch_size=None to DataLoader, as in DataLoader(stream, batch_size=None), "
        "or omit batch_size of the stream"
    )


default_collate_fn_map[Batch] = _refuse_batches


@dataclass(frozen=True)
class Position:
    """Progress of an iteration in one process, counted in items of the rank.

    Attributes:
        origin: Number of items before the iteration, which no process reads.
        reached: Number of items up to the latest one that this process has read, or like ``origin``.
    """

    origin: int = 0
    reached: int = 0


class SharedStream(IterableDataset[Any], ABC):
    """Items in one order, which ranks and their loader processes share, and whose reading can be resumed.

    The arguments are those of ``Stream``. UserError is raised if only one of rank and world size is given, or invalid.
    """

    def __init__(self, rank: int | None, world_size: int | None, equal_ranks: bool = False) -> None:
        self._ranks = _check_ranks(rank, world_size)
        self._equal_ranks = bool(equal_ranks)
        self._next = self._latest = Position()

    @abstractmethod
    def _items_of_all(self) -> int:
        """Return the number of items, before ranks are made equal."""

    @abstractmethod
    def _made(self, items: Sequence[int]) -> Iterator[Any]:
        """Yield the items of these numbers, which increase."""

    @abstractmethod
    def _facts(self) -> object:
        """Return what decides the items, apart from the content of the data; its ``repr`` is the same everywhere."""

    def __len__(self) -> int:
        """Return the number of items that this rank reads."""
        return self._share().length(self._units())

    def __iter__(self) -> Iterator[Any]:
        """Yield the items of this rank, or in a loader process its share of them."""
        self._latest, self._next = self._next, Position()
        return self._read(self._share(self._latest.origin), self._latest.reached)

    def __getstate__(self) -> dict[str, Any]:
        # A spawned loader process does not know torch.distributed.
        return {**self.__dict__, "_ranks": self._current_ranks()}

    def seek(self, position: int) -> None:
        """Start the next iteration after the first ``position`` items of this rank.

        With loader processes, it applies to all iterations until the next call.

        Raises:
            UserError: If the position is outside of 0 .. ``len(stream)``.
        """
        items = len(self)
        if not is_integer(position) or not 0 <= operator.index(position) <= items:
            raise UserError(f"invalid position {position!r}: the stream has {items} items on this rank")
        self._next = self._latest = Position(operator.index(position), operator.index(position))

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the latest item of the iteration in this process."""
        return {_STREAM: self._digest(), _LOADERS: _loaders(), **asdict(self._latest)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Start the next iteration after the latest item of a saved state, as :meth:`seek` does.

        Raises:
            UserError: If the state belongs to another stream, or to another number of loader processes.
        """
        if not isinstance(state_dict, Mapping) or state_dict.get(_STREAM) != self._digest():
            raise UserError(
                "the state belongs to another stream: resume with the same data, conditions, protocol and "
                "parameters, batch_size, shuffle, ids, rank and world_size"
            )
        if state_dict[_LOADERS] != _loaders():
            raise UserError(
                f"the state was saved with {state_dict[_LOADERS]} loader processes, but there are {_loaders()}: resume "
                f"with num_workers={state_dict[_LOADERS]}, or call seek with the number of items that were read"
            )
        self.seek(state_dict["reached"])
        if get_worker_info() is not None:  # the processes share what follows the origin
            self._next = self._latest = Position(state_dict["origin"], state_dict["reached"])

    def _read(self, share: Share, reached: int) -> Iterator[Any]:
        """Yield the items of a share, after the first ``reached`` ones of the rank."""
        units = share.units(0, self._units(), reached)
        for unit, item in zip(units, self._made(units), strict=True):
            self._latest = Position(share.origin, unit // share.world_size + 1)
            yield item

    def _units(self) -> int:
        """Return the number of items that all ranks read together."""
        units = self._items_of_all()
        return units - units % self._current_ranks()[1] if self._equal_ranks else units

    def _current_ranks(self) -> tuple[int, int]:
        if self._ranks is not None:
            return self._ranks
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return 0, 1

    def _share(self, origin: int = 0) -> Share:
        worker = get_worker_info()
        loader = (worker.id, worker.num_workers) if worker else (0, 1)
        return Share(*self._current_ranks(), *loader, origin)

    def _digest(self) -> str:
        """Return a digest of what decides the items of this rank, apart from the content of the data."""
        facts = (self._facts(), self._units(), self._current_ranks())
        return hashlib.sha256(repr(facts).encode("utf-8", "surrogatepass")).hexdigest()


class Stream(SharedStream):
    """Samples of a finished data set as a ``torch.utils.data.IterableDataset``, in the order of a protocol.

    With ``batch_size``, items are batches (images, labels) as tensors, else samples (image, label). A batch contains
    samples of one entry of the protocol, unless ``across`` is True; the last batch of an entry may be smaller. Pass the
    stream to ``DataLoader(stream, batch_size=None, num_workers=N)``: the stream makes the batches, so that they are the
    same, in the same order, for any number of loader processes.

    With several ranks, each rank reads every ``world_size``-th item, starting with item ``rank``; together they read
    each item once, so one rank may have an item less than another. Instances can be pickled. A process holds the
    manifest rows of its samples of one entry, about 0.6 KB per sample.

    ``state_dict`` and ``load_state_dict`` resume a stream, also through torchdata's ``StatefulDataLoader``.
    ``schedule`` has what the stream shows: its entries, parameters, ``digest`` and ``facts(batch_size)``.

    Args:
        data: Folder or URL of a data set, or what ``robustshards.open`` returns: built, indexed or rendered.
        conditions: Pairs (transform, level) in the order to visit them, for example ``[("fog", 5), ("snow", 5)]``.
            A pair may occur several times. A list of pairs as an entry is a mixture: all its samples in one random
            order. The name alone suffices for a transform with a single level. Default: those of the protocol.
        protocol: Name of the protocol; ``robustshards streams`` lists them. Default: ``"continual"``, one condition
            after another, each in a random order.
        batch_size: Samples per item. Default: items are single samples.
        as_lists: Whether the images of a batch are a list instead of a tensor, for images of several sizes.
        shuffle: Seed of the orders, an integer from 0. Each entry has an order of its own. Default: 0. For the order of
            the manifest, **which is sorted by class** for most sources, use the protocol ``"manifest"``.
        drop_last: Whether to leave out batches with fewer than ``batch_size`` samples.
        subset: Name of a subset of source images: ``"robustbench-5000"``. Images that the data set lacks are left out;
            ``missing`` is their number. Default: all.
        ids: Ids of source images (column ``source_id`` of the manifest); only their samples are used. Default: all.
        input_transform: Function applied to each image, as for ``Images``.
        as_: Form of the images, as for ``Images``. In batches, tensors and arrays become tensors.
        columns: Names of manifest columns, for example ``("transform", "level")``. Items are then (image, label,
            {name: value}); in batches, {name: list of texts or tensor of numbers}. Default: none.
        unlabelled: Whether to accept samples without labels, whose label is -1.
        rank: Number of this process among those that share the stream, from 0. Default: that of
            ``torch.distributed`` where it is initialised, else 0.
        world_size: Number of processes that share the stream. Default: like ``rank``, else 1.
        equal_ranks: Whether all ranks read equally many items; up to ``world_size - 1`` items at the end are left out.
        **parameters: Parameters of the protocol, for example ``severity=5, order=5, gamma=0.1``, and ``across``:
            whether batches may span two entries. Default: the published ones. ``listed``: ids of source images, or a
            text file of them; ``single``, ``continual``, ``gradual`` and ``bs1`` show only these, in this order, in
            every entry. ``clean``: what ``data`` can be, for ``in-out``, which mixes its clean images in.

    Raises:
        UserError: If an argument is invalid, or the data set is not finished or has no such samples. Reading a damaged
            sample raises it as well.
    """

    def __init__(
        self,
        data: Data,
        conditions: Sequence[Any] | None = None,
        *,
        protocol: str | None = None,
        batch_size: int | None = None,
        as_lists: bool = False,
        shuffle: int | None = None,
        drop_last: bool = False,
        subset: str | None = None,
        ids: Iterable[str] | None = None,
        input_transform: InputTransform | None = None,
        as_: Form | None = None,
        columns: Iterable[str] = (),
        unlabelled: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        equal_ranks: bool = False,
        **parameters: Any,
    ) -> None:
        super().__init__(rank, world_size, equal_ranks)
        data_set = with_clean_images(open_data(data), protocol, parameters)
        self._items = Items(data_set, as_, input_transform, columns)
        self._as_lists = bool(as_lists)
        self._batch_size = _check_batch_size(batch_size, self._items, self._as_lists)
        seed = check_seed(shuffle, "shuffle")
        self.schedule: Schedule
        self.schedule, self._ids, self.missing = read_schedule(
            data_set, protocol, parameters, seed, conditions=conditions, ids=ids, subset=subset, unlabelled=unlabelled
        )
        self._batches = self.schedule.batches(self._batch_size or 1, bool(drop_last))
        self._name = data_set.name

    def __repr__(self) -> str:
        """Return the data set and the numbers of items and steps."""
        size = "samples" if self._batch_size is None else f"batches of {self._batch_size}"
        protocol, entries = self.schedule.protocol.name, counted(len(self.schedule.steps), "entry", "entries")
        order = f"protocol {protocol}, shuffle={self.schedule.seed}"
        return f"<Stream of {printable(self._name)!r}: {len(self):,} {size} in {entries}, {order}>"

    def _items_of_all(self) -> int:
        return len(self._batches)

    def _made(self, items: Sequence[int]) -> Iterator[Any]:
        spans = self._batches[list(items)]
        wanted = np.concatenate([np.zeros(0, np.int64), *(np.arange(*span) for span in spans)])
        rows = stream_rows(self._items.data_set, self.schedule, self._ids, wanted)
        if self._batch_size is None:
            while some := list(islice(rows, SINGLE_ITEMS)):
                yield from self._items.each(some)
            return
        for start, stop in spans:
            batch = list(islice(rows, stop - start))
            yield Batch(as_lists(list(self._items.each(batch))) if self._as_lists else self._items.batch(batch))

    def _facts(self) -> object:
        ids = None if self._ids is None else sorted(self._ids)
        return self._name, self.schedule.digest, self._batch_size, self._batches.tobytes(), ids


def _loaders() -> int:
    """Return the number of loader processes; 0 in the main process."""
    worker = get_worker_info()
    return worker.num_workers if worker else 0


def _check_batch_size(batch_size: Any, items: Items, as_lists: bool) -> int | None:
    if batch_size is None:
        return None
    if not is_integer(batch_size) or operator.index(batch_size) < 1:
        raise UserError(f"invalid batch_size {batch_size!r}: use an integer of at least 1, or None for single samples")
    if items.form == "pil" and items.input_transform is None and not as_lists:
        raise UserError(
            "PIL images cannot be batched: omit as_, pass an input_transform that makes tensors, or pass as_lists=True"
        )
    return operator.index(batch_size)


def _check_ranks(rank: Any, world_size: Any) -> tuple[int, int] | None:
    """Return rank and number of ranks, or None if torch.distributed decides."""
    if rank is None and world_size is None:
        return None
    if not (is_integer(rank) and is_integer(world_size) and 0 <= operator.index(rank) < operator.index(world_size)):
        raise UserError(
            f"invalid rank {rank!r} and world_size {world_size!r}: pass both, with 0 <= rank < world_size, or neither"
        )
    return operator.index(rank), operator.index(world_size)
