"""The local pool: worker processes that die, hang or raise, and their end with the parent process."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.errors import UnreachableError, UserError
from pipeline.execution import local_pool, processes, scheduler
from pipeline.execution.local_pool import GPUS_VARIABLE, LocalEngine, gpu_of, spare_process
from pipeline.execution.pools import Crew, open_pool
from pipeline.execution.processes import WORKER_ENVIRONMENT
from pipeline.execution.scheduler import MAX_ATTEMPTS
from pipeline.execution.work import Attempt, Event, Failed, Lost, Progress
from tests.conftest import ROOT
from tests.factories.faulty_workers import (
    ALL,
    ITEMS,
    UNREACHABLE,
    BrokenWorker,
    Done,
    Fault,
    FaultPlan,
    FaultyWorker,
    PoolReport,
    ReportingWorker,
    WorkerFacts,
    run_all,
)
from tests.factories.processes import check_ended, is_local_worker, wait_until

WORKERS = 2


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the tests to PYTHONPATH, because workers do not import from the current folder."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def local_pool_of(
    job: Any, worker: Callable[[Any], Any], workers: int = WORKERS, gpus: int = 0
) -> AbstractContextManager[Any]:
    return open_pool(Crew(job=job, worker=worker, outputs=1, executor="local", workers=workers, gpus=gpus))


def run(folder: Path, *faults: Fault) -> PoolReport:
    with local_pool_of(FaultPlan(faults, folder), FaultyWorker) as pool:
        return run_all(pool)


def children() -> list[psutil.Process]:
    """Return the local workers of this process."""
    return [each for each in psutil.Process().children(recursive=True) if is_local_worker(each)]


def only_child() -> psutil.Process:
    """Return the only local worker. For a moment after it was started, it has no command line."""
    wait_until(children)
    (child,) = children()
    return child


def test_all_work_is_done_and_all_processes_end(tmp_path: Path) -> None:
    report = run(tmp_path)
    assert (report.done.samples, report.failed, report.lost) == (Counter(ALL), [], [])
    assert not children()


def test_images_and_samples_that_crash_workers_are_quarantined(tmp_path: Path) -> None:
    report = run(tmp_path, Fault("a", signal.SIGSEGV), Fault("c.right", signal.SIGSEGV))
    assert report.lost == []
    assert report.done.samples == Counter(ALL - {"a.left", "a.right", "c.right"})
    # the first attempt, then three per image; a sample needs one more, which finds its image
    assert [event.index for event in report.failed] == [0] * (1 + 3 + 4)
    assert {event.reason for event in report.failed} == {"the worker process died: SIGSEGV"}
    assert all(event.place.startswith("process ") for event in report.failed)


@pytest.mark.parametrize(
    ("end", "reason"), [(signal.SIGKILL, "SIGKILL (the machine may be out of memory)"), (0, "exit code 0")]
)
def test_unrelated_deaths_quarantine_no_image(tmp_path: Path, end: int, reason: str) -> None:
    report = run(tmp_path, *(Fault(f"{image}.left", end, once=True) for image in ITEMS[0]))
    assert (report.done.samples, report.lost) == (Counter(ALL), [])
    assert [event.reason for event in report.failed] == [f"the worker process died: {reason}"] * len(ITEMS[0])


def test_a_death_counts_as_out_of_memory_if_the_kernel_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has killed one process of this machine while two of the run were killed."""
    (counters := tmp_path / "vmstat").write_text("pgfault 5\noom_kill 7\n")
    monkeypatch.setattr(processes, "KERNEL_COUNTERS", counters)
    faults = Fault("a.left", signal.SIGKILL, once=True), Fault("c.left", signal.SIGKILL, once=True)
    with local_pool_of(FaultPlan(faults, tmp_path), FaultyWorker) as pool:
        counters.write_text("pgfault 6\noom_kill 8\n")
        report = run_all(pool)
    assert (report.done.samples, report.lost) == (Counter(ALL), [])
    assert sorted(event.reason for event in report.failed) == [
        "the worker process died: SIGKILL (the machine may be out of memory)",
        "the worker process died: out of memory; going on with 1 worker",
    ]


