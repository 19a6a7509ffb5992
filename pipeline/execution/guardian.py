"""A small process that kills the processes of a local Ray cluster after the driver process has ended.

Ray's own processes can take up to a minute to notice that their driver was killed. The guardian reads from a pipe that
the kernel closes when the driver ends. All processes of the cluster inherit an environment variable with a random
value, so the guardian finds them even if their parent processes have ended.

The module is run as a script, without this project, so it imports only the standard library.
"""

from __future__ import annotations

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
def guarded(folder: Path | None = None) -> Iterator[dict[str, str]]:
    """Start a guardian that kills the processes started in the block.

    It does so when the block ends or when this process is killed. It needs /proc: on systems
    without it, such as macOS, nothing is killed or removed.

    Args:
        folder: Folder to remove at the end.

    Yields:
        Environment variables that mark a process. Start each process of the cluster with them.
    """
    if not Path("/proc/self/environ").exists() or not sys.executable:
        yield {}
        return
    mark = secrets.token_hex(16)
    # -I: imports must not depend on the current folder or the environment.
    command = [sys.executable, "-I", "-S", __file__, mark, str(folder or "")]
    devnull = subprocess.DEVNULL
    guardian = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=devnull, stderr=devnull, start_new_session=True, cwd="/"
    )
    try:
        yield {MARK: mark, **_KEEP_ENVIRONMENT}
    finally:
        guardian.communicate(_ORDERLY_EXIT)


def main(mark: str, folder: str) -> None:
    """Wait for the end of standard input, then kill all processes with the mark.

    Args:
        mark: Value of the environment variable.
        folder: Folder to remove at the end; empty for none.
    """
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    searches = 1 if os.read(0, 1) else _EMPTY_SEARCHES
    wanted, until, empty = f"{MARK}={mark}\0".encode(), time.monotonic() + _SEARCH_S, 0
    while empty < searches and time.monotonic() < until:
        found = [process for process in _processes() if wanted in _environment(process)]
        for process in found:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        empty = 0 if found else empty + 1
        if empty < searches:
            time.sleep(_PAUSE_S)
    if folder:
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
