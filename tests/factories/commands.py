"""The command in the process of the tests, or in processes that have already imported its modules.

The tests run hundreds of commands, and starting processes and compiling in them takes most of the time. Commands that
need no workers therefore run in the process of the tests, and so does a build with the default of the fixture
``robustshards``, one local worker. Others are forked from a server process with these imports. Only the start differs
from a user's command; it is tested with the program itself.
"""

import json
import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest

PROGRAM = Path(sys.executable).parent / "robustshards"
"""The installed program."""
IMPORTED = (
    *("pipeline.builder.build", "pipeline.builder.plan", "pipeline.cli.app", "pipeline.datasets.verify"),
    *("pipeline.datasets.export", "pipeline.datasets.index.manifest", "pipeline.datasets.preview"),
    *("pipeline.evaluate.predict.evaluate", "pipeline.evaluate.report.write", "s3fs", "torch"),
)
"""Modules that the server process imports."""

ONE_WORKER = ("--executor", "local", "--workers", "1")
"""The last arguments of a build that asks for no engine and no number of workers."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(list(IMPORTED))

_CLIENT = f"""#!{sys.executable} -ISs
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(os.path.join(os.path.dirname(os.path.abspath(__file__)), "socket"))
socket.send_fds(server, [b" "], [0, 1, 2])
server.sendall(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode())
server.shutdown(socket.SHUT_WR)
sys.exit(int(server.recv(16)))
"""
"""The program ``robustshards`` of :func:`program_on_path`. It sends its arguments and standard files to a server."""


def python(*arguments: object, timeout: float = 300, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own: ``python("-c", program)``."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)


@contextmanager
def in_this_process() -> Iterator[None]:
    """Run workers in this process."""
    from pipeline.execution.pools import IN_PROCESS, POOLS  # after NUMBA_CACHE_DIR is set

    with patch("pipeline.execution.resumable.open_pool", POOLS[IN_PROCESS]):
        yield


def run_command(
    *arguments: object, timeout: float = 300, cwd: str | os.PathLike[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``robustshards`` in this process if it needs no workers, else in one of its own; see :func:`run_process`."""
    texts = tuple(map(str, arguments))
    if _starts_processes(texts):
        return run_process(*texts, timeout=timeout, cwd=cwd)
    from pipeline.cli import app, signals

    command_line, out, errors = [str(PROGRAM), *texts], StringIO(), StringIO()
    with (
        chdir(cwd or os.getcwd()), in_this_process(), _own_stores(), patch.object(signals, "install"),
        patch.object(sys, "argv", command_line), redirect_stdout(out), redirect_stderr(errors),
        pytest.raises(SystemExit) as ended,
    ):  # fmt: skip
        app.main()
    return subprocess.CompletedProcess(command_line, int(ended.value.code or 0), out.getvalue(), errors.getvalue())


