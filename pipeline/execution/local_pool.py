"""An engine of child processes on this machine. It neither starts nor imports Ray."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from time import monotonic
from typing import Any, Generic, TypeVar

from pipeline.errors import UserError
from pipeline.execution import local_worker
from pipeline.execution.base import Died, Done, Raised, Said, Signal, Started, StartFailed, Worker
from pipeline.execution.local_worker import LENGTH, framed
from pipeline.execution.processes import WORKER_ENVIRONMENT
from pipeline.execution.scheduler import Scheduler
from pipeline.execution.work import Attempt, Counts, Event, Work
from pipeline.software import installation

_CHECK_S = 1.0
"""Seconds between two looks for processes that have ended while one of their children keeps their output open."""

_END_S = 5.0
"""Seconds to wait for a process that has been killed."""

_READ_BYTES, _LAST_WORDS = 2**16, 2000
"""Bytes that are read at a time, and bytes of a worker's standard error that are kept."""

GPUS = "CUDA_VISIBLE_DEVICES"
"""The variable that says which GPUs a process may use."""

Job = TypeVar("Job")


class LocalPool(Generic[Job, Work, Counts]):
    """Workers in child processes, which end with this process, however that ends."""

    def __init__(self, job: Job, workers: int, worker: Callable[[Job], Worker[Work, Counts]], *, gpus: int = 0) -> None:
        """Prepare workers; they start with the work.

        Args:
            job: What each worker is made of. It is pickled, as are work items and counts.
            workers: Maximum number of workers.
            worker: Called with the job in each process, which must be able to import it: it is found as installed
                packages are, or by PYTHONPATH, not in the current folder.
            gpus: Number of GPUs of which each worker is given one.
        """
        self.workers = workers
        self._engine: LocalEngine[Work, Counts] = LocalEngine(worker, job, gpus)
        self._scheduler = Scheduler(self._engine, workers)

    def run(self, items: Iterator[Work]) -> Iterator[Event[Counts, Work]]:
        """Run all work items as :class:`Scheduler` does."""
        return self._scheduler.run(items)

    def close(self) -> None:
        """End the workers, and wait until they are gone."""
        self._scheduler.close()
        self._engine.close()


@dataclass
class _Child:
    """The process of a worker, what is still to be written to it, and what of its output is no whole answer yet."""

    process: subprocess.Popen[bytes]
    slot: int
    started: bool = False
    messages: bytearray = field(default_factory=bytearray)
    answers: bytearray = field(default_factory=bytearray)
    last_words: bytes = b""

    @property
    def place(self) -> str:
        """Return its process and host."""
        return f"process {self.process.pid} on {socket.gethostname()}"


