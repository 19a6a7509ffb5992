"""What ends a command early: Ctrl-C, and SIGTERM from whoever runs the machine. A Ctrl-C after that does not wait."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pipeline.errors import Exit

_SHOW_CURSOR = b"\x1b[?25h"
"""To a terminal: a live display has hidden it."""


def handle() -> None:
    """Let the first signal end the command in order, and a Ctrl-C after it at once."""
    signal.signal(signal.SIGINT, _wind_down)
    signal.signal(signal.SIGTERM, _wind_down)
    # Handlers in Python wait for the main thread, which may be in a call to Ray for seconds: a thread hears at once.
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    threading.Thread(target=_listen, args=(heard,), daemon=True).start()


def preempted() -> bool:
    """Whether it was SIGTERM that has ended the command."""
    return signal.SIGTERM in _ended_by


_ended_by: list[int] = []
"""The first signal. Not told by an exception of its own: Ray raises a plain KeyboardInterrupt in place of any."""


def _wind_down(signum: int, frame: object) -> NoReturn:
    _ended_by.append(signum)
    for each in (signal.SIGINT, signal.SIGTERM):  # what comes next is the listener's
        signal.signal(each, lambda signum, frame: None)
    raise KeyboardInterrupt


def _listen(heard: int) -> None:
    ending = False
    while True:
        for signum in os.read(heard, 1):
            if signum == signal.SIGINT and ending:
                _end()
            if signum == signal.SIGINT:
                _tell(b"interrupted: winding down; Ctrl-C again ends at once\n")
            ending = ending or signum in (signal.SIGINT, signal.SIGTERM)


def _end() -> NoReturn:
    """End this process and all that it has started; what is committed stays, as after any other death."""
    for process in _descendants(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    if os.isatty(2):
        _tell(_SHOW_CURSOR)
    _tell(b"error: ended at once; what is finished is kept, run the same command again\n")
    os._exit(Exit.INTERRUPTED)


def _tell(what: bytes) -> None:
    """Write to standard error, which may be closed or full."""
    with suppress(OSError):
        os.write(2, what)


def _descendants(process: int) -> Iterator[int]:
    """Yield the children of a process, and theirs, where the system lists them (Linux); Ray's end with their parent."""
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, listed.read_text().split()):
                yield from _descendants(child)
                yield child
