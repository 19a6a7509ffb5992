"""What is said between those who have pieces of work and those who do them, and what becomes of a piece. No Ray."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

MAX_ATTEMPTS = 3
"""So many failures with no item to blame, and a piece is given up; so many deaths at one item, and that is left out."""

MAX_FAILURES = 100
"""Of a piece, whatever is to blame: that so many items end a process is not likely, that a machine is broken is."""


@dataclass(frozen=True)
class Measure:
    """A count for monitoring: its name with the unit at the end, in words, how much, and of what."""

    name: str
    words: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class Summable(Protocol):
    """A report of what has been done."""

    def add(self, other: Self, /) -> None:
        """Add another one to this."""

    def measures(self) -> Iterator[Measure]:
        """What monitoring is told of it; those of one name have the same labels."""


Work = TypeVar("Work")
Report = TypeVar("Report", bound=Summable)


@dataclass(frozen=True)
class Attempt(Generic[Work]):
    """A try at a piece of work.

    ``careful``: before each item it is said (:class:`At`) which comes now, and before each part of an item that is
    among the ``suspects``. ``condemned``: items, and parts of items, that are left out.
    """

    work: Work
    careful: bool = False
    suspects: frozenset[str] = frozenset()
    condemned: frozenset[str] = frozenset()


@dataclass(frozen=True)
class At:
    """What a careful worker is about to do; None: something that no item is to blame for."""

    item: str | None


@dataclass(frozen=True)
class Progress(Generic[Report, Work]):
    """What an attempt at a piece has done so far; once it is ``finished``, what was done in all. ``place``: where."""

    piece: int
    work: Work
    report: Report
    finished: bool = False
    place: str = ""


@dataclass(frozen=True)
class Failed(Generic[Work]):
    """An attempt at a piece has failed, and what it had done is of no use; the piece is tried again."""

    piece: int
    work: Work
    attempt: int
    reason: str
    place: str = ""


@dataclass(frozen=True)
class Lost(Generic[Work]):
    """A piece that is given up, and the last reason."""

    piece: int
    work: Work
    reason: str
    place: str = ""


Event = Progress[Report, Work] | Failed[Work] | Lost[Work]
"""What the owner of the work is told."""


@dataclass
class Piece(Generic[Work]):
    """A piece of work, and how its attempts have ended."""

    index: int
    work: Work
    failures: int = 0
    deaths: Counter[str] = field(default_factory=Counter)

    def attempt(self) -> Attempt[Work]:
        """The next try: plain at first, then careful, so that an item that ends processes is found and left out."""
        condemned = (item for item, count in self.deaths.items() if count >= MAX_ATTEMPTS)
        return Attempt(self.work, self.failures > 0, frozenset(self.deaths), frozenset(condemned))

    def failed(self, item: str | None) -> None:
        """Take in that an attempt has failed; ``item``: at which its process died, if it had said so."""
        self.failures += 1
        if item is not None:
            self.deaths[item] += 1

    @property
    def given_up(self) -> bool:
        """Whether it has failed too often."""
        return self.failures - self.deaths.total() >= MAX_ATTEMPTS or self.failures >= MAX_FAILURES


class Tally(Generic[Report]):
    """What has been done in all. Exact once nothing is under way; less than before when an attempt has failed."""

    def __init__(self, blank: Callable[[], Report]) -> None:
        self._blank = blank
        self._finished = blank()
        self._under_way: dict[int, Report] = {}

    def take(self, event: Event[Report, Any]) -> None:
        """Take in what has happened to a piece; costs next to nothing."""
        self._under_way.pop(event.piece, None)
        if isinstance(event, Progress):
            if event.finished:
                self._finished.add(event.report)
            else:
                self._under_way[event.piece] = event.report

    def total(self) -> Report:
        """The sum; takes a while where many pieces are under way, so ask as often as it is shown."""
        total = self._blank()
        for report in (self._finished, *self._under_way.values()):
            total.add(report)
        return total
