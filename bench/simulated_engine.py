"""An engine without processes and with a simulated clock."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Generic

from pipeline.execution.base import AttemptFinished, WorkerEvent, WorkerFailed, WorkerStarted
from pipeline.execution.work import Attempt, Counts, Work

_IDLE_WAITS = 100_000
"""Number of consecutive waits without a signal after which the simulation is considered stuck."""

Timed = tuple[float, WorkerEvent[Counts]]
"""Seconds since the previous signal, and the signal."""


class SimulatedEngine(Generic[Work, Counts]):
    """An engine whose workers follow a script.

    ``busy_seconds``: time that workers have spent on attempts, including those of killed workers.
    """

    remedy = "Write another script"

    def __init__(
        self,
        attempt: Callable[[int, Attempt[Work]], Iterable[Timed[Counts]]],
        start: Callable[[int], Iterable[Timed[Counts]]] = lambda worker: [
            (0.0, WorkerStarted(worker, f"worker {worker}"))
        ],
    ) -> None:
        """Set the scripts.

        Args:
            attempt: Called with the number of a worker and its attempt; returns the worker's signals. A worker whose
                signals end without AttemptFinished or WorkerFailed hangs.
            start: Called with the number of a worker that starts; returns its signals. Without signals, the worker
                never starts.
        """
        self._attempt = attempt
        self._start = start
        self._clock = 0.0
        self._numbers = count()
        self._order = count()
        self._due: list[tuple[float, int, int, WorkerEvent[Counts], Iterator[Timed[Counts]]]] = []
        self._alive: set[int] = set()
        self._since: dict[int, float] = {}
        self._waits = 0
        self.busy_seconds = 0.0

    @property
    def alive(self) -> frozenset[int]:
        """Return the workers that were started and not killed."""
        return frozenset(self._alive)

    def now(self) -> float:
        """Return the simulated time in seconds."""
        return self._clock

    def start(self) -> int:
        """Begin to start a worker."""
        worker = next(self._numbers)
        self._alive.add(worker)
        self._schedule(worker, iter(self._start(worker)))
        return worker

    def give(self, worker: int, attempt: Attempt[Work]) -> None:
        """Give a worker an attempt."""
        self._since[worker] = self._clock
        self._schedule(worker, iter(self._attempt(worker, attempt)))

    def kill(self, worker: int) -> None:
        """Kill a worker and discard its signals."""
        self._alive.remove(worker)
        self._rest(worker)

    def wait(self, timeout: float) -> Sequence[WorkerEvent[Counts]]:
        """Advance the clock to the next signals and return them, or advance it by ``timeout``.

        Raises:
            RuntimeError: No signal will ever come.
        """
        while self._due and self._due[0][2] not in self._alive:
            heapq.heappop(self._due)
        if not self._due or self._due[0][0] > self._clock + timeout:
            self._clock += timeout
            self._waits += 1
            if self._waits > _IDLE_WAITS:
                raise RuntimeError(f"the simulation is stuck at {self._clock:.0f} s: no worker has a signal left")
            return []
        self._waits, self._clock = 0, self._due[0][0]
        signals: list[WorkerEvent[Counts]] = []
        while self._due and self._due[0][0] == self._clock:
            _, _, worker, signal, rest = heapq.heappop(self._due)
            if worker in self._alive:
                signals.append(signal)
                self._follow(worker, signal, rest)
        return signals

    def _follow(self, worker: int, signal: WorkerEvent[Counts], rest: Iterator[Timed[Counts]]) -> None:
        """Schedule the signal that follows, unless this one was the last."""
        if type(signal) is WorkerFailed and worker not in self._since:  # it did not start
            self._alive.remove(worker)
        elif isinstance(signal, AttemptFinished | WorkerFailed):
            self._rest(worker)
        else:
            self._schedule(worker, rest)

    def _rest(self, worker: int) -> None:
        if (since := self._since.pop(worker, None)) is not None:
            self.busy_seconds += self._clock - since

    def _schedule(self, worker: int, signals: Iterator[Timed[Counts]]) -> None:
        if (timed := next(signals, None)) is not None:
            seconds, signal = timed
            heapq.heappush(self._due, (self._clock + seconds, next(self._order), worker, signal, signals))
