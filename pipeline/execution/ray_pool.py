"""A pool of Ray actors: bounded work in flight, workers replaced when they die. The only file that imports Ray."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from statistics import median
from time import monotonic
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, cast

from pipeline.errors import UnfinishedError, UserError
from pipeline.execution.ray_cluster import _import_ray
from pipeline.execution.work import (
    MAX_ATTEMPTS,
    At,
    Attempt,
    Event,
    Failed,
    Lost,
    Measure,
    Piece,
    Progress,
    Report,
    Work,
)
from pipeline.software import Installation, installation

FAILED_STARTS = 10
"""So many workers one after another that do not start, and the work ends: no other piece would fare better."""


_TICK_S = 1.0
"""How long to wait for news before looking for pieces that take too long."""

STRAGGLER, STRAGGLER_S = 3.0, 5.0
"""A piece takes too long at so many times the median of those that are finished, and at so many seconds at least."""

_REMEMBERED = 1000
"""Finished pieces whose time counts for the median."""

_PLATITUDES = " Some common causes include"
"""Where Ray's account of a death stops to tell of this one."""


Job = TypeVar("Job")
Report_co = TypeVar("Report_co", covariant=True)


class Runner(Protocol[Work, Report_co]):
    """What an actor holds: it does pieces of work."""

    def run(self, attempt: Attempt[Work], /) -> Iterator[Report_co | At]:
        """Do one piece; yields what has been done of it so far now and then, and when all is done."""


class Pool(Generic[Job, Work, Report]):
    """Workers on a Ray cluster. ``worker`` makes one of the job in each actor.

    ``labels`` go with every count that monitoring is told; ``needs``: what Ray reserves for a worker.
    """

    def __init__(
        self,
        job: Job,
        workers: int,
        worker: Callable[[Job], Runner[Work, Report]],
        labels: Mapping[str, str],
        needs: Mapping[str, float] = MappingProxyType({"num_cpus": 1}),
    ) -> None:
        self._ray = _import_ray()
        # Unpacked by an actor only once that is found to run the same code.
        self._work = self._ray.put(self._ray.cloudpickle.dumps((worker, job)))
        self._actor_class = self._ray.remote(**needs, max_restarts=0)(_Actor)
        self._meters = _Meters(labels)
        self.workers = workers

    def run(self, pieces: Iterator[Work]) -> Iterator[Event[Report, Work]]:
        """Run all pieces; yields how they go on, how attempts have failed, and which pieces are given up.

        One piece is in flight per worker and no more than one each wait, so memory does not grow with their number.
        A piece is given only to a worker that has started: where a machine is lost and none comes in its place, those
        that are left do the rest. A piece that takes much longer than the others is done by an idle worker as well.
        """
        crew: _Crew[Work, Report] = _Crew(self._ray, self._start, self.workers)
        while crew.assign(pieces):
            for event in crew.events():
                if isinstance(event, Progress) and event.finished:
                    self._meters.count(event.report.measures())
                yield event
        crew.dismiss()

    def _start(self) -> tuple[Any, Any]:
        """An actor, and its promise to be ready."""
        actor = self._actor_class.remote()
        return actor, actor.start.remote(installation(), self._work)


@dataclass
class _Run(Generic[Work, Report]):
    """An attempt under way: ``place`` is the actor's process, ``item`` what it has said to be at."""

    actor: Any
    place: str
    piece: Piece[Work]
    since: float
    item: str | None = None
    report: Report | None = None


