"""A pool of Ray actors: bounded work in flight, workers replaced when they die. The only file that imports Ray."""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from pathlib import Path
from statistics import median
from time import monotonic
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, cast

from pipeline.errors import UnfinishedError, UserError
from pipeline.guardian import guarded
from pipeline.pieces import MAX_ATTEMPTS, At, Attempt, Event, Failed, Lost, Measure, Piece, Progress, Report, Work
from pipeline.software import Installation, cpu_count, installation

_CONNECT_S = 10.0
_SETTINGS = 4
"""The type of the frame with which each side of an HTTP/2 connection begins."""

LOCAL_WORKERS, LOCAL_WORKERS_PER_CPU, MAX_WORKERS = 64, 16, 10_000
"""More worker processes than these are taken for a slip: on this machine, per CPU of it, and on a cluster."""

FAILED_STARTS = 10
"""So many workers one after another that do not start, and the work ends: no other piece would fare better."""

_QUIET: Mapping[str, Any] = MappingProxyType({"log_to_driver": False, "logging_level": logging.ERROR})

_FOLDER, _LONGEST_FOLDER = "robustshards-ray-", 40
"""What a folder for the files of a local cluster is called, and how long its path may be: sockets are made below it,
whose paths may have 107 bytes."""

_KEPT = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=134217728"
WORKER_ENVIRONMENT: Mapping[str, str] = MappingProxyType({"GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:{_KEPT}"})
"""What the workers of a local cluster start with. glibc asks for huge pages (madvise), and keeps what it has got for
the next photograph: together three per cent of a build."""

_OBJECT_STORE_BYTES = 80 * 2**20
"""The least that Ray takes: only listings and counts travel, never an image."""


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


def _import_ray() -> Any:
    """Ray, loaded where it is used: it takes a second, and most commands do without. It reports no usage."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    for name, value in WORKER_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


def _reach(address: str) -> None:
    """Raises UserError where no gRPC server answers at host:port; Ray itself would try for minutes."""
    host, separator, port = address.rpartition(":")
    if "://" in address or not separator or not host or not (port.isascii() and port.isdecimal() and len(port) < 6):
        raise UserError(
            f"invalid address {address!r}: give host:port of the cluster's head, for example 10.0.0.1:6379, "
            "or 'auto' for the cluster on this machine"
        )
    host = host.removeprefix("[").removesuffix("]")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                _greet(connection)
    except (OSError, OverflowError, ValueError) as error:  # ValueError: names that no host can have
        raise UserError(f"no Ray cluster answers at {address}: {error}") from error
    if _is_loopback(host):
        # Ray turns loopback into the address of the network card, where a cluster on loopback does not listen.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


def _greet(connection: socket.socket) -> None:
    """Begin HTTP/2, as gRPC does: a server answers with its settings. Raises OSError for anything else."""
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0]))
    frame = connection.recv(9)
    if len(frame) < 4 or frame[3] != _SETTINGS:
        raise OSError("what listens there is no Ray head; its port is mostly 6379")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def cluster(workers: int | None, address: str | None) -> Iterator[int]:
    """A Ray cluster for the time of a build; gives the number of workers to start.

    Without an address a local one is started on the loopback interface and ended afterwards, also where this process
    is killed; with host:port or "auto", the cluster there is joined and left running. ``workers`` None means one per
    CPU. Raises UserError if it cannot be reached.
    """
    _check_workers(workers, address)
    if address not in (None, "auto"):
        _reach(address)
    _leave_lost_folder()
    ray = _import_ray()
    with ExitStack() as stack:
        # Ray tells of workers that died on standard output, which is ours: it may be JSON.
        stack.enter_context(redirect_stdout(sys.stderr))
        ending = signal.getsignal(signal.SIGTERM)
        try:
            cpus = _start(ray, workers, stack) if address is None else _join(ray, workers, address)
        except (OSError, ValueError, RuntimeError, AssertionError, ray.exceptions.RayError) as error:
            ray.shutdown()
            raise UserError(f"cannot start or join Ray{f' at {address}' if address else ''}: {error}") from error
        except SystemExit:  # of Ray's own handler of SIGTERM, which it has while it starts
            ray.shutdown()
            if callable(ending):
                ending(signal.SIGTERM, None)
            raise
        except Exception as error:
            if type(error) is not Exception:  # the plain one is what Ray raises where its processes do not come up
                raise
            ray.shutdown()
            raise UnfinishedError(
                f"Ray has not started: {error} It needs room for its temporary files and a machine that is not "
                "overloaded; then run the same command again"
            ) from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, ending)  # Ray has put one of its own in its place
        stack.callback(ray.shutdown)
        yield cpus


def _leave_lost_folder() -> None:
    """Go to the root where the current folder has been removed: Ray asks for it. No path is relative to it any more."""
    try:
        os.getcwd()
    except FileNotFoundError:
        os.chdir("/")


def _check_workers(workers: int | None, address: str | None) -> None:
    most = LOCAL_WORKERS_PER_CPU * cpu_count() if address is None else MAX_WORKERS
    if workers is not None and workers > max(most, LOCAL_WORKERS):
        where = "on this machine" if address is None else "on a cluster"
        raise UserError(f"invalid --workers {workers}: up to {max(most, LOCAL_WORKERS)} are allowed {where}")


def _start(ray: Any, workers: int | None, stack: ExitStack) -> int:
    """Start a local cluster that ends with this process. The number of workers."""
    cpus = workers or cpu_count()
    own: dict[str, Any] = {"object_store_memory": _OBJECT_STORE_BYTES, "_node_ip_address": "127.0.0.1"}
    folder = _temporary_folder()
    if folder:
        own["_temp_dir"] = str(folder)
    marks = stack.enter_context(guarded(folder))
    token = {} if _keeps_tokens() else {"RAY_AUTH_TOKEN": _token()}
    with _environment({**marks, **token}):
        # "local", or Ray would join whatever cluster was last started on this machine.
        ray.init(address="local", num_cpus=cpus, include_dashboard=False, job_config=_job(ray), **own, **_QUIET)
    return cpus


def _join(ray: Any, workers: int | None, address: str) -> int:
    """Join a running cluster. The number of workers."""
    ray.init(address=address, job_config=_job(ray), **_QUIET)
    return workers or int(ray.cluster_resources().get("CPU", 1))


class _Closed(list[str]):
    """Takes nothing: Ray adds the current folder and that of the script, and all code in there would come first."""

    def extend(self, paths: Iterable[str]) -> None:
        """Leave the workers' search path as it is."""


