"""Compiled inner loops, one module per family: plain arrays and numbers in, arrays out, no validation."""

from __future__ import annotations

from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")
"""The one way in which the project compiles: cached on disk, without fast-math, so that no CPU changes a rounding."""

inlined = njit(cache=True, nogil=True, error_model="numpy", inline="always")
"""For a step that several kernels share."""
