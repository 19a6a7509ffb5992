"""Tests of slurm.sh with stand-ins for Slurm's commands that run everything on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.infra.commands import INFRA, skip_or_fail

pytestmark = pytest.mark.large

SRUN = """#!/usr/bin/env bash
# Starts one process per task, forwards TERM, and exits when all processes have exited.
tasks=1 processes=()
while [[ $1 == --* ]]; do
    [[ $1 != --ntasks=* ]] || tasks=${1#*=}
    shift
done
trap 'kill -TERM "${processes[@]}"' TERM
for ((task = 0; task < tasks; task++)); do
    "$@" &
    processes+=($!)
done
while kill -0 "${processes[@]}" 2>/dev/null; do wait; done
"""
SCONTROL = """#!/usr/bin/env bash
case $1 in
    show) printf 'first\\nsecond\\n' ;;
    requeue) echo "$2" >>"$REQUEUED" ;;
esac
"""
RAY = """#!/usr/bin/env bash
# Each node of the cluster is a file.
case $1 in
    start)
        [[ -z ${BROKEN_NODE:-} || $* == *--head* ]] || exit 1
        [[ -z ${SLOW_STARTS:-} || $(echo >>"$NODES/../starts"; wc -l <"$NODES/../starts") -gt $SLOW_STARTS ]] || exit 1
        touch "$NODES/$$"
        trap 'rm -f "$NODES/$$"; exit' TERM
        for ((turn = 0; turn < 3000; turn++)); do
            [[ -z ${LOST_LATER:-} || ! -e $NODES/../command ]] || break
            sleep 0.1
        done
        rm "$NODES/$$"
        exit 1
        ;;
    health-check) [[ -n $(ls "$NODES") ]] ;;
    status) echo Active:; for node in "$NODES"/*; do echo " 1 node_${node##*/}"; done; echo Pending: ;;
