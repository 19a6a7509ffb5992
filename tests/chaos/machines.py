"""A Ray cluster of several machines (raylets) on loopback, whose machines can be lost, frozen and replaced."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from typing import Any

import psutil
from ray.cluster_utils import Cluster

_QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 6}
"""A machine that does not answer is given up after three seconds."""

_PLACE = {"node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}


class Machines:
    """``count`` machines with a CPU each, beside a head without any, to which the drivers connect."""

    def __init__(self, count: int, environment: Mapping[str, str]) -> None:
        """``environment``: what the machines' processes get beside that of this one."""
        self._count = count
        self._place = {**_PLACE, "env_vars": dict(environment)}
        head = {**self._place, "num_cpus": 0, "include_dashboard": False, "_system_config": _QUICK}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._frozen: list[psutil.Process] = []
        self.here: list[Any] = []
        self.restore()

    @property
    def address(self) -> str:
        """Where builds join."""
        return str(self._cluster.address)

    def restore(self) -> None:
        """What is frozen goes on; for each lost machine another one joins."""
        self.thaw()
        for machine in [machine for machine in self.here if _process(machine).poll() is not None]:
            self.lose(machine)  # given up by the cluster itself, as it happens on a machine under load
        while len(self.here) < self._count:
            self.here.append(self._cluster.add_node(num_cpus=1, **self._place))

    def workers(self, machine: Any) -> list[psutil.Process]:
        """The processes of the builds' workers on a machine."""
        return [process for process in _children(_process(machine).pid) if _is_worker(process)]

    def lose(self, machine: Any) -> int:
        """``kill -9`` of the raylet, whose pid it gives; what ran on the machine ends with it."""
        self.here.remove(machine)
        raylet = _process(machine)
        raylet.kill()
        self._cluster.remove_node(machine, allow_graceful=False)
        return raylet.pid

    def freeze(self, machine: Any, with_raylet: bool = False) -> list[int]:
        """SIGSTOP to the workers on a machine, and to its raylet; gives the pids."""
        processes = self.workers(machine)
        if with_raylet:
            processes.insert(0, psutil.Process(_process(machine).pid))
        self._frozen += processes
        send(processes, signal.SIGSTOP)
        return [process.pid for process in processes]

    def thaw(self) -> None:
        """SIGCONT to all that is frozen."""
        send(self._frozen, signal.SIGCONT)
        self._frozen.clear()

    def any_frozen(self) -> bool:
        """Whether anything is frozen."""
        return bool(self._frozen)

    def close(self) -> None:
        """End the cluster."""
        self.thaw()
        self._cluster.shutdown()


def _process(machine: Any) -> subprocess.Popen[bytes]:
    """The process that is Ray on a machine."""
    raylet: subprocess.Popen[bytes] = machine.all_processes["raylet"][0].process
    return raylet


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "ray::_Actor" in " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False


def send(processes: list[psutil.Process], what: signal.Signals) -> None:
    """A signal to those that are still there."""
    for process in processes:
        try:
            process.send_signal(what)
        except psutil.NoSuchProcess:  # it ended first
            continue