def test_the_kernel_kills_workers_rather_than_the_command(tmp_path: Path) -> None:
    def scores() -> set[str]:
        return {Path(f"/proc/{child.pid}/oom_score_adj").read_text() for child in children()}

    with local_pool_of(FaultPlan((), tmp_path), FaultyWorker) as pool:
        run_all(pool)
        wait_until(lambda: scores() == {"1000\n"})  # a worker without work may still be starting
    assert Path("/proc/self/oom_score_adj").read_text() != "1000\n"


def test_work_that_raises_is_given_up_with_the_reason(tmp_path: Path) -> None:
    report = run(tmp_path, Fault("b", None))
    (lost,) = report.lost
    assert (lost.work, lost.reason) == (ITEMS[0], "OSError: no answer")
    assert len(report.failed) == MAX_ATTEMPTS - 1


def test_a_store_that_does_not_answer_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"^the store does not answer$"):
        run(tmp_path, Fault("b", UNREACHABLE))


def test_a_straggler_is_duplicated_and_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "STRAGGLER_MIN_S", 0.5)
    report = run(tmp_path, Fault("e", signal.SIGSTOP, once=True))
    assert (report.done.samples, report.failed, report.lost) == (Counter(ALL), [], [])
    assert not children()


def facts(gpus: int = 0) -> WorkerFacts:
    with local_pool_of("", ReportingWorker, 1, gpus) as pool:
        events: list[Event[WorkerFacts, bytes]] = list(pool.run(iter([bytes(10**6)])))
    assert isinstance(events[-1], Progress), events
    return events[-1].counts


def test_worker_processes_have_the_right_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have the environment variables of Ray workers and import nothing from the current folder."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_PROC_BIND", "true")  # would bind the first thread of each worker to one CPU
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}")  # an empty entry means the current folder
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pickle.py").write_text("raise RuntimeError('code of the current folder was run')")
    found = facts()
    assert WORKER_ENVIRONMENT.items() <= found.items()
    assert (found["OMP_NUM_THREADS"], found["OMP_PROC_BIND"], found["length"]) == ("1", "false", str(10**6))
    assert not {"", str(tmp_path), os.path.dirname(local_pool.__file__)} & set(found["path"].split(os.pathsep))
    assert "ray" not in found["modules"].split()


def test_environment_variables_of_the_user_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0")
    found = facts()
    assert (found["OMP_NUM_THREADS"], found["GLIBC_TUNABLES"]) == ("3", "glibc.malloc.check=0")


def test_each_worker_has_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GPUS_VARIABLE, raising=False)
    assert [gpu_of(slot, 2) for slot in range(3)] == ["0", "1", "0"]
    assert gpu_of(0, 0) is None
    assert facts(gpus=1)[GPUS_VARIABLE] == "0"
    monkeypatch.setenv(GPUS_VARIABLE, "4,GPU-7")
    assert [gpu_of(slot, 2) for slot in range(2)] == ["4", "GPU-7"]


def test_a_worker_that_cannot_be_created_names_the_remedy() -> None:
    with local_pool_of(True, BrokenWorker) as pool, pytest.raises(UserError, match="the frost textures are missing"):
        list(pool.run(iter("abcdef")))


def test_a_worker_that_dies_at_start_reports_its_stderr() -> None:
    with local_pool_of(False, BrokenWorker, 1) as pool:
        events = [event for event in pool.run(iter("a")) if not isinstance(event, Progress)]
    reason = "cannot start a worker: the worker process died: SIGABRT: it crashes now"
    assert [type(event) for event in events] == [*[Failed] * (MAX_ATTEMPTS - 1), Lost]
    assert {event.reason for event in events} == {reason}


