"""The Ray pool: actors that die, hang or raise; and errors at the start of a local cluster."""

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from threading import get_ident
from types import SimpleNamespace

import psutil
import pytest

from pipeline.errors import UnfinishedError, UnreachableError
from pipeline.execution import processes, ray_cluster, ray_pool, scheduler
from pipeline.execution.ray_cluster import can_store_token, cluster, early_cluster
from pipeline.execution.ray_pool import RayEngine, RayPool
from pipeline.execution.scheduler import MAX_ATTEMPTS
from tests.factories.faulty_workers import (
    ALL,
    ITEMS,
    UNREACHABLE,
    Done,
    Fault,
    FaultPlan,
    FaultyWorker,
    PoolReport,
    run_all,
)
from tests.factories.processes import is_ray_worker

pytestmark = pytest.mark.large

WORKERS = 2
JOINED = ExitStack()


def join(address: str) -> None:
    """Join the cluster until this process ends."""
    JOINED.enter_context(cluster(WORKERS, address))


@pytest.fixture(scope="module")
def driver(ray_address: str) -> Iterator[ProcessPoolExecutor]:
    """Return a separate process for the pools, because this process is connected to its own cluster."""
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=join, initargs=(ray_address,)) as process:
        yield process


def run(folder: Path, faults: tuple[Fault, ...]) -> PoolReport:
    scheduler.STRAGGLER_MIN_S = 0.5
    pool = RayPool(RayEngine(FaultyWorker, FaultPlan(faults, folder)), WORKERS, {})
    report = run_all(pool)
    pool.close()
    return report


def test_images_and_samples_that_crash_workers_are_quarantined(driver: ProcessPoolExecutor, tmp_path: Path) -> None:
    deadly = ("a", "c.right")
    report = driver.submit(run, tmp_path, tuple(Fault(at, signal.SIGSEGV) for at in deadly)).result()
    assert report.lost == []
    assert report.done.samples == Counter(ALL - {"a.left", "a.right", *deadly})
    # the first attempt, then three per image; a sample needs one more, which finds its image
    assert [event.index for event in report.failed] == [0] * (1 + 3 + 4)
    assert all("process " in event.place and "worker process has died" in event.reason for event in report.failed)


@pytest.mark.parametrize("fault", [Fault("b", None), Fault("end", signal.SIGKILL)])
def test_work_that_fails_without_a_suspect_is_given_up(
    driver: ProcessPoolExecutor, tmp_path: Path, fault: Fault
) -> None:
    """An exception, for example of a full disk, does not blame an image."""
    report = driver.submit(run, tmp_path, (fault,)).result()
    given_up = ITEMS if fault.at == "end" else ITEMS[:1]
    assert sorted(lost.work for lost in report.lost) == sorted(given_up)
    assert len(report.failed) == (MAX_ATTEMPTS - 1) * len(given_up)
    assert report.done.samples == Counter(sample for sample in ALL if fault.at == "b" and sample[0] in "def")
    assert all(("no answer" in lost.reason) == (fault.signal is None) for lost in report.lost)


def run_beside_a_kill(folder: Path) -> PoolReport:
    """Run work while two workers are killed, of which the kernel says that it has killed one."""
    processes.KERNEL_COUNTERS = folder / "vmstat"
    processes.KERNEL_COUNTERS.write_text("oom_kill 7\n")
    faults = Fault("a.left", signal.SIGKILL, once=True), Fault("c.left", signal.SIGKILL, once=True)
    engine = RayEngine[tuple[str, ...], Done](FaultyWorker, FaultPlan(faults, folder))
    processes.KERNEL_COUNTERS.write_text("oom_kill 8\n")
    pool = RayPool(engine, WORKERS, {})
    report = run_all(pool)
    pool.close()
    return report


def test_a_death_counts_as_out_of_memory_if_the_kernel_says_so(driver: ProcessPoolExecutor, tmp_path: Path) -> None:
    report = driver.submit(run_beside_a_kill, tmp_path).result()
    assert (report.done.samples, report.lost) == (Counter(ALL), [])
    first, second = (event.reason for event in report.failed)
    assert first == "the worker process died: out of memory; going on with 1 worker"
    assert "worker process has died" in second


def test_a_run_on_a_machine_with_little_memory_left_ends_with_the_reason(tmp_path: Path) -> None:
    """Ray kills all workers of this machine, which are suspended, because its limit is below the memory in use."""
    program = """
import sys
from pathlib import Path
from pipeline.execution import ray_cluster
from pipeline.execution.ray_pool import RayEngine, RayPool
from tests.factories.faulty_workers import ITEMS, Fault, FaultPlan, FaultyWorker, run_all
ray_cluster._SYSTEM_CONFIG = {}
with ray_cluster.cluster(2, None) as workers:
    faults = tuple(Fault(images[0], 19) for images in ITEMS)
    pool = RayPool(RayEngine(FaultyWorker, FaultPlan(faults, Path(sys.argv[1]))), workers, {})
    reasons = {lost.reason.removeprefix("cannot start a worker: ") for lost in run_all(pool).lost}
    print(*reasons, pool.workers, sep=" | ")
"""
    environment = {**os.environ, "RAY_memory_usage_threshold": "0.001"}
    command = [sys.executable, "-c", program, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=100)
    reason = "the worker process died: out of memory (Ray kills workers before a machine has no memory left)"
    assert f"{reason} | 1" in ran.stderr.splitlines()


def test_a_store_that_does_not_answer_ends_the_run(driver: ProcessPoolExecutor, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="the store does not answer"):
        driver.submit(run, tmp_path, (Fault("b", UNREACHABLE),)).result()


