"""Loader processes: they read the batches of a stream into memory that their parent shares, and may lock for a GPU."""

import os
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate
from multiprocessing import get_context
from multiprocessing.synchronize import Semaphore
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from pipeline.datasets.base import Chunk
from pipeline.errors import UnreachableError, UserError
from pipeline.evaluate.predict.memory import IN_FLIGHT, SLOTS, BatchMemory, LockedMemory, images_in
from pipeline.evaluate.predict.stream import VERIFY, BrokenChunk, FrameBatch, FrameStream
from pipeline.execution.local_worker import end_with
from pipeline.execution.processes import environment
from pipeline.guardian import guarded
from pipeline.storage.temporary import socket_folder

_SHARED_MEMORY = "shared memory"
"""Part of torch's error messages when /dev/shm is full."""

_NO_SHARED_MEMORY = (
    "loader processes need shared memory, but /dev/shm is full or cannot be written: enlarge it (of a container: "
    "--shm-size 1g), use a smaller --batch-size, or --loaders 0"
)


@dataclass(frozen=True)
class _Sent:
    """A batch of a loader process, without the memory of its images.

    Attributes:
        batch: The batch, with images that have no memory.
        place: The memory: number of the loader process, and of the slot.
        memory: The memory if its parent does not know it, else None.
    """

    batch: FrameBatch
    place: tuple[int, int]
    memory: torch.Tensor | None


class _LoaderProcess(IterableDataset[_Sent | BrokenChunk]):
    """What loader processes read of a stream."""

    def __init__(self, stream: FrameStream, free: Sequence[Semaphore]) -> None:
        self._stream, self._free = stream, free

    def __iter__(self) -> Iterator[_Sent | BrokenChunk]:
        """Yield the batches of a loader process."""
        worker: Any = get_worker_info()
        memory, known = BatchMemory(self._free[worker.id]), dict[int, torch.Tensor]()
        for item in self._stream.batches(memory, worker.id, worker.num_workers):
            if isinstance(item, BrokenChunk):
                yield item
                continue
            unknown = known.get(memory.slot) is not memory.current
            known[memory.slot] = memory.current
            batch = replace(item, images=item.images.to("meta"))
            yield _Sent(batch, (worker.id, memory.slot), memory.current if unknown else None)


class _Receiver:
    """The parent of loader processes. It keeps their memory, so that each is sent and locked once."""

    def __init__(self, free: Sequence[Semaphore], gpu: torch.device | None) -> None:
        self._free, self._locked = free, LockedMemory(gpu) if gpu else None
        self._memories = dict[tuple[int, int], torch.Tensor]()
        self._in_use = deque[int]()

    def received(self, sent: _Sent) -> FrameBatch:
        """Return a batch with its images. The memory of the earliest one becomes free."""
        if sent.memory is not None:
            known = self._memories.get(sent.place)
            self._memories[sent.place] = sent.memory
            if self._locked:
                if known is not None:
                    self._locked.unlock([known])
                self._locked.lock(sent.memory)
        self._in_use.append(sent.place[0])
        if len(self._in_use) > IN_FLIGHT:
            self._free[self._in_use.popleft()].release()
        images = sent.batch.images
        return replace(sent.batch, images=images_in(self._memories[sent.place], tuple(images.shape), images.dtype))

    def close(self) -> None:
        """Let loader processes that wait for memory end, and unlock all memory."""
        for free in self._free:
            for _ in range(SLOTS):
                free.release()
        if self._locked:
            self._locked.unlock()


def load(stream: FrameStream, processes: int, gpu: torch.device | None = None) -> Generator[FrameBatch | BrokenChunk]:
    """Yield the batches of chunks, from loader processes if there are some, in memory that is locked for a GPU.

    The images of a batch are valid until ``IN_FLIGHT`` further batches are taken. Use them in the block of
    :func:`deaths_explained`.

    Raises:
        UserError: A loader process was killed, or there is no shared memory for loader processes.
        MemoryError: A loader process ended because memory or threads are missing.
        UnreachableError: The store of the images does not respond.
    """
    workers = min(processes, stream.loaders)
    with closing(_from_processes(stream, workers, gpu) if workers else stream.batches(BatchMemory())) as items:
        for item in items:
            if isinstance(item, BrokenChunk) and item.unreachable:
                raise UnreachableError(item.reason)
            try:
                yield item
            except RuntimeError as error:
                items.throw(error)


@contextmanager
def deaths_explained(loaded: Generator[Any]) -> Iterator[None]:
    """Raise what ``load`` raises if a loader process dies while its batches are used in the block.

    PyTorch interrupts whatever the main thread is doing, such as a model, which then seems to fail.
    """
    try:
        yield
    except Exception as error:
        death = next(filter(_is_death, (error, error.__cause__)), None)
        if death is None or getgeneratorstate(loaded) == GEN_CLOSED:  # closed by this error
            raise
        loaded.throw(death)


def _is_death(error: BaseException | None) -> bool:
    """Return whether this is PyTorch's error for a loader process that died."""
    return isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker")


def _from_processes(stream: FrameStream, workers: int, gpu: torch.device | None) -> Generator[FrameBatch | BrokenChunk]:
    """Yield the batches that loader processes read. Raises what ``load`` raises."""
    context = get_context("spawn")
    try:
        free = [context.Semaphore(SLOTS - 1) for _ in range(workers)]
    except OSError as error:
        raise UserError(_NO_SHARED_MEMORY) from error
    loader = DataLoader(
        _LoaderProcess(stream, free),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=SLOTS,
        multiprocessing_context=context,
        worker_init_fn=partial(_end_with, os.getpid()),
        in_order=stream.in_order,
    )
    finished = set[int]()
    folder = socket_folder()
    with guarded(folder):
        # Loaders do not import from the current folder, and leave no sockets behind.
        with environment({"PYTHONSAFEPATH": "1", "TMPDIR": str(folder)}), _no_script():
            batches: Any = iter(loader)
        receiver = _Receiver(free, gpu)
        try:
            for sent in batches:
                item = sent if isinstance(sent, BrokenChunk) else receiver.received(sent)
                if isinstance(item, BrokenChunk) or item.last:
                    finished.add(item.chunk)
                yield item
        except RuntimeError as error:  # of torch, if a loader process fails or died
            if _SHARED_MEMORY in str(error):
                raise UserError(_NO_SHARED_MEMORY) from error
            if not _is_death(error):
                raise
            if any(each.exitcode == 1 for each in batches._workers):
                raise MemoryError(str(error)) from error  # an exception of Python outside of what reads images
            raise UserError(_death_message(stream.chunks, finished, workers)) from error
        finally:
            with suppress(RuntimeError):  # of a GPU that has failed, which also made the model fail
                receiver.close()
            with suppress(RuntimeError):  # of loaders that died, which torch would print when it deletes batches
                batches._shutdown_workers()


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
