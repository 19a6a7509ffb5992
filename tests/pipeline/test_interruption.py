"""Builds that are killed, and builds that meet: nothing is lost, nothing half-written is taken for whole."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray.cluster_utils import Cluster

from pipeline.execution.processes import WORKER_ENVIRONMENT
from tests.conftest import Run
from tests.factories.digests import data_digests
from tests.factories.processes import is_ray_worker, is_worker

SELECTION = ("--only", "noise,contrast,pixelate", "--shard-size", "1", "--workers", "2")
SHARDS = 360

RAY, LOCAL = ("--executor", "ray"), ("--executor", "local")


@pytest.fixture(scope="module")
def undisturbed(photographs: Path, tmp_path_factory: pytest.TempPathFactory, robustshards: Run) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = robustshards("build", "imagenet-c", "--source", photographs, "--out", folder, *SELECTION)
    assert done.returncode == 0, done.stderr
    return data_digests(folder)


def start(photographs: Path, folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [str(Path(sys.executable).parent / "robustshards"), "build", "imagenet-c"]
    command += ["--source", str(photographs), "--out", str(folder), *SELECTION, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(what: Callable[[], object], seconds: float = 180) -> None:
    limit = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.01)


def committed(folder: Path) -> int:
    return len(list(folder.glob("manifest/*.parquet")))


def written(folder: Path) -> dict[str, tuple[int, int]]:
    """When each committed part and its shard were written, and which files they are: one that is made again differs."""
    parts = [part.stem for part in folder.glob("manifest/*.parquet")]
    places = [f"manifest/{name}.parquet" for name in parts]
    places += [f"shards/{'/'.join(name.rsplit('-', 2)[:2])}/{name}.tar" for name in parts]
    return {place: ((folder / place).stat().st_mtime_ns, (folder / place).stat().st_ino) for place in places}


def left_behind(family: list[psutil.Process], seconds: float = 10) -> None:
    """All processes end soon."""
    _, alive = psutil.wait_procs(family, timeout=seconds)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_killing_the_command_while_ray_starts_leaves_no_process(photographs: Path, tmp_path: Path) -> None:
    driver = start(photographs, tmp_path, *RAY)
    here, family = psutil.Process(driver.pid), list[psutil.Process]()
    wait_for(lambda: any(each.name() == "raylet" for each in here.children()))
    family = here.children(recursive=True)
    driver.kill()
    driver.communicate()
    left_behind(family)
    assert not [each for each in psutil.process_iter() if marked(each, family)]


def marked(process: psutil.Process, family: list[psutil.Process]) -> bool:
    """Whether a process was started by one of a cluster that has been killed."""
    try:
        return process.ppid() in {each.pid for each in family} and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def test_killing_a_command_that_joined_ends_its_workers_and_not_the_cluster(
    photographs: Path, tmp_path: Path, ray_address: str
) -> None:
    before = {each.pid for each in psutil.Process().children(recursive=True) if is_ray_worker(each)}
    driver = start(photographs, tmp_path, "--address", ray_address)
    wait_for(lambda: committed(tmp_path) > 5)
    children = psutil.Process().children(recursive=True)
    workers = [each for each in children if is_ray_worker(each) and each.pid not in before]
    assert workers
    driver.kill()
    driver.communicate()
    left_behind(workers)
    assert [each for each in psutil.Process().children(recursive=True) if each.name() == "raylet"]


def test_builds_that_are_ended_leave_no_process_and_lose_nothing(
    photographs: Path, tmp_path: Path, robustshards: Run, undisturbed: dict[str, str]
) -> None:
    """One data set, begun by four commands that are ended each in another way, and finished by a fifth."""
    _, ended = end_at(20, start(photographs, tmp_path, *RAY), tmp_path, killed)
    assert ended == -signal.SIGKILL
    there, before = committed(tmp_path), written(tmp_path)
    errors, ended = end_at(there + 20, start(photographs, tmp_path, *RAY), tmp_path, preempted)
    assert f" {there} already finished, {SHARDS - there} to build" in errors
    assert ended == 3
    assert "Run the same command to continue" in errors
    errors, ended = end_at(committed(tmp_path) + 5, start(photographs, tmp_path, *RAY), tmp_path, interrupted_twice)
    assert ended == 130
    assert "stopped at once" in errors
    errors, ended = end_at(committed(tmp_path) + 20, start(photographs, tmp_path, *LOCAL), tmp_path, interrupted)
    assert ended == 130
    assert "Run the same command to continue" in errors
    there = committed(tmp_path)
    driver = start(photographs, tmp_path, *LOCAL)
    wait_for(lambda: committed(tmp_path) > there + 5)
    driver.send_signal(signal.SIGSTOP)  # it would be done before a second one begins
    second = robustshards("build", "imagenet-c", "--source", photographs, "--out", tmp_path, *SELECTION)
    driver.send_signal(signal.SIGCONT)
    _, errors = driver.communicate(timeout=120)
    assert second.returncode == 2
    assert "another build is writing" in second.stderr
    assert driver.returncode == 0, errors
    assert f" {there} already finished, {SHARDS - there} to build" in errors
    assert before.items() <= written(tmp_path).items(), "what was committed was made again"
    assert data_digests(tmp_path) == undisturbed
    assert not (tmp_path / ".partial").exists()


def end_at(
    shards: int, driver: subprocess.Popen[str], folder: Path, end: Callable[[subprocess.Popen[str]], str]
) -> tuple[str, int]:
    """End a build once it has committed more than so many shards: what it wrote to standard error, and its exit code.

    All its processes end, what it has committed stays, and it has not come to the end of its work.
    """
    wait_for(lambda: committed(folder) > shards or driver.poll() is not None)
    assert driver.poll() is None, driver.communicate()
    before, family = written(folder), psutil.Process(driver.pid).children(recursive=True)
    workers = [process for process in family if is_worker(process)]
    assert workers
    if any(is_ray_worker(process) for process in workers):
        assert {process.name() for process in family} >= {"raylet", "gcs_server", "ray::RuntimeEnvAgent"}
        for name, value in WORKER_ENVIRONMENT.items():
            assert all(starts_with(process, f"{name}={value}") for process in workers)
    errors = end(driver)
    left_behind(family)
    assert "Traceback" not in errors
    assert not (folder / "manifest.parquet").exists()
    assert committed(folder) < SHARDS, "the build was to be ended half-way"
    assert before.items() <= written(folder).items()
    return errors, driver.returncode


def starts_with(process: psutil.Process, variable: str) -> bool:
    """Whether a process has had a variable from its start. glibc reads its own then, and ends each part in place."""
    content = Path(f"/proc/{process.pid}/environ").read_bytes().replace(b":", b"\0")
    return variable.encode().replace(b":", b"\0") + b"\0" in content


def killed(driver: subprocess.Popen[str]) -> str:
    driver.kill()
    return driver.communicate()[1]


def preempted(driver: subprocess.Popen[str]) -> str:
    driver.terminate()
    return driver.communicate(timeout=60)[1]


def interrupted(driver: subprocess.Popen[str]) -> str:
    driver.send_signal(signal.SIGINT)
    return driver.communicate(timeout=60)[1]


def interrupted_twice(driver: subprocess.Popen[str]) -> str:
    driver.send_signal(signal.SIGINT)
    assert driver.stderr is not None
    while "Ctrl-C again to stop at once" not in (line := driver.stderr.readline()):
        assert line, "it did not say that it has heard"
    return interrupted(driver)


@pytest.mark.parametrize("joined", [True, False])
def test_workers_that_are_killed_or_stand_still_are_made_good_in_the_same_build(
    photographs: Path, tmp_path: Path, ray_address: str, undisturbed: dict[str, str], joined: bool
) -> None:
    here = psutil.Process()  # the joined cluster is the tests' own
    before = set(here.children(recursive=True))
    driver = start(photographs, tmp_path, "--json", *(("--address", ray_address) if joined else LOCAL))

    def workers() -> list[psutil.Process]:
        found = [each for each in here.children(recursive=True) if is_worker(each) and each not in before]
        return sorted(found, key=lambda each: each.pid)

    for shards in (5, 30):
        wait_for(lambda shards=shards: committed(tmp_path) > shards and workers())  # type: ignore[misc]
        workers()[0].kill()
    wait_for(lambda: committed(tmp_path) > 60 and workers())
    stopped = workers()[0]
    stopped.suspend()
    output, errors = driver.communicate(timeout=120)
    assert driver.returncode == 0, errors
    facts = json.loads(output)
    assert (facts["samples_made"], facts["shards_made"]) == (facts["samples"], facts["shards"]) == (SHARDS, SHARDS)
    assert errors.count(" of 3), retrying: process ") == 2
    assert data_digests(tmp_path) == undisturbed
    psutil.wait_procs([stopped], timeout=60)
    assert not stopped.is_running()


def test_a_machine_that_is_lost_and_not_replaced(
    photographs: Path, tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    """What it was at is done by the workers that are left, of whom there are fewer than were asked for."""
    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
    place: dict[str, Any] = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}
    machines = Cluster(
        initialize_head=True, head_node_args={**place, "include_dashboard": False, "_system_config": quick}
    )
    try:
        second = machines.add_node(**place)
        driver = start(photographs, tmp_path, "--address", machines.address)
        wait_for(lambda: committed(tmp_path) > 5)
        machines.remove_node(second, allow_graceful=False)
        _, errors = driver.communicate(timeout=200)
        assert driver.returncode == 0, errors
    finally:
        machines.shutdown()
    assert data_digests(tmp_path) == undisturbed
