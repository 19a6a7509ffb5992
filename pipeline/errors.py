"""Errors that users can act on, and the exit codes of the command line."""

from __future__ import annotations

import errno
import re
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the command line."""

    OK = 0
    FAULTS = 1
    USAGE = 2
    INCOMPLETE = 3
    BUG = 70
    INTERRUPTED = 130


class UserError(Exception):
    """An error that the user can fix; the message names the value, what is allowed and what to do."""


class ArgumentError(UserError, ValueError):
    """An invalid number as an argument of a Python function."""


class UnfinishedError(UserError):
    """An error for unfinished work or data; the message names what is missing, or asks to run the command again."""


class SampleError(Exception):
    """A source image or an output cannot be produced; the sample becomes a ``failed`` row of the manifest."""


class UnreachableError(Exception):
    """A storage service does not respond. The run ends and can be continued; no sample is marked as failed."""


class RefusedFileError(OSError):
    """A file that is not read because it is not a regular file, or is larger than the reader allows."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


_PERMANENT = (
    *(FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError),
    RefusedFileError,
)
_PERMANENT_CODES = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.EROFS})


def is_permanent(error: OSError) -> bool:
    """Return whether a file error is permanent, so that a retry cannot succeed until the user changes something."""
    return isinstance(error, _PERMANENT) or error.errno in _PERMANENT_CODES


_EXHAUSTED = re.compile(
    "cannot allocate memory|can't allocate memory|failed to map segment|could not create a primitive|"
    "can't start new thread|resource temporarily unavailable",
    re.IGNORECASE,
)


def is_exhausted(error: BaseException) -> bool:
    """Return whether an error of a library means that there is not enough memory, or that no thread can start."""
    return isinstance(error, MemoryError) or bool(_EXHAUSTED.search(str(error)))


def file_error_message(error: OSError) -> str:
    """Return a message for a file error: the file name and the reason."""
    name = error.filename2 or error.filename  # for a failed rename: the target
    return f"{name}: {error.strerror}" if name and error.strerror else str(error)
