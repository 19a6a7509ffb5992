"""The context in which every public function runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import UserError, file_error_message, is_permanent
from robustshards._environment import preserve_environment


@contextmanager
def public_call() -> Iterator[None]:
    """Restore environment and signal handlers afterwards, and raise UserError for files that cannot be used."""
    with preserve_environment(), _preserve_signal_handlers():
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
