"""The scheduler and workers that start late, fail to start, never start, or do not fit into the memory."""

from collections import Counter
from collections.abc import Callable

import pytest

from pipeline.errors import UnfinishedError, UnreachableError, UserError
from pipeline.execution.base import WorkerDied, WorkerEvent, WorkerFailed, WorkerStarted
from pipeline.execution.scheduler import MAX_ATTEMPTS, MAX_FAILED_STARTS
from pipeline.execution.work import Attempt, Failed, Lost, Progress
from tests.execution.test_scheduler import ALL, ITEMS, Item, Script, process, run
from tests.factories.faulty_workers import Done


def test_work_goes_to_the_worker_that_starts_first() -> None:
    outcome = run(ITEMS, 2, start=lambda worker: [(100.0 if worker == 0 else 1.0, WorkerStarted(worker, f"{worker}"))])
    assert outcome.done == ALL
    assert {event.place for event in outcome.of(Progress) if event.finished} == {"1"}
    assert outcome.engine.now() == 1.0 + 6.0


def failing(
    error: UserError | UnreachableError | None = None, until: int = 10**9, out_of_memory: bool = False
) -> Callable[[int], list[tuple[float, WorkerEvent[Done]]]]:
    """Return a script where the start of all workers before ``until`` fails."""

    def start(worker: int) -> list[tuple[float, WorkerEvent[Done]]]:
        failed = WorkerFailed(worker, "no memory", error, out_of_memory)
        return [(1.0, failed if worker < until else WorkerStarted(worker, f"worker {worker}"))]

    return start


def test_a_failed_start_counts_as_a_failure_of_the_next_item() -> None:
    outcome = run(ITEMS[:1], 1, start=failing(until=MAX_ATTEMPTS - 1))
    assert outcome.done == Counter("abc")
    assert [event.reason for event in outcome.of(Failed)] == ["cannot start a worker: no memory"] * (MAX_ATTEMPTS - 1)


@pytest.mark.parametrize(("out_of_memory", "remedy"), [(False, "Write another script"), (True, "Free some memory")])
def test_repeated_failed_starts_stop_the_run(out_of_memory: bool, remedy: str) -> None:
    with pytest.raises(UnfinishedError, match=rf"no memory \({MAX_FAILED_STARTS} times in a row\).*kept\. {remedy}"):
        run([(name,) for name in "abcdefgh"], 2, start=failing(out_of_memory=out_of_memory))


def test_a_start_that_needs_too_much_memory_counts_for_no_item() -> None:
    outcome = run(ITEMS, 3, start=failing(until=2, out_of_memory=True))
    assert (outcome.done, outcome.scheduler.workers) == (ALL, 1)
    assert [(event.attempt, event.reason.rpartition(": ")[2]) for event in outcome.of(Failed)] == [
        (1, "no memory; going on with 2 workers"),
        (1, "no memory; going on with 1 worker"),
    ]


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


def test_a_run_that_needs_too_much_memory_goes_on_with_fewer_workers() -> None:
    """Of four workers, two fit. The deaths count for no work item, and no image is quarantined."""
    items = [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")]

    def attempt_of(worker: int, attempt: Attempt[Item]) -> Script:
        assert not attempt.report_items
        if worker < 2:
            return iter([(0.5, WorkerDied(worker, "out of memory", out_of_memory=True))])
        return process(worker, attempt)

    outcome = run(items, 4, attempt_of)
    assert outcome.done == Counter("abcdefgh")
    assert outcome.scheduler.workers == 2
    assert [(event.attempt, event.reason) for event in outcome.of(Failed)] == [
        (1, "out of memory; going on with 3 workers"),
        (1, "out of memory; going on with 2 workers"),
    ]


def test_an_item_that_needs_too_much_memory_for_one_worker_is_given_up() -> None:
    outcome = run([("a",)], 1, lambda worker, _: iter([(1.0, WorkerDied(worker, "out of memory", out_of_memory=True))]))
    assert [event.reason for event in outcome.of(Lost)] == ["out of memory"]
    assert len(outcome.of(Failed)) == MAX_ATTEMPTS - 1
