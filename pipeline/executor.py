"""A pool of Ray actors: bounded work in flight, workers replaced when they die. The only file that imports Ray."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from pipeline.errors import UserError
from pipeline.software import cpu_count

MAX_ATTEMPTS = 3
"""How often a piece of work is tried before it is given up; what it would have made then stays missing."""

_CONNECT_S = 10.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_OBJECT_STORE_BYTES = 80 * 2**20
"""The least that Ray takes: only listings and counts travel, never an image."""


Job = TypeVar("Job")
Work = TypeVar("Work")
Report = TypeVar("Report")
Taken_contra = TypeVar("Taken_contra", contravariant=True)
Given_co = TypeVar("Given_co", covariant=True)


@dataclass(frozen=True)
class Lost(Generic[Work]):
    """A piece of work that failed in every attempt, and the last reason."""

    work: Work
    reason: str


class Runner(Protocol[Taken_contra, Given_co]):
    """What an actor holds: it runs pieces of work and reports."""

    def run(self, work: Taken_contra, /) -> Iterator[Given_co]:
        """Run one piece."""


class Pool(Generic[Job, Work, Report]):
    """Workers on a Ray cluster. ``worker`` makes one of the job in each actor; ``needs``: what Ray reserves for it."""

    def __init__(
        self,
        job: Job,
        workers: int,
        worker: Callable[[Job], Runner[Work, Report]],
        needs: Mapping[str, float] = MappingProxyType({"num_cpus": 1}),
    ) -> None:
        self._ray = _import_ray()
        self._job = self._ray.put(job)
        self._worker = worker
        self._actor_class = self._ray.remote(**needs, max_restarts=0)(_Actor)
        self.workers = workers

    def run(self, pieces: Iterator[Work]) -> Iterator[Report | Lost[Work]]:
        """Run all pieces; yields what the workers report, and each piece that is given up.

        One piece is in flight per worker and no more than one each wait, so memory does not grow with their number.
        A piece is given only to a worker that has started: where a machine is lost and none comes in its place, those
        that are left do the rest.
        """
        crew: _Crew[Work, Report] = _Crew(self._ray, self._start, self.workers)
        while crew.assign(pieces):
            yield from crew.events()
        crew.dismiss()

    def _start(self) -> Any:
        return self._actor_class.remote(self._worker, self._job)


class _Crew(Generic[Work, Report]):
    """The workers of one run: those that start, those at work on a piece (at which attempt), those that are idle."""

    def __init__(self, ray: Any, start: Callable[[], Any], size: int) -> None:
        self._ray = ray
        self._start = start
        self._size = size
        self._waiting: deque[tuple[Work, int]] = deque()
        self._starting: dict[Any, Any] = {}
        self._running: dict[Any, tuple[Any, Work, int]] = {}
        self._idle: list[Any] = []

    def assign(self, pieces: Iterator[Work]) -> bool:
        """Give pieces to idle workers, and start as many as have work waiting; false once all is done."""
        while len(self._waiting) < self._size - len(self._running) and (work := next(pieces, None)) is not None:
            self._waiting.append((work, 1))
        while self._waiting and self._idle:
            actor, (work, attempt) = self._idle.pop(), self._waiting.popleft()
            self._running[actor.run.remote(work)] = (actor, work, attempt)
        while len(self._starting) < min(len(self._waiting), self._size - len(self._running)):
            actor = self._start()
            self._starting[actor.ready.remote()] = actor
        return bool(self._running or self._waiting)

    def events(self) -> Iterator[Report | Lost[Work]]:
        """What happens next: reports, and pieces given up."""
        ready, _ = self._ray.wait([*self._running, *self._starting], num_returns=1)
        for event in ready:
            try:
                if event in self._running:
                    yield self._ray.get(next(event))
                else:
                    self._ray.get(event)
                    self._idle.append(self._starting.pop(event))
            except StopIteration:
                self._idle.append(self._running.pop(event)[0])
            except self._ray.exceptions.RayError as error:
                yield from self._failed(event, str(error).strip().splitlines()[-1])

    def dismiss(self) -> None:
        """End the workers that are left."""
        for actor in [*self._idle, *self._starting.values()]:
            self._ray.kill(actor)

    def _failed(self, event: Any, reason: str) -> Iterator[Lost[Work]]:
        """The piece of a worker that has failed, or the next one where it could not even start, waits again."""
        # A dead actor is not used again; one whose work raised may be, but a fresh one is as cheap.
        if event in self._running:
            actor, work, attempt = self._running.pop(event)
            self._ray.kill(actor)
        else:
            self._ray.kill(self._starting.pop(event))
            if not self._waiting:
                return
            work, attempt = self._waiting.popleft()
        if attempt < MAX_ATTEMPTS:
            self._waiting.appendleft((work, attempt + 1))
        else:
            yield Lost(work, reason)


class _Actor:
    """A worker in a process of its own."""

    def __init__(self, worker: Callable[[Any], Runner[Any, Any]], job: Any) -> None:
        self._worker = worker(job)

    def ready(self) -> None:
        """Returns once the worker is made."""

    def run(self, work: Any) -> Iterator[Any]:
        yield from self._worker.run(work)


def _import_ray() -> Any:
    """Ray, loaded where it is used: it takes a second, and most commands do without. It reports no usage."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    return ray


def _reach(address: str) -> None:
    """Raises UserError where nothing answers at host:port; Ray itself would try for minutes."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit():
        raise UserError(f"the address {address!r} is not host:port, nor 'auto' for the cluster on this machine")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"no Ray cluster answers at {address}: {error}") from error
    if host in _LOOPBACK:
        # Ray turns loopback into the address of the network card, where a cluster on loopback does not listen.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


@contextmanager
def cluster(workers: int | None, address: str | None) -> Iterator[int]:
    """A Ray cluster for the time of a build; gives the number of workers to start.

    Without an address a local one is started on the loopback interface and ended afterwards; with host:port or
    "auto", the cluster there is joined and left running. ``workers`` None means one per CPU. Raises UserError if it
    cannot be reached.
    """
    if address not in (None, "auto"):
        _reach(address)
    ray = _import_ray()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    ending = signal.getsignal(signal.SIGTERM)
    try:
        if address is None:
            cpus = workers or cpu_count()
            own: dict[str, Any] = {"object_store_memory": _OBJECT_STORE_BYTES, "_node_ip_address": "127.0.0.1"}
            # "local", or Ray would join whatever cluster was last started on this machine.
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **own, **quiet)
        else:
            ray.init(address=address, **quiet)
            cpus = workers or int(ray.cluster_resources().get("CPU", 1))
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(f"cannot start or join Ray{f' at {address}' if address else ''}: {error}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ending)  # Ray has put one of its own in its place
    try:
        yield cpus
    finally:
        ray.shutdown()
