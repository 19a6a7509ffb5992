"""An engine of child processes on this machine. Ray is neither started nor imported."""

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from time import monotonic
from typing import Any, Generic

from pipeline.errors import UserError
from pipeline.execution import local_worker
from pipeline.execution.base import (
    AttemptFinished,
    Worker,
    WorkerDied,
    WorkerEvent,
    WorkerFailed,
    WorkerReported,
    WorkerStarted,
)
from pipeline.execution.local_worker import LENGTH, frame
from pipeline.execution.processes import NOT_BOUND, OUT_OF_MEMORY, WORKER_ENVIRONMENT, MemoryKills
from pipeline.execution.work import Attempt, Counts, Work
from pipeline.software import installation

_CHECK_S = 1.0
"""Interval between two checks for processes that have ended, in seconds. The end of the output is not enough: a child
of a worker may keep it open."""

_END_S = 5.0
"""Maximum time to wait for a killed process to end, in seconds."""

_READ_BYTES, _STDERR_BYTES = 2**16, 2000
"""Number of bytes to read at a time, and to keep from the end of a worker's standard error."""

GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable with the GPUs that a process may use."""


@dataclass
class _Child:
    """A worker process, the messages still to be written to it, and incomplete answers read from it."""

    process: subprocess.Popen[bytes]
    slot: int
    messages: bytearray = field(default_factory=bytearray)
    answers: bytearray = field(default_factory=bytearray)
    stderr_tail: bytes = b""

    @property
    def place(self) -> str:
        """Return the process id and host, for messages."""
        return f"process {self.process.pid} on {socket.gethostname()}"


class LocalEngine(Generic[Work, Counts]):
    """An engine of child processes that communicate over pipes. No call blocks on a process that hangs.

    The processes end when this process ends, even if it is killed.
    """

    remedy = "Check that this machine has free memory and that its process limit is not reached"

    def __init__(self, worker: Callable[[Any], Worker[Work, Counts]], job: object, gpus: int = 0) -> None:
        """Create an engine without workers.

        Args:
            worker: Called with ``job`` in each process; returns the worker. The processes import it from the installed
                packages or from PYTHONPATH, not from the current folder.
            job: Argument of ``worker``. It must be picklable, and so must work items and counts.
            gpus: Number of GPUs of this machine; each worker uses one. 0 if workers need none.

        Raises:
            UserError: The path of the Python program is unknown.
        """
        if not sys.executable:
            raise UserError(
                "cannot start workers: the path of Python is unknown (sys.executable is empty). Use --executor ray"
            )
        self._first = frame((installation(), pickle.dumps((worker, job))))
        self._gpus = gpus
        self._numbers = count()
        self._children: dict[int, _Child] = {}
        self._killed: list[subprocess.Popen[bytes]] = []
        self._failed_starts: list[WorkerEvent[Counts]] = []
        self._selector = DefaultSelector()
        self._checked = monotonic()
        self._memory_kills = MemoryKills()

    def now(self) -> float:
        """Return the time of the system's monotonic clock."""
        return monotonic()

    def start(self) -> int:
        """Start a process and send it the first message."""
        worker = next(self._numbers)
        slot = min(set(range(len(self._children) + 1)) - {child.slot for child in self._children.values()})
        try:
            process = _SPARE.pop() if _SPARE and not self._gpus else None
            if process is None or process.poll() is not None:
                process = _spawn(gpu_of(slot, self._gpus))
        except OSError as error:
            self._failed_starts.append(WorkerFailed(worker, str(error)))
            return worker
        child = self._children[worker] = _Child(process, slot)
        for stream, read in ((process.stdout, self._read_answers), (process.stderr, self._read_stderr)):
            os.set_blocking(_file(stream), False)
            self._selector.register(_file(stream), EVENT_READ, (read, worker, child))
        os.set_blocking(_file(process.stdin), False)
        self._write(worker, child, self._first)
        return worker

    def give(self, worker: int, attempt: Attempt[Work]) -> None:
        """Send an attempt to a process."""
        self._write(worker, self._children[worker], frame(attempt))

    def kill(self, worker: int) -> None:
        """Kill a process and all processes that it has started."""
        if (child := self._children.pop(worker, None)) is None:
            return
        _kill(child.process)
        for stream in (child.process.stdin, child.process.stdout, child.process.stderr):
            with suppress(KeyError):
                self._selector.unregister(_file(stream))
            stream.close()  # type: ignore[union-attr]
        self._killed.append(child.process)

    def close(self) -> None:
        """Wait for the killed processes to end."""
        for process in self._killed:
            with suppress(subprocess.TimeoutExpired):  # the process is blocked by a disk that does not respond
                process.wait(_END_S)
        self._killed.clear()
        self._selector.close()

    def wait(self, timeout: float) -> Sequence[WorkerEvent[Counts]]:
        """Return the events of processes that have answered or ended, after at most ``timeout`` seconds."""
        events, self._failed_starts = self._failed_starts, []
        for key, _ in self._selector.select(0 if events else timeout):
            handle, worker, child = key.data
            if worker in self._children:
                events += handle(worker, child)
        if monotonic() > self._checked + _CHECK_S:
            self._checked = monotonic()
            self._killed = [process for process in self._killed if process.poll() is None]
            for worker, child in list(self._children.items()):
                if child.process.poll() is not None:
                    events += self._read_answers(worker, child)
                    if worker in self._children:
                        events.append(self._reap(worker, child))
        return events

    def _write(self, worker: int, child: _Child, message: bytes) -> None:
        child.messages += message
        self._continue_writing(worker, child)

    def _continue_writing(self, worker: int, child: _Child) -> Sequence[WorkerEvent[Counts]]:
        """Write as much as the pipe accepts now; the selector calls this again when it accepts more."""
        file = _file(child.process.stdin)
        try:
            while child.messages:
                del child.messages[: os.write(file, child.messages)]
        except BlockingIOError:
            with suppress(KeyError):  # already registered
                self._selector.register(file, EVENT_WRITE, (self._continue_writing, worker, child))
            return []
        except BrokenPipeError:  # the end of the process is detected when its answers are read
            child.messages.clear()
        with suppress(KeyError):
            self._selector.unregister(file)
        return []

    def _read_answers(self, worker: int, child: _Child) -> list[WorkerEvent[Counts]]:
        """Read all available answers; detect the end of the process."""
        ended = False
        try:
            while not ended:
                more = os.read(_file(child.process.stdout), _READ_BYTES)
                child.answers += more
                ended = not more
        except BlockingIOError:
            pass
        events = [self._event(worker, child, *parts) for parts in _complete_answers(child.answers)]
        if ended:
            events.append(self._reap(worker, child))
        return events

    def _event(self, worker: int, child: _Child, kind: str, *parts: Any) -> WorkerEvent[Counts]:
        """Return the event of an answer. Raises UserError if the worker would run different code than this process."""
        match kind:
            case local_worker.STARTED:
                return WorkerStarted(worker, child.place)
            case local_worker.REPORTED:
                return WorkerReported(worker, parts[0])
            case local_worker.DONE:
                return AttemptFinished(worker)
            case local_worker.RAISED:
                return WorkerFailed(worker, *parts)
            case local_worker.FAILED:
                self.kill(worker)
                return WorkerFailed(worker, *parts)
            case _:
                raise UserError(
                    f"{child.place} would run different code than this command: {'; '.join(parts[0])}. Install "
                    "robustshards, or add its folder to PYTHONPATH"
                )

    def _read_stderr(self, worker: int, child: _Child) -> list[WorkerEvent[Counts]]:
        """Read standard error of a process and keep the last bytes."""
        with suppress(BlockingIOError):
            more = os.read(_file(child.process.stderr), _READ_BYTES)
            child.stderr_tail = (child.stderr_tail + more)[-_STDERR_BYTES:]
            if not more:
                self._selector.unregister(_file(child.process.stderr))
        return []

    def _reap(self, worker: int, child: _Child) -> WorkerDied:
        """Remove a process that has ended or is ending, and return the event."""
        if child.process.stderr in self._selector.get_map():
            self._read_stderr(worker, child)
        self.kill(worker)
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(_END_S)
        code = child.process.returncode
        if code == -signal.SIGKILL and self._memory_kills.explain_death():
            return WorkerDied(worker, OUT_OF_MEMORY, out_of_memory=True)
        printed = child.stderr_tail.decode(errors="replace").strip().splitlines()
        return WorkerDied(worker, ": ".join(["the worker process died", _exit_text(code), *printed[-1:]]))


