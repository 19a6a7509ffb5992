"""Start a local Ray cluster, or join one that runs."""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeline.errors import UnfinishedError, UserError
from pipeline.execution.guardian import guarded
from pipeline.execution.processes import WORKER_ENVIRONMENT, check_workers
from pipeline.software import cpu_count

_CONNECT_S = 10.0

_SETTINGS = 4
"""The type of the frame with which each side of an HTTP/2 connection begins."""

_QUIET: Mapping[str, Any] = MappingProxyType({"log_to_driver": False, "logging_level": logging.ERROR})

_FOLDER, _LONGEST_FOLDER = "robustshards-ray-", 40
"""What a folder for the files of a local cluster is called, and how long its path may be: sockets are made below it,
whose paths may have 107 bytes."""

_OBJECT_STORE_BYTES = 80 * 2**20
"""The least that Ray takes: only listings and counts travel, never an image."""


def import_ray() -> Any:
    """Ray, loaded where it is used: it takes a second, and most commands do without. It reports no usage."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    for name, value in WORKER_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


def _reach(address: str) -> None:
    """Raises UserError where no gRPC server answers at host:port; Ray itself would try for minutes."""
    host, separator, port = address.rpartition(":")
    if "://" in address or not separator or not host or not (port.isascii() and port.isdecimal() and len(port) < 6):
        raise UserError(
            f"invalid address {address!r}: give host:port of the cluster's head, for example 10.0.0.1:6379, "
            "or 'auto' for the cluster on this machine"
        )
    host = host.removeprefix("[").removesuffix("]")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                _greet(connection)
    except (OSError, OverflowError, ValueError) as error:  # ValueError: names that no host can have
        raise UserError(f"no Ray cluster answers at {address}: {error}") from error
    if _is_loopback(host):
        # Ray turns loopback into the address of the network card, where a cluster on loopback does not listen.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


def _greet(connection: socket.socket) -> None:
    """Begin HTTP/2, as gRPC does: a server answers with its settings. Raises OSError for anything else."""
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0]))
    frame = connection.recv(9)
    if len(frame) < 4 or frame[3] != _SETTINGS:
        raise OSError("what listens there is no Ray head; its port is mostly 6379")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def cluster(workers: int | None, address: str | None) -> Iterator[int]:
    """A Ray cluster for the time of a build; gives the number of workers to start.

    Without an address a local one is started on the loopback interface and ended afterwards, also where this process
    is killed; with host:port or "auto", the cluster there is joined and left running. ``workers`` None means one per
    CPU. Raises UserError if it cannot be reached.
    """
    check_workers(workers, address)
    if address not in (None, "auto"):
        _reach(address)
    _leave_lost_folder()
    ray = import_ray()
    with ExitStack() as stack:
        # Ray tells of workers that died on standard output, which is ours: it may be JSON.
        stack.enter_context(redirect_stdout(sys.stderr))
        ending = signal.getsignal(signal.SIGTERM)
        try:
            cpus = _start(ray, workers, stack) if address is None else _join(ray, workers, address)
        except (OSError, ValueError, RuntimeError, AssertionError, ray.exceptions.RayError) as error:
            ray.shutdown()
            raise UserError(f"cannot start or join Ray{f' at {address}' if address else ''}: {error}") from error
        except SystemExit:  # of Ray's own handler of SIGTERM, which it has while it starts
            ray.shutdown()
            if callable(ending):
                ending(signal.SIGTERM, None)
            raise
        except Exception as error:
            if type(error) is not Exception:  # the plain one is what Ray raises where its processes do not come up
                raise
            ray.shutdown()
            raise UnfinishedError(
                f"Ray has not started: {error} It needs room for its temporary files and a machine that is not "
                "overloaded; then run the same command again"
            ) from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, ending)  # Ray has put one of its own in its place
        stack.callback(ray.shutdown)
        yield cpus


def _leave_lost_folder() -> None:
    """Go to the root where the current folder has been removed: Ray asks for it. No path is relative to it any more."""
    try:
        os.getcwd()
    except FileNotFoundError:
        os.chdir("/")


def _start(ray: Any, workers: int | None, stack: ExitStack) -> int:
    """Start a local cluster that ends with this process. The number of workers."""
    cpus = workers or cpu_count()
    own: dict[str, Any] = {"object_store_memory": _OBJECT_STORE_BYTES, "_node_ip_address": "127.0.0.1"}
    folder = _temporary_folder()
    if folder:
        own["_temp_dir"] = str(folder)
    marks = stack.enter_context(guarded(folder))
    token = {} if keeps_tokens() else {"RAY_AUTH_TOKEN": _token()}
    with _environment({**marks, **token}):
        # "local", or Ray would join whatever cluster was last started on this machine.
        ray.init(address="local", num_cpus=cpus, include_dashboard=False, job_config=_job(ray), **own, **_QUIET)
    return cpus


def _join(ray: Any, workers: int | None, address: str) -> int:
    """Join a running cluster. The number of workers."""
    ray.init(address=address, job_config=_job(ray), **_QUIET)
    return workers or int(ray.cluster_resources().get("CPU", 1))


class _Closed(list[str]):
    """Takes nothing: Ray adds the current folder and that of the script, and all code in there would come first."""

    def extend(self, paths: Iterable[str]) -> None:
        """Leave the workers' search path as it is."""


def _job(ray: Any) -> Any:
    """What Ray knows of this job: its workers import what is installed, as this process does."""
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = _Closed()
    return job


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for as long as the block runs."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _temporary_folder() -> Path | None:
    """A folder of our own for the files of a local cluster; None where the usual one can be used.

    That is not where it belongs to another user, who could change what is in it. Raises UserError where there is none.
    """
    usual = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray").absolute()
    if len(str(usual)) <= _LONGEST_FOLDER and _own(usual):
        return None
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if len(place) + len(_FOLDER) + 8 <= _LONGEST_FOLDER and os.access(place, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix=_FOLDER, dir=place))
    raise UserError(
        f"no folder for the temporary files of Ray: {usual} cannot be used; set RAY_TMPDIR to a folder that can be "
        f"written, with a path of up to {_LONGEST_FOLDER - len('/ray')} characters"
    )


def _own(folder: Path) -> bool:
    """Whether a folder belongs to this user and can be written, or can be made."""
    try:
        about = folder.lstat()
    except FileNotFoundError:
        return os.access(folder.parent, os.W_OK | os.X_OK)
    except OSError:
        return False
    return folder.is_dir() and about.st_uid == os.geteuid() and os.access(folder, os.W_OK | os.X_OK)


def keeps_tokens() -> bool:
    """Whether Ray can keep the password of a local cluster where it wants to: below the home folder."""
    if {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        return True
    try:
        folder = Path.home() / ".ray"
        there = next(path for path in (folder, *folder.parents) if path.exists())
        return folder.is_absolute() and (
            os.access(folder / "auth_token", os.R_OK) or os.access(there, os.W_OK | os.X_OK)
        )
    except (OSError, RuntimeError):  # nobody knows the home
        return False


@cache
def _token() -> str:
    """One for the time of this process: Ray reads it once."""
    return secrets.token_hex(32)
