"""The scheduler and workers that start late, fail to start, or never start."""

from collections import Counter
from collections.abc import Callable

import pytest

from pipeline.errors import UnfinishedError, UnreachableError, UserError
from pipeline.execution.base import WorkerEvent, WorkerFailed, WorkerStarted
from pipeline.execution.scheduler import MAX_ATTEMPTS, MAX_FAILED_STARTS
from pipeline.execution.work import Failed, Progress
from tests.execution.test_scheduler import ALL, ITEMS, run
from tests.factories.faulty_workers import Done


def test_work_goes_to_the_worker_that_starts_first() -> None:
    outcome = run(ITEMS, 2, start=lambda worker: [(100.0 if worker == 0 else 1.0, WorkerStarted(worker, f"{worker}"))])
    assert outcome.done == ALL
    assert {event.place for event in outcome.of(Progress) if event.finished} == {"1"}
    assert outcome.engine.now() == 1.0 + 6.0


def failing(
    error: UserError | UnreachableError | None = None, until: int = 10**9
) -> Callable[[int], list[tuple[float, WorkerEvent[Done]]]]:
    """Return a script where the start of all workers before ``until`` fails."""
    return lambda worker: [
        (1.0, WorkerFailed(worker, "no memory", error) if worker < until else WorkerStarted(worker, f"worker {worker}"))
    ]


def test_a_failed_start_counts_as_a_failure_of_the_next_item() -> None:
    outcome = run(ITEMS[:1], 1, start=failing(until=MAX_ATTEMPTS - 1))
    assert outcome.done == Counter("abc")
    assert [event.reason for event in outcome.of(Failed)] == ["cannot start a worker: no memory"] * (MAX_ATTEMPTS - 1)


def test_repeated_failed_starts_stop_the_run() -> None:
    with pytest.raises(
        UnfinishedError, match=rf"no memory \({MAX_FAILED_STARTS} times in a row\).*Write another script"
    ):
        run([(name,) for name in "abcdefgh"], 2, start=failing())


def test_user_errors_at_start_stop_the_run_earlier() -> None:
    with pytest.raises(UserError, match="the frost textures are missing"):
        run(ITEMS, 2, start=failing(UserError("the frost textures are missing")))


def test_a_store_that_does_not_answer_at_start_ends_the_run() -> None:
    with pytest.raises(UnreachableError, match="no answer"):
        run(ITEMS, 2, start=failing(UnreachableError("no answer"), until=1))


def test_workers_that_never_start_are_waited_for() -> None:
    """The cluster may still grow, so nothing is given up."""
    with pytest.raises(RuntimeError, match=r"stuck at .* no worker has a signal left"):
        run(ITEMS, 2, start=lambda worker: [])