class LocalEngine(Generic[Work, Counts]):
    """Child processes and their pipes. No call blocks on a process that stands still."""

    remedy = "See that this machine has memory left, and room for more processes"

    def __init__(self, worker: Callable[[Any], Worker[Work, Counts]], job: object, gpus: int = 0) -> None:
        """Prepare the first message of all workers. Raises UserError where Python does not know its own program."""
        if not sys.executable:
            raise UserError("this Python does not know its own program (sys.executable): use --executor ray")
        self._first = framed((installation(), pickle.dumps((worker, job))))
        self._gpus = gpus
        self._numbers = count()
        self._children: dict[int, _Child] = {}
        self._ended: list[subprocess.Popen[bytes]] = []
        self._failed: list[Signal[Counts]] = []
        self._selector = DefaultSelector()
        self._checked = monotonic()

    def now(self) -> float:
        """Return the time of the system's monotonic clock."""
        return monotonic()

    def start(self) -> int:
        """Start a process, which will import what it needs."""
        worker = next(self._numbers)
        slot = min(set(range(len(self._children) + 1)) - {child.slot for child in self._children.values()})
        command = [sys.executable, "-P", local_worker.__file__, str(os.getpid())]
        pipe = subprocess.PIPE
        try:
            # In a session of its own, it gets no Ctrl-C of the terminal, and can be ended with what it has started.
            process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, cwd="/", start_new_session=True,
                env=worker_environment(gpu_of(slot, self._gpus)),
            )  # fmt: skip
        except OSError as error:
            self._failed.append(StartFailed(worker, str(error)))
            return worker
        child = self._children[worker] = _Child(process, slot)
        for stream, take in ((process.stdout, self._take_answers), (process.stderr, self._take_words)):
            os.set_blocking(_file(stream), False)
            self._selector.register(_file(stream), EVENT_READ, (take, worker, child))
        os.set_blocking(_file(process.stdin), False)
        self._write(worker, child, self._first)
        return worker

    def give(self, worker: int, attempt: Attempt[Work]) -> None:
        """Send a process an attempt."""
        self._write(worker, self._children[worker], framed(attempt))

    def kill(self, worker: int) -> None:
        """End a process and all that it has started."""
        if (child := self._children.pop(worker, None)) is None:
            return
        with suppress(ProcessLookupError, PermissionError):  # it has just ended
            os.killpg(child.process.pid, signal.SIGKILL)
        for stream in (child.process.stdin, child.process.stdout, child.process.stderr):
            with suppress(KeyError):
                self._selector.unregister(_file(stream))
            stream.close()  # type: ignore[union-attr]
        self._ended.append(child.process)

    def close(self) -> None:
        """Wait for the processes that have been killed."""
        for process in self._ended:
            with suppress(subprocess.TimeoutExpired):  # it waits for a disk that does not answer
                process.wait(_END_S)
        self._ended.clear()
        self._selector.close()

    def wait(self, timeout: float) -> Sequence[Signal[Counts]]:
        """Return what the processes have answered, and which of them have ended."""
        signals, self._failed = self._failed, []
        for key, _ in self._selector.select(0 if signals else timeout):
            take, worker, child = key.data
            if worker in self._children:
                signals += take(worker, child)
        if monotonic() > self._checked + _CHECK_S:
            self._checked = monotonic()
            self._ended = [process for process in self._ended if process.poll() is None]
            for worker, child in list(self._children.items()):
                if child.process.poll() is not None:
                    signals += self._take_answers(worker, child)
                    if worker in self._children:
                        signals.append(self._bury(worker, child))
        return signals

    def _write(self, worker: int, child: _Child, message: bytes) -> None:
        child.messages += message
        self._go_on_writing(worker, child)

    def _go_on_writing(self, worker: int, child: _Child) -> Sequence[Signal[Counts]]:
        """Write what the pipe takes now; the rest once it takes more."""
        file = _file(child.process.stdin)
        try:
            while child.messages:
                del child.messages[: os.write(file, child.messages)]
        except BlockingIOError:
            with suppress(KeyError):  # it waits already
                self._selector.register(file, EVENT_WRITE, (self._go_on_writing, worker, child))
            return []
        except BrokenPipeError:  # its end is seen where its answers end
            child.messages.clear()
        with suppress(KeyError):
            self._selector.unregister(file)
        return []

    def _take_answers(self, worker: int, child: _Child) -> list[Signal[Counts]]:
        """Read all answers that are there, and the end of the process, if it has come."""
        ended = False
        try:
            while not ended:
                more = os.read(_file(child.process.stdout), _READ_BYTES)
                child.answers += more
                ended = not more
        except BlockingIOError:
            pass
        signals = [self._signal(worker, child, *parts) for parts in _whole(child.answers)]
        if ended:
            signals.append(self._bury(worker, child))
        return signals

    def _signal(self, worker: int, child: _Child, kind: str, *parts: Any) -> Signal[Counts]:
        """Return what an answer means. Raises UserError where a worker would run other code than this process."""
        match kind:
            case local_worker.STARTED:
                child.started = True
                return Started(worker, child.place)
            case local_worker.SAID:
                return Said(worker, parts[0])
            case local_worker.DONE:
                return Done(worker)
            case local_worker.RAISED:
                return Raised(worker, parts[0])
            case local_worker.FAILED:
                self.kill(worker)
                return StartFailed(worker, *parts)
            case _:
                raise UserError(
                    f"{child.place} would run other code than this command: {'; '.join(parts[0])}. Install "
                    "robustshards, or name its folder in PYTHONPATH"
                )

    def _take_words(self, worker: int, child: _Child) -> list[Signal[Counts]]:
        """Keep the last of what a process writes to its standard error."""
        with suppress(BlockingIOError):
            more = os.read(_file(child.process.stderr), _READ_BYTES)
            child.last_words = (child.last_words + more)[-_LAST_WORDS:]
            if not more:
                self._selector.unregister(_file(child.process.stderr))
        return []

    def _bury(self, worker: int, child: _Child) -> StartFailed | Died:
        """Take leave of a process that has ended, or ends just now."""
        if child.process.stderr in self._selector.get_map():
            self._take_words(worker, child)
        self.kill(worker)
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(_END_S)
        reason = f"its worker process has died: {_how(child.process.returncode)}"
        said = child.last_words.decode(errors="replace").strip().splitlines()
        reason += f": {said[-1]}" if said else ""
        return Died(worker, reason) if child.started else StartFailed(worker, reason)


def worker_environment(gpu: str | None) -> dict[str, str]:
    """Return the environment of a worker: that of this process, one thread for each library, and its GPU."""
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))  # an empty one is the current folder
    own = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, paths)), "PYTHONSAFEPATH": "1"}
    own["PYTHONUTF8"] = str(sys.flags.utf8_mode)
    if gpu is not None:
        own[GPUS] = gpu
    return {**WORKER_ENVIRONMENT, "OMP_NUM_THREADS": "1", **os.environ, **own}


def gpu_of(slot: int, gpus: int) -> str | None:
    """Return the GPU of the worker in a slot, of those that this process may use; None where there is none."""
    if not gpus:
        return None
    visible = os.environ.get(GPUS, "").split(",")
    return (visible if len(visible) >= gpus > 0 and visible[0] else [str(gpu) for gpu in range(gpus)])[slot % gpus]


def _file(stream: Any) -> int:
    number: int = stream.fileno()
    return number


def _whole(answers: bytearray) -> Iterator[tuple[Any, ...]]:
    """Take whole answers from the front of what has been read."""
    while len(answers) >= LENGTH.size:
        end = LENGTH.size + LENGTH.unpack_from(answers)[0]
        if len(answers) < end:
            return
        content = bytes(answers[LENGTH.size : end])
        del answers[:end]
        yield pickle.loads(content)


def _how(code: int | None) -> str:
    """Return in words how a process has ended."""
    if code is None:
        return "it does not end"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"{name} (the machine may be out of memory)" if -code == signal.SIGKILL else name
