"""Loading of shards as batches, checked against the manifest and decoded in parallel, without extracting tars."""

import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from manifests import Row
from pipeline.datasets.base import Chunk, Location
from pipeline.datasets.findings import DamagedShardError
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.samples import Sample, pixel_digest
from pipeline.errors import SampleError, UnreachableError, UserError
from pipeline.evaluate.predict.preparation import Preparation, different_sizes, prepared_size
from pipeline.execution.local_worker import end_with
from pipeline.execution.processes import environment
from pipeline.guardian import guarded
from pipeline.loaders.ccc_samples import CCCSamples
from pipeline.loaders.items import empty
from pipeline.loaders.order import Share
from pipeline.loaders.rows import stream_rows
from pipeline.loaders.schedule import Schedule
from pipeline.storage.temporary import socket_folder
from pipeline.transforms.family import Condition

COMPARED_SAMPLES = 4
"""Number of samples per chunk whose decoded pixels are compared. A few suffice: another decoder changes all."""

PREFETCHED_BATCHES = 4
"""Number of batches that each loader process prefetches."""

PART_SAMPLES = 4096
"""Number of samples after which a part of the predictions of a stream ends."""

VERIFY = "run robustshards verify"

_WORKER_DIED = "DataLoader worker"
"""Start of torch's error message when a loader process died."""

_SHARED_MEMORY = "shared memory"
"""Part of torch's error messages when /dev/shm is full."""

_NO_SHARED_MEMORY = (
    "loader processes need shared memory, but /dev/shm is full or cannot be written: enlarge it (of a container: "
    "--shm-size 1g), use a smaller --batch-size, or --loaders 0"
)


@dataclass
class FrameBatch:
    """A batch of frames from one chunk.

    Attributes:
        chunk: Index of the chunk.
        images: Images, uint8 or uint16 of shape (N, H, W, 3). The largest value of the type stands for 1.0.
        rows: Manifest row of each frame.
        frames: Frame number of each frame within its sequence, from 0.
        last: Whether this is the last batch of the chunk.
        compared: Number of samples whose decoded pixels were compared with the manifest.
        changed: Number of compared samples whose pixels differ.
    """

    chunk: int
    images: torch.Tensor
    rows: list[Row] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    last: bool = False
    compared: int = 0
    changed: int = 0

    def pin_memory(self) -> "FrameBatch":
        """Move the images to page-locked memory, which speeds up the copy to a GPU."""
        self.images = self.images.pin_memory()
        return self


@dataclass(frozen=True)
class BrokenChunk:
    """A chunk that cannot be read, and the reason. ``unreachable``: the store does not answer."""

    chunk: int
    reason: str
    unreachable: bool = False


class FrameStream(IterableDataset[FrameBatch | BrokenChunk]):
    """A data set as batches. No batch spans two chunks, so batches do not depend on the order of chunks."""

    def __init__(
        self, location: Location, chunks: Sequence[Chunk], batch: int, preparation: Preparation | None = None
    ) -> None:
        self._location, self.chunks, self._batch, self._preparation = location, chunks, batch, preparation

    def __iter__(self) -> Iterator[FrameBatch | BrokenChunk]:
        """Yield the batches of all chunks, or in a loader process those of its share."""
        cv2.setNumThreads(1)
        worker = get_worker_info()
        for index, batches in self.read(*((worker.id, worker.num_workers) if worker else (0, 1))):
            try:
                yield from batches
            except UnreachableError as error:
                yield BrokenChunk(index, str(error), unreachable=True)
                return
            except UserError as error:  # says what to do
                yield BrokenChunk(index, str(error))
            except (SampleError, DamagedShardError, OSError, ValueError, MemoryError, cv2.error) as error:
                yield BrokenChunk(index, f"{str(error) or type(error).__name__}: {VERIFY}")

    @property
    def loaders(self) -> int:
        """The largest number of loader processes that have something to read."""
        return len(self.chunks)

    def read(self, loader: int, loaders: int) -> Iterator[tuple[int, Iterator[FrameBatch]]]:
        """Yield the chunks of a loader process: number and batches."""
        data_set = open_data_set(*self._location)
        for index, chunk in islice(enumerate(self.chunks), loader, None, loaders):
            samples = data_set.intact_samples(data_set.rows_of(chunk))
            yield index, _batches(samples, index, chunk, self._batch, self._preparation)


