"""A local Ray cluster for one command, or a connection to a running cluster."""

import ipaddress
import logging
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from functools import cache, partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

from pipeline.errors import UnfinishedError, UserError
from pipeline.execution.processes import WORKER_ENVIRONMENT, check_workers, default_workers, environment
from pipeline.guardian import guarded
from pipeline.storage.temporary import can_hold_sockets, socket_folder

_CONNECT_S = 10.0
"""Timeout of the first connection to a cluster, in seconds."""

_SETTINGS = 4
"""HTTP/2 frame type that each side sends first."""

_QUIET: Mapping[str, Any] = MappingProxyType({"log_to_driver": False, "logging_level": logging.ERROR})

_AGENTS = frozenset({"dashboard_agent_command", "runtime_env_agent_command"})
"""Options of a raylet: the commands of its agents."""

IDLE_AGENT = """
import os, time
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(1)
"""
"""Program that does nothing until its parent ends, in place of an agent that Ray requires but jobs do not use."""

_NO_PORT = -1
"""Port of an agent that is not in use, as Ray writes it."""

_OBJECT_STORE_BYTES = 80 * 2**20
"""Size of Ray's object store: the minimum that Ray accepts, since no images are sent between processes."""

_SYSTEM_CONFIG: Mapping[str, int] = MappingProxyType({"worker_niceness": 0, "min_memory_free_bytes": 2**30})
"""Settings of a local cluster. At Ray's own niceness of 15, workers hardly run beside other programs. Ray kills workers
when less than 5 % of the memory and less than 1 GiB are free; 5 % of a large machine are enough for a build."""


