"""A folder for temporary files of this process, which goes with it however it ends."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TextIO

_PREFIX, _MARK = "robustshards-", ".alive"


@cache
def own_folder() -> Path:
    """Return the folder; those that killed processes left behind are cleared away.

    Each holds a file that its process keeps locked: the kernel lets go of it when the process ends.
    """
    for mark in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_MARK}"):
        _clear_if_dead(mark)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        held = open(folder / _MARK, "w")  # noqa: SIM115 - for as long as the process
        fcntl.flock(held, fcntl.LOCK_EX)
        if (folder / _MARK).exists():  # else somebody cleared it away before it was locked
            _HELD.append(held)
            atexit.register(_clear, folder, os.getpid())
            return folder


_HELD: list[TextIO] = []
"""Closing a file would unlock it."""


def _clear(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child shares the folder, and must leave it
        shutil.rmtree(folder, ignore_errors=True)


def _clear_if_dead(mark: Path) -> None:
    try:
        with open(mark, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(mark.parent, ignore_errors=True)
    except OSError:  # it is in use, or another user's, or somebody else has just cleared it
        return
