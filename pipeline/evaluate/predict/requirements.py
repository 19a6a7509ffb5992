"""Requirements of an evaluation."""

import ctypes
import os
from contextlib import suppress

from pipeline.errors import UserError, is_exhausted

_MALLOC_OPTIONS = {-4: 0, -1: 2**30, -2: 2**26}
"""Options of glibc: M_MMAP_MAX (no memory maps), M_TRIM_THRESHOLD and M_TOP_PAD (1 GiB of freed memory is kept)."""

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

    Threads of torch sleep where they would use up the CPUs that others need, and freed memory is used again instead of
    being given back to the kernel, which takes more time than the arithmetic of some layers.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
    check_requirements()
    with suppress(AttributeError, OSError, TypeError):  # only glibc has mallopt
        for option, value in _MALLOC_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, value)
