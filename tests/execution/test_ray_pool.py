"""Ray actors that die, hang or raise: what is left out, what is given up; and the start of a local cluster."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest

from pipeline.errors import UnfinishedError
from pipeline.execution import ray_cluster, scheduler
from pipeline.execution.ray_cluster import can_store_token, cluster
from pipeline.execution.ray_pool import RayPool
from pipeline.execution.scheduler import MAX_ATTEMPTS
from tests.factories.faulty_workers import ALL, ITEMS, Fault, FaultPlan, FaultyWorker, PoolReport, run_all
from tests.factories.processes import is_ray_worker

WORKERS = 2
JOINED = ExitStack()


def join(address: str) -> None:
    """Join the cluster for as long as this process runs."""
    JOINED.enter_context(cluster(WORKERS, address))


@pytest.fixture(scope="module")
def driver(ray_address: str) -> Iterator[ProcessPoolExecutor]:
    """A process of its own for the pools: to leave a cluster would disturb the one that this process has started."""
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=join, initargs=(ray_address,)) as process:
        yield process


def run(folder: Path, faults: tuple[Fault, ...]) -> PoolReport:
    scheduler.STRAGGLER_MIN_S = 0.5
    pool = RayPool(FaultPlan(faults, folder), WORKERS, FaultyWorker, labels={})
    told = run_all(pool)
    pool.close()
    return told


def test_images_and_samples_that_end_processes_are_found_and_left_out(
    driver: ProcessPoolExecutor, tmp_path: Path
) -> None:
    deadly = ("a", "c.right")
    told = driver.submit(run, tmp_path, tuple(Fault(at, signal.SIGSEGV) for at in deadly)).result()
    assert told.lost == []
    assert told.done.samples == Counter(ALL - {"a.left", "a.right", *deadly})
    # one plain attempt, then three for each; a sample needs one more, which finds its image
    assert [event.index for event in told.failed] == [0] * (1 + 3 + 4)
    assert all("process " in event.place and "worker process died" in event.reason for event in told.failed)


def test_deaths_here_and_there_are_no_image_s_fault(driver: ProcessPoolExecutor, tmp_path: Path) -> None:
    faults = tuple(Fault(f"{image}.left", signal.SIGKILL, once=True) for image in ITEMS[0])
    told = driver.submit(run, tmp_path, faults).result()
    assert told.lost == []
    assert told.done.samples == Counter(ALL)
    assert len(told.failed) == len(ITEMS[0])


@pytest.mark.parametrize("fault", [Fault("b", None), Fault("end", signal.SIGKILL)])
def test_what_no_image_is_to_blame_for_is_given_up(driver: ProcessPoolExecutor, tmp_path: Path, fault: Fault) -> None:
    """An error that is raised (a full disk, say) would be raised at any other image as well."""
    told = driver.submit(run, tmp_path, (fault,)).result()
    given_up = ITEMS if fault.at == "end" else ITEMS[:1]
    assert sorted(lost.work for lost in told.lost) == sorted(given_up)
    assert len(told.failed) == (MAX_ATTEMPTS - 1) * len(given_up)
    assert told.done.samples == Counter(sample for sample in ALL if fault.at == "b" and sample[0] in "def")
    assert all(("no answer" in lost.reason) == (fault.signal is None) for lost in told.lost)


def test_a_straggler_is_done_by_another_worker(driver: ProcessPoolExecutor, tmp_path: Path) -> None:
    told = driver.submit(run, tmp_path, (Fault("e", signal.SIGSTOP, once=True),)).result()
    assert (told.lost, told.failed) == ([], [])
    assert told.done.samples == Counter(ALL)
    # the one that stood still is killed too
    others = [each for each in psutil.Process().children(recursive=True) if is_ray_worker(each)]
    psutil.wait_procs(others, timeout=60)
    assert not [each for each in others if each.is_running()]


def test_a_local_cluster_that_does_not_come_up_is_unfinished_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray raises a plain Exception where its processes have no room, or the machine is overloaded."""

    def fail(*_: object) -> int:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray_cluster, "_start", fail)
    with pytest.raises(
        UnfinishedError, match=r"timed out during startup\. It needs room .* run the same command again"
    ):
        cluster(1, None).__enter__()


def test_sigterm_while_ray_starts_ends_the_command_as_at_any_other_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray has a handler of its own then, which exits with the number of the signal."""

    def fail(*_: object) -> int:
        raise SystemExit(signal.SIGTERM)

    def ours(signum: int, frame: object) -> None:
        raise KeyboardInterrupt(signum)

    monkeypatch.setattr(ray_cluster, "_start", fail)
    before = signal.signal(signal.SIGTERM, ours)
    try:
        with pytest.raises(KeyboardInterrupt, match=str(int(signal.SIGTERM))):
            cluster(1, None).__enter__()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_home_that_is_no_whole_path_keeps_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be one below the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert can_store_token()
    monkeypatch.setenv("HOME", "home")
    assert not can_store_token()
