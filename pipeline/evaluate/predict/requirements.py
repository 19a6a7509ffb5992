"""Requirements of an evaluation."""

import ctypes
import os
from contextlib import suppress

from pipeline.errors import UserError, is_exhausted
from pipeline.execution.processes import NOT_BOUND

_MALLOC_OPTIONS = {-4: 0, -1: -1, -2: 2**26}
"""Options of glibc: M_MMAP_MAX (no memory maps), M_TRIM_THRESHOLD (all freed memory is kept) and M_TOP_PAD (64 MiB)."""

_SPINS = "10000"
"""Checks of a waiting thread before it sleeps: some ten microseconds. The default is above a millisecond."""


def check_requirements() -> None:
    """Import torch. Raise UserError if it is not installed or the current folder was deleted."""
    try:
        os.getcwd()
    except OSError:  # importing torch would abort the process
        raise UserError("the current folder was deleted: change to another folder with cd DIR") from None
    try:
        import torch  # noqa: F401
    except ImportError as error:
        if is_exhausted(error):
            raise MemoryError(str(error)) from error
        raise UserError(f"{error.name} is not installed: pip install 'robustshards[evaluate]'") from error


def set_up_process() -> None:
    """Check the requirements in a process of our own, and make torch use less CPU time in it.

    Threads of torch sleep where they would use up the CPUs that others need.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
    os.environ.update(NOT_BOUND)
    check_requirements()
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Make a process of our own use freed memory again.

    Giving it back to the kernel would take more time than the arithmetic of some layers.
    """
    with suppress(AttributeError, OSError, TypeError):  # only glibc has mallopt
        for option, value in _MALLOC_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, value)
