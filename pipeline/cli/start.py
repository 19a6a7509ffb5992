"""Entry point of the command: what must be settled before anything else is imported."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

_INTERRUPTED, _ENDED = 130, 3
"""Exit codes until the command has its own handlers of signals: those of :class:`pipeline.errors.Exit`."""


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, lambda signum, frame: _end(b"interrupted", _INTERRUPTED))
    signal.signal(signal.SIGTERM, lambda signum, frame: _end(b"stopped by SIGTERM", _ENDED))
    _open_standard_files()
    _speak_utf8()
    from pipeline.cli.app import main as run

    run()


def _end(what: bytes, code: int) -> None:
    """Exit at once: importing takes a while, and nothing has begun that would have to be wound down."""
    with suppress(OSError):  # it may be closed or full
        os.write(2, b"error: " + what + b" before any work; run the same command again\n")
    os._exit(code)


def _open_standard_files() -> None:
    """Fill closed standard files with the null device: the next file to be opened would get the number of one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # Of a closed standard file Python has made None. Standard output stays so: what is lost there is an error.
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _speak_utf8() -> None:
    """Start anew in Python's UTF-8 mode where the locale has another encoding: file names would become other names."""
    if sys.getfilesystemencoding().lower() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"  # for the processes of workers too
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