def _job(ray: Any) -> Any:
    """What Ray knows of this job: its workers import what is installed, as this process does."""
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = _Closed()
    return job


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for as long as the block runs."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _temporary_folder() -> Path | None:
    """A folder of our own for the files of a local cluster; None where the usual one can be used.

    That is not where it belongs to another user, who could change what is in it. Raises UserError where there is none.
    """
    usual = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray").absolute()
    if len(str(usual)) <= _LONGEST_FOLDER and _own(usual):
        return None
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if len(place) + len(_FOLDER) + 8 <= _LONGEST_FOLDER and os.access(place, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix=_FOLDER, dir=place))
    raise UserError(
        f"no folder for the temporary files of Ray: {usual} cannot be used; set RAY_TMPDIR to a folder that can be "
        f"written, with a path of up to {_LONGEST_FOLDER - len('/ray')} characters"
    )


def _own(folder: Path) -> bool:
    """Whether a folder belongs to this user and can be written, or can be made."""
    try:
        about = folder.lstat()
    except FileNotFoundError:
        return os.access(folder.parent, os.W_OK | os.X_OK)
    except OSError:
        return False
    return folder.is_dir() and about.st_uid == os.geteuid() and os.access(folder, os.W_OK | os.X_OK)


def _keeps_tokens() -> bool:
    """Whether Ray can keep the password of a local cluster where it wants to: below the home folder."""
    if {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        return True
    try:
        folder = Path.home() / ".ray"
        there = next(path for path in (folder, *folder.parents) if path.exists())
        return folder.is_absolute() and (
            os.access(folder / "auth_token", os.R_OK) or os.access(there, os.W_OK | os.X_OK)
        )
    except (OSError, RuntimeError):  # nobody knows the home
        return False


@cache
def _token() -> str:
    """One for the time of this process: Ray reads it once."""
    return secrets.token_hex(32)