def import_ray() -> Any:
    """Import Ray with usage reports switched off, and return it. It is imported late because importing takes long."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    for name, value in WORKER_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


def _check_address(address: str) -> None:
    """Check that a gRPC server answers at host:port, because Ray would retry for minutes. Raises UserError."""
    host, separator, port = address.rpartition(":")
    if "://" in address or not separator or not host or not (port.isascii() and port.isdecimal() and len(port) < 6):
        raise UserError(
            f"invalid address {address!r}: use host:port of the cluster's head, for example 10.0.0.1:6379, "
            "or 'auto' for the cluster on this machine"
        )
    host = host.removeprefix("[").removesuffix("]")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                _check_http2(connection)
    except (OSError, OverflowError, ValueError) as error:  # ValueError: invalid host name
        raise UserError(f"no Ray cluster answers at {address}: {error}") from error


def _check_http2(connection: socket.socket) -> None:
    """Start an HTTP/2 connection as gRPC does. Raises OSError if the server does not answer with its settings."""
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0]))
    frame = connection.recv(9)
    if len(frame) < 4 or frame[3] != _SETTINGS:
        raise OSError("the server is not a Ray head, whose default port is 6379")


@contextmanager
def _loopback_kept(ray: Any, address: str) -> Iterator[None]:
    """Let Ray use a loopback address in the block as it is.

    It would replace the address by that of the network card, where a cluster on loopback does not listen.
    """
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    with suppress(ValueError):
        host = "localhost" if ipaddress.ip_address(host).is_loopback else host
    constants = ray._private.ray_constants
    with _replaced(constants, "ENABLE_RAY_CLUSTER", host != "localhost"):
        yield


class _Cluster:
    """A cluster that a thread starts or joins, and leaves. In a thread, Ray does not replace the handlers of signals.

    The thread lives as long as the cluster, because Ray's processes end with the thread that has started them.
    """

    def __init__(
        self, workers: int | None, address: str | None, prepare: Callable[[int], object] = lambda workers: None
    ) -> None:
        """Begin to start or join a cluster, then to call ``prepare`` with the number of workers."""
        self._thread, self._stack = ThreadPoolExecutor(1), ExitStack()
        self.workers = self._thread.submit(self._begin, workers, address, prepare)

    def _begin(self, workers: int | None, address: str | None, prepare: Callable[[int], object]) -> int:
        count = _enter(workers, address, self._stack)
        prepare(count)
        return count

    def close(self) -> None:
        """Leave the cluster, or stop it if it is local."""
        self._thread.submit(self._stack.close).result()
        self._thread.shutdown()


_IN_USE = Lock()
"""Held during :func:`cluster`, so that other threads wait: a process can be in one cluster only."""

_EARLY: list[_Cluster] = []
"""A local cluster that waits for the next :func:`cluster` of this process; at most one."""


@contextmanager
def early_cluster(workers: int | None, prepare: Callable[[int], object]) -> Iterator[None]:
    """Begin to start a local cluster, which the first :func:`cluster` of the block uses.

    Args:
        workers: Number of workers; None for the default.
        prepare: Called with the number of workers, in another thread, when the cluster has started.
    """
    import_ray()  # not in the thread: imports there would delay those of the command, and be delayed by them
    _EARLY.append(_Cluster(workers, None, prepare))
    try:
        yield
    finally:
        while _EARLY:
            _EARLY.pop().close()


@contextmanager
def cluster(workers: int | None, address: str | None) -> Iterator[int]:
    """Start or join a Ray cluster, and yield the number of workers to start.

    A local cluster listens on the loopback interface only, and stops at the end of the block or when this process is
    killed. A cluster that was joined keeps running. If this process has joined a cluster before, it uses that one and
    stays in it.

    Args:
        workers: Number of workers; None for the default.
        address: host:port of a running cluster, "auto" for the one on this machine, or None to start a local cluster.

    Raises:
        UserError: The cluster cannot be started or reached.
        UnfinishedError: The processes of a local cluster do not start.
    """
    # Ray prints messages about dead workers to standard output, which may be the JSON output of this command.
    with _IN_USE, redirect_stdout(sys.stderr):
        chosen = _EARLY.pop() if _EARLY and address is None else _Cluster(workers, address)
        try:
            yield chosen.workers.result()
        finally:
            chosen.close()


def _enter(workers: int | None, address: str | None, stack: ExitStack) -> int:
    """Start or join a cluster, which the stack leaves, and return the number of workers."""
    check_workers(workers, address)
    loaded = sys.modules.get("ray")
    if loaded and loaded.is_initialized():
        joined = loaded.get_runtime_context().gcs_address
        if address not in (None, "auto", joined):
            raise UserError(
                f"this process has joined the Ray cluster at {joined}, not {address}: leave out the address, or call "
                "ray.shutdown() first"
            )
        return _workers(loaded, workers)
    if address not in (None, "auto"):
        _check_address(address)
    _leave_deleted_folder()
    ray = import_ray()
    try:
        if address is None:
            return _start(ray, workers, stack)
        stack.callback(ray.shutdown)
        with _loopback_kept(ray, address):
            ray.init(address=address, job_config=_job_config(ray), **_QUIET)
        return _workers(ray, workers)
    except (OSError, ValueError, RuntimeError, AssertionError, ray.exceptions.RayError) as error:
        raise UserError(f"cannot start or join Ray{f' at {address}' if address else ''}: {error}") from error
    except Exception as error:
        if type(error) is not Exception:  # Ray raises a plain Exception if its processes do not start
            raise
        raise UnfinishedError(
            f"cannot start Ray: {error} Check that the disk has space for temporary files and that the machine is "
            "not overloaded, then run the same command again"
        ) from error


def _workers(ray: Any, workers: int | None) -> int:
    """Return the number of workers to start on a cluster that this process has joined."""
    return workers or int(ray.cluster_resources().get("CPU", 1))


def _leave_deleted_folder() -> None:
    """Change to the root folder if the current folder was deleted, because Ray reads it. All paths are absolute."""
    try:
        os.getcwd()
    except FileNotFoundError:
        os.chdir("/")


def _start(ray: Any, workers: int | None, stack: ExitStack) -> int:
    """Start a local cluster that stops with this process, and return the number of workers."""
    cpus = workers or default_workers()
    options: dict[str, Any] = {"object_store_memory": _OBJECT_STORE_BYTES, "_node_ip_address": "127.0.0.1"}
    options["_system_config"] = dict(_SYSTEM_CONFIG)
    folder = _temporary_folder()
    if folder:
        options["_temp_dir"] = str(folder)
    mark = stack.enter_context(guarded(folder, kill=True))
    # Ray would print a page about each dead worker, whose death the events of the pool tell.
    stack.enter_context(_replaced(ray._private.worker, "print_to_stdstream", _do_nothing))
    stack.callback(ray.shutdown)
    token = {} if can_store_token() else {"RAY_AUTH_TOKEN": _token()}
    with environment({**mark, **token}), _few_processes(ray):
        # Without "local", Ray would join the cluster that was last started on this machine.
        ray.init(
            address="local", num_cpus=cpus, include_dashboard=False, job_config=_job_config(ray), **options, **_QUIET
        )
    return cpus


@contextmanager
def _few_processes(ray: Any) -> Iterator[None]:
    """Start a cluster in the block without the processes that its jobs do not need.

    They are the server of the dashboard, the log monitor, the autoscaler, the exporter of metrics and the agents, which
    take most of the time of a start. Ray has no options for them, but starts no exporter if its packages are not
    installed. Without the agents, workers cannot get another runtime environment than this process, such as the one
    that ``uv run`` asks for.
    """
    node, utils, services = ray._private.node.Node, ray._private.utils, ray._private.services
    replacements: list[tuple[Any, str, Any]] = [
        (utils, "get_dashboard_dependency_error", lambda: ImportError("not used")),
        (ray._private.worker, "_maybe_modify_runtime_env", _do_nothing),
        (services, "start_ray_process", partial(_start_without_agents, services.start_ray_process, ray._raylet)),
        *((node, name, _do_nothing) for name in ("start_api_server", "start_log_monitor", "start_monitor")),
    ]
    with ExitStack() as stack:
        for replacement in replacements:
            stack.enter_context(_replaced(*replacement))
        yield


@contextmanager
def _replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Replace a function or a constant of Ray in the block. Another version of Ray may have none of that name."""
    found = getattr(owner, name, None)
    if found:
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        if found:
            setattr(owner, name, found)


