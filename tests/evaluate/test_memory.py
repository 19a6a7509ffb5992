"""Tests of the memory of batches, which is used again, with and without loader processes, and locked for a GPU."""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.datasets.base import Location
from pipeline.datasets.opening import open_data_set
from pipeline.evaluate.predict.loader_processes import load
from pipeline.evaluate.predict.memory import SLOTS, BatchMemory, LockedMemory
from pipeline.evaluate.predict.stream import FrameBatch, FrameStream

LOADERS, GPU = 2, torch.device("cuda:1")


class _Runtime:
    """A CUDA runtime that remembers what is locked."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses
        self.log, self.sizes = list[str](), dict[int, int]()

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:  # noqa: N802
        if self.refuses:
            return 2
        assert address not in self.sizes
        self.sizes[address] = size
        self.log.append("lock")
        return 0

    def cudaHostUnregister(self, address: int) -> None:  # noqa: N802
        del self.sizes[address]
        self.log.append("unlock")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> _Runtime:
    """Return the runtime that stands for CUDA's, whose waits it logs."""
    made = _Runtime()
    monkeypatch.setattr(torch.cuda, "cudart", lambda: made)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda gpu: made.log.append(f"wait for {gpu}"))
    return made


def _stream(data: Path, batch: int) -> FrameStream:
    return FrameStream(Location(str(data)), list(open_data_set(str(data)).chunks()), batch)


def _checked(batches: Iterator[object]) -> Iterator[FrameBatch]:
    """Yield batches; before the next one, check that the images of the last two have not changed."""
    valid = list[tuple[FrameBatch, np.ndarray]]()
    for batch in batches:
        assert isinstance(batch, FrameBatch)
        valid = [*valid, (batch, batch.images.numpy().copy())][-2:]
        yield batch
        for earlier, images in valid:
            np.testing.assert_array_equal(earlier.images.numpy(), images)


def test_loader_processes_read_the_same_batches_into_memory_that_is_locked_once(
    built_once: Path, runtime: _Runtime
) -> None:
    stream = _stream(built_once, batch=1)
    expected = {batch.frames[0]: batch.images.clone() for batch in _checked(load(stream, 0))}
    assert len(expected) == 24
    found = {batch.frames[0]: batch.images.clone() for batch in _checked(load(stream, LOADERS, GPU))}
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[frame], images) for frame, images in expected.items())
    locks = LOADERS * SLOTS
    assert runtime.log == [*["lock"] * locks, "wait for cuda:1", *["unlock"] * locks]


def test_loader_processes_end_when_no_further_batch_is_taken(built_once: Path) -> None:
    others = {*active_children()}
    batches = load(_stream(built_once, batch=1), LOADERS)
    assert len(list(islice(batches, 2))) == 2
    assert len({*active_children()} - others) == LOADERS
    batches.close()
    assert not {*active_children()} - others


def test_memory_is_used_again_and_grows() -> None:
    memory = BatchMemory()
    first = memory.images((2, 3, 4, 3), np.uint8)
    assert memory.images((1, 3, 4, 3), np.uint8).data_ptr() == first.data_ptr()  # no batch was made of the first
    places = {first.data_ptr()}
    for _ in range(SLOTS - 1):
        memory.advance()
        places.add(memory.images((2, 3, 4, 3), np.uint8).data_ptr())
    assert len(places) == SLOTS
    memory.advance()
    assert memory.images((2, 3, 4, 3), np.uint8).data_ptr() == first.data_ptr()
    deep = memory.images((2, 3, 4, 3), np.uint16)
    assert (deep.shape, deep.dtype, len(memory.current)) == ((2, 3, 4, 3), torch.uint16, 144)


def test_memory_that_cannot_be_locked_stays_usable(runtime: _Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.refuses = True
    asked = list[torch.device]()
    monkeypatch.setattr(torch, "zeros", lambda *shape, device: asked.append(device))
    locked = LockedMemory(GPU)
    locked.lock(torch.ones(8))
    assert asked == [GPU]  # receives the error of the runtime
    locked.unlock()
    assert runtime.log == ["wait for cuda:1"]