@dataclass(frozen=True)
class StreamOrder:
    """The order of a stream.

    Attributes:
        schedule: What the stream shows.
        ids: Ids of the chosen source images. None for all.
        batches: First sample and end of each batch, (batches, 2).
        ccc: The samples of a stream of CCC. None for others.
    """

    schedule: Schedule
    ids: frozenset[str] | None
    batches: np.ndarray
    ccc: CCCSamples | None = None

    def chunks(self) -> list[Chunk]:
        """Return the parts of the predictions: runs of batches that start in one entry."""
        firsts, ends = self.batches[:, 0], np.cumsum(self.schedule.sizes)
        kinds = np.searchsorted(ends, firsts, side="right") + (firsts // PART_SAMPLES) * (len(ends) + 1)
        starts = np.flatnonzero(np.diff(kinds, prepend=-1))
        spans = zip(firsts[starts], [*firsts[starts[1:]], self.batches[-1, 1]], strict=True)
        return [
            Chunk(f"stream-{number:06d}", Condition("stream", 0), int(first), *(int(stop - first),) * 3)
            for number, (first, stop) in enumerate(spans)
        ]

    def listed(self) -> np.ndarray:
        """Return the index of each sample of the stream in the order of the manifest."""
        labels = self.schedule.labels
        starts = dict(zip(labels, np.cumsum([0, *map(len, labels.values())]), strict=False))
        parts = [
            np.array([starts[condition] for condition in self.schedule.steps[entry]])[which] + index
            for entry, which, index, _ in self.schedule.samples()
        ]
        return np.concatenate(parts)


class OrderedFrames(FrameStream):
    """A data set as the batches of a stream, which loader processes read in turn."""

    def __init__(
        self, location: Location, chunks: Sequence[Chunk], order: StreamOrder, preparation: Preparation | None
    ) -> None:
        super().__init__(location, chunks, 0, preparation)
        self._order = order

    @property
    def loaders(self) -> int:
        """The largest number of loader processes that have something to read."""
        return len(self._order.batches)

    def read(self, loader: int, loaders: int) -> Iterator[tuple[int, Iterator[FrameBatch]]]:
        """Yield the batches of a loader process, each with the number of its chunk."""
        order = self._order
        data_set = open_data_set(*self._location) if order.ccc is None else order.ccc
        spans = order.batches[list(Share(loader=loader, loaders=loaders).units(0, len(order.batches)))]
        wanted = np.concatenate([np.zeros(0, np.int64), *(np.arange(*span) for span in spans)])
        if order.ccc is None:
            rows = stream_rows(data_set, order.schedule, order.ids, wanted)
        else:
            rows = map(order.ccc.row, wanted.tolist())
        firsts = [chunk.first for chunk in self.chunks]
        for start, stop in spans:
            count = int(stop - start)
            index = bisect_right(firsts, start) - 1
            chunk = replace(self.chunks[index], samples=count, frames=count)
            last = stop == chunk.first + chunk.count
            samples = map(data_set.pick, islice(rows, count))
            yield index, _batches(samples, index, chunk, count, self._preparation, last)


def load(stream: FrameStream, processes: int, pin: bool) -> Iterator[FrameBatch | BrokenChunk]:
    """Yield the batches of chunks, from loader processes if there are some, in pinned memory for a GPU.

    Raises:
        UserError: A loader process was killed, or there is no shared memory for loader processes.
        MemoryError: A loader process ended because memory or threads are missing.
        UnreachableError: The store of the images does not respond.
    """
    workers = min(processes, stream.loaders)
    options: dict[str, Any] = {}
    if workers:
        try:
            get_context("spawn").Lock()
        except OSError as error:
            raise UserError(_NO_SHARED_MEMORY) from error
        options = {"prefetch_factor": PREFETCHED_BATCHES, "multiprocessing_context": "spawn"}
        options["worker_init_fn"] = partial(_end_with, os.getpid())
    loader = DataLoader(stream, batch_size=None, num_workers=workers, pin_memory=pin, **options)
    finished = set[int]()
    folder = socket_folder() if workers else None
    with guarded(folder):
        # Loaders do not import from the current folder, and leave no sockets behind.
        with environment({"PYTHONSAFEPATH": "1", "TMPDIR": str(folder)} if workers else {}), _no_script():
            batches = iter(loader)
        try:
            for item in batches:
                if isinstance(item, BrokenChunk) and item.unreachable:
                    raise UnreachableError(item.reason)
                if isinstance(item, BrokenChunk) or item.last:
                    finished.add(item.chunk)
                yield item
        except RuntimeError as error:  # of torch, if a loader process fails or died
            message = str(error)
            if _SHARED_MEMORY in message:
                raise UserError(_NO_SHARED_MEMORY) from error
            if not message.startswith(_WORKER_DIED):
                raise
            if any(each.exitcode == 1 for each in batches._workers):  # type: ignore[attr-defined]
                raise MemoryError(message) from error  # an exception of Python outside of what reads images
            raise UserError(_death_message(stream.chunks, finished, workers)) from error
        finally:
            if workers:
                with suppress(RuntimeError):  # of loaders that died, which torch would print when it deletes batches
                    batches._shutdown_workers()  # type: ignore[attr-defined]


def _end_with(parent: int, loader: int) -> None:
    """Make a loader process end when its parent is killed."""
    end_with(parent)


def _death_message(chunks: Sequence[Chunk], finished: set[int], workers: int) -> str:
    """Return the error message for a died process, with the first unfinished chunk of each loader process."""
    shares = (range(first, len(chunks), workers) for first in range(workers))
    remaining = {index for index, chunk in enumerate(chunks) if chunk.frames} - finished
    latest = (next((index for index in share if index in remaining), None) for share in shares)
    names = ", ".join(chunks[index].name for index in latest if index is not None)
    return (
        f"a loader process died while reading one of {names}: an image may crash the decoder ({VERIFY}), or memory may "
        "be too small (reduce --loaders)"
    )


@contextmanager
def _no_script() -> Iterator[None]:
    """Hide the running script from processes started in this block, which would otherwise run it again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _batches(
    samples: Iterator[Sample], index: int, chunk: Chunk, batch: int, preparation: Preparation | None, ends: bool = True
) -> Iterator[FrameBatch]:
    """Yield the batches of a chunk, or of a part of it, which may be its end.

    Raise DamagedShardError, UserError, OSError or ValueError if it is damaged.
    """
    made: FrameBatch | None = None
    remaining, compared, changed = chunk.frames, 0, 0
    first: tuple[int, int] | None = None
    for count, sample in enumerate(samples):
        row = sample.row
        size = prepared_size(preparation, row)
        if size is None:
            continue
        first = first or size
        if size != first:
            raise ValueError(f"{row.key}: {different_sizes([first, size])}")
        if count < COMPARED_SAMPLES:
            compared += 1
            changed += row.pixel_sha256 is not None and pixel_digest(sample.pixels()) != row.pixel_sha256
        for frame, decode_into in enumerate(_prepared(sample, preparation) if preparation else sample.frames_into()):
            if made is None:
                made = FrameBatch(index, empty((min(batch, remaining), *size, 3), sample.encoder.dtype))
                targets = made.images.numpy()  # the same memory
            decode_into(targets[len(made.rows)])
            made.rows.append(row)
            made.frames.append(frame)
            if len(made.rows) == len(targets):
                remaining -= len(targets)
                yield replace(made, last=ends and remaining == 0, compared=compared, changed=changed)
                made, compared, changed = None, 0, 0
    if remaining or made:
        raise ValueError(
            f"{chunk.name} has {chunk.frames - remaining} frames instead of the {chunk.frames} in the manifest"
        )


def _prepared(sample: Sample, preparation: Preparation) -> Iterator[Callable[[np.ndarray], None]]:
    """Yield a function that writes the prepared image into an array."""
    yield lambda target: np.copyto(target, preparation.pixels(sample))
