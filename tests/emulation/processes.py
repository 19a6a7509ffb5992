"""Commands for the CPUs, several at a time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.emulation.cpus import Cpu, Emulator
from tests.emulation.downloads import ROOT, Downloads

POLL_S = 0.2
"""Seconds between two looks at the processes."""

ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True, eq=False)
class Job:
    """A process to run.

    Attributes:
        name: Name in messages.
        command: Program and arguments.
        environment: All environment variables.
        content: Standard input.
        output: File to which standard output is appended.
        log: File for messages.
        after: Name of a job that must end before this one starts.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    content: str
    output: Path
    log: Path
    after: str = ""


def command(cpu: Cpu, downloads: Downloads) -> list[str]:
    """Return the command that computes digests on a CPU."""
    python = [sys.executable]
    if cpu.emulator:
        system = ["-L", str(downloads.system)] if cpu.emulator is Emulator.AARCH64 else []
        binary = downloads.python if cpu.emulator is Emulator.AARCH64 else sys.executable
        python = [str(downloads.emulator(cpu.emulator)), "-cpu", cpu.model, *system, str(binary)]
    features = [] if cpu.features is None else [f"--features={cpu.features}"]
    return [*python, "-m", "tests.emulation.worker", *features]


def environment(cpu: Cpu, downloads: Downloads) -> dict[str, str]:
    """Return all environment variables of a CPU's process. Its compiled kernels have a folder of their own."""
    arm = cpu.emulator is Emulator.AARCH64
    return {
        **ONE_THREAD,
        "HOME": str(downloads.folder / "home"),
        "LANG": "C.UTF-8",
        "PYTHONPYCACHEPREFIX": str(downloads.folder / "bytecode"),
        "PYTHONPATH": f"{ROOT}:{downloads.libraries}" if arm else str(ROOT),
        **({"PYTHONHOME": str(downloads.system / "usr")} if arm else {}),
        "NUMBA_CACHE_DIR": str(downloads.folder / "kernels" / cpu.kernel_folder),
        "NUMBA_CPU_NAME": cpu.kernels,
        "NUMBA_CPU_FEATURES": "",  # those of NUMBA_CPU_NAME
        **cpu.environment,
    }


def run(jobs: Sequence[Job], at_once: int, seconds: float) -> dict[str, str]:
    """Run jobs in this order, ``at_once`` at a time. Children never outlive this function.

    Args:
        jobs: The jobs.
        at_once: Number of processes.
        seconds: Time limit of all jobs together. Jobs that run then are killed.

    Returns:
        Name -> why the job did not finish, for each job that did not.
    """
    waiting, unfinished = list(jobs), {job.name: "the time limit was reached" for job in jobs}
    deadline = time.monotonic() + seconds
    with _running() as running:
        while (waiting or running) and time.monotonic() < deadline:
            for job in list(_startable(waiting, running))[: at_once - len(running)]:
                waiting.remove(job)
                running[job] = _start(job)
            for job, process in list(running.items()):
                if (code := process.poll()) is not None:
                    del running[job]
                    unfinished[job.name] = _failure(code, job)
                    print(f"{job.name}: {unfinished[job.name] or 'finished'}", flush=True)
            time.sleep(POLL_S)
    return {name: reason for name, reason in unfinished.items() if reason}


@contextmanager
def _running() -> Iterator[dict[Job, subprocess.Popen[bytes]]]:
    """Yield a table for running jobs, and kill those that are left in it."""
    running: dict[Job, subprocess.Popen[bytes]] = {}
    try:
        yield running
    finally:
        for process in running.values():
            process.kill()
        for process in running.values():
            process.wait()


def _startable(waiting: Sequence[Job], running: Mapping[Job, object]) -> Iterator[Job]:
    unfinished = {job.name for job in (*waiting, *running)}
    return (job for job in waiting if job.after not in unfinished)


def _start(job: Job) -> subprocess.Popen[bytes]:
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as content,
        open(job.output, "a", encoding="utf-8") as output,
        open(job.log, "w", encoding="utf-8") as log,
    ):
        content.write(job.content)
        content.seek(0)
        return subprocess.Popen(job.command, env=job.environment, cwd=ROOT, stdin=content, stdout=output, stderr=log)


def _failure(code: int, job: Job) -> str:
    """Return why a process failed; empty if it did not."""
    if code == 0:
        return ""
    lines = job.log.read_text(errors="replace").strip().splitlines() or ["no message"]
    return f"exit code {code}: {lines[-1]} (all messages: {job.log})"