def test_a_straggler_is_duplicated_and_killed(driver: ProcessPoolExecutor, tmp_path: Path) -> None:
    report = driver.submit(run, tmp_path, (Fault("e", signal.SIGSTOP, once=True),)).result()
    assert (report.lost, report.failed) == ([], [])
    assert report.done.samples == Counter(ALL)
    # the suspended worker is killed, too
    others = [each for each in psutil.Process().children(recursive=True) if is_ray_worker(each)]
    psutil.wait_procs(others, timeout=60)
    assert not [each for each in others if each.is_running()]


def test_a_local_cluster_that_does_not_start_is_unfinished_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray raises a plain Exception if its processes do not start."""

    def fail(*_: object) -> int:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray_cluster, "_start", fail)
    with pytest.raises(UnfinishedError, match=r"timed out during startup\. .* run the same command again"):
        cluster(1, None).__enter__()


def test_a_cluster_started_early_is_used_once_and_left_in_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's processes end with the thread that has started them."""
    threads: list[int] = []

    def start(_: object, workers: int, stack: ExitStack) -> int:
        threads.append(get_ident())
        stack.callback(lambda: threads.append(get_ident()))
        return workers

    monkeypatch.setattr(ray_cluster, "_start", start)
    prepared: list[int] = []
    with early_cluster(3, prepared.append):
        with cluster(3, None) as workers:
            assert workers == 3
        assert len(threads) == 2
    assert len(threads) == 2
    with early_cluster(4, prepared.append):
        pass
    assert len(threads) == 4
    assert prepared == [3, 4]
    assert threads[::2] == threads[1::2]
    assert get_ident() not in threads


def test_a_local_cluster_has_no_processes_that_jobs_do_not_need() -> None:
    started = """
import psutil
from pipeline.execution.ray_cluster import IDLE_AGENT, cluster
with cluster(1, None):
    children = psutil.Process().children(recursive=True)
    print(*(" ".join(child.cmdline()) for child in children), sep="\\n")
    idle = [child for child in children if child.cmdline()[-1] == IDLE_AGENT]
    psutil.Process(idle[0].ppid()).kill()
    print(len(idle), "idle,", len(psutil.wait_procs(idle, timeout=10)[1]), "remain")
"""
    # Without an agent, Ray cannot make the runtime environment that this variable asks for, so it must not try.
    environment = {**os.environ, "RAY_RUNTIME_ENV_HOOK": "none.such"}
    ran = subprocess.run([sys.executable, "-c", started], capture_output=True, text=True, check=True, env=environment)
    lines = ran.stderr
    assert "raylet" in lines
    assert "2 idle, 0 remain" in lines
    unneeded = ("dashboard.py", "log_monitor.py", "monitor.py", "dashboard/agent.py", "runtime_env/agent/main.py")
    assert not [name for name in unneeded if name in lines]


def test_workers_of_a_local_cluster_have_the_priority_of_the_command() -> None:
    """At Ray's own priority, they hardly run while other programs use all CPUs."""
    program = """
import os
import ray
from pipeline.execution.ray_cluster import cluster
with cluster(1, None):
    print(os.nice(0), ray.get(ray.remote(lambda: os.nice(0)).remote()))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    own, of_worker = ran.stderr.splitlines()[-1].split()
    assert own == of_worker


def test_ray_prints_nothing_about_a_worker_that_died(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from pipeline.execution.ray_cluster import cluster
from pipeline.execution.ray_pool import RayEngine, RayPool
from tests.factories.faulty_workers import Fault, FaultPlan, FaultyWorker, run_all
with cluster(1, None):
    engine = RayEngine(FaultyWorker, FaultPlan((Fault("b", 9, once=True),), Path(sys.argv[1])))
    print(len(run_all(RayPool(engine, 1, {})).failed))
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert (ran.stdout, ran.stderr) == ("", "1\n")


@pytest.mark.parametrize("function", ["test_nothing", "run_all"])
def test_actors_started_early_are_used_even_if_they_cannot_load(tmp_path: Path, function: str) -> None:
    """The only CPU is taken by an early actor, so a second actor would not start."""
    program = """
import sys
from pathlib import Path
from pipeline.execution.ray_cluster import cluster
from pipeline.execution.ray_pool import RayEngine, RayPool, early_actors
from tests.factories.faulty_workers import FaultPlan, FaultyWorker, run_all
with early_actors(1, "tests.factories.faulty_workers", sys.argv[2]), cluster(1, None) as workers:
    engine = RayEngine(FaultyWorker, FaultPlan((), Path(sys.argv[1])))
    print(*sorted(run_all(RayPool(engine, workers, {})).done.samples))
"""
    command = [sys.executable, "-c", program, str(tmp_path), function]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert ran.stderr.splitlines()[-1] == " ".join(sorted(ALL))


def test_early_actors_end_if_the_work_needs_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no GPU, and would keep their CPUs from the actors that have one."""
    ended: list[str] = []
    ray = SimpleNamespace(put=list, cloudpickle=pickle, remote=lambda **_: str, kill=ended.append)
    monkeypatch.setattr(ray_pool, "import_ray", lambda: ray)
    for needs, expected in (({"num_cpus": 1, "num_gpus": 0}, []), ({"num_gpus": 1}, ["b", "a"])):
        monkeypatch.setattr(ray_pool, "_SPARE", ["a", "b"])
        RayEngine(FaultyWorker, None, needs)
        assert ended == expected


def test_no_token_is_stored_in_a_relative_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative home folder would be below the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert can_store_token()
    monkeypatch.setenv("HOME", "home")
    assert not can_store_token()