class Run:
    """The command ``robustshards``: a call runs it, whatever its exit code is.

    Builds use the local engine with one worker unless the arguments contain ``--executor``, ``--address`` or
    ``--workers``, because it starts much faster than Ray.
    """

    def __call__(self, *arguments: object, timeout: float = 300, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the command, in a process of its own if there are other options of processes than ``cwd``."""
        if arguments[0] == "build" and not {"--address", "--executor", "--help"} & set(arguments):
            arguments += ("--executor", "local", *(() if "--workers" in arguments else ("--workers", "1")))
        if not options.keys() <= {"cwd"}:
            command = [PROGRAM, *map(str, arguments)]
            return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)
        return run_command(*arguments, timeout=timeout, **options)

    def succeed(self, *arguments: object, code: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the command, and check its exit code."""
        done = self(*arguments, **options)
        assert done.returncode == code, done.stderr
        return done

    def facts(self, *arguments: object, code: int = 0, **options: Any) -> dict[str, Any]:
        """Return what the command prints with ``--json``."""
        facts: dict[str, Any] = json.loads(self.succeed(*arguments, "--json", code=code, **options).stdout)
        return facts

    def refuse(self, *arguments: object, **options: Any) -> str:
        """Return the message with which the command refuses its arguments or its data."""
        message = self.succeed(*arguments, code=2, **options).stderr
        assert "Traceback" not in message
        return message


@contextmanager
def _own_stores() -> Iterator[None]:
    """Share no opened store with the code before and after, because a store keeps the credentials of its opening."""
    _forget_stores()
    yield
    _forget_stores()


def _forget_stores() -> None:
    if "s3fs" in sys.modules:
        sys.modules["s3fs"].S3FileSystem.clear_instance_cache()


def _starts_processes(arguments: Sequence[str]) -> bool:
    """Return whether a command starts workers or loaders, which are to be as users start them."""
    chosen = arguments[: -len(ONE_WORKER)] if arguments[-len(ONE_WORKER) :] == ONE_WORKER else arguments
    values = dict(pairwise(chosen))
    engine = {"--executor", "--address"} & values.keys()
    return bool(engine) or values.get("--workers", "1") != "1" or values.get("--loaders", "0") != "0"


def run_process(
    *arguments: object, timeout: float = 300, cwd: str | os.PathLike[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``robustshards`` in a process with this process's environment and empty standard input.

    Args:
        *arguments: Arguments of the command.
        timeout: Time limit in seconds.
        cwd: Working folder. Default: that of this process.

    Returns:
        Exit code, standard output and standard error.

    Raises:
        subprocess.TimeoutExpired: If the command exceeds the time limit. It is then killed.
    """
    command_line = [str(PROGRAM), *map(str, arguments)]
    with open(os.devnull) as stdin, TemporaryFile("w+") as stdout, TemporaryFile("w+") as stderr:
        files = [each.fileno() for each in (stdin, stdout, stderr)]
        code = _run(command_line, os.environ, os.fspath(cwd or os.getcwd()), files, timeout)
        texts = []
        for each in (stdout, stderr):
            each.seek(0)
            texts.append(each.read())
    return subprocess.CompletedProcess(command_line, code, *texts)


@contextmanager
def program_on_path() -> Iterator[Path]:
    """Provide a folder for PATH with a program ``robustshards`` that starts without imports, also in shell pipes."""
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        program = Path(folder, "robustshards")
        program.write_text(_CLIENT)
        program.chmod(0o755)
        listener.bind(str(Path(folder, "socket")))
        listener.listen()
        Thread(target=_serve, args=(listener,), daemon=True).start()
        yield Path(folder)
        listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket) -> None:
    """Answer programs until the listener is closed. The commands of a pipe run at the same time."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        Thread(target=_answer, args=(client,), daemon=True).start()


def _answer(client: socket.socket) -> None:
    """Run a command with the standard files of the requesting program, and send its exit code."""
    with client, client.makefile("rb") as stream:
        _, files, _, _ = socket.recv_fds(client, 1, 3)
        try:
            arguments, environment, cwd = json.loads(stream.read())
            code = _run([str(PROGRAM), *arguments], environment, cwd, files, timeout=300)
        finally:
            for each in files:
                os.close(each)
        client.sendall(str(code).encode())


def _run(
    command_line: Sequence[str], environment: Mapping[str, str], cwd: str, files: Sequence[int], timeout: float
) -> int:
    """Return the exit code of a command with these standard files."""
    passed = [Connection(os.dup(each)) for each in files]
    arguments = (command_line, dict(environment), cwd, passed, _paths())
    process = _CONTEXT.Process(target=_main, args=arguments)
    try:
        process.start()
    finally:
        for each in passed:  # an open copy would let the reader of a pipe wait forever
            each.close()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired(command_line, timeout)
    return process.exitcode


@cache
def _paths() -> Sequence[str]:
    """Return the module search path of the program without PYTHONPATH."""
    code = "import sys; print(*sys.path, sep='\\n')"
    command = [sys.executable, "-E", "-P", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _main(
    command_line: Sequence[str],
    environment: Mapping[str, str],
    cwd: str,
    files: Sequence[Connection],
    paths: Sequence[str],
) -> None:
    """Run the command in this process."""
    os.environ.clear()
    os.environ.update(environment)
    for number, each in enumerate(files):
        os.dup2(each.fileno(), number)
        each.close()
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)  # type: ignore[misc]
    os.chdir(cwd)
    sys.argv = list(command_line)
    added = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [str(PROGRAM.parent), *added, *paths]
    from pipeline.cli.start import main

    main()