class _Crew(Generic[Work, Report]):
    """The workers of one run: those that start, those at work on a piece, those that are idle."""

    def __init__(self, ray: Any, start: Callable[[], tuple[Any, Any]], size: int) -> None:
        self._ray = ray
        self._start = start
        self._size = size
        self._given = count()
        self._waiting: deque[Piece[Work]] = deque()
        self._starting: dict[Any, Any] = {}
        self._running: dict[Any, _Run[Work, Report]] = {}
        self._idle: list[tuple[Any, str]] = []
        self._failed_starts = 0
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)

    def assign(self, pieces: Iterator[Work]) -> bool:
        """Give pieces to idle workers, and start as many as have work waiting; false once all is done."""
        while len(self._waiting) < self._size - len(self._running) and (work := next(pieces, None)) is not None:
            self._waiting.append(Piece(next(self._given), work))
        if self._idle and not self._waiting:
            self._waiting.extend(islice(self._stragglers(), len(self._idle)))
        while self._waiting and self._idle:
            self._begin(*self._idle.pop(), self._waiting.popleft())
        while len(self._starting) < min(len(self._waiting), self._size - len(self._running)):
            actor, ready = self._start()
            self._starting[ready] = actor
        return bool(self._running or self._waiting)

    def events(self) -> Iterator[Event[Report, Work]]:
        """What happens next, if anything does within a second."""
        pending = [*self._running, *self._starting]
        self._ray.wait(pending, num_returns=1, timeout=_TICK_S)
        # Then all that is there: where many workers report, one at a time would leave the last ones waiting.
        ready, _ = self._ray.wait(pending, num_returns=len(pending), timeout=0)
        for event in ready:
            if event in self._starting:
                yield from self._started(event)
            elif event in self._running:
                yield from self._heard(event)

    def dismiss(self) -> None:
        """End the workers that are left."""
        for actor in [*(actor for actor, _ in self._idle), *self._starting.values()]:
            self._ray.kill(actor)

    def _begin(self, actor: Any, place: str, piece: Piece[Work]) -> None:
        attempt = piece.attempt()
        # One that is careful waits until it has been heard: what it said last is then what it died at.
        heed = {"_generator_backpressure_num_objects": 1} if attempt.careful else {}
        self._running[actor.run.options(**heed).remote(attempt)] = _Run(actor, place, piece, monotonic())

    def _started(self, event: Any) -> Iterator[Event[Report, Work]]:
        """A worker is ready; or it could not start, which is put down to the next piece that waits.

        Raises UserError where it runs other code than this process, and UnfinishedError where none starts any more.
        """
        actor = self._starting.pop(event)
        try:
            place, unlike = self._ray.get(event)
        except self._ray.exceptions.RayError as error:
            self._ray.kill(actor)
            self._failed_starts += 1
            reason = f"a worker cannot start: {_reason(error)}"
            cause = getattr(error, "cause", None)
            if isinstance(cause, UserError) and self._failed_starts >= MAX_ATTEMPTS:
                raise UserError(f"no worker can start: {cause}") from error
            if self._failed_starts >= FAILED_STARTS:
                raise UnfinishedError(
                    f"{reason} ({FAILED_STARTS} times in a row); what is finished is kept. Install the same "
                    "robustshards on all machines of the cluster, then run the same command again"
                ) from error
            if self._waiting:
                yield self._failed(self._waiting.popleft(), None, reason, "")
        else:
            if unlike:
                raise UserError(
                    f"{place} would run other code than this command: {'; '.join(unlike)}. Install the same versions "
                    "there, and start its cluster from the same environment"
                )
            self._failed_starts = 0
            self._idle.append((actor, place))

    def _heard(self, event: Any) -> Iterator[Event[Report, Work]]:
        """What a worker says, or that it is done, or that it has failed."""
        run = self._running[event]
        try:
            said = self._ray.get(next(event))
            if isinstance(said, At):
                run.item = said.item
            else:
                run.report = said
                yield Progress(run.piece.index, run.piece.work, said)
        except StopIteration:
            del self._running[event]
            self._idle.append((run.actor, run.place))
            self._seconds.append(monotonic() - run.since)
            for other in self._others(run.piece):
                self._ray.kill(self._running.pop(other).actor)
            report = cast(Report, run.report)
            yield Progress(run.piece.index, run.piece.work, report, finished=True, place=run.place)
        except self._ray.exceptions.RayError as error:
            # A dead actor is not used again; one whose work raised may be, but a fresh one is as cheap.
            self._ray.kill(self._running.pop(event).actor)
            died = isinstance(error, self._ray.exceptions.ActorDiedError)
            yield self._failed(run.piece, run.item if died else None, _reason(error), run.place)

    def _failed(self, piece: Piece[Work], item: str | None, reason: str, place: str) -> Failed[Work] | Lost[Work]:
        """The piece waits again, unless another worker is at it or it has failed too often."""
        piece.failed(item)
        if not self._others(piece):
            if piece.given_up:
                return Lost(piece.index, piece.work, reason, place)
            self._waiting.appendleft(piece)
        return Failed(piece.index, piece.work, piece.failures, reason, place)

    def _others(self, piece: Piece[Work]) -> list[Any]:
        """The attempts under way at a piece."""
        return [event for event, run in self._running.items() if run.piece is piece]

    def _stragglers(self) -> Iterator[Piece[Work]]:
        """Pieces that take too long and that one worker alone is at, the oldest first."""
        if self._seconds:
            limit = max(STRAGGLER_S, STRAGGLER * median(self._seconds))
            for run in self._running.values():
                if monotonic() - run.since > limit and len(self._others(run.piece)) == 1:
                    yield run.piece


class _Actor:
    """A worker in a process of its own."""

    def start(self, owner: Installation, work: bytes) -> tuple[str, list[str]]:
        """Make the worker. Where it is, and what it runs other than its owner does: then none is made."""
        from ray import cloudpickle

        os.environ["PYTHONSAFEPATH"] = "1"  # processes that the worker starts look for no code in the current folder
        place = f"process {os.getpid()} on {socket.gethostname()}"
        unlike = owner.differences()
        if not unlike:
            worker, job = cloudpickle.loads(work)
            self._worker: Runner[Any, Any] = worker(job)
        return place, unlike

    def run(self, attempt: Attempt[Any]) -> Iterator[Any]:
        """Do one piece."""
        yield from self._worker.run(attempt)


class _Meters:
    """Counters that the exporter of Ray (``ray[default]``) shows to Prometheus, as ``ray_robustshards_<name>_total``.

    They count pieces that are finished, so that no failed attempt counts. Without the exporter nobody looks at them.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._counters: dict[str, Any] = {}

    def count(self, measures: Iterable[Measure]) -> None:
        """Add what a piece has come to."""
        from ray.util.metrics import Counter

        for measure in measures:
            labels = {**self._labels, **measure.labels}
            if measure.name not in self._counters:
                name, keys = f"robustshards_{measure.name}", tuple(labels)
                self._counters[measure.name] = Counter(name, measure.words, keys)
            if measure.value > 0:  # Ray refuses to add nothing
                self._counters[measure.name].inc(measure.value, labels)


def _reason(error: BaseException) -> str:
    """The last line of what Ray says, which tells the most."""
    return str(error).strip().splitlines()[-1].partition(_PLATITUDES)[0]
