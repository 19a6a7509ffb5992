"""Machines for the workers of builds: a Ray cluster of several raylets on loopback, or child processes."""

import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psutil

from tests.factories.processes import is_local_worker, is_ray_worker

_QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 6}
"""Ray marks a machine as dead after three seconds without an answer."""

_NODE = {"node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}


class Machines(ABC):
    """Machines whose workers can be killed and paused."""

    def __init__(self) -> None:
        self._paused: list[psutil.Process] = []

    @property
    @abstractmethod
    def options(self) -> Sequence[str]:
        """Return the options with which the command runs its workers on these machines."""

    @property
    @abstractmethod
    def available(self) -> Sequence[Any]:
        """Return the machines that are not lost."""

    @abstractmethod
    def workers(self, machine: Any) -> list[psutil.Process]:
        """Return the processes of the builds' workers on a machine."""

    def restore(self) -> None:
        """Resume paused processes, and replace lost machines."""
        self.resume()

    def pause(self, processes: Sequence[psutil.Process]) -> list[int]:
        """Send SIGSTOP to processes; return their pids."""
        self._paused += processes
        send(processes, signal.SIGSTOP)
        return [process.pid for process in processes]

    def resume(self) -> None:
        """Send SIGCONT to all paused processes."""
        send(self._paused, signal.SIGCONT)
        self._paused.clear()

    def any_paused(self) -> bool:
        """Return whether any process is paused."""
        return bool(self._paused)

    def close(self) -> None:
        """Stop everything that was started."""
        self.resume()


class LocalMachines(Machines):
    """This machine. Each worker of the commands that this process started counts as a machine."""

    def __init__(self, count: int, environment: Mapping[str, str]) -> None:
        """Use ``count`` workers for each command. They inherit the ``environment`` from the command."""
        super().__init__()
        self._count = count

    @property
    def options(self) -> Sequence[str]:
        return ("--executor", "local", "--workers", str(self._count))

    @property
    def available(self) -> Sequence[psutil.Process]:
        return [process for process in _children(psutil.Process().pid) if is_local_worker(process)]

    def workers(self, machine: psutil.Process) -> list[psutil.Process]:
        return [machine]


class RayMachines(Machines):
    """A Ray cluster of a head without CPUs and ``count`` machines (raylets) with one CPU each."""

    def __init__(self, count: int, environment: Mapping[str, str]) -> None:
        """Start the cluster. ``environment`` is added to the environment of all its processes."""
        super().__init__()
        from ray.cluster_utils import Cluster

        self._count = count
        self._options = {**_NODE, "env_vars": dict(environment)}
        head = {**self._options, "num_cpus": 0, "include_dashboard": False, "_system_config": _QUICK}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._available: list[Any] = []
        self.restore()

    @property
    def options(self) -> Sequence[str]:
        return ("--address", str(self._cluster.address), "--workers", str(self._count))

    @property
    def available(self) -> Sequence[Any]:
        return self._available

    def restore(self) -> None:
        """Resume paused processes, and add a machine for each lost one."""
        self.resume()
        for machine in [machine for machine in self._available if _raylet(machine).poll() is not None]:
            self.lose(machine)  # under load, Ray itself may mark a machine as dead
        while len(self._available) < self._count:
            self._available.append(self._cluster.add_node(num_cpus=1, **self._options))

    def workers(self, machine: Any) -> list[psutil.Process]:
        return [process for process in _children(_raylet(machine).pid) if is_ray_worker(process)]

    def raylet(self, machine: Any) -> psutil.Process:
        """Return the raylet process of a machine."""
        return psutil.Process(_raylet(machine).pid)

    def lose(self, machine: Any) -> int:
        """Kill the raylet and return its pid. The machine's other processes exit with it."""
        self._available.remove(machine)
        raylet = _raylet(machine)
        raylet.kill()
        self._cluster.remove_node(machine, allow_graceful=False)
        return raylet.pid

    def close(self) -> None:
        super().close()
        self._cluster.shutdown()


ENGINES: Mapping[str, Callable[[int, Mapping[str, str]], Machines]] = {"ray": RayMachines, "local": LocalMachines}
"""Constructors of the machines by engine: (number of machines, environment of their processes)."""


def _raylet(machine: Any) -> subprocess.Popen[bytes]:
    raylet: subprocess.Popen[bytes] = machine.all_processes["raylet"][0].process
    return raylet


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def send(processes: Sequence[psutil.Process], what: signal.Signals) -> None:
    """Send a signal to all processes that still exist."""
    for process in processes:
        try:
            process.send_signal(what)
        except psutil.NoSuchProcess:  # the process has exited
            continue
