"""Worker processes of both engines: their maximum number and their environment variables."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from pipeline.errors import UserError
from pipeline.software import cpu_count, memory_bytes

LOCAL_WORKERS, LOCAL_WORKERS_PER_CPU, MAX_WORKERS = 64, 16, 10_000
"""Maximum number of workers: on this machine, per CPU of this machine if that allows more, and on a cluster."""

WORKER_BYTES = 600 * 2**20
"""Memory for each worker of this machine: one with shards of 1,000 images needs up to 0.5 GB (docs/benchmark.md)."""

_MALLOC_THRESHOLDS = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=134217728"

WORKER_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:{_MALLOC_THRESHOLDS}"}
)
"""Environment variables of local workers. They make glibc request huge pages (madvise) and reuse freed memory."""

NOT_BOUND: Mapping[str, str] = MappingProxyType({"OMP_PROC_BIND": "false"})
"""Environment variable, set before torch is loaded, that keeps OpenMP from binding threads to CPUs, as clusters may ask
it to: the threads of all processes would share the first ones."""

KERNEL_COUNTERS = Path("/proc/vmstat")
"""File with the counters of Linux."""

OUT_OF_MEMORY = "the worker process died: out of memory"
"""Reason of the death of a worker that was killed because memory ran out."""


class MemoryKills:
    """The processes that Linux kills from now on because memory runs out. Each explains the death of one worker."""

    def __init__(self) -> None:
        self._explained = _kills_for_memory()

    def explain_death(self) -> bool:
        """Return whether Linux has killed another process of this machine, which was then the worker."""
        new = _kills_for_memory() > self._explained
        self._explained += new
        return new


def _kills_for_memory() -> int:
    """Return how many processes of this machine Linux has killed so far because memory ran out; 0 if unknown."""
    with suppress(OSError):
        lines = (line.split() for line in KERNEL_COUNTERS.read_text().splitlines())
        return next((int(count) for name, count in lines if name == "oom_kill"), 0)
    return 0


def default_workers() -> int:
    """Return the number of workers of this machine unless the user sets one: one per CPU, if the memory allows it."""
    return min(cpu_count(), max(memory_bytes() // WORKER_BYTES, 1))


def check_workers(workers: int | None, address: str | None) -> None:
    """Raise UserError for too many workers, of a Ray cluster, or of this machine if there is no address."""
    most = LOCAL_WORKERS_PER_CPU * cpu_count() if address is None else MAX_WORKERS
    if workers is not None and workers > max(most, LOCAL_WORKERS):
        where = "on this machine" if address is None else "on a cluster"
        raise UserError(f"invalid --workers {workers}: use at most {max(most, LOCAL_WORKERS)} {where}")


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables during the block, for processes that it starts."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
