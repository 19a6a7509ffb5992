"""What can go wrong for a user, and the exit code that says which."""

from __future__ import annotations

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


SHOWN = 200
"""Characters of what a file says that a message repeats."""


def shown(text: str) -> str:
    """Return what a file says, fit for a message: escaped, and not too long."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "...")
