"""Commands for the CPUs, several at a time."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from tests.emulation.cpus import Cpu, Emulator
from tests.emulation.downloads import ROOT, Downloads

TIME_LIMIT = "the time limit was reached"
ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Job:
    """A process to run.

    Attributes:
        name: Name in messages.
        command: Program and arguments.
        environment: All environment variables.
        content: Standard input.
        output: File to which standard output is appended.
        log: File for messages.
        after: Name of an earlier job that must end before this one starts.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    content: str
    output: Path
    log: Path
    after: str = ""


def job_of(cpu: Cpu, downloads: Downloads, content: str, output: Path) -> Job:
    """Return the job that computes digests on a CPU. Its compiled kernels have a folder of their own."""
    arm = cpu.emulator is Emulator.AARCH64
    python = [str(downloads.python if arm else sys.executable)]
    if cpu.emulator:
        system = ["-L", str(downloads.system)] if arm else []
        python = [str(downloads.emulator(cpu.emulator)), "-cpu", cpu.model, *system, *python]
    features = [] if cpu.features is None else [f"--features={cpu.features}"]
    environment = {
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
    command = [*python, "-m", "tests.emulation.worker", *features]
    log = downloads.folder / "logs" / f"{cpu.name}.txt"
    return Job(cpu.name, command, environment, content, output, log, cpu.compiled_by)


def run(jobs: Sequence[Job], at_once: int, seconds: float) -> dict[str, str]:
    """Run jobs in this order, ``at_once`` at a time. Children never outlive this function.

    Args:
        jobs: The jobs.
        at_once: Number of processes.
        seconds: Time limit of all jobs together. Jobs that run then are killed.

    Returns:
        Name -> why the job did not finish, for each job that did not.
    """
    deadline, ended = time.monotonic() + seconds, {job.name: Event() for job in jobs}
    children: list[subprocess.Popen[str]] = []

    def work(job: Job) -> str:
        try:
            if job.after in ended:
                ended[job.after].wait()
            with open(job.output, "a") as output, open(job.log, "w") as log:
                child = subprocess.Popen(
                    job.command, env=dict(job.environment), cwd=ROOT, text=True,
                    stdin=subprocess.PIPE, stdout=output, stderr=log,
                )  # fmt: skip
                children.append(child)
                child.communicate(job.content, timeout=max(deadline - time.monotonic(), 0.001))
            *_, last = ["no message", *job.log.read_text(errors="replace").strip().splitlines()]
            return f"exit code {child.returncode}: {last} (all messages: {job.log})" if child.returncode else ""
        except subprocess.TimeoutExpired:
            return TIME_LIMIT
        finally:
            ended[job.name].set()

    with ThreadPoolExecutor(at_once) as pool:
        try:
            reasons = dict(zip(ended, pool.map(work, jobs), strict=True))
        finally:
            for child in children:
                child.kill()
                child.wait()
    return {name: reason for name, reason in reasons.items() if reason}
