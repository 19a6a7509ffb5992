"""A small process that ends those of a local cluster once the command is gone, however that ended.

Ray's own processes notice the death of their driver between at once and a minute later. This one waits at a pipe
whose other end only the driver holds: the kernel closes that when the driver ends. All processes of the cluster have
inherited a mark in their environment, by which they are found even after their parents have gone.

It is run as a script, without this project: the module imports nothing but the standard library.
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
"""The variable of the environment."""

_KEPT_ENVIRONMENT = {"SPT_NOENV": "1"}
"""Ray's processes give themselves titles: not in the place of their environment, where the mark would be lost."""

_SEARCH_S, _PAUSE_S = 10.0, 0.1
"""How long to look for processes of the cluster, which may still be starting others, and how often."""

_QUIET_ROUNDS = 5
"""After so many searches in vain, none is left; in an orderly end, after one."""

_ORDERLY = b"."
"""What the driver says where it ends the cluster itself; where it is killed, it says nothing."""


@contextmanager
def guarded(folder: Path | None = None) -> Iterator[dict[str, str]]:
    """Start a guardian. Gives the environment with which all must be started that is to end with this process.

    That ends with the block in any case, and ``folder`` is removed then. Where processes cannot be looked through (on
    other systems than Linux), nothing is done.
    """
    if not Path("/proc/self/environ").exists() or not sys.executable:
        yield {}
        return
    mark = secrets.token_hex(16)
    # -I: neither the current folder nor the environment decides what it imports.
    command = [sys.executable, "-I", "-S", __file__, mark, str(folder or "")]
    nowhere = subprocess.DEVNULL
    guardian = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, start_new_session=True, cwd="/"
    )
    try:
        yield {MARK: mark, **_KEPT_ENVIRONMENT}
    finally:
        guardian.communicate(_ORDERLY)


def main(mark: str, folder: str) -> None:
    """Wait until nobody holds the other end of standard input, then end all that carry the mark."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    rounds = 1 if os.read(0, 1) else _QUIET_ROUNDS
    wanted, until, quiet = f"{MARK}={mark}\0".encode(), time.monotonic() + _SEARCH_S, 0
    while quiet < rounds and time.monotonic() < until:
        found = [process for process in _processes() if wanted in _environment(process)]
        for process in found:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        quiet = 0 if found else quiet + 1
        if quiet < rounds:
            time.sleep(_PAUSE_S)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]


def _environment(process: int) -> bytes:
    """What a process was started with; nothing of a process that is gone, or another user's."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            return file.read() + b"\0"
    except OSError:
        return b""


if __name__ == "__main__":
    main(*sys.argv[1:])
