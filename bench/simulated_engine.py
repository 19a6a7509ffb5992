"""An engine without processes, on a simulated clock: what workers do is computed, and hours pass in moments."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Generic

from pipeline.execution.base import Died, Done, Raised, Signal, Started, StartFailed
from pipeline.execution.work import Attempt, Counts, Work

_IDLE_WAITS = 100_000
"""After this many waits in a row in which nothing was signalled, nothing ever will be."""

Timed = tuple[float, Signal[Counts]]
"""Seconds since the signal before it, and a signal."""


class SimulatedEngine(Generic[Work, Counts]):
    """Workers that follow a script.

    ``busy_seconds`` is the time that workers have spent on attempts, those of killed workers included.
    """

    remedy = "Write another script"

    def __init__(
        self,
        attempt: Callable[[int, Attempt[Work]], Iterable[Timed[Counts]]],
        start: Callable[[int], Iterable[Timed[Counts]]] = lambda worker: [(0.0, Started(worker, f"worker {worker}"))],
    ) -> None:
        """Take the scripts.

        Args:
            attempt: Called with a worker's number and its attempt; returns what it signals. A worker whose signals
                end without Done, Died or Raised hangs.
            start: Called with the number of a worker that starts; a worker without a signal never starts.
        """
        self._attempt = attempt
        self._start = start
        self._clock = 0.0
        self._numbers = count()
        self._order = count()
        self._due: list[tuple[float, int, int, Signal[Counts], Iterator[Timed[Counts]]]] = []
        self._alive: set[int] = set()
        self._since: dict[int, float] = {}
        self._waits = 0
        self.busy_seconds = 0.0

    @property
    def alive(self) -> frozenset[int]:
        """Return the workers that have been started and not killed."""
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
        """End a worker; its signals are dropped."""
        self._alive.remove(worker)
        self._rest(worker)

    def wait(self, timeout: float) -> Sequence[Signal[Counts]]:
        """Return the next signals, all of one moment, and set the clock to it; or add ``timeout`` to the clock.

        Raises RuntimeError where nothing will ever happen.
        """
        while self._due and self._due[0][2] not in self._alive:
            heapq.heappop(self._due)
        if not self._due or self._due[0][0] > self._clock + timeout:
            self._clock += timeout
            self._waits += 1
            if self._waits > _IDLE_WAITS:
                raise RuntimeError(f"nothing happens any more at {self._clock:.0f} s")
            return []
        self._waits, self._clock = 0, self._due[0][0]
        signals: list[Signal[Counts]] = []
        while self._due and self._due[0][0] == self._clock:
            _, _, worker, signal, rest = heapq.heappop(self._due)
            if worker in self._alive:
                signals.append(signal)
                self._follow(worker, signal, rest)
        return signals

    def _follow(self, worker: int, signal: Signal[Counts], rest: Iterator[Timed[Counts]]) -> None:
        """Schedule what follows a signal, unless that is the last one."""
        if isinstance(signal, Done | Died | Raised):
            self._rest(worker)
        elif isinstance(signal, StartFailed):
            self._alive.remove(worker)
        else:
            self._schedule(worker, rest)

    def _rest(self, worker: int) -> None:
        if (since := self._since.pop(worker, None)) is not None:
            self.busy_seconds += self._clock - since

    def _schedule(self, worker: int, signals: Iterator[Timed[Counts]]) -> None:
        if (timed := next(signals, None)) is not None:
            seconds, signal = timed
            heapq.heappush(self._due, (self._clock + seconds, next(self._order), worker, signal, signals))