def _do_nothing(*_: Any, **__: Any) -> None:
    """Start no process, print nothing, or use no runtime environment."""


def _start_without_agents(start: Callable[..., Any], raylet: Any, command: list[str], *args: Any, **kwargs: Any) -> Any:
    """Start a process of Ray. A raylet starts idle processes as its agents, whose ports are written here for it."""
    options = dict(part.removeprefix("--").split("=", 1) for part in command if "=" in part)
    if options.keys() >= _AGENTS and hasattr(raylet, "persist_port"):
        for name, port in vars(raylet).items():
            if name.endswith("_PORT_NAME") and name != "GCS_SERVER_PORT_NAME":
                raylet.persist_port(options["session_dir"], options["node_id"], port, _NO_PORT)
        idle = subprocess.list2cmdline([sys.executable, "-I", "-S", "-c", IDLE_AGENT])
        command = [f"--{name}={idle}" if (name := part[2:].split("=")[0]) in _AGENTS else part for part in command]
    return start(command, *args, **kwargs)


class _FixedPath(list[str]):
    """A list of paths that Ray cannot extend.

    Ray adds the folders of the driver and of its script, and code in them would take precedence over installed code.
    """

    def extend(self, paths: Iterable[str]) -> None:
        """Ignore the paths."""


def _job_config(ray: Any) -> Any:
    """Return the Ray job configuration, with which workers import installed code only, as this process does."""
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = _FixedPath()
    return job


def _temporary_folder() -> Path | None:
    """Create a folder for the files of a local cluster; return None if Ray's default folder is usable.

    The default folder is not used if it belongs to another user, who could change its files.
    """
    default = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray")
    if can_hold_sockets(str(default)) and _is_usable(default):
        return None
    return socket_folder()


def _is_usable(folder: Path) -> bool:
    """Return whether a folder belongs to this user and is writable, or can be created."""
    try:
        about = folder.lstat()
    except FileNotFoundError:
        return os.access(folder.parent, os.W_OK | os.X_OK)
    except OSError:
        return False
    return folder.is_dir() and about.st_uid == os.geteuid() and os.access(folder, os.W_OK | os.X_OK)


def can_store_token() -> bool:
    """Return whether Ray can store the token of a local cluster in the home folder."""
    if {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        return True
    try:
        folder = Path.home() / ".ray"
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        return folder.is_absolute() and (
            os.access(folder / "auth_token", os.R_OK) or os.access(existing, os.W_OK | os.X_OK)
        )
    except (OSError, RuntimeError):  # the home folder is unknown
        return False


@cache
def _token() -> str:
    """Return a random token, the same for the whole process because Ray reads it only once."""
    return secrets.token_hex(32)
