"""A Ray cluster of several machines (raylets) on loopback, whose machines can be lost, frozen and replaced."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

import psutil
from ray.cluster_utils import Cluster

_QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
"""A lost machine is noticed within two seconds."""

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
        while len(self.here) < self._count:
            self.here.append(self._cluster.add_node(num_cpus=1, **self._place))

    def raylet(self, machine: Any) -> psutil.Process:
        """The process that is Ray on a machine."""
        return psutil.Process(machine.all_processes["raylet"][0].process.pid)

    def workers(self, machine: Any) -> list[psutil.Process]:
        """The processes of the builds' workers on a machine."""
        return [process for process in _children(self.raylet(machine)) if _is_worker(process)]

    def lose(self, machine: Any) -> None:
        """``kill -9`` of the raylet; what ran on the machine ends with it."""
        self.here.remove(machine)
        self.raylet(machine).kill()
        self._cluster.remove_node(machine, allow_graceful=False)

    def freeze(self, processes: list[psutil.Process]) -> None:
        """SIGSTOP."""
        self._frozen += processes
        _send(processes, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT to all that is frozen."""
        _send(self._frozen, signal.SIGCONT)
        self._frozen.clear()

    def any_frozen(self) -> bool:
        """Whether anything is frozen."""
        return bool(self._frozen)

    def close(self) -> None:
        """End the cluster."""
        self.thaw()
        self._cluster.shutdown()


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "ray::_Actor" in " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False


def _send(processes: list[psutil.Process], what: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(what)
        except psutil.NoSuchProcess:  # it ended first
            continue
