"""Entry point of the program: signals, standard files and encoding are set up before other imports."""

import gc
import os
import signal
import sys
from contextlib import suppress

_INTERRUPTED, _INCOMPLETE = 130, 3
"""Exit codes of :class:`pipeline.errors.Exit`, which is not imported yet."""


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, lambda signum, frame: _exit(b"interrupted", _INTERRUPTED))
    signal.signal(signal.SIGTERM, lambda signum, frame: _exit(b"stopped by SIGTERM", _INCOMPLETE))
    _open_standard_files()
    _use_utf8()
    os.environ.pop("NUMBA_DISABLE_JIT", None)  # kernels only run compiled
    from pipeline.cli.app import main as run

    try:
        run()
    finally:
        gc.freeze()  # collecting what libraries hold takes longer than the rest of the exit


def _exit(cause: bytes, code: int) -> None:
    """Exit at once, because no work has started."""
    with suppress(OSError):  # standard error may be closed or full
        os.write(2, b"error: " + cause + b" before the command started; run the same command again\n")
    os._exit(code)


def _open_standard_files() -> None:
    """Replace closed standard files by the null device, because the next opened file would get their number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # Python sets closed standard files to None. Standard output stays None: lost output is an error, unless all three
    # are closed, as for a daemon.
    if sys.stdin is sys.stdout is sys.stderr is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _use_utf8() -> None:
    """Restart in Python's UTF-8 mode where the locale has another encoding, which would change file names."""
    if sys.getfilesystemencoding().lower() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"  # also for worker processes
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
