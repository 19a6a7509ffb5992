"""Child processes that die, hang or raise, and the end of all of them with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from pipeline.errors import UserError
from pipeline.execution import local_pool, scheduler
from pipeline.execution.local_pool import GPUS_VARIABLE, LocalEngine, LocalPool, gpu_of
from pipeline.execution.processes import WORKER_ENVIRONMENT
from pipeline.execution.scheduler import MAX_ATTEMPTS
from pipeline.execution.work import Attempt, Event, Failed, Lost, Progress
from tests.conftest import ROOT
from tests.factories.faulty_workers import (
    ALL,
    ITEMS,
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
from tests.factories.processes import is_local_worker

WORKERS = 2


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find the tests by the path, not in the current folder."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def run(folder: Path, *faults: Fault) -> PoolReport:
    pool = LocalPool(FaultPlan(faults, folder), WORKERS, FaultyWorker)
    try:
        return run_all(pool)
    finally:
        pool.close()


def children() -> list[psutil.Process]:
    """The local workers of this process."""
    return [each for each in psutil.Process().children(recursive=True) if is_local_worker(each)]


def test_all_is_done_and_no_process_is_left(tmp_path: Path) -> None:
    told = run(tmp_path)
    assert (told.done.samples, told.failed, told.lost) == (Counter(ALL), [], [])
    assert not children()


def test_images_and_samples_that_end_processes_are_found_and_left_out(tmp_path: Path) -> None:
    told = run(tmp_path, Fault("a", signal.SIGSEGV), Fault("c.right", signal.SIGSEGV))
    assert told.lost == []
    assert told.done.samples == Counter(ALL - {"a.left", "a.right", "c.right"})
    # one plain attempt, then three for each; a sample needs one more, which finds its image
    assert [event.index for event in told.failed] == [0] * (1 + 3 + 4)
    assert {event.reason for event in told.failed} == {"the worker process died: SIGSEGV"}
    assert all(event.place.startswith("process ") for event in told.failed)


@pytest.mark.parametrize(
    ("end", "reason"), [(signal.SIGKILL, "SIGKILL (the machine may be out of memory)"), (0, "exit code 0")]
)
def test_deaths_here_and_there_are_no_image_s_fault(tmp_path: Path, end: int, reason: str) -> None:
    told = run(tmp_path, *(Fault(f"{image}.left", end, once=True) for image in ITEMS[0]))
    assert (told.done.samples, told.lost) == (Counter(ALL), [])
    assert [event.reason for event in told.failed] == [f"the worker process died: {reason}"] * len(ITEMS[0])


def test_what_is_raised_is_given_up_with_its_reason(tmp_path: Path) -> None:
    told = run(tmp_path, Fault("b", None))
    (lost,) = told.lost
    assert (lost.work, lost.reason) == (ITEMS[0], "pipeline.errors.UnreachableError: no answer")
    assert len(told.failed) == MAX_ATTEMPTS - 1


def test_a_straggler_is_done_by_another_worker_and_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "STRAGGLER_MIN_S", 0.5)
    told = run(tmp_path, Fault("e", signal.SIGSTOP, once=True))
    assert (told.done.samples, told.failed, told.lost) == (Counter(ALL), [], [])
    assert not children()


def facts(gpus: int = 0) -> WorkerFacts:
    pool = LocalPool("", 1, ReportingWorker, gpus=gpus)
    events: list[Event[WorkerFacts, bytes]] = list(pool.run(iter([bytes(10**6)])))
    pool.close()
    assert isinstance(events[-1], Progress), events
    return events[-1].counts


def test_a_worker_s_process_is_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts with Ray's environment, survives a Ctrl-C, and looks for no code in the current folder."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}")  # an empty part would be the current folder
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pickle.py").write_text("raise RuntimeError('code of the current folder was run')")
    found = facts()
    assert WORKER_ENVIRONMENT.items() <= found.items()
    assert (found["OMP_NUM_THREADS"], found["length"]) == ("1", str(10**6))
    assert not {"", str(tmp_path), os.path.dirname(local_pool.__file__)} & set(found["path"].split(os.pathsep))
    assert "ray" not in found["modules"].split()


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_worker_that_cannot_be_made_says_what_to_mend() -> None:
    pool = LocalPool(True, 2, BrokenWorker)
    with pytest.raises(UserError, match="the frost textures are missing"):
        list(pool.run(iter("abcdef")))
    pool.close()


def test_a_worker_that_dies_as_it_starts_leaves_its_last_words() -> None:
    pool = LocalPool(False, 1, BrokenWorker)
    events = [event for event in pool.run(iter("a")) if not isinstance(event, Progress)]
    pool.close()
    reason = "cannot start a worker: the worker process died: SIGABRT: it crashes now"
    assert [type(event) for event in events] == [*[Failed] * (MAX_ATTEMPTS - 1), Lost]
    assert {event.reason for event in events} == {reason}


def test_other_code_is_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It would make other bytes, so nothing is made."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    pool = LocalPool(FaultPlan((), tmp_path), 1, FaultyWorker)
    with pytest.raises(UserError, match=rf"different code .*manifests from {tmp_path}.* PYTHONPATH"):
        run_all(pool)
    pool.close()


def test_a_process_that_stands_still_blocks_nothing(tmp_path: Path) -> None:
    """What it is sent is more than a pipe takes."""
    engine: LocalEngine[tuple[str, ...], Done] = LocalEngine(FaultyWorker, FaultPlan((), tmp_path))
    worker = engine.start()
    while not (signals := engine.wait(60.0)):
        pass
    assert [signal.worker for signal in signals] == [worker]
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
from pipeline.execution.local_pool import LocalPool
from tests.factories.faulty_workers import Fault, FaultyWorker, FaultPlan, run_all

print("once", flush=True)
pool = LocalPool(FaultPlan(({fault}), Path({folder!r})), 2, FaultyWorker)
print(sorted(run_all(pool).done.samples))
pool.close()
"""


def script(folder: Path, fault: str = "") -> subprocess.Popen[str]:
    """A program of a user, without ``if __name__ == "__main__"``."""
    (folder / "script.py").write_text(SCRIPT.format(folder=str(folder), fault=fault))
    return subprocess.Popen([sys.executable, str(folder / "script.py")], stdout=subprocess.PIPE, text=True)


def test_a_script_is_run_once(tmp_path: Path) -> None:
    """Workers do not import it, as those of multiprocessing would."""
    output, _ = script(tmp_path).communicate(timeout=120)
    assert output == f"once\n{sorted(ALL)}\n"


@pytest.mark.parametrize("stopped", [False, True])
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path, stopped: bool) -> None:
    """Also those that stand still, whose threads cannot see it."""
    parent = script(tmp_path, "Fault('b', 19), Fault('e', 19)" if stopped else "Fault('b', 0), Fault('e', 0)")
    limit = time.monotonic() + 120
    here = psutil.Process(parent.pid)
    wanted = {psutil.STATUS_STOPPED} if stopped else {psutil.STATUS_RUNNING, psutil.STATUS_SLEEPING}
    while len(workers := [each for each in here.children() if each.status() in wanted]) < 2:
        assert time.monotonic() < limit, "no workers"
        time.sleep(0.01)
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]
