"""Work items on their way: attempts at them, the events that report on these, and the sum of what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable


@dataclass(frozen=True)
class Measure:
    """A count for monitoring: its name with the unit at the end, a description, the value, and labels."""

    name: str
    words: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class Summable(Protocol):
    """Counts of what has been done."""

    def add(self, other: Self, /) -> None:
        """Add another one to this."""

    def measures(self) -> Iterator[Measure]:
        """Return the counts for monitoring; those of one name have the same labels."""


Work = TypeVar("Work")
Counts = TypeVar("Counts", bound=Summable)


@runtime_checkable
class Divisible(Protocol):
    """A work item that several workers can do in pieces."""

    def divided(self, pieces: int, /) -> Iterable[Self]:
        """Return up to so many work items, which together are this one."""


@dataclass(frozen=True)
class Attempt(Generic[Work]):
    """An attempt at a work item.

    ``careful``: the worker names each image before processing it (:class:`At`), and each sample of an image that is
    among the ``suspects``. ``condemned``: images and samples in quarantine, to be left out.
    """

    work: Work
    careful: bool = False
    suspects: frozenset[str] = frozenset()
    condemned: frozenset[str] = frozenset()


@dataclass(frozen=True)
class At:
    """The image or sample that a careful worker processes next; None: a step that no image is to blame for."""

    item: str | None


@dataclass(frozen=True)
class Progress(Generic[Counts, Work]):
    """What an attempt at work item ``index`` has done so far; once ``finished``, all of it, and at which ``place``."""

    index: int
    work: Work
    counts: Counts
    finished: bool = False
    place: str = ""


@dataclass(frozen=True)
class Failed(Generic[Work]):
    """A failed attempt at a work item, whose counts are void; the work item is retried."""

    index: int
    work: Work
    attempt: int
    reason: str
    place: str = ""


@dataclass(frozen=True)
class Lost(Generic[Work]):
    """A work item that is given up, and the last reason."""

    index: int
    work: Work
    reason: str
    place: str = ""


Event = Progress[Counts, Work] | Failed[Work] | Lost[Work]
"""What a pool reports."""


class Tally(Generic[Counts]):
    """The sum of what has been done. Exact once nothing is running; it goes down when an attempt fails."""

    def __init__(self, blank: Callable[[], Counts]) -> None:
        self._blank = blank
        self._finished = blank()
        self._running: dict[int, Counts] = {}

    def take(self, event: Event[Counts, Any]) -> None:
        """Take in an event; cheap, however many work items are running."""
        self._running.pop(event.index, None)
        if isinstance(event, Progress):
            if event.finished:
                self._finished.add(event.counts)
            else:
                self._running[event.index] = event.counts

    def total(self) -> Counts:
        """Return the sum. Its cost grows with the number of running work items: call it only to show it."""
        total = self._blank()
        for counts in (self._finished, *self._running.values()):
            total.add(counts)
        return total
