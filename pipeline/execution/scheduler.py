"""The policy of execution: assign work to workers, retry failures, duplicate stragglers. Independent of the engine."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice, takewhile
from statistics import median
from typing import Generic, cast

from pipeline.errors import UnfinishedError, UnreachableError, UserError
from pipeline.execution.base import (
    AttemptFinished,
    Engine,
    WorkerDied,
    WorkerEvent,
    WorkerFailed,
    WorkerReported,
    WorkerStarted,
)
from pipeline.execution.work import Attempt, Counts, CurrentItem, Event, Failed, Lost, Progress, Splittable, Work
from pipeline.text import counted

MAX_ATTEMPTS = 3
"""Give up on a work item after this many unexplained failures; quarantine an image after this many worker deaths."""

MAX_FAILURES = 100
"""Give up on a work item after this many failures of any kind: the machine is then more likely at fault than images."""

MAX_FAILED_STARTS = 10
"""Stop the run after this many workers in a row could not be started: other work items would fail in the same way."""

STRAGGLER_FACTOR, STRAGGLER_MIN_S = 1.5, 5.0
"""An attempt is a straggler if it takes longer than this factor times the median duration, and this many seconds.
A worker is slow if its latest attempt took longer than this factor times the mean duration. Its next attempt is a
straggler as soon as it is expected to need as long as that from now on."""

FINISH_S = 10.0
"""Maximum time that an interrupted run waits for workers to publish their next parts, in seconds."""

_TICK_S = 1.0
"""Interval between two searches for stragglers when no event arrives, in seconds."""

_MEDIAN_WINDOW = 1000
"""Number of most recently finished attempts or parts used for the median duration."""


@dataclass
class ItemRecord(Generic[Work]):
    """A work item with its failures and the workers that process it now."""

    index: int
    work: Work
    failures: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    workers: set[int] = field(default_factory=set)

    def attempt(self) -> Attempt[Work]:
        """Return the next attempt. After a failure, the worker reports each image, to find one that causes crashes."""
        quarantined = (item for item, deaths in self.deaths.items() if deaths >= MAX_ATTEMPTS)
        return Attempt(self.work, self.failures > 0, frozenset(self.deaths), frozenset(quarantined))

    def add_failure(self, item: str | None) -> None:
        """Count a failed attempt; ``item`` is the image or sample at which the worker died, or None if unknown."""
        self.failures += 1
        if item is not None:
            self.deaths[item] += 1

    @property
    def given_up(self) -> bool:
        """Whether the work item has failed too often to be retried."""
        return self.failures - self.deaths.total() >= MAX_ATTEMPTS or self.failures >= MAX_FAILURES


@dataclass
class _Run(Generic[Work, Counts]):
    """A running attempt; ``item`` is the image or sample that the worker reported last.

    ``part_since`` is when the worker began the part that it has not published yet.
    """

    record: ItemRecord[Work]
    since: float
    part_since: float
    item: str | None = None
    counts: Counts | None = None


class Scheduler(Generic[Work, Counts]):
    """A pool of up to ``workers`` workers of an engine. Workers are kept between runs.

    Each worker has one attempt at a time, and at most one work item per worker is read ahead, so memory use does not
    depend on the number of work items. Only workers that have started receive work: if a machine is lost and not
    replaced, the remaining workers do its work. When no work is left, stragglers are duplicated, again if the duplicate
    is one too, and the first attempt to finish counts. A work item that fails near the end of a run is split among the
    idle workers.
    """

    def __init__(self, engine: Engine[Work, Counts], workers: int) -> None:
        self._engine = engine
        self.workers = workers
        self._numbers = count()
        self._waiting: deque[ItemRecord[Work]] = deque()
        self._starting: set[int] = set()
        self._places: dict[int, str] = {}
        self._idle: dict[int, None] = {}
        self._running: dict[int, _Run[Work, Counts]] = {}
        self._failed_starts = 0
        self._events: deque[WorkerEvent[Counts]] = deque()
        self._seconds: deque[float] = deque(maxlen=_MEDIAN_WINDOW)
        self._part_seconds: deque[float] = deque(maxlen=_MEDIAN_WINDOW)
        self._slow: dict[int, float] = {}  # slow worker -> seconds of its latest attempt

    def run(self, items: Iterator[Work]) -> Iterator[Event[Counts, Work]]:
        """Run all work items, which are read as workers become free, and yield progress, failures and losses.

        Raises:
            UserError: No worker can be started, and the user can fix the cause.
            UnreachableError: A store does not answer a worker, after all retries of the call.
            UnfinishedError: No worker can be started for another reason.
        """
        while self._assign(items):
            for event in self._wait(_TICK_S):
                if isinstance(event, WorkerFailed) and isinstance(event.error, UnreachableError):
                    raise event.error  # other work items would wait for the store one after another
                yield from self._handle(event)

    def drain(self) -> Iterator[Progress[Counts, Work]]:
        """Wait until each worker that is expected to publish within ``FINISH_S`` has done so, stop it, yield progress.

        Call it after :meth:`run` was interrupted. No work is started or retried.
        """
        until = self._engine.now() + FINISH_S
        awaited = {worker: run for worker, run in self._running.items() if self._publishes_by(run, until)}
        while awaited and (left := until - self._engine.now()) > 0:
            for event in self._wait(min(left, _TICK_S)):
                worker, run = event.worker, awaited.get(event.worker)
                since = run.part_since if run else 0.0
                yield from (each for each in self._handle(event) if isinstance(each, Progress))
                if run and (self._running.get(worker) is not run or run.part_since > since):
                    del awaited[worker]
                    if worker in self._running:
                        self._drop(worker)

    def _publishes_by(self, run: _Run[Work, Counts], until: float) -> bool:
        """Return whether a worker should publish its next part by then. The first may take twice its time so far."""
        now = self._engine.now()
        expected = median(self._part_seconds) if self._part_seconds else 2 * (now - run.part_since)
        return run.part_since + expected <= until

    def _wait(self, timeout: float) -> Iterator[WorkerEvent[Counts]]:
        """Yield the events of the engine. After an interruption, the next call yields those that were not taken."""
        self._events.extend(self._engine.wait(0 if self._events else timeout))
        while self._events:
            yield self._events.popleft()

    def close(self) -> None:
        """Kill all workers."""
        for worker in (*self._starting, *self._places):
            self._engine.kill(worker)
        self._starting.clear()
        self._places.clear()
        self._idle.clear()
        self._running.clear()
        self._slow.clear()

    def _assign(self, items: Iterator[Work]) -> bool:
        """Give work to idle workers and start workers for waiting work; return False when all work is done."""
        while len(self._waiting) < self.workers - len(self._running) and (work := next(items, None)) is not None:
            self._waiting.append(ItemRecord(next(self._numbers), work))
        if self._idle and not self._waiting:
            self._waiting.extend(islice(self._stragglers(), len(self._idle)))
        while self._waiting and self._idle:
            worker, _ = self._idle.popitem()
            record, now = self._waiting.popleft(), self._engine.now()
            record.workers.add(worker)
            self._running[worker] = _Run(record, now, now)
            self._engine.give(worker, record.attempt())
        while len(self._starting) < min(len(self._waiting), self.workers - len(self._running)):
            self._starting.add(self._engine.start())
        return bool(self._running or self._waiting)

    def _stragglers(self) -> Iterator[ItemRecord[Work]]:
        """Yield work items whose workers all take too long, or will, those with the oldest attempts first."""
        if not self._seconds:
            return
        now, limit = self._engine.now(), max(STRAGGLER_MIN_S, STRAGGLER_FACTOR * median(self._seconds))
        runs = self._running
        late = dict(takewhile(lambda each: now - each[1].since > limit, runs.items()))  # oldest first
        late |= {at: runs[at] for at, took in self._slow.items() if at in runs and runs[at].since + took - now > limit}
        records = {run.record.index: run.record for run in late.values()}
        yield from (record for record in records.values() if record.workers <= late.keys())

    def _handle(self, event: WorkerEvent[Counts]) -> Iterator[Event[Counts, Work]]:
        """Handle an event of a worker; ignore events of workers that have been killed."""
        worker = event.worker
        if worker in self._starting:
            yield from self._handle_start(worker, event)
        elif worker in self._running:
            yield from self._handle_run(worker, self._running[worker], event)
        elif worker in self._idle and isinstance(event, WorkerDied):
            self._drop(worker)

    def _handle_start(self, worker: int, event: WorkerEvent[Counts]) -> Iterator[Failed[Work] | Lost[Work]]:
        """Mark a started worker as idle; count a failed start as a failure of the next waiting work item."""
        if isinstance(event, WorkerStarted):
            self._starting.remove(worker)
            self._failed_starts = 0
            self._places[worker] = event.place
            self._idle[worker] = None
        elif isinstance(event, WorkerFailed):
            self._starting.remove(worker)
            self._failed_starts += 1
            reason = f"cannot start a worker: {event.reason}"
            if event.error and self._failed_starts >= MAX_ATTEMPTS:
                raise UserError(f"cannot start any worker: {event.error}")
            if self._failed_starts >= MAX_FAILED_STARTS:
                remedy = "Free some memory" if event.out_of_memory else self._engine.remedy
                raise UnfinishedError(
                    f"{reason} ({MAX_FAILED_STARTS} times in a row); finished work is kept. {remedy}, then run the "
                    "same command again"
                )
            if self._waiting:
                yield self._failed(self._waiting.popleft(), replace(event, reason=reason))

    def _handle_run(
        self, worker: int, run: _Run[Work, Counts], event: WorkerEvent[Counts]
    ) -> Iterator[Event[Counts, Work]]:
        """Handle a report, the end or the failure of a running attempt."""
        record = run.record
        match event:
            case WorkerReported(content=CurrentItem(item=item)):
                run.item = item
            case WorkerReported(content=content):
                counts, now = cast(Counts, content), self._engine.now()
                if counts.parts > (run.counts.parts if run.counts else 0):
                    self._part_seconds.append(now - run.part_since)
                    run.part_since = now
                run.counts = counts
                yield Progress(record.index, record.work, run.counts)
            case AttemptFinished():
                yield self._finished(worker, run)
            case WorkerFailed():
                # A worker that did not die may still be usable, but starting a new one costs little and is safer.
                item, place = run.item if isinstance(event, WorkerDied) else None, self._drop(worker)
                yield self._failed(record, event, item, place)

    def _finished(self, worker: int, run: _Run[Work, Counts]) -> Progress[Counts, Work]:
        """Mark a work item as finished and kill other workers that process it."""
        record = run.record
        del self._running[worker]
        record.workers.discard(worker)
        self._idle[worker] = None
        seconds = self._engine.now() - run.since
        self._seconds.append(seconds)
        if seconds > STRAGGLER_FACTOR * sum(self._seconds) / len(self._seconds):
            self._slow[worker] = seconds
        else:
            self._slow.pop(worker, None)
        for other in tuple(record.workers):
            self._drop(other)
        counts = cast(Counts, run.counts)
        return Progress(record.index, record.work, counts, finished=True, place=self._places[worker])

    def _drop(self, worker: int) -> str:
        """Kill a worker that has started, and return its process and host."""
        self._engine.kill(worker)
        self._idle.pop(worker, None)
        self._slow.pop(worker, None)
        if run := self._running.pop(worker, None):
            run.record.workers.discard(worker)
        return self._places.pop(worker)

    def _failed(
        self, record: ItemRecord[Work], event: WorkerFailed, item: str | None = None, place: str = ""
    ) -> Failed[Work] | Lost[Work]:
        """Count a failed attempt; retry the work item unless another worker processes it or it has failed too often.

        If the memory was not enough for all workers, the run goes on with one worker less, and the attempt is not
        counted.
        """
        reason, attempt = event.reason, record.failures + 1
        if event.out_of_memory and self.workers > 1:
            self.workers -= 1
            reason = f"{reason}; going on with {counted(self.workers, 'worker')}"
        else:
            record.add_failure(item)
        if not record.workers:
            if record.given_up:
                return Lost(record.index, record.work, reason, place)
            self._waiting.extendleft(self._to_retry(record))
        return Failed(record.index, record.work, attempt, reason, place)

    def _to_retry(self, record: ItemRecord[Work]) -> list[ItemRecord[Work]]:
        """Return the records to retry: after the first failure one piece per idle worker, later the work item itself.

        If an image crashes workers, each piece quarantines it on its own.
        """
        if record.failures > 1 or len(self._idle) <= 1 or not isinstance(record.work, Splittable):
            return [record]
        pieces = cast(Iterable[Work], record.work.split(len(self._idle)))
        return [ItemRecord(next(self._numbers), piece, record.failures, record.deaths.copy()) for piece in pieces]
