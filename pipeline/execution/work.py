"""Work items, attempts at them, the events that report on the attempts, and the sum of the work done."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable


@dataclass(frozen=True)
class Reading:
    """A count for monitoring.

    Attributes:
        name: Its name; ends with the unit.
        description: Its help text.
        value: Current value.
        labels: Label -> value.
    """

    name: str
    description: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class Summable(Protocol):
    """Counts of finished work that can be added up: a dataclass of numbers, lists, and counts by name."""

    @property
    def parts(self) -> int:
        """Return the number of published parts, which an interruption keeps."""

    def add(self, other: Self, /) -> None:
        """Add other counts to these."""
        for each in fields(self):  # type: ignore[arg-type]  # of a dataclass
            own, more = getattr(self, each.name), getattr(other, each.name)
            if isinstance(own, dict):
                for name, count in more.items():
                    own[name] += count
            else:
                setattr(self, each.name, own + more)

    def readings(self) -> Iterator[Reading]:
        """Yield the counts as metrics; metrics of the same name have the same labels."""


Work = TypeVar("Work")
Counts = TypeVar("Counts", bound=Summable)


@runtime_checkable
class Splittable(Protocol):
    """A work item that can be split among several workers."""

    def split(self, pieces: int, /) -> Iterable[Self]:
        """Return at most ``pieces`` work items that together cover this one."""


@dataclass(frozen=True)
class Attempt(Generic[Work]):
    """An attempt at a work item.

    Attributes:
        work: The work item.
        report_items: Whether the worker reports each image before processing it, to trace a crash to it.
        suspects: Images and samples at which a worker died before. For a suspected image, the worker also reports each
            sample.
        quarantined: Images and samples that the worker skips because they crashed too many workers.
    """

    work: Work
    report_items: bool = False
    suspects: frozenset[str] = frozenset()
    quarantined: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CurrentItem:
    """The image or sample that a worker is about to process; None for a step that concerns no single image."""

    item: str | None


@dataclass(frozen=True)
class Progress(Generic[Counts, Work]):
    """The progress of an attempt at a work item.

    Attributes:
        index: Number of the work item.
        work: The work item.
        counts: Work done by this attempt so far.
        finished: Whether the work item is finished.
        place: Process and host of the worker; empty until the work item is finished.
    """

    index: int
    work: Work
    counts: Counts
    finished: bool = False
    place: str = ""


@dataclass(frozen=True)
class Failed(Generic[Work]):
    """A failed attempt at a work item that will be retried. The counts of the attempt are discarded.

    Attributes:
        index: Number of the work item.
        work: The work item.
        attempt: Number of the attempt, from 1.
        reason: Why it failed.
        place: Process and host of the worker; empty if no worker was started.
    """

    index: int
    work: Work
    attempt: int
    reason: str
    place: str = ""


@dataclass(frozen=True)
class Lost(Generic[Work]):
    """A work item that is not retried any more.

    Attributes:
        index: Number of the work item.
        work: The work item.
        reason: Why the last attempt failed.
        place: Process and host of the last worker; empty if no worker was started.
    """

    index: int
    work: Work
    reason: str
    place: str = ""


Event = Progress[Counts, Work] | Failed[Work] | Lost[Work]
"""An event that a pool yields."""


class Tally(Generic[Counts]):
    """The sum of the counts of all work items.

    It is exact when no attempt is running, and decreases when an attempt fails.
    """

    def __init__(self, blank: Callable[[], Counts]) -> None:
        self._blank = blank
        self._finished = blank()
        self._running: dict[int, Counts] = {}

    def add(self, event: Event[Counts, Any]) -> None:
        """Update the sum with an event, in constant time."""
        self._running.pop(event.index, None)
        if isinstance(event, Progress):
            if event.finished:
                self._finished.add(event.counts)
            else:
                self._running[event.index] = event.counts

    def total(self) -> Counts:
        """Return the sum. The cost grows with the number of running work items, so call it only for display."""
        total = self._blank()
        for counts in (self._finished, *self._running.values()):
            total.add(counts)
        return total
