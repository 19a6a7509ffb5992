"""Shards as batches for a model: checked against the manifest, decoded in parallel, never extracted."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import ModuleType

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import manifests
from manifests import Row
from pipeline.datasets.base import Chunk, DamagedShardError, DataSet
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.samples import Sample, pixel_digest
from pipeline.errors import UserError

COMPARED = 4
"""Samples of each chunk whose decoded pixels are compared with the manifest; a decoder that differs changes all."""

AHEAD = 4
"""Batches that each loader process prefetches."""

VERIFY = "run robustshards verify"

_DEATH = "DataLoader worker"
"""The beginning of torch's message when a loader process has died."""

_SAFE_PATH = "PYTHONSAFEPATH"
"""Python's variable that keeps the current folder out of the import path."""


@dataclass
class Batch:
    """Frames of one chunk: images (N, H, W, 3) uint8, with a row and frame number each; ``last`` ends the chunk."""

    chunk: int
    images: torch.Tensor
    rows: list[Row]
    frames: list[int]
    last: bool
    compared: int = 0
    changed: int = 0

    def pin_memory(self) -> Batch:
        """Move the images to page-locked memory, which a GPU reads without another copy."""
        self.images = self.images.pin_memory()
        return self


@dataclass(frozen=True)
class Broken:
    """A chunk that cannot be read, and why."""

    chunk: int
    reason: str


@dataclass
class _Waiting:
    """A batch that is being filled."""

    images: np.ndarray
    rows: list[Row] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)


class Stream(IterableDataset[Batch | Broken]):
    """Chunks of a data set as batches, none of which spans two chunks: they are the same in any order."""

    def __init__(self, folder: str, chunks: Sequence[Chunk], batch: int, data: str | None = None) -> None:
        self._folder, self._data = folder, data
        self._chunks = chunks
        self._batch = batch

    def __iter__(self) -> Iterator[Batch | Broken]:
        """Yield the batches of all chunks; in a loader process, of its share."""
        cv2.setNumThreads(1)
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        data_set = open_data_set(self._folder, self._data)
        for place, chunk in islice(enumerate(self._chunks), first, None, step):
            try:
                yield from _batches(data_set, place, chunk, self._batch)
            except (UserError, DamagedShardError, OSError, ValueError, MemoryError, cv2.error) as error:
                yield Broken(place, f"{str(error) or type(error).__name__}: {VERIFY}")


def load(
    folder: str, chunks: Sequence[Chunk], batch: int, processes: int, pin: bool, data: str | None = None
) -> Iterator[Batch | Broken]:
    """Yield the batches of all chunks.

    Args:
        folder: A data set.
        chunks: What to read of it.
        batch: Images per batch, at most.
        processes: Loader processes; 0 reads and decodes in this one.
        pin: Whether to pin the memory of batches, for a GPU.
        data: Where the files of an index are, if the user said so.

    Raises:
        UserError: A loader process died.
    """
    gc.freeze()  # skip what is loaded by now in every later collection
    stream = Stream(folder, chunks, batch, data)
    workers = min(processes, len(chunks))
    options = {"prefetch_factor": AHEAD, "multiprocessing_context": "spawn"} if workers else {}
    loader = DataLoader(stream, batch_size=None, num_workers=workers, pin_memory=pin, **options)  # type: ignore[arg-type]
    finished = set[int]()
    try:
        with _safe_path(), _no_script():
            batches = iter(loader)
        for item in batches:
            if isinstance(item, Broken) or item.last:
                finished.add(item.chunk)
            yield item
    except RuntimeError as error:  # torch's error for a process that has died
        if not str(error).startswith(_DEATH):
            raise
        raise UserError(_death(chunks, finished, workers)) from error


def _death(chunks: Sequence[Chunk], finished: set[int], workers: int) -> str:
    """Return the message for a process that died, with the first unfinished chunk of each process."""
    shares = (range(first, len(chunks), workers) for first in range(workers))
    left = {place for place, chunk in enumerate(chunks) if chunk.frames} - finished
    latest = (next((place for place in share if place in left), None) for share in shares)
    names = ", ".join(chunks[place].name for place in latest if place is not None)
    return (
        f"a loader process died while reading one of {names}: an image may crash its decoder ({VERIFY}), or memory may "
        "be too small (give fewer --loaders)"
    )


