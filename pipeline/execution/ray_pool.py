"""A pool and an engine of Ray actors, on this machine or on a cluster."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import count
from time import monotonic
from types import MappingProxyType
from typing import Any, Generic

from pipeline.errors import UnreachableError, UserError
from pipeline.execution.base import (
    AttemptFinished,
    Worker,
    WorkerDied,
    WorkerEvent,
    WorkerFailed,
    WorkerReported,
    WorkerStarted,
)
from pipeline.execution.processes import NOT_BOUND, OUT_OF_MEMORY, MemoryKills
from pipeline.execution.ray_cluster import early_cluster, import_ray
from pipeline.execution.scheduler import Scheduler
from pipeline.execution.work import Attempt, Counts, Event, Progress, Reading, Work
from pipeline.software import Installation, installation, leave_out_pandas

_GENERAL_ADVICE = " Some common causes include"
"""Start of the general advice in Ray's description of an actor's death; cut from messages."""

_SPARE: list[Any] = []
"""Actors that wait for the next engine of this process."""


@contextmanager
def early_actors(workers: int | None, module: str, function: str) -> Iterator[None]:
    """Begin to start a local cluster with an actor for each worker, which the first engine of the block uses.

    The actors call a function, so that they load what workers need while this process reads its settings and lists its
    input.

    Args:
        workers: Number of workers; None for the default.
        module: Module to import in the actors.
        function: Function of the module to call there, without arguments.
    """

    def start(count: int) -> None:
        actor_class = _actor_class({"num_cpus": 1})
        for _ in range(count):
            _SPARE.append(actor := actor_class.remote())
            actor.load.remote(module, function)

    try:
        with early_cluster(workers, start):
            yield
    finally:
        _SPARE.clear()


def _actor_class(needs: Mapping[str, float]) -> Any:
    """Return a class of actors, for each of which Ray reserves the resources that it needs."""
    return import_ray().remote(**needs, max_restarts=0)(_Actor)


class RayPool(Scheduler[Work, Counts]):
    """A pool of workers on the Ray cluster that this process has joined, which publishes metrics with ``labels``."""

    def __init__(self, engine: "RayEngine[Work, Counts]", workers: int, labels: Mapping[str, str]) -> None:
        super().__init__(engine, workers)
        self._metrics = _Metrics(labels)

    def run(self, items: Iterator[Work]) -> Iterator[Event[Counts, Work]]:
        """Run all work items, yield the events of the :class:`Scheduler`, and update the metrics."""
        for event in super().run(items):
            if isinstance(event, Progress) and event.finished:
                self._metrics.count(event.counts.readings())
            yield event


class RayEngine(Generic[Work, Counts]):
    """An engine of Ray actors. Each has at most one pending answer."""

    remedy = "Install the same robustshards on all machines of the cluster"

    def __init__(
        self,
        worker: Callable[[Any], Worker[Work, Counts]],
        job: object,
        needs: Mapping[str, float] = MappingProxyType({"num_cpus": 1}),
    ) -> None:
        """Create an engine without actors, for each of which Ray reserves the resources that it needs."""
        self._ray = import_ray()
        # Pickled here, so that an actor can check that it runs the same code before it unpickles the job.
        self._work = self._ray.put(self._ray.cloudpickle.dumps((worker, job)))
        self._actor_class = _actor_class(needs)
        while _SPARE and needs.get("num_gpus"):  # they have no GPU, and would keep CPUs from those that have one
            self._ray.kill(_SPARE.pop())
        self._numbers = count()
        self._actors: dict[int, Any] = {}
        self._answers: dict[int, Any] = {}
        self._workers: dict[Any, int] = {}
        """Pending answer -> worker."""
        self._starting: set[int] = set()
        self._memory_kills = MemoryKills()

    def now(self) -> float:
        """Return the time of the system's monotonic clock."""
        return monotonic()

    def start(self) -> int:
        """Begin to start an actor."""
        worker, actor = next(self._numbers), _SPARE.pop(0) if _SPARE else self._actor_class.remote()
        self._actors[worker] = actor
        self._starting.add(worker)
        self._await(worker, actor.start.remote(installation(), self._work))
        return worker

    def give(self, worker: int, attempt: Attempt[Work]) -> None:
        """Send an attempt to an actor."""
        # The actor waits until each report is received, so if it dies, the last report names the item it processed.
        options = {"_generator_backpressure_num_objects": 1} if attempt.report_items else {}
        self._await(worker, self._actors[worker].run.options(**options).remote(attempt))

    def kill(self, worker: int) -> None:
        """Kill an actor."""
        self._ray.kill(self._actors.pop(worker))
        self._starting.discard(worker)
        self._forget(worker)

    def wait(self, timeout: float) -> Sequence[WorkerEvent[Counts]]:
        """Return the events of actors that have answered, after at most ``timeout`` seconds."""
        pending = list(self._workers)
        self._ray.wait(pending, num_returns=1, timeout=timeout)
        # Take all available answers: with many workers, taking one at a time would delay the others.
        ready, _ = self._ray.wait(pending, num_returns=len(pending), timeout=0)
        return [self._event(self._workers[answer], answer) for answer in ready]

    def _await(self, worker: int, answer: Any) -> None:
        self._answers[worker] = answer
        self._workers[answer] = worker

    def _forget(self, worker: int) -> None:
        if (answer := self._answers.pop(worker, None)) is not None:
            del self._workers[answer]

    def _event(self, worker: int, answer: Any) -> WorkerEvent[Counts]:
        if worker in self._starting:
            return self._start_event(worker, answer)
        try:
            return WorkerReported(worker, self._ray.get(next(answer)))
        except StopIteration:
            self._forget(worker)
            return AttemptFinished(worker)
        except self._ray.exceptions.RayError as error:
            self._forget(worker)
            return self._failure(worker, error)

    def _start_event(self, worker: int, answer: Any) -> WorkerStarted | WorkerFailed:
        self._starting.discard(worker)
        self._forget(worker)
        try:
            place, differences = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            self.kill(worker)
            return self._failure(worker, error)
        if differences:
            raise UserError(
                f"{place} would run different code than this command: {'; '.join(differences)}. Install the same "
                "versions there, and start the Ray cluster from that environment"
            )
        return WorkerStarted(worker, place)

    def _failure(self, worker: int, error: BaseException) -> WorkerFailed:
        """Return the event for a Ray error of a worker, which Ray or Linux may have killed for want of memory."""
        if isinstance(error, self._ray.exceptions.OutOfMemoryError):
            reason = f"{OUT_OF_MEMORY} (Ray kills workers before a machine has no memory left)"
            return WorkerFailed(worker, reason, out_of_memory=True)  # no image is at fault
        if not isinstance(error, self._ray.exceptions.ActorDiedError):
            return WorkerFailed(worker, _reason(error), _known(error))
        if self._memory_kills.explain_death():
            return WorkerDied(worker, OUT_OF_MEMORY, out_of_memory=True)
        return WorkerDied(worker, _reason(error), _known(error))