_SPARE: list[subprocess.Popen[bytes]] = []
"""A process that waits for the next engine of this process; at most one."""


@contextmanager
def spare_process(module: str, function: str) -> Iterator[None]:
    """Start a process that calls a function, and that the first engine of the block uses for its first worker.

    So it loads what it needs while this process reads its settings and lists its input.
    """
    with suppress(OSError):  # the engine reports it if it cannot start a process either
        _SPARE.append(_spawn(None, module, function))
    try:
        yield
    finally:
        end_spare_process()


def end_spare_process() -> None:
    """End the process of :func:`spare_process` if no engine has used it."""
    while _SPARE:
        _kill(process := _SPARE.pop())
        process.communicate()


def _spawn(gpu: str | None, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a process that waits for its first message. Raise OSError if it cannot be started."""
    command = [sys.executable, "-P", local_worker.__file__, str(os.getpid()), *arguments]
    pipe = subprocess.PIPE
    # In its own session, the process gets no Ctrl-C from the terminal, and its children can be killed with it.
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, cwd="/", start_new_session=True,
        env=worker_environment(gpu),
    )  # fmt: skip


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all processes that it has started."""
    with suppress(ProcessLookupError, PermissionError):  # the process has just ended
        os.killpg(process.pid, signal.SIGKILL)


def worker_environment(gpu: str | None) -> dict[str, str]:
    """Return the environment variables of a worker: those of this process, one thread per library, and its GPU."""
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))  # an empty entry means the current folder
    own = {**NOT_BOUND, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, paths)), "PYTHONSAFEPATH": "1"}
    own["PYTHONUTF8"] = str(sys.flags.utf8_mode)
    if gpu is not None:
        own[GPUS_VARIABLE] = gpu
    return {**WORKER_ENVIRONMENT, "OMP_NUM_THREADS": "1", **os.environ, **own}


def gpu_of(slot: int, gpus: int) -> str | None:
    """Return the value of CUDA_VISIBLE_DEVICES for the worker in a slot, or None if there are no GPUs.

    Args:
        slot: Number of the slot, from 0. Workers that run at the same time have different slots.
        gpus: Number of GPUs that this process may use.
    """
    if not gpus:
        return None
    visible = os.environ.get(GPUS_VARIABLE, "").split(",")
    return (visible if len(visible) >= gpus > 0 and visible[0] else [str(gpu) for gpu in range(gpus)])[slot % gpus]


def _file(stream: Any) -> int:
    number: int = stream.fileno()
    return number


def _complete_answers(answers: bytearray) -> Iterator[tuple[Any, ...]]:
    """Remove complete answers from the front of the buffer and yield them."""
    while len(answers) >= LENGTH.size:
        end = LENGTH.size + LENGTH.unpack_from(answers)[0]
        if len(answers) < end:
            return
        content = bytes(answers[LENGTH.size : end])
        del answers[:end]
        yield pickle.loads(content)


def _exit_text(code: int | None) -> str:
    """Return how a process ended, for messages."""
    if code is None:
        return "it was killed but is still running"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"{name} (the machine may be out of memory)" if -code == signal.SIGKILL else name
