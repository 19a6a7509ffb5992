"""Compiled inner loops, one module per family: plain arrays and numbers in, arrays out, no validation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import numba
import numpy as np
from numba import njit
from numba.core.codegen import get_host_cpu_features

from corruptions.cache import compiled_folder


def target_features(host: str) -> str:
    """What kernels are compiled for: ``host``, the CPU's features as LLVM lists them, and its whole vectors.

    LLVM keeps to half of a vector of 64 bytes on Intel's CPUs, since their clock falls with whole ones. Since Ice Lake,
    which the feature tells, it falls by less than they gain: a tenth of the corruptions' time.
    """
    return f"{host},-prefer-256-bit" if "+avx512vbmi2" in host.split(",") else host


numba_config: Any = numba.config
"""Of the whole process: numba has no such settings for a single function."""

if numba_config.CPU_FEATURES is None:  # the environment's NUMBA_CPU_FEATURES goes first
    numba_config.CPU_FEATURES = target_features(get_host_cpu_features())

_HERE = Path(__file__).parent

SOURCES = ("corruptions", "perturbations")
"""Packages that kernels and the types of their arguments come from; perturbations inline kernels of corruptions."""

COMPILED = compiled_folder(
    chain.from_iterable((_HERE.parents[1] / package).rglob("*.py") for package in SOURCES),
    Path(numba_config.CACHE_DIR or _HERE / "__pycache__"),
)
"""Where compiled kernels are kept: in the environment's NUMBA_CACHE_DIR, else beside the sources."""

_DECORATING = Lock()


def _kept(compiled: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let a decorator of numba keep what it compiles in COMPILED; kernels of other packages stay where they are."""

    def decorate(function: Any) -> Any:
        with _DECORATING:
            elsewhere, numba_config.CACHE_DIR = numba_config.CACHE_DIR, str(COMPILED)
            try:
                return compiled(function)
            finally:
                numba_config.CACHE_DIR = elsewhere

    return decorate


kernel = _kept(njit(cache=True, nogil=True, error_model="numpy"))
"""The one way in which the project compiles: cached on disk, without fast-math, so that no CPU changes a rounding."""

inlined = _kept(njit(cache=True, nogil=True, error_model="numpy", inline="always"))
"""For a step that several kernels share."""


@inlined
def copy(source, target):
    """``target`` = ``source``, in the target's type.

    As a loop this becomes vectors; an assignment to a slice copies value by value.
    """
    for i in range(target.size):
        target[i] = source[i]


LINE = 64
"""Bytes of a cache line, and of the widest vectors."""


@inlined
def scratch(size, kind):
    """(size,) of a type, uninitialised, for what a kernel goes over many times: its first value begins a cache line.

    A vector that lies across two lines takes twice as long to read and to write, and most others of an array with it.
    """
    room = np.empty(size + LINE, kind)
    first = -room.ctypes.data % LINE // room.itemsize
    return room[first : first + size]
