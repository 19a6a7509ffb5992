"""Protocols of execution: workers do work items, pools run them, and engines start and stop the workers.

A pool is a scheduler, which holds the whole policy, on an engine, which holds none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pipeline.execution.work import At, Attempt, Counts, Event, Work

Counts_co = TypeVar("Counts_co", covariant=True)


class Worker(Protocol[Work, Counts_co]):
    """What runs in a worker process."""

    def run(self, attempt: Attempt[Work], /) -> Iterator[Counts_co | At]:
        """Do a work item; yield what has been done of it so far now and then, and once at the end."""


class Pool(Protocol[Work, Counts]):
    """Workers that do work items."""

    @property
    def workers(self) -> int:
        """Return the number of workers asked for."""

    def run(self, items: Iterator[Work], /) -> Iterator[Event[Counts, Work]]:
        """Run all work items and yield what becomes of them."""


@dataclass(frozen=True)
class Started:
    """A worker is ready. ``place``: its process and host, for messages."""

    worker: int
    place: str


@dataclass(frozen=True)
class StartFailed:
    """A worker could not be started. ``mistake``: the message for the user, where it is the user who can mend it."""

    worker: int
    reason: str
    mistake: str | None = None


@dataclass(frozen=True)
class Said(Generic[Counts]):
    """A worker reported: its counts so far, or what it processes next."""

    worker: int
    what: Counts | At


@dataclass(frozen=True)
class Done:
    """A worker finished its attempt."""

    worker: int


@dataclass(frozen=True)
class Died:
    """The process of a worker ended."""

    worker: int
    reason: str


@dataclass(frozen=True)
class Raised:
    """The attempt of a worker raised an exception."""

    worker: int
    reason: str


Signal = Started | StartFailed | Said[Counts] | Done | Died | Raised
"""What an engine tells of its workers."""


class Engine(Protocol[Work, Counts]):
    """Worker processes, each known by a number that is never used again."""

    @property
    def remedy(self) -> str:
        """Return what a user can do where no worker starts, as the beginning of a sentence."""

    def now(self) -> float:
        """Return the time in seconds, from any origin."""

    def start(self) -> int:
        """Begin to start a worker, and return its number. :class:`Started` or :class:`StartFailed` follows."""

    def give(self, worker: int, attempt: Attempt[Work], /) -> None:
        """Give an idle worker an attempt. :class:`Said` and one of the three endings follow."""

    def kill(self, worker: int, /) -> None:
        """End a worker at once; no signal of it follows."""

    def wait(self, timeout: float, /) -> Sequence[Signal[Counts]]:
        """Return what the workers have signalled, as soon as there is anything; nothing after ``timeout`` seconds.

        Raises UserError where a worker would run other code than this process.
        """
