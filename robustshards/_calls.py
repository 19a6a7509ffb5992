"""The context in which every public function runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.errors import UserError, file_error_message, is_permanent
from robustshards._process import preserve_process


@contextmanager
def public_call(requirements: Callable[[], None] | None = None) -> Iterator[None]:
    """Leave the process as it was, also after an error, and raise UserError for files that cannot be used.

    Args:
        requirements: Function that imports libraries whose state the call changes. None if they are imported already.
    """
    with preserve_process(), _preserve_signal_handlers():
        if requirements:
            requirements()
        with preserve_process():
            try:
                yield
            except OSError as error:
                if is_permanent(error):
                    raise UserError(file_error_message(error)) from error
                raise


@contextmanager
def _preserve_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers that Ray and torch replace; does nothing outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
