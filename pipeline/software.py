"""Which libraries decide the bytes of a build, and in which versions they are here."""

from __future__ import annotations

import os
import platform
from importlib import metadata

LIBRARIES = ("robustshards", "numpy", "opencv-python", "pillow", "simplejpeg", "av", "numba", "pyarrow")
"""Distributions through which pixels or manifest bytes pass."""


def versions() -> dict[str, str]:
    """Library -> version, as installed on this machine."""
    return {name: metadata.version(name) for name in LIBRARIES}


def cpu_count() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def host_facts() -> dict[str, str]:
    """What a run's record says of the machine."""
    return {
        "host": platform.node(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
