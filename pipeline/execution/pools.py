"""Worker pools: child processes of this machine, Ray, and one worker in this process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Literal, Protocol, TypeVar

from pipeline.errors import UserError
from pipeline.execution.base import Pool, Worker
from pipeline.execution.processes import check_workers, default_workers
from pipeline.execution.scheduler import Scheduler
from pipeline.execution.work import Attempt, Counts, CurrentItem, Event, Progress, Work

SMALL_WORK = 20_000
"""Maximum number of outputs that ``auto`` makes without Ray. For more outputs, the seconds that Ray needs to start and
stop do not matter."""

Job = TypeVar("Job")


class Executor(StrEnum):
    """The engines that can run workers, and ``auto``."""

    AUTO = "auto"
    RAY = "ray"
    LOCAL = "local"


ExecutorName = Literal["auto", "ray", "local"]
"""Names of executors that type checkers accept."""

IN_PROCESS = "in-process"
"""Executor of jobs whose only worker is in this process. Users cannot choose it."""

CLUSTER_EXECUTORS = frozenset({Executor.AUTO, Executor.RAY})
"""Executors that can join a Ray cluster."""


def parse_executor(name: str, address: str | None) -> Executor:
    """Return the executor with this name. Raise UserError if it is unknown, or ``local`` with an address."""
    try:
        executor = Executor(name)
    except ValueError:
        raise UserError(f"invalid executor {name!r}: use {', '.join(Executor)}") from None
    if executor not in CLUSTER_EXECUTORS and address is not None:
        raise UserError(
            f"--executor {executor} cannot be combined with --address {address}: omit --address to use processes of "
            "this machine, or use --executor ray to join the Ray cluster"
        )
    return executor


def choose_executor(name: str, address: str | None, outputs: int) -> Executor:
    """Return the engine for a number of outputs, which do not depend on it. Raises like :func:`parse_executor`.

    ``auto`` uses local processes if there is no address and the work is small.
    """
    executor = parse_executor(name, address)
    if executor != Executor.AUTO:
        return executor
    return Executor.LOCAL if address is None and outputs <= SMALL_WORK else Executor.RAY


@dataclass(frozen=True, kw_only=True)
class Crew(Generic[Job, Work, Counts]):
    """The workers of a job.

    Attributes:
        job: Argument of ``worker``.
        worker: Called with ``job`` in each worker process; returns the worker.
        outputs: Number of outputs still to make; ``auto`` chooses the engine by it.
        executor: auto, ray, local, or ``IN_PROCESS``.
        workers: Maximum number of workers; None for the default.
        address: Address of a running Ray cluster to join, or None.
        labels: Labels of all metrics that Ray's exporter publishes.
        gpus: Number of GPUs of this machine; each worker needs one. 0 if workers need none.
    """

    job: Job
    worker: Callable[[Job], Worker[Work, Counts]]
    outputs: int
    executor: str
    workers: int | None = None
    address: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0


@contextmanager
def open_pool(crew: Crew[Job, Work, Counts]) -> Iterator[Pool[Work, Counts]]:
    """Open a pool of workers and stop them at the end of the block.

    Raises:
        UserError: The number of workers or the address is invalid, or no cluster answers at the address.
    """
    check_workers(crew.workers, crew.address)
    chosen = crew.executor
    if chosen != IN_PROCESS:
        chosen = choose_executor(chosen, crew.address, crew.outputs)
    with POOLS[chosen](crew) as pool:
        yield pool


class OpenPool(Protocol):
    """A function that opens a pool of one engine."""

    def __call__(self, crew: Crew[Job, Work, Counts], /) -> AbstractContextManager[Pool[Work, Counts]]:
        """Open a pool of workers and stop them at the end of the block."""


@contextmanager
def _local_pool(crew: Crew[Job, Work, Counts]) -> Iterator[Pool[Work, Counts]]:
    from pipeline.execution.local_pool import LocalEngine

    engine: LocalEngine[Work, Counts] = LocalEngine(crew.worker, crew.job, crew.gpus)
    with closing(engine), closing(Scheduler(engine, crew.workers or default_workers())) as pool:
        yield pool


@contextmanager
def _ray_pool(crew: Crew[Job, Work, Counts]) -> Iterator[Pool[Work, Counts]]:
    from pipeline.execution.local_pool import end_spare_process
    from pipeline.execution.ray_cluster import cluster
    from pipeline.execution.ray_pool import RayEngine, RayPool

    end_spare_process()
    needs = {"num_cpus": 1, "num_gpus": int(crew.gpus > 0)}
    with (
        cluster(crew.workers, crew.address) as count,
        closing(RayPool(RayEngine(crew.worker, crew.job, needs), count, crew.labels)) as pool,
    ):
        yield pool


class InProcessPool(Generic[Job, Work, Counts]):
    """A pool of one worker in this process, created for the first work item. Exceptions propagate, without retries."""

    workers = 1

    def __init__(self, crew: Crew[Job, Work, Counts]) -> None:
        self._crew = crew

    def run(self, items: Iterator[Work]) -> Iterator[Event[Counts, Work]]:
        """Run all work items in order."""
        worker = self._crew.worker(self._crew.job)
        for index, work in enumerate(items):
            for content in worker.run(Attempt(work)):
                if not isinstance(content, CurrentItem):
                    yield Progress(index, work, content)

    def drain(self) -> Iterator[Progress[Counts, Work]]:
        """Yield nothing: the interruption has ended the work."""
        yield from ()


def _in_process_pool(crew: Crew[Job, Work, Counts]) -> AbstractContextManager[Pool[Work, Counts]]:
    return nullcontext(InProcessPool(crew))


POOLS: Mapping[str, OpenPool] = {Executor.LOCAL: _local_pool, Executor.RAY: _ray_pool, IN_PROCESS: _in_process_pool}
"""Functions that open the pools, by executor. Engines are imported only when used."""
