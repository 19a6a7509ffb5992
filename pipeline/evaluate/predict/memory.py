"""Memory of batches that is used again, because the system is slow to provide new memory for each batch."""

from collections.abc import Iterable
from contextlib import suppress
from math import prod
from multiprocessing.synchronize import Semaphore
from typing import Any

import numpy as np
import torch

from pipeline.loaders.items import empty

IN_FLIGHT = 2
"""Number of batches whose images are valid at a time: the last one that was taken, and those before."""

SLOTS = IN_FLIGHT + 1
"""Number of batches in the memory of a process: those that are valid, and the next one."""


class BatchMemory:
    """The memory of the batches of a process, in turns. That of a loader process is shared with its parent.

    Attributes:
        slot: Number of the current batch's memory.
    """

    def __init__(self, free: Semaphore | None = None) -> None:
        """Initialise it. In a loader process, ``free`` counts the slots that its parent does not use."""
        self._free, self.slot = free, 0
        self._slots = [torch.empty(0, dtype=torch.uint8)] * SLOTS

    @property
    def current(self) -> torch.Tensor:
        """The memory of the current batch, uint8 of shape (bytes,)."""
        return self._slots[self.slot]

    def images(self, shape: tuple[int, ...], dtype: type[np.generic]) -> torch.Tensor:
        """Return memory for the images of the current batch. Raises RuntimeError without shared memory."""
        kind = torch.from_numpy(np.empty(0, dtype)).dtype
        if len(self.current) < (size := prod(shape) * kind.itemsize):
            self._slots[self.slot] = empty((size,), np.uint8)
        return images_in(self.current, shape, kind)

    def advance(self) -> None:
        """Go on to the next batch; in a loader process, wait until the parent no longer uses its memory."""
        if self._free:
            self._free.acquire()
        self.slot = (self.slot + 1) % SLOTS


def images_in(memory: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return the start of a memory as images of a shape and type."""
    return memory[: prod(shape) * dtype.itemsize].view(dtype).view(shape)


class LockedMemory:
    """Memory of this process that stays at its place, so that a GPU reads it while the CPU goes on."""

    def __init__(self, gpu: torch.device) -> None:
        self._gpu, self._locked = gpu, dict[int, torch.Tensor]()
        self._runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]

    def lock(self, memory: torch.Tensor) -> None:
        """Lock memory. Where the system refuses, the memory stays valid, and reading it takes longer."""
        with torch.cuda.device(self._gpu):
            failed = int(self._runtime.cudaHostRegister(memory.data_ptr(), memory.nbytes, 0))
        if not failed:
            self._locked[memory.data_ptr()] = memory
            return
        with suppress(RuntimeError):  # raises the error, which the next kernel would raise otherwise
            torch.zeros(1, device=self._gpu)

    def unlock(self, memories: Iterable[torch.Tensor] | None = None) -> None:
        """Wait for the GPU and unlock memory; by default all."""
        torch.cuda.synchronize(self._gpu)
        for memory in [*(self._locked.values() if memories is None else memories)]:
            if self._locked.pop(memory.data_ptr(), None) is not None:
                self._runtime.cudaHostUnregister(memory.data_ptr())
