"""Which engine does the work: child processes of this machine, or Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from pipeline.errors import UserError
from pipeline.execution.base import Pool, Worker
from pipeline.execution.processes import check_workers
from pipeline.execution.work import At, Attempt, Counts, Event, Progress, Work
from pipeline.software import cpu_count

SMALL_WORK = 20_000
"""Maximum number of outputs that ``auto`` makes without Ray. Starting and ending Ray takes several seconds, which
is a large part of the time of fewer outputs, and a small part of the time of more."""

Job = TypeVar("Job")


class Executor(StrEnum):
    """What starts the workers."""

    AUTO = "auto"
    RAY = "ray"
    LOCAL = "local"


CLUSTER_EXECUTORS = frozenset({Executor.AUTO, Executor.RAY})
"""Those that can join a cluster at an address."""


def checked_executor(name: str, address: str | None) -> Executor:
    """Return the executor of a name. Raises UserError for another name, and for ``local`` together with an address."""
    try:
        executor = Executor(name)
    except ValueError:
        raise UserError(f"invalid executor {name!r}: use {', '.join(Executor)}") from None
    if executor not in CLUSTER_EXECUTORS and address is not None:
        raise UserError(
            f"--executor {executor} starts processes on this machine, and --address {address} joins a Ray cluster: "
            "give one of them"
        )
    return executor


def chosen(name: str, address: str | None, outputs: int) -> Executor:
    """Return the engine to use: what was asked for, or what suits the work. The outputs never depend on it.

    Args:
        name: auto, ray or local. ``auto`` takes local processes where no address is given and the work is small.
        address: Of a running Ray cluster, or None.
        outputs: Number of outputs that are still to be made.

    Raises:
        UserError: The name is unknown, or local processes were asked for together with the address of a cluster.
    """
    executor = checked_executor(name, address)
    if executor != Executor.AUTO:
        return executor
    return Executor.LOCAL if address is None and outputs <= SMALL_WORK else Executor.RAY


@contextmanager
def open_pool(
    job: Job,
    worker: Callable[[Job], Worker[Work, Counts]],
    *,
    executor: str,
    workers: int | None,
    address: str | None,
    outputs: int,
    labels: Mapping[str, str],
    gpus: int = 0,
) -> Iterator[Pool[Work, Counts]]:
    """Open a pool of workers, which end with the block.

    Args:
        job: What each worker is made of.
        worker: Called with the job in each worker process.
        executor: auto, ray or local.
        workers: Maximum number of workers; None for one per CPU.
        address: Of a running Ray cluster to join, or None.
        outputs: Number of outputs to be made, by which ``auto`` chooses.
        labels: Labels of all metrics, which Ray's exporter shows.
        gpus: Number of GPUs of this machine, of which each worker needs one; 0 if none is needed.

    Yields:
        The pool.

    Raises:
        UserError: The number of workers, or the address, is not allowed, or no cluster answers there.
    """
    check_workers(workers, address)
    opened = POOLS[chosen(executor, address, outputs)]
    with opened(job, worker, workers=workers, address=address, labels=labels, gpus=gpus) as pool:
        yield pool


class OpenPool(Protocol):
    """A function that opens a pool of one engine; arguments as of ``open_pool``."""

    def __call__(
        self,
        job: Job,
        worker: Callable[[Job], Worker[Work, Counts]],
        /,
        *,
        workers: int | None,
        address: str | None,
        labels: Mapping[str, str],
        gpus: int,
    ) -> AbstractContextManager[Pool[Work, Counts]]:
        """Open a pool of workers, which end with the block."""


@contextmanager
def _local_pool(
    job: Job,
    worker: Callable[[Job], Worker[Work, Counts]],
    *,
    workers: int | None,
    address: str | None,
    labels: Mapping[str, str],
    gpus: int,
) -> Iterator[Pool[Work, Counts]]:
    from pipeline.execution.local_pool import LocalPool

    pool = LocalPool(job, workers or cpu_count(), worker, gpus=gpus)
    try:
        yield pool
    finally:
        pool.close()


@contextmanager
def _ray_pool(
    job: Job,
    worker: Callable[[Job], Worker[Work, Counts]],
    *,
    workers: int | None,
    address: str | None,
    labels: Mapping[str, str],
    gpus: int,
) -> Iterator[Pool[Work, Counts]]:
    from pipeline.execution.ray_cluster import cluster
    from pipeline.execution.ray_pool import RayPool

    with cluster(workers, address) as count:
        yield RayPool(job, count, worker, labels=labels, needs={"num_cpus": 1, "num_gpus": int(gpus > 0)})


POOLS: Mapping[Executor, OpenPool] = {Executor.LOCAL: _local_pool, Executor.RAY: _ray_pool}
"""What opens the pool of each executor; engines are imported only when used."""


class InProcessPool(Generic[Job, Work, Counts]):
    """One worker in this process, made with the first work item. What it raises is raised here, without retries."""

    workers = 1

    def __init__(self, job: Job, worker: Callable[[Job], Worker[Work, Counts]]) -> None:
        self._job = job
        self._make = worker

    def run(self, items: Iterator[Work]) -> Iterator[Event[Counts, Work]]:
        """Run all work items, one after the other."""
        worker = self._make(self._job)
        for index, work in enumerate(items):
            for said in worker.run(Attempt(work)):
                if not isinstance(said, At):
                    yield Progress(index, work, said)
