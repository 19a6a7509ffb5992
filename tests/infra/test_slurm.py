"""slurm.sh against stand-ins of Slurm that run everything on this machine."""

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
from pathlib import Path

import psutil
import pytest

from tests.infra.commands import INFRA, absent

SRUN = """#!/usr/bin/env bash
# Starts as many processes as there would be tasks, passes TERM on, and ends when they have ended.
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
# A cluster whose nodes are files.
case $1 in
    start)
        [[ -z ${BROKEN_NODE:-} || $* == *--head* ]] || exit 1
        touch "$NODES/$$"
        trap 'rm -f "$NODES/$$"; exit' TERM
        for ((turn = 0; turn < ${NODE_TURNS:-3000}; turn++)); do sleep 0.1; done
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
    """A folder of stand-ins and what a run of slurm.sh left there."""

    def __init__(self, folder: Path, stand_ins: Mapping[str, str]) -> None:
        self.folder = folder
        self.nodes = folder / "nodes"
        self.nodes.mkdir()
        for name, script in stand_ins.items():
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)

    def environment(self, **changes: str) -> dict[str, str]:
        """What Slurm and the user would set."""
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

    def run(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """The script, to its end."""
        command = ["bash", str(INFRA / "slurm.sh"), *arguments]
        return subprocess.run(
            command, env=self.environment(**changes), capture_output=True, text=True, timeout=120, check=False
        )

    @property
    def requeued(self) -> bool:
        """Whether the job was queued again."""
        return (self.folder / "requeued").exists()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path, {"srun": SRUN, "scontrol": SCONTROL, "ray": RAY, "robustshards": COMMAND})


def test_a_finished_build_ends_the_job_and_its_nodes(job: Job) -> None:
    done = job.run("--only", "two words")
    assert done.returncode == 0, done.stderr
    assert not job.requeued
    assert not list(job.nodes.iterdir())
    told = (job.folder / "command").read_text()
    assert told.endswith("--address 127.0.0.2:6379 --workers 2 --only two words\n")


@pytest.mark.parametrize(("result", "requeued"), [("3", True), ("130", True), ("1", False), ("2", False)])
def test_only_what_can_go_on_is_queued_again(job: Job, result: str, requeued: bool) -> None:
    done = job.run(RESULT=result)
    assert done.returncode == int(result)
    assert job.requeued == requeued
    assert not list(job.nodes.iterdir())


def test_it_is_not_queued_again_for_ever(job: Job) -> None:
    assert job.run(RESULT="3", SLURM_RESTART_COUNT="20").returncode == 3
    assert not job.requeued


def test_preemption_ends_the_command_first(job: Job) -> None:
    script = subprocess.Popen(["bash", INFRA / "slurm.sh"], env=job.environment(TURNS="600"), stderr=subprocess.PIPE)
    wait_for(job.folder / "command", script)
    script.send_signal(signal.SIGTERM)
    _, errors = script.communicate(timeout=60)
    assert script.returncode == 130, errors
    assert job.requeued
    assert not list(job.nodes.iterdir())


def test_a_lost_machine_ends_the_command_and_queues_again(job: Job) -> None:
    done = job.run(TURNS="600", NODE_TURNS="100")
    assert done.returncode != 0
    assert (job.folder / "command").exists(), "the machines were lost before the command began"
    assert job.requeued
    assert not list(job.nodes.iterdir())


def test_a_machine_that_does_not_come_up_ends_the_job(job: Job) -> None:
    done = job.run(BROKEN_NODE="yes")
    assert done.returncode == 1
    assert "one of 2 machines did not come up" in done.stderr
    assert not job.requeued
    assert not list(job.nodes.iterdir())


def wait_for(file: Path, script: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 60
    while not file.exists():
        assert script.poll() is None, script.communicate()
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.05)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Ray's sockets stand in it, whose names may have no more than 107 letters."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    yield folder
    shutil.rmtree(folder)


def alone(*command: str | Path) -> list[str]:
    """A command with a network of its own, a loopback and nothing else: Ray's nodes listen on all addresses."""
    network = ["unshare", "--map-root-user", "--net", sys.executable, "-c", WITH_LOOPBACK]
    try:
        subprocess.run([*network, "true"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.CalledProcessError) as error:
        absent(f"no network of its own can be made here: {error}")
    return [*network, *map(str, command)]


def test_a_build_on_two_nodes(short_folder: Path, tmp_path: Path, small_source: Path) -> None:
    job, data = Job(short_folder, {"srun": SRUN, "scontrol": SCONTROL}), tmp_path / "data"
    environment = job.environment(SOURCE=str(small_source), OUT=str(data), RAY_TMPDIR=str(short_folder / "ray"))
    options = ("--only", "contrast,gaussian_noise", "--severities", "1,3", "--shard-size", "1")
    done = subprocess.run(
        alone("bash", INFRA / "slurm.sh", *options),
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not job.requeued
    assert (data / "manifest.parquet").exists()
    (run,) = (data / "runs").iterdir()
    assert json.loads(run.read_text())["workers"] == 2
    here = str(short_folder)
    left = [each for each in psutil.process_iter(["cmdline"]) if here in " ".join(each.info["cmdline"] or ())]
    psutil.wait_procs(left, timeout=30)
    assert not [process for process in left if process.is_running()]
