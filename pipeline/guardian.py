"""A small process that removes what a process would leave behind when it is killed: a folder, a local Ray cluster.

The guardian reads from a pipe that the kernel closes when the process ends. Ray's own processes can take up to a minute
to notice that their driver was killed. All of them inherit an environment variable with a random value, so the guardian
finds them even if their parent processes have ended.

The module is run as a script, without this project, so it imports only the standard library.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = "_robustshards_cluster"
"""Environment variable that marks the processes of the cluster."""

_KEEP_ENVIRONMENT = {"SPT_NOENV": "1"}
"""Stops Ray's processes from overwriting their environment, and so the mark, with a process title."""

_SEARCH_S, _PAUSE_S = 10.0, 0.1
"""Total time to search for processes of the cluster, and the interval between searches, in seconds."""

_EMPTY_SEARCHES = 5
"""Stop after this many searches without a result: a killed process may have started another. One suffices after an
orderly exit."""

_ORDERLY_EXIT = b"."
"""Message of a driver that has stopped the cluster itself. A killed driver sends nothing."""


@contextmanager
def guarded(folder: Path | None, *, kill: bool = False) -> Iterator[dict[str, str]]:
    """Remove a folder, and kill the processes started in the block, when the block ends or this process is killed.

    Args:
        folder: Folder to remove; None for none.
        kill: Whether to kill the processes. This needs /proc: on systems without it, such as macOS, none is killed.

    Yields:
        Environment variables that mark a process. Start each process to be killed with them.
    """
    mark = secrets.token_hex(16) if kill and Path("/proc/self/environ").exists() else ""
    guardian = _start(mark, folder) if sys.executable and (mark or folder) else None
    try:
        yield {MARK: mark, **_KEEP_ENVIRONMENT} if guardian and mark else {}
    finally:
        if guardian:
            guardian.communicate(_ORDERLY_EXIT)


def remove_if_killed(folder: Path) -> None:
    """Remove a folder after this process has ended without removing it, for example because it was killed.

    Args:
        folder: The folder.
    """
    if sys.executable:
        _GUARDIANS.append(_start("", folder))


_GUARDIANS: list[subprocess.Popen[bytes]] = []
"""Guardians of folders. Their pipes stay open until this process ends."""


def _start(mark: str, folder: Path | None) -> subprocess.Popen[bytes]:
    # -I: imports must not depend on the current folder or the environment.
    command = [sys.executable, "-I", "-S", __file__, mark, str(folder or "")]
    devnull = subprocess.DEVNULL
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=devnull, stderr=devnull, start_new_session=True, cwd="/"
    )


def main(mark: str, folder: str) -> None:
    """Wait for the end of standard input, then kill all processes with the mark.

    Args:
        mark: Value of the environment variable; empty to kill nothing.
        folder: Folder to remove at the end; empty for none.
    """
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    ordered = os.read(0, 1)
    searches = int(bool(mark)) if ordered or not mark else _EMPTY_SEARCHES
    wanted, until, empty = f"{MARK}={mark}\0".encode(), time.monotonic() + _SEARCH_S, 0
    while empty < searches and time.monotonic() < until:
        found = [process for process in _processes() if wanted in _environment(process)]
        for process in found:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        empty = 0 if found else empty + 1
        if empty < searches:
            time.sleep(_PAUSE_S)
    while folder and Path(folder).exists() and time.monotonic() < until:  # a process that ends may still write to it
        shutil.rmtree(folder, ignore_errors=True)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]


def _environment(process: int) -> bytes:
    """Return the environment of a process; empty if it has ended or belongs to another user."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            return file.read() + b"\0"
    except OSError:
        return b""


if __name__ == "__main__":
    main(*sys.argv[1:])