class _Actor:
    """A Ray actor that runs one worker."""

    def load(self, module: str, function: str) -> None:
        """Call a function. What fails here fails in the work, too, which reports the reason."""
        with suppress(Exception):
            getattr(import_module(module), function)()

    def start(self, owner: Installation, work: bytes) -> tuple[str, list[str]]:
        """Create the worker from a pickled function and its argument, unless this machine has different code.

        Returns:
            Process and host of this actor, and the differences of its code from the owner's; empty if there are none.
        """
        from ray import cloudpickle

        os.environ.update(NOT_BOUND)
        os.environ["PYTHONSAFEPATH"] = "1"  # child processes must not import from the current folder
        place = f"process {os.getpid()} on {socket.gethostname()}"
        differences = owner.differences()
        if not differences:
            leave_out_pandas()
            worker, job = cloudpickle.loads(work)
            self._worker: Worker[Any, Any] = worker(job)
        return place, differences

    def run(self, attempt: Attempt[Any]) -> Iterator[Any]:
        """Run an attempt at a work item."""
        yield from self._worker.run(attempt)


class _Metrics:
    """Prometheus counters ``ray_robustshards_<name>_total``, published by Ray's exporter (``ray[default]``).

    Only finished work items count, so failed attempts do not. Without the exporter, the counters have no effect.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._counters: dict[str, Any] = {}

    def count(self, readings: Iterable[Reading]) -> None:
        """Add the counts of a finished work item."""
        from ray.util.metrics import Counter

        for reading in readings:
            labels = {**self._labels, **reading.labels}
            if reading.name not in self._counters:
                name, keys = f"robustshards_{reading.name}", tuple(labels)
                self._counters[reading.name] = Counter(name, reading.description, keys)
            if reading.value > 0:  # Ray rejects 0
                self._counters[reading.name].inc(reading.value, labels)


def _reason(error: BaseException) -> str:
    """Return the last line of a Ray error, which has the cause."""
    return str(error).strip().splitlines()[-1].partition(_GENERAL_ADVICE)[0]


def _known(error: BaseException) -> UserError | UnreachableError | None:
    """Return the cause of a Ray error if the user can fix it or a store does not answer."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, UserError | UnreachableError) else None
