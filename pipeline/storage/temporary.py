"""Folders for temporary files, deleted when this process ends, even if it is killed."""

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TextIO

from pipeline.errors import UserError
from pipeline.guardian import remove_if_killed

_PREFIX, _MARK = "robustshards-", ".alive"

SOCKET_FOLDER_LENGTH = 40
"""Maximum length of the path of a folder for sockets, because the path of a socket is limited to 107 bytes."""


@cache
def temporary_folder() -> Path:
    """Return the temporary folder of this process. Delete those of processes that were killed with their guardian.

    Each process holds a kernel lock on a file in its folder. The kernel releases the lock when the process ends.
    """
    for mark in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_MARK}"):
        _delete_if_unlocked(mark)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        held = open(folder / _MARK, "w")  # noqa: SIM115 - stays open until the process ends
        with suppress(OSError):  # without locks, no other process deletes the folder
            fcntl.flock(held, fcntl.LOCK_EX)
        if (folder / _MARK).exists():  # another process may have deleted the folder before it was locked
            _HELD.append(held)
            atexit.register(_delete, folder, os.getpid())
            remove_if_killed(folder)
            return folder


def socket_folder() -> Path:
    """Create a temporary folder whose path is short enough for sockets in it. The caller removes it.

    Raises:
        UserError: No such folder can be created.
    """
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if can_hold_sockets(f"{parent}/{_PREFIX}12345678") and os.access(parent, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    raise UserError(
        f"cannot create a folder for sockets in {tempfile.gettempdir()}: set TMPDIR to a writable folder whose path "
        f"has at most {SOCKET_FOLDER_LENGTH - len(_PREFIX) - 9} characters, all ASCII and no quotation marks"
    )


def can_hold_sockets(folder: str) -> bool:
    """Return whether programs can use sockets in a folder: its path is absolute, short, and ASCII without quotes."""
    plain = folder.isascii() and folder.isprintable() and not {"'", '"'} & set(folder)
    return plain and os.path.isabs(folder) and len(folder) <= SOCKET_FOLDER_LENGTH


_HELD: list[TextIO] = []
"""Open lock files. Closing a file would release its lock."""


def _delete(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child shares the folder and must not delete it
        shutil.rmtree(folder, ignore_errors=True)


def _delete_if_unlocked(mark: Path) -> None:
    try:
        with open(mark, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(mark.parent, ignore_errors=True)
    except OSError:  # in use, owned by another user, or already deleted by another process
        return
