"""Handlers of Ctrl-C and SIGTERM: the first one stops the command in order, a further Ctrl-C stops it at once."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from pipeline.errors import Exit

_SHOW_CURSOR = b"\x1b[?25h"
"""Terminal code that shows the cursor again, which live progress hides."""


def install() -> None:
    """Install the handlers."""
    signal.signal(signal.SIGINT, _stop_in_order)
    signal.signal(signal.SIGTERM, _stop_in_order)
    # Python runs handlers in the main thread, which may be blocked in Ray for seconds; a thread can react at once.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    threading.Thread(target=_listen, args=(reader,), daemon=True).start()
    sys.unraisablehook = _report_unraisable


def interrupted() -> bool:
    """Return whether Ctrl-C or SIGTERM stops the command."""
    return bool(_received)


def preempted() -> bool:
    """Return whether SIGTERM stopped the command."""
    return signal.SIGTERM in _received


displays: list[Callable[[str], object]] = []
"""Functions that print a line above the progress bars that are shown, which direct output would break."""

_received: list[int] = []
"""The first signal. It is not an exception of its own, because Ray replaces any exception by KeyboardInterrupt."""


def _stop_in_order(signum: int, frame: object) -> NoReturn:
    _received.append(signum)
    for each in (signal.SIGINT, signal.SIGTERM):  # the thread handles further signals
        signal.signal(each, lambda signum, frame: None)
    raise KeyboardInterrupt


def _report_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    """Report an exception that cannot be raised, except for the interruption: a compiler's callbacks drop it."""
    if not (interrupted() and unraisable.exc_type is KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def _listen(reader: int) -> None:
    stopping = False
    while True:
        for signum in os.read(reader, 1):
            if signum == signal.SIGINT and stopping:
                _stop_at_once()
            if signum == signal.SIGINT:
                _above_bars("interrupted: finishing what takes seconds; press Ctrl-C again to stop at once")
            stopping = stopping or signum in (signal.SIGINT, signal.SIGTERM)


def _stop_at_once() -> NoReturn:
    """Exit, which kills all child processes. Finished files are kept."""
    if os.isatty(2):
        _write_error(_SHOW_CURSOR + b"\n" * len(displays))
    _write_error(b"error: stopped at once; finished files are kept. Run the same command again\n")
    os._exit(Exit.INTERRUPTED)


def _above_bars(text: str) -> None:
    """Print a line, above the progress bars if there are any."""
    if displays:
        displays[-1](text)
    else:
        _write_error(f"{text}\n".encode())


def _write_error(text: bytes) -> None:
    """Write to standard error, which may be closed or full."""
    with suppress(OSError):
        os.write(2, text)
