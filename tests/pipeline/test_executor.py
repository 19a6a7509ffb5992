"""The pool with workers that die, stand still or raise: what is left out, what is given up, and what is counted."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest

from pipeline.errors import UnfinishedError, UnreachableError
from pipeline.execution import ray_pool as executor
from pipeline.execution.ray_cluster import WORKER_ENVIRONMENT, _keeps_tokens, cluster
from pipeline.execution.ray_pool import Pool
from pipeline.execution.work import (
    MAX_ATTEMPTS,
    MAX_FAILURES,
    At,
    Attempt,
    Failed,
    Lost,
    Measure,
    Piece,
    Progress,
    Tally,
)
from tests.conftest import ROOT
from tests.pipeline.test_interruption import is_worker

PARTS = ("left", "right")


@dataclass
class Done:
    """The parts of items that were done."""

    parts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Done) -> None:
        self.parts.update(other.parts)

    def measures(self) -> Iterator[Measure]:
        yield from ()


@dataclass(frozen=True)
class Fate:
    """What happens at an item, a part, or the ``end``: a signal in every attempt, or where ``once`` in the first."""

    at: str
    signal: signal.Signals | None
    once: bool = False


@dataclass(frozen=True)
class Trouble:
    """All that happens, and a folder to remember it in."""

    fates: tuple[Fate, ...]
    folder: Path


class Frail:
    """Does each part of each item, unless its process ends before."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def run(self, attempt: Attempt[tuple[str, ...]]) -> Iterator[Done | At]:
        done = Done()
        for item in attempt.work:
            if item in attempt.condemned:
                continue
            if attempt.careful:
                yield At(item)
            self._meet(item)
            for part in (f"{item}.{name}" for name in PARTS):
                if part in attempt.condemned:
                    continue
                if item in attempt.suspects:
                    yield At(part)
                self._meet(part)
                done.parts[part] += 1
            yield done
        if attempt.careful:
            yield At(None)
        self._meet("end")
        yield done

    def _meet(self, what: str) -> None:
        for fate in self._trouble.fates:
            memory = self._trouble.folder / f"{fate.at} {fate.signal}"
            if fate.at == what and not (fate.once and memory.exists()):
                memory.touch()
                if fate.signal is None:
                    raise UnreachableError("no answer")
                os.kill(os.getpid(), fate.signal)


@dataclass
class Told:
    """What a pool said."""

    done: Done
    failed: list[Failed[tuple[str, ...]]]
    lost: list[Lost[tuple[str, ...]]]


PIECES = (("a", "b", "c"), ("d", "e", "f"))
ALL = {f"{item}.{part}" for piece in PIECES for item in piece for part in PARTS}


WORKERS = 2
JOINED = ExitStack()


def start_cluster() -> None:
    """A cluster that ends with this process, whose workers find the tests."""
    os.environ["PYTHONPATH"] = str(ROOT)
    JOINED.enter_context(cluster(WORKERS, None))