def test_workers_with_different_code_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Different code could make different bytes."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    with (
        local_pool_of(FaultPlan((), tmp_path), FaultyWorker, 1) as pool,
        pytest.raises(UserError, match=rf"different code .*manifests from {tmp_path}.* PYTHONPATH"),
    ):
        run_all(pool)


def test_a_suspended_worker_blocks_no_call(tmp_path: Path) -> None:
    """The message is larger than the buffer of the pipe."""
    engine: LocalEngine[tuple[str, ...], Done] = LocalEngine(FaultyWorker, FaultPlan((), tmp_path))
    worker = engine.start()
    while not (events := engine.wait(60.0)):
        pass
    assert [event.worker for event in events] == [worker]
    (process,) = children()
    process.suspend()
    engine.give(worker, Attempt(("image",) * 10**6))
    assert engine.wait(0.0) == []
    engine.kill(worker)
    engine.close()
    assert not children()


SCRIPT = """
import sys
from pathlib import Path
from pipeline.execution.pools import Crew, open_pool
from tests.factories.faulty_workers import Fault, FaultyWorker, FaultPlan, run_all

print("once", flush=True)
crew = Crew(job=FaultPlan(({fault}), Path({folder!r})), worker=FaultyWorker, outputs=1, executor="local", workers=2)
with open_pool(crew) as pool:
    print(sorted(run_all(pool).done.samples))
"""


def script(folder: Path, fault: str = "") -> subprocess.Popen[str]:
    """Start a script of a user that has no ``if __name__ == "__main__"``."""
    (folder / "script.py").write_text(SCRIPT.format(folder=str(folder), fault=fault))
    return subprocess.Popen([sys.executable, str(folder / "script.py")], stdout=subprocess.PIPE, text=True)


def test_a_script_is_run_once(tmp_path: Path) -> None:
    """Workers do not import the script, unlike those of multiprocessing."""
    output, _ = script(tmp_path).communicate(timeout=120)
    assert output == f"once\n{sorted(ALL)}\n"


@pytest.mark.parametrize("stopped", [False, True])
def test_workers_end_when_the_parent_is_killed(tmp_path: Path, stopped: bool) -> None:
    """Suspended workers end, too, although their threads cannot notice it."""
    parent = script(tmp_path, "Fault('b', 19), Fault('e', 19)" if stopped else "Fault('b', 0), Fault('e', 0)")
    process = psutil.Process(parent.pid)
    wanted = {psutil.STATUS_STOPPED} if stopped else {psutil.STATUS_RUNNING, psutil.STATUS_SLEEPING}
    wait_until(lambda: sum(each.status() in wanted for each in process.children()) >= 2)
    workers = process.children()
    parent.kill()
    parent.communicate()
    check_ended(workers)


def test_the_first_worker_is_the_process_that_was_started_before(tmp_path: Path) -> None:
    with spare_process("tests.factories.faulty_workers", "FaultyWorker"):
        spare = only_child()
        with local_pool_of(FaultPlan((), tmp_path), FaultyWorker, workers=1) as pool:
            report = run_all(pool)
            assert children() == [spare]
    assert (report.done.samples, report.failed) == (Counter(ALL), [])
    assert not children()


@pytest.mark.parametrize("module", ["tests.factories.faulty_workers", "no_such_module"])
def test_a_process_that_was_started_before_ends_unused_and_fails_no_worker(module: str, tmp_path: Path) -> None:
    with spare_process(module, "nothing"):
        only_child()
    assert not children()
    with spare_process(module, "nothing"):
        assert run(tmp_path).done.samples == Counter(ALL)


def test_a_process_that_was_started_before_and_has_died_is_replaced(tmp_path: Path) -> None:
    with spare_process("tests.factories.faulty_workers", "FaultyWorker"):
        spare = only_child()
        spare.kill()
        psutil.wait_procs([spare], timeout=10)
        report = run(tmp_path)
    assert (report.done.samples, report.failed) == (Counter(ALL), [])
