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


def wait_for(what: Callable[[], object], seconds: float = 60) -> None:
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


def workers_of(driver: subprocess.Popen[str]) -> list[psutil.Process]:
    return [process for process in psutil.Process(driver.pid).children(recursive=True) if is_worker(process)]


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


def test_killing_the_driver_loses_nothing(
    photographs: Path, tmp_path: Path, robustshards: Run, undisturbed: dict[str, str]
) -> None:
    driver = start(photographs, tmp_path, *RAY)
    wait_for(lambda: committed(tmp_path) > 20)
    family = psutil.Process(driver.pid).children(recursive=True)
    assert {process.name() for process in family} >= {"raylet", "gcs_server", "ray::RuntimeEnvAgent"}
    driver.kill()
    driver.communicate()
    assert not (tmp_path / "manifest.parquet").exists()
    left_behind(family)
    there, before = committed(tmp_path), written(tmp_path)
    assert 20 < there < SHARDS, "the build was to be killed half-way"
    done = robustshards("build", "imagenet-c", "--source", photographs, "--out", tmp_path, *SELECTION)
    assert done.returncode == 0, done.stderr
    assert f" {there} already there, {SHARDS - there} to make" in done.stderr
    assert before.items() <= written(tmp_path).items(), "what was committed was made again"
    assert data_digests(tmp_path) == undisturbed
    assert not (tmp_path / ".partial").exists()


@pytest.mark.parametrize("engine", [RAY, LOCAL])
def test_killing_workers_is_made_good_in_the_same_build(
    photographs: Path, tmp_path: Path, undisturbed: dict[str, str], engine: tuple[str, str]
) -> None:
    driver = start(photographs, tmp_path, "--json", *engine)
    for shards in (5, 30):
        wait_for(lambda shards=shards: committed(tmp_path) > shards and workers_of(driver))  # type: ignore[misc]
        workers_of(driver)[0].kill()
    output, errors = driver.communicate(timeout=120)
    assert driver.returncode == 0, errors
    facts = json.loads(output)
    assert (facts["samples_made"], facts["shards_made"]) == (facts["samples"], facts["shards"]) == (SHARDS, SHARDS)
    assert errors.count("has failed; it is tried again: process ") == 2
    assert data_digests(tmp_path) == undisturbed


@pytest.mark.parametrize("joined", [False, True])
def test_a_worker_that_stands_still_is_not_waited_for(
    photographs: Path, tmp_path: Path, ray_address: str, undisturbed: dict[str, str], joined: bool
) -> None:
    driver = start(photographs, tmp_path, "--json", *(("--address", ray_address) if joined else LOCAL))
    wait_for(lambda: committed(tmp_path) > 5)
    here = psutil.Process(None if joined else driver.pid)  # the joined cluster is the tests' own
    stopped = next(process for process in here.children(recursive=True) if is_worker(process))
    stopped.suspend()
    output, errors = driver.communicate(timeout=120)
    assert driver.returncode == 0, errors
    facts = json.loads(output)
    assert (facts["samples_made"], facts["shards_made"]) == (SHARDS, SHARDS)
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


@pytest.mark.parametrize(("sent", "code", "engine"), [(signal.SIGINT, 130, LOCAL), (signal.SIGTERM, 3, RAY)])
def test_ctrl_c_and_preemption_say_what_to_do_and_leave_no_process(
    photographs: Path,
    tmp_path: Path,
    robustshards: Run,
    undisturbed: dict[str, str],
    sent: signal.Signals,
    code: int,
    engine: tuple[str, str],
) -> None:
    driver = start(photographs, tmp_path, *engine)
    wait_for(lambda: committed(tmp_path) > 20)
    family = psutil.Process(driver.pid).children(recursive=True)
    driver.send_signal(sent)
    _, errors = driver.communicate(timeout=60)
    assert driver.returncode == code
    assert "run the same command again" in errors
    assert "Traceback" not in errors
    psutil.wait_procs(family, timeout=60)
    assert not [process for process in family if process.is_running()]
    done = robustshards("build", "imagenet-c", "--source", photographs, "--out", tmp_path, *SELECTION)
    assert done.returncode == 0, done.stderr
    assert data_digests(tmp_path) == undisturbed


def test_a_second_ctrl_c_ends_at_once_and_leaves_no_process(photographs: Path, tmp_path: Path) -> None:
    driver = start(photographs, tmp_path, *RAY)
    wait_for(lambda: committed(tmp_path) > 5)
    family = psutil.Process(driver.pid).children(recursive=True)
    driver.send_signal(signal.SIGINT)
    assert driver.stderr is not None
    while "Ctrl-C again ends at once" not in (line := driver.stderr.readline()):
        assert line, "it did not say that it has heard"
    driver.send_signal(signal.SIGINT)
    _, errors = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "ended at once" in errors
    assert "Traceback" not in errors
    psutil.wait_procs(family, timeout=60)
    assert not [process for process in family if process.is_running()]
    assert not (tmp_path / "manifest.parquet").exists()


def test_a_second_build_into_the_same_folder_is_refused(photographs: Path, tmp_path: Path, robustshards: Run) -> None:
    driver = start(photographs, tmp_path, *LOCAL)
    wait_for(lambda: committed(tmp_path) > 5)
    driver.send_signal(signal.SIGSTOP)  # it would be done before the second one begins
    done = robustshards("build", "imagenet-c", "--source", photographs, "--out", tmp_path, *SELECTION)
    driver.send_signal(signal.SIGCONT)
    _, errors = driver.communicate(timeout=120)
    assert done.returncode == 2
    assert "another build is writing" in done.stderr
    assert driver.returncode == 0, errors