@pytest.fixture(scope="module")
def driver() -> Iterator[ProcessPoolExecutor]:
    """A process of its own for the pools: to leave a cluster would disturb the one that this process has started."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=start_cluster) as process:
        yield process


def run(folder: Path, fates: tuple[Fate, ...]) -> Told:
    executor.STRAGGLER_S = 0.5
    tally, told = Tally(Done), Told(Done(), [], [])
    pool = Pool(Trouble(fates, folder), WORKERS, Frail, {})
    for event in pool.run(iter(PIECES)):
        tally.take(event)
        if isinstance(event, Failed):
            told.failed.append(event)
        elif isinstance(event, Lost):
            told.lost.append(event)
    told.done = tally.total()
    return told


def environment_of_a_worker() -> dict[str, str]:
    import ray

    answer: dict[str, str] = ray.get(ray.remote(lambda: dict(os.environ)).remote())
    return answer


def test_workers_of_a_local_cluster_start_with_their_environment(driver: ProcessPoolExecutor) -> None:
    """glibc reads it when a process starts, so that it cannot be set later."""
    found = driver.submit(environment_of_a_worker).result()
    assert WORKER_ENVIRONMENT.items() <= found.items()


def test_items_and_parts_that_end_processes_are_found_and_left_out(driver: ProcessPoolExecutor, tmp_path: Path) -> None:
    deadly = ("a", "c.right")
    told = driver.submit(run, tmp_path, tuple(Fate(at, signal.SIGSEGV) for at in deadly)).result()
    assert told.lost == []
    assert told.done.parts == Counter(ALL - {"a.left", "a.right", *deadly})
    # one plain attempt, then three for each; a part needs one more, which finds its item
    assert [event.piece for event in told.failed] == [0] * (1 + 3 + 4)
    assert all("process " in event.place and "its worker process has died" in event.reason for event in told.failed)


def test_deaths_here_and_there_are_no_item_s_fault(driver: ProcessPoolExecutor, tmp_path: Path) -> None:
    fates = tuple(Fate(f"{item}.left", signal.SIGKILL, once=True) for item in PIECES[0])
    told = driver.submit(run, tmp_path, fates).result()
    assert told.lost == []
    assert told.done.parts == Counter(ALL)
    assert len(told.failed) == len(PIECES[0])


@pytest.mark.parametrize("fate", [Fate("b", None), Fate("end", signal.SIGKILL)])
def test_what_no_item_is_to_blame_for_is_given_up(driver: ProcessPoolExecutor, tmp_path: Path, fate: Fate) -> None:
    """An error that is raised (a full disk, say) would be raised at any other item as well."""
    told = driver.submit(run, tmp_path, (fate,)).result()
    given_up = PIECES if fate.at == "end" else PIECES[:1]
    assert sorted(lost.work for lost in told.lost) == sorted(given_up)
    assert len(told.failed) == (MAX_ATTEMPTS - 1) * len(given_up)
    assert told.done.parts == Counter(part for part in ALL if fate.at == "b" and part[0] in "def")
    assert all(("no answer" in lost.reason) == (fate.signal is None) for lost in told.lost)


def test_what_stands_still_is_done_by_another(driver: ProcessPoolExecutor, tmp_path: Path) -> None:
    told = driver.submit(run, tmp_path, (Fate("e", signal.SIGSTOP, once=True),)).result()
    assert (told.lost, told.failed) == ([], [])
    assert told.done.parts == Counter(ALL)
    # the one that stood still is killed too
    others = [each for each in psutil.Process().children(recursive=True) if is_worker(each)]
    psutil.wait_procs(others, timeout=60)
    assert not [each for each in others if each.is_running()]


def test_a_local_cluster_that_does_not_come_up_is_unfinished_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray raises a plain Exception where its processes have no room, or the machine is overloaded."""

    def fail(*_: object) -> int:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(executor, "_start", fail)
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

    monkeypatch.setattr(executor, "_start", fail)
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
    assert _keeps_tokens()
    monkeypatch.setenv("HOME", "home")
    assert not _keeps_tokens()


def test_a_piece_is_given_up_in_the_end() -> None:
    """Even where every death has an item to blame: a machine is broken, not so many items."""
    piece = Piece(0, "work")
    assert piece.attempt() == Attempt("work")
    for death in range(MAX_FAILURES):
        assert not piece.given_up
        piece.failed(f"item {death // MAX_ATTEMPTS}")
    assert piece.given_up
    attempt = piece.attempt()
    assert attempt.condemned == {f"item {index}" for index in range(33)}
    assert attempt.suspects - attempt.condemned == {"item 33"}


def test_a_tally_goes_down_with_an_attempt_and_is_exact_in_the_end() -> None:
    tally = Tally(Done)
    for event, total in (
        (Progress(0, "a", Done(Counter(a=1))), 1),
        (Progress(1, "b", Done(Counter(b=5))), 6),
        (Progress(0, "a", Done(Counter(a=3))), 8),
        (Failed(0, "a", 1, "it died"), 5),
        (Progress(1, "b", Done(Counter(b=6)), finished=True), 6),
        (Progress(0, "a", Done(Counter(a=2))), 8),
        (Lost(0, "work", "it died"), 6),
    ):
        tally.take(event)
        assert tally.total().parts.total() == total
