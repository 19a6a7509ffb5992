"""The process of a local worker: it takes messages from its standard input, and answers on its standard output.

It is run as a script, so that it starts wherever Python does; this project is imported by what the first message
holds. A message is its length in 8 bytes, then a pickle, from and to :mod:`pipeline.execution.local_pool` alone.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import threading
import traceback
from queue import SimpleQueue
from typing import Any, NoReturn

LENGTH = struct.Struct("!Q")
"""The length in front of each message."""

STARTED, UNLIKE, FAILED, SAID, DONE, RAISED = "started", "unlike", "failed", "said", "done", "raised"
"""The first parts of answers."""

_SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux."""


def framed(message: object) -> bytes:
    """Return a message with its length."""
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(content)) + content


def main(parent: int) -> None:
    """Serve the parent process until it ends.

    Args:
        parent: Its process id.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the parent's
    messages, answers = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what libraries print is no answer
    _end_with(parent)
    inbox: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(messages, inbox), daemon=True).start()
    worker = _started(inbox.get(), answers)
    while worker is not None:
        _attempt(worker, inbox.get(), answers)
    threading.Event().wait()  # the parent knows what to do


def _end_with(parent: int) -> None:
    """Have the kernel end this process once the parent is gone, however that ended."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    if os.getppid() != parent:
        _end()


def _listen(messages: int, inbox: SimpleQueue[bytes]) -> None:
    """Pass messages on; end this process where none can come any more, also in the midst of its work."""
    while True:
        (length,) = LENGTH.unpack(_read(messages, LENGTH.size))
        inbox.put(_read(messages, length))


def _read(messages: int, length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        more = os.read(messages, length - len(content))
        if not more:
            _end()
        content += more
    return bytes(content)


def _end() -> NoReturn:
    """End this process and all that it has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _answer(answers: int, *parts: object) -> None:
    content = memoryview(framed(parts))
    try:
        while content:
            content = content[os.write(answers, content) :]
    except BrokenPipeError:
        _end()


def _started(message: bytes, answers: int) -> Any:
    """Make the worker; None where that fails, or where it would run other code than the parent."""
    try:
        installation, work = pickle.loads(message)
        if unlike := installation.differences():
            _answer(answers, UNLIKE, unlike)
            return None
        make, job = pickle.loads(work)
        worker = make(job)
    except BaseException as error:
        _answer(answers, FAILED, _reason(error), str(error) if _is_mistake(error) else None)
        return None
    _answer(answers, STARTED)
    return worker


def _is_mistake(error: BaseException) -> bool:
    """Whether it is the user who can mend an error."""
    errors = sys.modules.get("pipeline.errors")
    return errors is not None and isinstance(error, errors.UserError)


def _attempt(worker: Any, message: bytes, answers: int) -> None:
    try:
        for what in worker.run(pickle.loads(message)):
            _answer(answers, SAID, what)
    except BaseException as error:
        _answer(answers, RAISED, _reason(error))
    else:
        _answer(answers, DONE)


def _reason(error: BaseException) -> str:
    """Return the last line of a traceback."""
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


if __name__ == "__main__":
    main(int(sys.argv[1]))
