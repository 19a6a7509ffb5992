"""The process of a local worker. It reads messages from standard input and writes answers to standard output.

The module is run as a script, so it starts even if this project cannot be imported; unpickling the first message
imports the project. A message is an 8-byte length and a pickle. The other end is :mod:`pipeline.execution.local_pool`.
"""

import importlib
import os
import pickle
import signal
import struct
import sys
import threading
import time
import traceback
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NoReturn

LENGTH = struct.Struct("!Q")
"""Format of the length in front of each message."""

STARTED, DIFFERENT, FAILED, REPORTED, DONE, RAISED = "started", "different", "failed", "reported", "done", "raised"
"""Kinds of answers; the first element of each answer."""

_SET_PARENT_DEATH_SIGNAL = 1
"""The Linux constant PR_SET_PDEATHSIG."""

_WATCH_S = 1.0
"""Interval in seconds between two checks whether the parent has ended, on systems other than Linux."""


def frame(message: object) -> bytes:
    """Return a pickled message with its length in front."""
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(content)) + content


def main(parent: int, module: str = "", function: str = "") -> None:
    """Run attempts for the parent process until it ends.

    Args:
        parent: Process id of the parent.
        module: Module to import while the parent prepares its first message. Empty for none.
        function: Function of the module to call then, without arguments.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    messages, answers = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # output that libraries print must not mix with the answers
    end_with(parent)
    inbox: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(messages, inbox), daemon=True).start()
    with suppress(Exception):  # what fails here fails in the work, too, which reports the reason
        if module:
            getattr(importlib.import_module(module), function)()
    worker = _make_worker(inbox.get(), answers)
    while worker is not None:
        _run_attempt(worker, inbox.get(), answers)
    threading.Event().wait()  # the parent kills this process


def end_with(parent: int) -> None:
    """Kill this process when its parent ends for any reason: on Linux by the kernel, elsewhere by a thread.

    Linux also kills this process, and not its parent, if memory runs out.
    """
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it ended before
        _kill_group()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    _kill_group()


def _listen(messages: int, inbox: SimpleQueue[bytes]) -> None:
    """Put messages into the inbox. When the parent closes the pipe, kill this process even if it is working."""
    while True:
        (length,) = LENGTH.unpack(_read(messages, LENGTH.size))
        inbox.put(_read(messages, length))


def _read(messages: int, length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        more = os.read(messages, length - len(content))
        if not more:
            _kill_group()
        content += more
    return bytes(content)


def _kill_group() -> NoReturn:
    """Kill this process and all processes that it has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _answer(answers: int, *parts: object) -> None:
    content = memoryview(frame(parts))
    try:
        while content:
            content = content[os.write(answers, content) :]
    except BrokenPipeError:
        _kill_group()


def _make_worker(message: bytes, answers: int) -> Any:
    """Return the worker; None if creating it fails or if it would run different code than the parent."""
    try:
        installation, work = pickle.loads(message)
        if differences := installation.differences():
            _answer(answers, DIFFERENT, differences)
            return None
        from pipeline.software import leave_out_pandas

        leave_out_pandas()
        make, job = pickle.loads(work)
        worker = make(job)
    except BaseException as error:
        _answer(answers, FAILED, _reason(error), _known(error))
        return None
    _answer(answers, STARTED)
    return worker


def _known(error: BaseException) -> BaseException | None:
    """Return an error that the user can fix or that a store caused, without what is private to this process."""
    errors = sys.modules.get("pipeline.errors")
    kinds = (errors.UserError, errors.UnreachableError) if errors else ()
    return next((kind(str(error)) for kind in kinds if isinstance(error, kind)), None)


def _run_attempt(worker: Any, message: bytes, answers: int) -> None:
    try:
        for content in worker.run(pickle.loads(message)):
            _answer(answers, REPORTED, content)
    except BaseException as error:
        _answer(answers, RAISED, _reason(error), _known(error))
    else:
        _answer(answers, DONE)


def _reason(error: BaseException) -> str:
    """Return the last line of a traceback."""
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
