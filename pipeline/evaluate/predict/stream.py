"""Loading of shards as batches, checked against the manifest and decoded in parallel, without extracting tars."""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import cv2
import numpy as np
import torch

from pipeline.datasets.base import Chunk, Location
from pipeline.datasets.findings import DamagedShardError
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.samples import Sample, pixel_digest
from pipeline.errors import SampleError, UnreachableError, UserError
from pipeline.evaluate.predict.memory import BatchMemory
from pipeline.evaluate.predict.preparation import Preparation, different_sizes, prepared_size
from pipeline.evaluate.results.predictions import Frame
from pipeline.loaders.ccc_samples import CCCSamples
from pipeline.loaders.order import Share
from pipeline.loaders.rows import stream_rows
from pipeline.loaders.schedule import Schedule
from pipeline.transforms.family import Condition

COMPARED_SAMPLES = 4
"""Number of samples per chunk whose decoded pixels are compared. A few suffice: another decoder changes all."""

PART_SAMPLES = 4096
"""Number of samples after which a part of the predictions of a stream ends."""

VERIFY = "run robustshards verify"


@dataclass
class FrameBatch:
    """A batch of frames from one chunk.

    Attributes:
        chunk: Index of the chunk.
        images: Images, uint8 or uint16 of shape (N, H, W, 3). The largest value of the type stands for 1.0.
        frames: The frames.
        conditions: The condition of each frame.
        last: Whether this is the last batch of the chunk.
        compared: Number of samples whose decoded pixels were compared with the manifest.
        changed: Number of compared samples whose pixels differ.
    """

    chunk: int
    images: torch.Tensor
    frames: list[Frame] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    last: bool = False
    compared: int = 0
    changed: int = 0


@dataclass(frozen=True)
class BrokenChunk:
    """A chunk that cannot be read, and the reason. ``unreachable``: the store does not answer."""

    chunk: int
    reason: str
    unreachable: bool = False


class FrameStream:
    """A data set as batches. No batch spans two chunks, so batches do not depend on the order of chunks.

    Attributes:
        in_order: Whether the chunks have an order.
    """

    in_order = False

    def __init__(
        self, location: Location, chunks: Sequence[Chunk], batch: int, preparation: Preparation | None = None
    ) -> None:
        self._location, self.chunks, self._batch, self._preparation = location, chunks, batch, preparation

    def batches(self, memory: BatchMemory, loader: int = 0, loaders: int = 1) -> Generator[FrameBatch | BrokenChunk]:
        """Yield the batches of all chunks, or those of a loader process. ``IN_FLIGHT`` of them are valid at a time."""
        cv2.setNumThreads(1)
        for index, batches in self.read(memory, loader, loaders):
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

    def read(self, memory: BatchMemory, loader: int, loaders: int) -> Iterator[tuple[int, Iterator[FrameBatch]]]:
        """Yield the chunks of a loader process: number and batches."""
        data_set = open_data_set(*self._location)
        for index, chunk in islice(enumerate(self.chunks), loader, None, loaders):
            samples = data_set.intact_samples(data_set.rows_of(chunk))
            yield index, _batches(samples, index, chunk, self._batch, self._preparation, memory)


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

    in_order = True

    def __init__(
        self, location: Location, chunks: Sequence[Chunk], order: StreamOrder, preparation: Preparation | None
    ) -> None:
        super().__init__(location, chunks, 0, preparation)
        self._order = order

    @property
    def loaders(self) -> int:
        """The largest number of loader processes that have something to read."""
        return len(self._order.batches)

    def read(self, memory: BatchMemory, loader: int, loaders: int) -> Iterator[tuple[int, Iterator[FrameBatch]]]:
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
            samples = data_set.picked(list(islice(rows, count)))
            yield index, _batches(samples, index, chunk, count, self._preparation, memory, last)


def _batches(
    samples: Iterator[Sample],
    index: int,
    chunk: Chunk,
    batch: int,
    preparation: Preparation | None,
    memory: BatchMemory,
    ends: bool = True,
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
                made = FrameBatch(index, memory.images((min(batch, remaining), *size, 3), sample.encoder.dtype))
                targets = made.images.numpy()  # the same memory
            decode_into(targets[len(made.frames)])
            made.frames.append(Frame.of(row, frame))
            made.conditions.append(Condition(row.transform, row.level))
            if len(made.frames) == len(targets):
                remaining -= len(targets)
                yield replace(made, last=ends and remaining == 0, compared=compared, changed=changed)
                memory.advance()
                made, compared, changed = None, 0, 0
    if remaining or made:
        raise ValueError(
            f"{chunk.name} has {chunk.frames - remaining} frames instead of the {chunk.frames} in the manifest"
        )


def _prepared(sample: Sample, preparation: Preparation) -> Iterator[Callable[[np.ndarray], None]]:
    """Yield a function that writes the prepared image into an array."""
    yield lambda target: np.copyto(target, preparation.pixels(sample))
