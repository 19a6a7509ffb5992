"""Standard files that may be closed or full.

What cannot be written to standard output is an error, and never lost in silence; to standard error, no trouble at all.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from pipeline.errors import Exit


class OutputError(Exception):
    """Standard output cannot be written; its cause is the OSError that says why."""


class _Closed(io.TextIOBase):
    """Standard output of a process that was started without one."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


class _Heedless(io.TextIOWrapper):
    """Standard error: progress and messages decide nothing, so that the work goes on where they cannot be written."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


@contextmanager
def checked_output() -> Iterator[None]:
    """Write out all that was printed before the process ends, and exit with 3 where that is not possible."""
    if sys.stdout is None:
        sys.stdout = _Closed()
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be valid text
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _Heedless(
            sys.stderr.buffer, sys.stderr.encoding, "backslashreplace", line_buffering=True, write_through=True
        )
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputError as error:
        _give_up(error.__cause__)
    except OSError as error:
        _give_up(error)


@contextmanager
def writing() -> Iterator[None]:
    """Tell apart what goes wrong with standard output from what goes wrong with the work. Raises OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError from error


def _give_up(error: BaseException | None) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python would try once more when it ends
    if not isinstance(error, OSError) or error.errno != errno.EPIPE:  # of a reader such as head, which has enough
        reason = getattr(error, "strerror", None) or error
        message = f"error: cannot write to standard output: {reason}; files are not affected\n"
        with suppress(OSError):
            os.write(2, message.encode())
    raise SystemExit(Exit.INCOMPLETE)
