"""Compiled inner loops, one module per family: plain arrays and numbers in, arrays out, no validation."""

from __future__ import annotations

import numpy as np
from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")
"""The one way in which the project compiles: cached on disk, without fast-math, so that no CPU changes a rounding."""

inlined = njit(cache=True, nogil=True, error_model="numpy", inline="always")
"""For a step that several kernels share."""


@inlined
def copy(source, target):
    """``target`` = ``source``. As a loop this becomes vectors; an assignment to a slice copies value by value."""
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
