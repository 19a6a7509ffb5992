"""Cache folders that are kept between runs, for compiled kernels and for records of downloaded data sets."""

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
"""Name of the cache folder, and prefix of all folder names."""

UNUSED_S = 7 * 24 * 3600.0
"""Age in seconds after which an unused folder of compiled kernels is removed."""

_COMPILED = re.compile(f"{NAME}-[0-9a-f]{{16}}")
"""Names of folders of compiled kernels."""


@cache
def user_cache() -> Path:
    """Return a cache folder that only this user can write to.

    This is ``robustshards`` in the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``). If that is not writable,
    for example in a container whose user has no home folder, it is a private folder among the temporary files. Folders
    that other users can write to are never used, because compiled kernels are executable code.
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
    """Return the folder for kernels compiled from these source files, and create it if it is missing.

    Its name contains a digest of the sources. A compiled kernel contains the code of functions it inlines from other
    modules and the values of their constants, but numba only notices changes in the kernel's own file.

    Args:
        sources: All source files that a kernel can be compiled from.
        preferred: Parent folder. If it is not writable, the user's cache folder is used.

    Returns:
        The folder.
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
    """Yield parent folders to try, each with the mode of folders created in it."""
    yield preferred, 0o777
    yield user_cache(), 0o700


def _digest(sources: Iterable[Path]) -> str:
    state = hashlib.sha256()
    for source in sorted(sources):
        state.update(os.fsencode(source) + b"\n" + hashlib.sha256(source.read_bytes()).digest())
    return state.hexdigest()[:16]


def _remove_unused(parent: Path) -> None:
    """Remove folders of compiled kernels that no process has opened recently. numba recompiles if needed."""
    for folder in parent.iterdir():
        with suppress(OSError):
            if _COMPILED.fullmatch(folder.name) and time.time() - folder.lstat().st_mtime > UNUSED_S:
                shutil.rmtree(folder, ignore_errors=True)


def _candidates() -> Iterator[Path]:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(base):  # expanduser returns "~" unchanged if the user has no home folder
        yield Path(base) / NAME
    yield Path(tempfile.gettempdir()) / f"{NAME}-cache-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    status = folder.lstat()
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return is_own and not others and os.access(folder, os.W_OK | os.X_OK)