esac
"""
COMMAND = """#!/usr/bin/env bash
echo "$*" >"$NODES/../command"
[[ $RAY_AUTH_MODE == token && ${#RAY_AUTH_TOKEN} == 64 ]] || exit 99
trap 'exit 130' TERM
for ((turn = 0; turn < ${TURNS:-0}; turn++)); do sleep 0.1; done
exit "${RESULT:-0}"
"""

WITH_LOOPBACK = """
import fcntl, os, socket, struct, sys
SIOCSIFFLAGS, UP_LOOPBACK_RUNNING = 0x8914, 0x49
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", UP_LOOPBACK_RUNNING))
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Job:
    """A folder with the stand-ins and the files that a run of slurm.sh leaves."""

    def __init__(self, folder: Path, stand_ins: Mapping[str, str]) -> None:
        self.folder = folder
        self.nodes = folder / "nodes"
        self.nodes.mkdir(parents=True)
        for name, script in stand_ins.items():
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)

    def environment(self, **changes: str) -> dict[str, str]:
        """Return the environment variables that Slurm and the user would set."""
        programs = (str(self.folder), str(Path(sys.executable).parent), os.environ["PATH"])
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "PATH": os.pathsep.join(programs),
            "NODES": str(self.nodes),
            "REQUEUED": str(self.folder / "requeued"),
            "SOURCE": "/photographs",
            "OUT": "/data",
            "HEAD_IP": "127.0.0.2",
            "START_S": "60",
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "first,second",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_CPUS_PER_TASK": "1",
            **changes,
        }

    def start(self, *arguments: str, **changes: str) -> subprocess.Popen[str]:
        """Start the script."""
        command = ["bash", str(INFRA / "slurm.sh"), *arguments]
        return subprocess.Popen(command, env=self.environment(**changes), stderr=subprocess.PIPE, text=True)

    @property
    def requeued(self) -> bool:
        """Return whether the job was requeued."""
        return (self.folder / "requeued").exists()


STAND_INS = {"srun": SRUN, "scontrol": SCONTROL, "ray": RAY, "robustshards": COMMAND}


@dataclass(frozen=True)
class Case:
    """Environment changes of a job, and the expected exit code, requeueing and error text."""

    code: int
    requeued: bool
    changes: Mapping[str, str]
    errors: str = ""


CASES = {
    "the build is finished": Case(0, False, {}),
    "the build is unfinished": Case(3, True, {"RESULT": "3"}),
    "the build was interrupted": Case(130, True, {"RESULT": "130"}),
    "samples failed": Case(1, False, {"RESULT": "1"}),
    "the build was refused": Case(2, False, {"RESULT": "2"}),
    "the job was requeued 20 times": Case(3, False, {"RESULT": "3", "SLURM_RESTART_COUNT": "20"}),
    "a machine is lost": Case(130, True, {"TURNS": "600", "LOST_LATER": "yes"}),
    "a machine does not start": Case(3, True, {"BROKEN_NODE": "yes", "START_S": "5"}, " did not start within 5 s"),
    "the machines start late": Case(0, False, {"SLOW_STARTS": "2"}, "Ray on first ended; starting it again"),
}


def test_exit_code_and_requeueing_of_each_case(tmp_path: Path) -> None:
    """All jobs run at the same time, because they mostly wait."""
    jobs = {name: Job(tmp_path / name.replace(" ", "-"), STAND_INS) for name in CASES}
    scripts = {name: jobs[name].start("--only", "two words", **case.changes) for name, case in CASES.items()}
    for name, case in CASES.items():
        job, (_, errors) = jobs[name], scripts[name].communicate(timeout=300)
        assert scripts[name].returncode == case.code, f"{name}: {errors}"
        assert case.errors in errors, name
        assert job.requeued == case.requeued, name
        assert not list(job.nodes.iterdir()), name
        if "BROKEN_NODE" not in case.changes:
            arguments = (job.folder / "command").read_text()
            assert arguments.endswith("--address 127.0.0.2:6379 --workers 2 --only two words\n"), name


@pytest.mark.parametrize("missing", ["ray", "robustshards"])
def test_missing_program_is_named_at_once(tmp_path: Path, missing: str) -> None:
    job = Job(tmp_path, {name: script for name, script in STAND_INS.items() if name != missing})
    script = job.start(PATH=f"{tmp_path}:/usr/bin:/bin")
    _, errors = script.communicate(timeout=300)
    assert (script.returncode, job.requeued) == (2, False)
    assert errors.startswith(f"{missing} is not on PATH")


def test_preemption_stops_the_command_and_requeues(tmp_path: Path) -> None:
    job = Job(tmp_path, STAND_INS)
    script = job.start(TURNS="600")
    wait_for(job.folder / "command", script)
    script.send_signal(signal.SIGTERM)
    _, errors = script.communicate(timeout=300)
    assert script.returncode == 130, errors
    assert job.requeued
    assert not list(job.nodes.iterdir())


def wait_for(file: Path, script: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 300
    while not file.exists():
        assert script.poll() is None, script.communicate()
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.05)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Provide a folder with a short path, because Ray puts sockets into it and their paths are limited to 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    yield folder
    shutil.rmtree(folder)


def in_own_network(*command: str | Path) -> list[str]:
    """Return a command that runs in a network namespace with only a loopback, because Ray listens on all addresses."""
    network = ["unshare", "--map-root-user", "--net", sys.executable, "-c", WITH_LOOPBACK]
    try:
        subprocess.run([*network, "true"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.CalledProcessError) as error:
        skip_or_fail(f"cannot create a network namespace: {error}")
    return [*network, *map(str, command)]


def test_a_build_on_two_nodes(short_folder: Path, tmp_path: Path, small_source: Path) -> None:
    job, data = Job(short_folder, {"srun": SRUN, "scontrol": SCONTROL}), tmp_path / "data"
    environment = job.environment(SOURCE=str(small_source), OUT=str(data), RAY_TMPDIR=str(short_folder / "ray"))
    options = ("--only", "contrast,gaussian_noise", "--severities", "1,3", "--shard-size", "1")
    done = subprocess.run(
        in_own_network("bash", INFRA / "slurm.sh", *options),
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not job.requeued
    assert (data / "manifest.parquet").exists()
    (run,) = (data / "runs").iterdir()
    assert json.loads(run.read_text())["workers"] == 2
    folder = str(short_folder)
    remaining = [each for each in psutil.process_iter(["cmdline"]) if folder in " ".join(each.info["cmdline"] or ())]
    psutil.wait_procs(remaining, timeout=120)
    assert not [process for process in remaining if process.is_running()]
