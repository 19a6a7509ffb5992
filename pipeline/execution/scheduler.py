"""The policy of execution: which worker does what, and what becomes of attempts that fail. It knows no engine."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from statistics import median
from typing import Generic, cast

from pipeline.errors import UnfinishedError, UserError
from pipeline.execution.base import Died, Done, Engine, Raised, Said, Signal, Started, StartFailed
from pipeline.execution.work import At, Attempt, Counts, Divisible, Event, Failed, Lost, Progress, Work

MAX_ATTEMPTS = 3
"""Give up on a work item after this many unexplained failures; quarantine an image after this many worker deaths."""

MAX_FAILURES = 100
"""Give up on a work item after this many failures of any kind: then the machine is broken, not so many images."""

FAILED_STARTS = 10
"""Stop the run after this many failed starts of workers in a row: no other work item would fare better."""

STRAGGLER, STRAGGLER_S = 3.0, 5.0
"""An attempt is a straggler after this many times the median of the finished ones, and after this many seconds."""

_TICK_S = 1.0
"""Seconds between two searches for stragglers while nothing happens."""

_REMEMBERED = 1000
"""Number of last finished attempts of which the median is taken."""


@dataclass
class ItemRecord(Generic[Work]):
    """A work item, how its attempts have ended, and the workers that are at it."""

    index: int
    work: Work
    failures: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    workers: set[int] = field(default_factory=set)

    def attempt(self) -> Attempt[Work]:
        """Return the next attempt: plain at first, then careful, so that an image that crashes workers is found."""
        condemned = (item for item, deaths in self.deaths.items() if deaths >= MAX_ATTEMPTS)
        return Attempt(self.work, self.failures > 0, frozenset(self.deaths), frozenset(condemned))

    def failed(self, item: str | None) -> None:
        """Count a failed attempt; ``item``: the image or sample at which the worker died, if it named one."""
        self.failures += 1
        if item is not None:
            self.deaths[item] += 1

    @property
    def given_up(self) -> bool:
        """Whether it has failed too often."""
        return self.failures - self.deaths.total() >= MAX_ATTEMPTS or self.failures >= MAX_FAILURES


@dataclass
class _Run(Generic[Work, Counts]):
    """A running attempt; ``item``: the image or sample that the worker named last."""

    record: ItemRecord[Work]
    since: float
    item: str | None = None
    counts: Counts | None = None


class Scheduler(Generic[Work, Counts]):
    """Up to ``workers`` workers of an engine, kept from one run to the next.

    Each has one attempt at a time, and no more work items are read than there are workers, so memory does not grow with
    their number. Work goes only to workers that have started: where a machine is lost and not replaced, the
    others do the rest. Stragglers are duplicated once nothing else is left, and the first to finish counts. What is
    lost at the end of a run is divided among the idle workers.
    """

    def __init__(self, engine: Engine[Work, Counts], workers: int) -> None:
        self._engine = engine
        self._size = workers
        self._numbers = count()
        self._waiting: deque[ItemRecord[Work]] = deque()
        self._starting: set[int] = set()
        self._places: dict[int, str] = {}
        self._idle: dict[int, None] = {}
        self._running: dict[int, _Run[Work, Counts]] = {}
        self._failed_starts = 0
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)

    def run(self, items: Iterator[Work]) -> Iterator[Event[Counts, Work]]:
        """Run all work items.

        Args:
            items: Read as workers become free.

        Yields:
            The progress of each work item, its failed attempts, and whether it is given up.

        Raises:
            UserError: No worker starts because of something that the user can mend.
            UnfinishedError: No worker starts.
        """
        while self._assign(items):
            for signal in self._engine.wait(_TICK_S):
                yield from self._take(signal)

    def close(self) -> None:
        """End all workers."""
        for worker in (*self._starting, *self._places):
            self._engine.kill(worker)
        self._starting.clear()
        self._places.clear()
        self._idle.clear()
        self._running.clear()

    def _assign(self, items: Iterator[Work]) -> bool:
        """Give work to idle workers, and start as many as have work waiting; False once all is done."""
        while len(self._waiting) < self._size - len(self._running) and (work := next(items, None)) is not None:
            self._waiting.append(ItemRecord(next(self._numbers), work))
        if self._idle and not self._waiting:
            self._waiting.extend(islice(self._stragglers(), len(self._idle)))
        while self._waiting and self._idle:
            worker, _ = self._idle.popitem()
            self._begin(worker, self._waiting.popleft())
        while len(self._starting) < min(len(self._waiting), self._size - len(self._running)):
            self._starting.add(self._engine.start())
        return bool(self._running or self._waiting)

    def _stragglers(self) -> Iterator[ItemRecord[Work]]:
        """Yield work items that take too long and that one worker alone is at, the oldest first."""
        if not self._seconds:
            return
        latest = self._engine.now() - max(STRAGGLER_S, STRAGGLER * median(self._seconds))
        for run in self._running.values():  # in the order in which they began
            if run.since >= latest:
                return
            if len(run.record.workers) == 1:
                yield run.record

    def _begin(self, worker: int, record: ItemRecord[Work]) -> None:
        record.workers.add(worker)
        self._running[worker] = _Run(record, self._engine.now())
        self._engine.give(worker, record.attempt())

    def _take(self, signal: Signal[Counts]) -> Iterator[Event[Counts, Work]]:
        """Take in a signal; those of workers that have been killed meanwhile are ignored."""
        worker = signal.worker
        if worker in self._starting:
            yield from self._take_start(worker, signal)
        elif worker in self._running:
            yield from self._take_run(worker, self._running[worker], signal)
        elif worker in self._idle and isinstance(signal, Died):
            self._drop(worker)

    def _take_start(self, worker: int, signal: Signal[Counts]) -> Iterator[Failed[Work] | Lost[Work]]:
        """Note that a worker is ready; put a failed start down to the next work item that waits."""
        if isinstance(signal, Started):
            self._starting.remove(worker)
            self._failed_starts = 0
            self._places[worker] = signal.place
            self._idle[worker] = None
        elif isinstance(signal, StartFailed):
            self._starting.remove(worker)
            self._failed_starts += 1
            reason = f"a worker cannot start: {signal.reason}"
            if signal.mistake and self._failed_starts >= MAX_ATTEMPTS:
                raise UserError(f"no worker can start: {signal.mistake}")
            if self._failed_starts >= FAILED_STARTS:
                raise UnfinishedError(
                    f"{reason} ({FAILED_STARTS} times in a row); what is finished is kept. {self._engine.remedy}, "
                    "then run the same command again"
                )
            if self._waiting:
                yield self._failed(self._waiting.popleft(), None, reason, "")

    def _take_run(self, worker: int, run: _Run[Work, Counts], signal: Signal[Counts]) -> Iterator[Event[Counts, Work]]:
        """Take in what a worker reports, that it is done, or that it has failed."""
        record = run.record
        match signal:
            case Said(what=At(item=item)):
                run.item = item
            case Said(what=what):
                run.counts = cast(Counts, what)
                yield Progress(record.index, record.work, run.counts)
            case Done():
                yield self._finished(worker, run)
            case Died(reason=reason):
                place = self._drop(worker)
                yield self._failed(record, run.item, reason, place)
            case Raised(reason=reason):
                # The worker might still be sound, but a new one is as cheap.
                place = self._drop(worker)
                yield self._failed(record, None, reason, place)

    def _finished(self, worker: int, run: _Run[Work, Counts]) -> Progress[Counts, Work]:
        """Note that a work item is done, and end the other workers that are at it."""
        record = run.record
        del self._running[worker]
        record.workers.discard(worker)
        self._idle[worker] = None
        self._seconds.append(self._engine.now() - run.since)
        for other in tuple(record.workers):
            self._drop(other)
        counts = cast(Counts, run.counts)
        return Progress(record.index, record.work, counts, finished=True, place=self._places[worker])

    def _drop(self, worker: int) -> str:
        """End a worker that has started, and return its place."""
        self._engine.kill(worker)
        self._idle.pop(worker, None)
        if run := self._running.pop(worker, None):
            run.record.workers.discard(worker)
        return self._places.pop(worker)

    def _failed(self, record: ItemRecord[Work], item: str | None, reason: str, place: str) -> Failed[Work] | Lost[Work]:
        """Count a failed attempt; queue the work item again, unless another worker is at it or it is given up."""
        record.failed(item)
        if not record.workers:
            if record.given_up:
                return Lost(record.index, record.work, reason, place)
            self._waiting.extendleft(self._retried(record))
        return Failed(record.index, record.work, record.failures, reason, place)

    def _retried(self, record: ItemRecord[Work]) -> list[ItemRecord[Work]]:
        """Return what to queue of a failed work item: pieces for the idle workers after its first failure, else itself.

        Where an image is to blame after all, each piece finds it by itself.
        """
        if record.failures > 1 or len(self._idle) <= 1 or not isinstance(record.work, Divisible):
            return [record]
        pieces = cast(Iterable[Work], record.work.divided(len(self._idle)))
        return [ItemRecord(next(self._numbers), piece, record.failures, record.deaths.copy()) for piece in pieces]
