"""What every public function does around its work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import UserError, file_error, is_lasting
from robustshards._environment import environment_kept


@contextmanager
def public_call() -> Iterator[None]:
    """Keep environment and signal handlers as they are, and raise UserError for a file that cannot be used."""
    with environment_kept(), _signal_handlers_kept():
        try:
            yield
        except OSError as error:
            if is_lasting(error):
                raise UserError(file_error(error)) from error
            raise


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Put signal handlers back as they were: Ray and torch set some. Only the main thread can."""
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
