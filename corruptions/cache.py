"""Folders for what is kept from run to run: compiled kernels, and where data sets came from."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

NAME = "robustshards"

UNUSED_S = 7 * 24 * 3600.0
"""Seconds after which a folder of compiled kernels that no process has opened is removed."""

_COMPILED = re.compile(f"{NAME}-[0-9a-f]{{16}}")
"""Names of folders of compiled kernels."""


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


def compiled_folder(sources: Iterable[Path], preferred: Path) -> Path:
    """Return the folder for kernels compiled from these source files; it is made if need be.

    Its name is a digest of the sources. A compiled kernel holds the code of what it inlines from other modules and the
    values of their constants, while numba only notices changes of the kernel's own file.

    Args:
        sources: All source files that a kernel can be compiled from.
        preferred: The folder to make it in. If it cannot be written, the user's own cache folder is used.
    """
    name = f"{NAME}-{_digest(sources)}"
    for parent, mode in _parents(preferred):
        folder = parent / name
        is_new = not folder.exists()
        with suppress(OSError):
            folder.mkdir(mode, parents=True, exist_ok=True)
            os.utime(folder)
            if is_new:
                _remove_unused(parent)
            return folder
    return Path(tempfile.mkdtemp(prefix=f"{NAME}-kernels-"))


def _parents(preferred: Path) -> Iterator[tuple[Path, int]]:
    """Yield folders to try, each with the mode of what is made in it."""
    yield preferred, 0o777
    yield user_cache(), 0o700


def _digest(sources: Iterable[Path]) -> str:
    state = hashlib.sha256()
    for source in sorted(sources):
        state.update(os.fsencode(source) + b"\n" + hashlib.sha256(source.read_bytes()).digest())
    return state.hexdigest()[:16]


def _remove_unused(parent: Path) -> None:
    """Remove folders of compiled kernels that no process has opened for long; numba makes them again if need be."""
    for folder in parent.iterdir():
        with suppress(OSError):
            if _COMPILED.fullmatch(folder.name) and time.time() - folder.lstat().st_mtime > UNUSED_S:
                shutil.rmtree(folder, ignore_errors=True)


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
