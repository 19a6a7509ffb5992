"""Protocols of execution: workers process work items, pools run them, and engines start and stop worker processes.

A pool combines a scheduler, which has all of the policy, with an engine, which has none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pipeline.errors import UnreachableError, UserError
from pipeline.execution.work import Attempt, Counts, CurrentItem, Event, Progress, Work

Counts_co = TypeVar("Counts_co", covariant=True)


class Worker(Protocol[Work, Counts_co]):
    """An object that processes work items in a worker process."""

    def run(self, attempt: Attempt[Work], /) -> Iterator[Counts_co | CurrentItem]:
        """Process a work item; yield the counts so far from time to time, and once at the end."""


class Pool(Protocol[Work, Counts]):
    """A set of workers that process work items."""

    @property
    def workers(self) -> int:
        """Return the requested number of workers."""

    def run(self, items: Iterator[Work], /) -> Iterator[Event[Counts, Work]]:
        """Run all work items and yield an event for each report, failure and result."""

    def drain(self) -> Iterator[Progress[Counts, Work]]:
        """After an interruption of :meth:`run`, let workers publish what they soon finish, and yield their reports."""


@dataclass(frozen=True)
class WorkerStarted:
    """A worker is ready. ``place`` is its process and host, for messages."""

    worker: int
    place: str


@dataclass(frozen=True)
class WorkerFailed:
    """A worker could not be started, or its attempt ended with an exception.

    ``error`` is the cause if the user can fix it or a store does not answer. ``out_of_memory`` tells whether the memory
    was not enough for all workers.
    """

    worker: int
    reason: str
    error: UserError | UnreachableError | None = None
    out_of_memory: bool = False


class WorkerDied(WorkerFailed):
    """A worker process ended unexpectedly."""


@dataclass(frozen=True)
class WorkerReported(Generic[Counts]):
    """A worker sent its counts so far, or the item that it processes next."""

    worker: int
    content: Counts | CurrentItem


@dataclass(frozen=True)
class AttemptFinished:
    """A worker finished its attempt."""

    worker: int


WorkerEvent = WorkerStarted | WorkerReported[Counts] | AttemptFinished | WorkerFailed
"""An event that an engine reports about one of its workers."""


class Engine(Protocol[Work, Counts]):
    """A set of worker processes. Each has a number, and numbers are never reused."""

    @property
    def remedy(self) -> str:
        """Return advice for the user if no worker starts, as the beginning of a sentence."""

    def now(self) -> float:
        """Return the time in seconds since an arbitrary origin."""

    def start(self) -> int:
        """Begin to start a worker and return its number. :class:`WorkerStarted` or :class:`WorkerFailed` follows."""

    def give(self, worker: int, attempt: Attempt[Work], /) -> None:
        """Send an attempt to an idle worker.

        Any number of :class:`WorkerReported` follow, then :class:`AttemptFinished` or :class:`WorkerFailed`.
        """

    def kill(self, worker: int, /) -> None:
        """Kill a worker. No event of this worker follows."""

    def wait(self, timeout: float, /) -> Sequence[WorkerEvent[Counts]]:
        """Return the events since the last call; empty after ``timeout`` seconds.

        Raises:
            UserError: A worker would run different code than this process.
        """
