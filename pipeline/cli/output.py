"""Standard output and standard error that may be closed or full.

A failed write to standard output is an error. A failed write to standard error is ignored.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from pipeline.errors import Exit


class OutputError(Exception):
    """Standard output cannot be written; ``__cause__`` is the OSError."""


class _ClosedOutput(io.TextIOBase):
    """Standard output of a process that was started with a closed one."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


class _BestEffortStream(io.TextIOWrapper):
    """Standard error that ignores failed writes: progress and messages must not stop the work."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


@contextmanager
def checked_output() -> Iterator[None]:
    """Flush standard output when the block ends; exit with 3 if it cannot be written."""
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may be invalid UTF-8
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _BestEffortStream(
            sys.stderr.buffer, sys.stderr.encoding, "backslashreplace", line_buffering=True, write_through=True
        )
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputError as error:
        _exit_unwritten(error.__cause__)
    except OSError as error:
        _exit_unwritten(error)


@contextmanager
def writing() -> Iterator[None]:
    """Convert errors of writing to standard output, so that they differ from errors of the work.

    Raises:
        OutputError: The block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise OutputError from error


def _exit_unwritten(error: BaseException | None) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes standard output once more when it exits
    # After EPIPE there is nothing to report: the reader, for example head, closed the pipe.
    if not isinstance(error, OSError) or error.errno != errno.EPIPE:
        reason = getattr(error, "strerror", None) or error
        message = f"error: cannot write to standard output: {reason}; files are not affected\n"
        with suppress(OSError):
            os.write(2, message.encode())
    raise SystemExit(Exit.INCOMPLETE)
