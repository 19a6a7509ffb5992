"""Detection of processes that are workers of a build or an evaluation."""

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


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # the process has ended
        return []
