"""An engine of Ray actors, on this machine or on a cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from time import monotonic
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from pipeline.errors import UserError
from pipeline.execution.base import Died, Done, Raised, Said, Signal, Started, StartFailed, Worker
from pipeline.execution.ray_cluster import import_ray
from pipeline.execution.scheduler import Scheduler
from pipeline.execution.work import Attempt, Counts, Event, Measure, Progress, Work
from pipeline.software import Installation, installation

_PLATITUDES = " Some common causes include"
"""Where Ray's account of a death goes on to general advice."""

Job = TypeVar("Job")


class RayPool(Generic[Job, Work, Counts]):
    """Workers on the Ray cluster that this process has joined."""

    def __init__(
        self,
        job: Job,
        workers: int,
        worker: Callable[[Job], Worker[Work, Counts]],
        *,
        labels: Mapping[str, str],
        needs: Mapping[str, float] = MappingProxyType({"num_cpus": 1}),
    ) -> None:
        """Prepare workers; they start with the work.

        Args:
            job: What each worker is made of.
            workers: Maximum number of workers.
            worker: Called with the job in each actor.
            labels: Labels of all metrics.
            needs: Resources that Ray reserves for each worker.
        """
        self.workers = workers
        self._meters = _Meters(labels)
        engine: RayEngine[Work, Counts] = RayEngine(worker, job, needs)
        self._scheduler = Scheduler(engine, workers)

    def run(self, items: Iterator[Work]) -> Iterator[Event[Counts, Work]]:
        """Run all work items as :class:`Scheduler` does; metrics count the finished ones."""
        for event in self._scheduler.run(items):
            if isinstance(event, Progress) and event.finished:
                self._meters.count(event.counts.measures())
            yield event

    def close(self) -> None:
        """End the workers."""
        self._scheduler.close()


class RayEngine(Generic[Work, Counts]):
    """Actors, and what each of them has promised to answer."""

    remedy = "Install the same robustshards on all machines of the cluster"

    def __init__(self, worker: Callable[[Any], Worker[Work, Counts]], job: object, needs: Mapping[str, float]) -> None:
        self._ray = import_ray()
        # Unpickled by an actor only once that is found to run the same code.
        self._work = self._ray.put(self._ray.cloudpickle.dumps((worker, job)))
        self._actor_class = self._ray.remote(**needs, max_restarts=0)(_Actor)
        self._numbers = count()
        self._actors: dict[int, Any] = {}
        self._answers: dict[int, Any] = {}
        self._workers: dict[Any, int] = {}
        """Answer that is awaited -> worker."""
        self._starting: set[int] = set()

    def now(self) -> float:
        """Return the time of the system's monotonic clock."""
        return monotonic()

    def start(self) -> int:
        """Begin to start an actor."""
        worker, actor = next(self._numbers), self._actor_class.remote()
        self._actors[worker] = actor
        self._starting.add(worker)
        self._await(worker, actor.start.remote(installation(), self._work))
        return worker

    def give(self, worker: int, attempt: Attempt[Work]) -> None:
        """Give an actor an attempt."""
        # A careful one waits until it has been heard: what it said last is then what it died at.
        options = {"_generator_backpressure_num_objects": 1} if attempt.careful else {}
        self._await(worker, self._actors[worker].run.options(**options).remote(attempt))

    def kill(self, worker: int) -> None:
        """End an actor."""
        self._ray.kill(self._actors.pop(worker))
        self._starting.discard(worker)
        self._forget(worker)

    def wait(self, timeout: float) -> Sequence[Signal[Counts]]:
        """Return what the actors have answered."""
        pending = list(self._workers)
        self._ray.wait(pending, num_returns=1, timeout=timeout)
        # Then all that is there: where many workers report, one at a time would leave the last ones waiting.
        ready, _ = self._ray.wait(pending, num_returns=len(pending), timeout=0)
        return [self._signal(self._workers[answer], answer) for answer in ready]

    def _await(self, worker: int, answer: Any) -> None:
        self._answers[worker] = answer
        self._workers[answer] = worker

    def _forget(self, worker: int) -> None:
        if (answer := self._answers.pop(worker, None)) is not None:
            del self._workers[answer]

    def _signal(self, worker: int, answer: Any) -> Signal[Counts]:
        if worker in self._starting:
            return self._start_signal(worker, answer)
        try:
            return Said(worker, self._ray.get(next(answer)))
        except StopIteration:
            self._forget(worker)
            return Done(worker)
        except self._ray.exceptions.RayError as error:
            self._forget(worker)
            died = isinstance(error, self._ray.exceptions.ActorDiedError)
            return (Died if died else Raised)(worker, _reason(error))

    def _start_signal(self, worker: int, answer: Any) -> Started | StartFailed:
        self._starting.discard(worker)
        self._forget(worker)
        try:
            place, unlike = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            self.kill(worker)
            cause = getattr(error, "cause", None)
            return StartFailed(worker, _reason(error), str(cause) if isinstance(cause, UserError) else None)
        if unlike:
            raise UserError(
                f"{place} would run other code than this command: {'; '.join(unlike)}. Install the same versions "
                "there, and start its cluster from the same environment"
            )
        return Started(worker, place)


class _Actor:
    """A worker in a process of its own."""

    def start(self, owner: Installation, work: bytes) -> tuple[str, list[str]]:
        """Make the worker, and return its place; or how its code differs from its owner's, and make none."""
        from ray import cloudpickle

        os.environ["PYTHONSAFEPATH"] = "1"  # processes that the worker starts import nothing from the current folder
        place = f"process {os.getpid()} on {socket.gethostname()}"
        unlike = owner.differences()
        if not unlike:
            worker, job = cloudpickle.loads(work)
            self._worker: Worker[Any, Any] = worker(job)
        return place, unlike

    def run(self, attempt: Attempt[Any]) -> Iterator[Any]:
        """Do a work item."""
        yield from self._worker.run(attempt)


class _Meters:
    """Counters that the exporter of Ray (``ray[default]``) shows to Prometheus, as ``ray_robustshards_<name>_total``.

    They count finished work items, so that no failed attempt counts. Without the exporter they have no effect.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._counters: dict[str, Any] = {}

    def count(self, measures: Iterable[Measure]) -> None:
        """Add the counts of a finished work item."""
        from ray.util.metrics import Counter

        for measure in measures:
            labels = {**self._labels, **measure.labels}
            if measure.name not in self._counters:
                name, keys = f"robustshards_{measure.name}", tuple(labels)
                self._counters[measure.name] = Counter(name, measure.words, keys)
            if measure.value > 0:  # Ray refuses to add nothing
                self._counters[measure.name].inc(measure.value, labels)


def _reason(error: BaseException) -> str:
    """Return the last line of an error of Ray, which says the most."""
    return str(error).strip().splitlines()[-1].partition(_PLATITUDES)[0]
