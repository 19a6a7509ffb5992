"""A folder of the user's own for what is kept from run to run: compiled kernels, and where data sets came from."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

NAME = "robustshards"


@cache
def user_cache() -> Path:
    """Return a folder that this user alone can write to.

    That is ``robustshards`` in the user's cache folder (``XDG_CACHE_HOME``, or ``~/.cache``); where that cannot be
    written, as in a container whose user has no home, a private folder among the temporary files. What others could
    write is never used: compiled kernels are code.
    """
    for folder in _candidates():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if _is_private(folder):
            return folder
    return Path(tempfile.mkdtemp(prefix=f"{NAME}-cache-"))


def writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which may still have to be made."""
    place = folder if folder.exists() else folder.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def _candidates() -> Iterator[Path]:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(base):  # without HOME and without an entry in the list of users, "~" stays as it is
        yield Path(base) / NAME
    yield Path(tempfile.gettempdir()) / f"{NAME}-cache-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    about = folder.lstat()
    others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    own = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
    return own and not others and os.access(folder, os.W_OK | os.X_OK)
