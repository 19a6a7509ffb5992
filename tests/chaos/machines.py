"""Where the workers of builds run: a Ray cluster of several machines on loopback, or child processes of the command."""

from __future__ import annotations

import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psutil

from tests.factories.processes import is_local_worker, is_ray_worker

_QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 6}
"""A machine that does not answer is given up after three seconds."""

_PLACE = {"node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}


class Machines(ABC):
    """Machines whose workers can be killed and frozen."""

    def __init__(self) -> None:
        self._frozen: list[psutil.Process] = []

    @property
    @abstractmethod
    def options(self) -> Sequence[str]:
        """Return what the command is given to run its workers here."""

    @property
    @abstractmethod
    def here(self) -> Sequence[Any]:
        """Return the machines."""

    @abstractmethod
    def workers(self, machine: Any) -> list[psutil.Process]:
        """Return the processes of the builds' workers on a machine."""

    def restore(self) -> None:
        """Continue what is frozen, and replace what is lost."""
        self.thaw()

    def freeze(self, processes: Sequence[psutil.Process]) -> list[int]:
        """Send SIGSTOP to processes; return their pids."""
        self._frozen += processes
        send(processes, signal.SIGSTOP)
        return [process.pid for process in processes]

    def thaw(self) -> None:
        """Send SIGCONT to all that is frozen."""
        send(self._frozen, signal.SIGCONT)
        self._frozen.clear()

    def any_frozen(self) -> bool:
        """Return whether anything is frozen."""
        return bool(self._frozen)

    def close(self) -> None:
        """End what has been started."""
        self.thaw()


class LocalMachines(Machines):
    """This machine. Each worker of the commands that this process started counts as a machine of its own."""

    def __init__(self, count: int, environment: Mapping[str, str]) -> None:
        """Prepare ``count`` workers for each command. They get the ``environment`` from the command."""
        super().__init__()
        self._count = count

    @property
    def options(self) -> Sequence[str]:
        """Return what the command is given to start child processes."""
        return ("--executor", "local", "--workers", str(self._count))

    @property
    def here(self) -> Sequence[psutil.Process]:
        """Return the workers of all commands that run."""
        return [process for process in _children(psutil.Process().pid) if is_local_worker(process)]

    def workers(self, machine: psutil.Process) -> list[psutil.Process]:
        """Return the worker itself."""
        return [machine]


class RayMachines(Machines):
    """``count`` machines (raylets) with a CPU each, beside a head without any, to which the drivers connect."""

    def __init__(self, count: int, environment: Mapping[str, str]) -> None:
        """``environment``: what the machines' processes get beside that of this one."""
        super().__init__()
        from ray.cluster_utils import Cluster

        self._count = count
        self._place = {**_PLACE, "env_vars": dict(environment)}
        head = {**self._place, "num_cpus": 0, "include_dashboard": False, "_system_config": _QUICK}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._here: list[Any] = []
        self.restore()

    @property
    def options(self) -> Sequence[str]:
        """Return what the command is given to join the cluster."""
        return ("--address", str(self._cluster.address), "--workers", str(self._count))

    @property
    def here(self) -> Sequence[Any]:
        """Return the machines that are not lost."""
        return self._here

    def restore(self) -> None:
        """Continue what is frozen; for each lost machine another one joins."""
        self.thaw()
        for machine in [machine for machine in self._here if _raylet(machine).poll() is not None]:
            self.lose(machine)  # given up by the cluster itself, as it happens on a machine under load
        while len(self._here) < self._count:
            self._here.append(self._cluster.add_node(num_cpus=1, **self._place))

    def workers(self, machine: Any) -> list[psutil.Process]:
        """Return the processes of the builds' workers on a machine."""
        return [process for process in _children(_raylet(machine).pid) if is_ray_worker(process)]

    def raylet(self, machine: Any) -> psutil.Process:
        """Return the process that is Ray on a machine."""
        return psutil.Process(_raylet(machine).pid)

    def lose(self, machine: Any) -> int:
        """Kill the raylet, and return its pid; what ran on the machine ends with it."""
        self._here.remove(machine)
        raylet = _raylet(machine)
        raylet.kill()
        self._cluster.remove_node(machine, allow_graceful=False)
        return raylet.pid

    def close(self) -> None:
        """End the cluster."""
        super().close()
        self._cluster.shutdown()


ENGINES: Mapping[str, Callable[[int, Mapping[str, str]], Machines]] = {"ray": RayMachines, "local": LocalMachines}
"""Name of an engine -> makes its machines: (how many, environment of their processes)."""


def _raylet(machine: Any) -> subprocess.Popen[bytes]:
    raylet: subprocess.Popen[bytes] = machine.all_processes["raylet"][0].process
    return raylet


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def send(processes: Sequence[psutil.Process], what: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for process in processes:
        try:
            process.send_signal(what)
        except psutil.NoSuchProcess:  # it ended first
            continue
