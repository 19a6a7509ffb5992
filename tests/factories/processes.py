"""Processes of commands: what they are, and waiting for them."""

import time
from collections.abc import Callable, Sequence

import psutil


def is_worker(process: psutil.Process) -> bool:
    """Return whether a process is a worker of any engine."""
    return is_ray_worker(process) or is_local_worker(process)


def is_ray_worker(process: psutil.Process) -> bool:
    """Return whether a process is a worker started by Ray."""
    return any("ray::_Actor" in part for part in _command_line(process))


def is_local_worker(process: psutil.Process) -> bool:
    """Return whether a process is a worker of the local engine, a child of a command."""
    return any(part.endswith("local_worker.py") for part in _command_line(process))


def is_loader(process: psutil.Process) -> bool:
    """Return whether a process reads images for an evaluation."""
    return any("spawn_main" in part for part in _command_line(process))


def wait_until(condition: Callable[[], object], seconds: float = 420) -> None:
    """Wait until a condition holds. Fail after a time."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.05)


def check_ended(processes: Sequence[psutil.Process]) -> None:
    """Check that all processes end within a minute."""
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # the process has ended
        return []
