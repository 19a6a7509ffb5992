"""What can go wrong for a user, and the exit code that says which."""

from __future__ import annotations

import errno
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
    """Something that the user can mend: the message says what came, what is allowed and what to do."""


class UnfinishedError(UserError):
    """What is asked for or read is not finished: the message says what is missing, or to run the command again."""


class SampleError(Exception):
    """One source image or one output cannot be made; it becomes a ``failed`` row of the manifest."""


class UnreachableError(Exception):
    """A store does not answer. No sample is to blame: the work is tried again, and given up if that does not help."""


class RefusedFileError(OSError):
    """A file that is not read: it is no regular file (a pipe, a device, a folder), or larger than its reader allows."""


_LASTING = (
    *(FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError),
    RefusedFileError,
)
_LASTING_CODES = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.EROFS})


def is_lasting(error: OSError) -> bool:
    """Return whether an error of a file comes again however often it is tried, so that its user must change it."""
    return isinstance(error, _LASTING) or error.errno in _LASTING_CODES


def file_error(error: OSError) -> str:
    """Return an error of a file as text: its name, and what is wrong."""
    name = error.filename2 or error.filename  # of a renaming, where the file was to go
    return f"{name}: {error.strerror}" if name and error.strerror else str(error)