@contextmanager
def _no_script() -> Iterator[None]:
    """Hide the script that runs from the processes started in this block: each would run it again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _safe_path() -> Iterator[None]:
    """Keep the current folder out of the import path of the processes started in this block."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        del os.environ[_SAFE_PATH]
        if before is not None:
            os.environ[_SAFE_PATH] = before


class Normaliser:
    """Normalise uint8 images to (x / 255 - mean) / std, in full batches.

    The memory of the result is reused: allocating it for each batch would take longer than the arithmetic. ``mean``,
    ``std``: three numbers each, on the scale 0..1.
    """

    def __init__(self, batch: int, mean: Sequence[float], std: Sequence[float], device: torch.device) -> None:
        self._batch = batch
        self._mean, self._std = (torch.tensor(values, dtype=torch.float32, device=device) for values in (mean, std))
        # Image by image on a CPU, so that the next step still finds the values in the cache.
        self._at_once = 1 if device.type == "cpu" else batch
        self._values = torch.empty(0, device=device)
        self._factors = self._terms = self._values

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return (batch, 3, H, W) float32, channels last in memory, of (N, H, W, 3) uint8; zeros after N.

        The next call overwrites the result.
        """
        count, height, width, channels = images.shape
        shape = (self._batch, height, width * channels)
        if self._values.shape != shape:
            self._values = self._mean.new_empty(shape)
            # Row by row, since arithmetic on three numbers is slow.
            self._factors, self._terms = (1 / (self._std * 255)).repeat(width), (self._mean / self._std).repeat(width)
        rows = images.reshape(count, *shape[1:])
        for start in range(0, count, self._at_once):
            part = slice(start, min(start + self._at_once, count))
            self._values[part].copy_(rows[part]).mul_(self._factors).sub_(self._terms)
        self._values[count:].zero_()
        return self._values.view(self._batch, height, width, channels).permute(0, 3, 1, 2)


def _batches(data_set: DataSet, place: int, chunk: Chunk, size: int) -> Iterator[Batch]:
    """Yield the frames of one chunk. Raise DamagedShardError, UserError, OSError or ValueError for a damaged one."""
    rows = data_set.rows_of(chunk)
    waiting: _Waiting | None = None
    left, compared, changed = chunk.frames, 0, 0
    shape = next(((row.height or 0, row.width or 0, 3) for row in rows if row.status == manifests.OK), (0, 0, 3))
    for count, sample in enumerate(data_set.intact_samples(rows)):
        row = sample.row
        if (row.height, row.width) != shape[:2]:
            raise ValueError(
                f"{row.key} is {row.width} x {row.height}, but others are {shape[1]} x {shape[0]}: "
                "build the clean companion of such images"
            )
        if count < COMPARED:
            compared += 1
            changed += pixel_digest(sample.pixels()) != row.pixel_sha256
        for index, decode_into in enumerate(_frames(sample)):
            if waiting is None:
                waiting = _Waiting(np.empty((min(size, left), *shape), np.uint8))
            decode_into(waiting.images[len(waiting.rows)])
            waiting.rows.append(row)
            waiting.frames.append(index)
            if len(waiting.rows) == len(waiting.images):
                left -= len(waiting.rows)
                yield _batch(place, waiting, left == 0, compared, changed)
                waiting, compared, changed = None, 0, 0
    if left or waiting:
        raise ValueError(f"{chunk.name} has {chunk.frames - left} frames, the manifest has {chunk.frames}")


def _frames(sample: Sample) -> Iterator[Callable[[np.ndarray], None]]:
    """For each frame of a sample, what decodes it into its place. Raises ValueError for other frames than told."""
    if not sample.encoder.whole_sequence:
        yield from (partial(sample.encoder.decode_into, data) for data in sample.members.values())
        return
    pixels = sample.pixels()
    frames = pixels if pixels.ndim == 4 else pixels[None]
    if frames.shape[:3] != (sample.row.frames, sample.row.height, sample.row.width):
        raise ValueError(f"{sample.row.key} holds {frames.shape}, not what the manifest says")
    for frame in frames:
        yield lambda place, frame=frame: np.copyto(place, frame)  # type: ignore[misc]


def _batch(place: int, waiting: _Waiting, last: bool, compared: int, changed: int) -> Batch:
    return Batch(place, torch.from_numpy(waiting.images), waiting.rows, waiting.frames, last, compared, changed)
