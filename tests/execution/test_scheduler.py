"""The scheduler on simulated workers: retries, quarantine, stragglers, lost workers and failed starts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import pytest

from bench.simulated_engine import SimulatedEngine
from pipeline.execution.base import (
    AttemptFinished,
    WorkerDied,
    WorkerEvent,
    WorkerFailed,
    WorkerReported,
    WorkerStarted,
)
from pipeline.execution.scheduler import (
    FINISH_S,
    MAX_ATTEMPTS,
    MAX_FAILURES,
    STRAGGLER_FACTOR,
    STRAGGLER_MIN_S,
    Scheduler,
)
from pipeline.execution.work import Attempt, CurrentItem, Event, Failed, Lost, Progress, Tally
from tests.factories.faulty_workers import Done

Item = tuple[str, ...]


Script = Iterator[tuple[float, WorkerEvent[Done]]]
Attempts = Callable[[int, Attempt[Any]], Script]
Fate = Callable[[int, Attempt[Item], str], WorkerEvent[Done] | None]
"""Worker, attempt, image -> event that ends the attempt at this image, or None if it continues."""


def process(worker: int, attempt: Attempt[Item], fate: Fate = lambda *_: None, seconds: float = 1.0) -> Script:
    """Process the images in order, and report each one if the attempt asks for it."""
    parts = Done()
    for image in (each for each in attempt.work if each not in attempt.quarantined):
        if attempt.report_items:
            yield 0.0, WorkerReported(worker, CurrentItem(image))
        if (end := fate(worker, attempt, image)) is not None:
            yield seconds, end
            return
        parts.samples[image] += 1
        yield seconds, WorkerReported(worker, Done(parts.samples.copy()))
    if not attempt.work or not parts.samples:
        yield 0.0, WorkerReported(worker, parts)
    yield 0.0, AttemptFinished(worker)


def crash_at(*images: str) -> Fate:
    """Return a fate where these images crash every worker that processes them."""
    return lambda worker, attempt, image: WorkerDied(worker, "it crashed") if image in images else None


@dataclass
class Outcome:
    """The events and the state after a run."""

    engine: SimulatedEngine[Item, Done]
    events: list[Event[Done, Item]]
    scheduler: Scheduler[Item, Done]

    @property
    def done(self) -> Counter[str]:
        tally = Tally(Done)
        for event in self.events:
            tally.add(event)
        return tally.total().samples

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def run(items: Iterable[Item], workers: int, attempt: Attempts = process, fate: Fate | None = None, **start) -> Outcome:
    """Run work items, with a fate at images or with a script for each attempt."""
    if fate:
        attempt = partial(process, fate=fate)
    engine: SimulatedEngine[Item, Done] = SimulatedEngine(attempt, **start)
    scheduler = Scheduler(engine, workers)
    return Outcome(engine, list(scheduler.run(iter(items))), scheduler)


ITEMS = (("a", "b", "c"), ("d", "e", "f"))
ALL = Counter("abcdef")


def test_all_items_are_done_once_in_parallel() -> None:
    outcome = run(ITEMS, 2)
    assert outcome.done == ALL
    assert (outcome.engine.now(), outcome.engine.busy_seconds) == (3.0, 6.0)
    finished = [(event.index, event.place) for event in outcome.of(Progress) if event.finished]
    assert sorted(finished) == [(0, "worker 1"), (1, "worker 0")]
    assert not outcome.of(Failed) + outcome.of(Lost)


def test_no_worker_is_started_without_work() -> None:
    assert run(ITEMS[:1], 8).engine.alive == {0}


def test_workers_are_kept_between_runs_and_killed_by_close() -> None:
    outcome = run(ITEMS, 2)
    again = Outcome(outcome.engine, list(outcome.scheduler.run(iter(ITEMS))), outcome.scheduler)
    assert sorted(event.index for event in again.of(Progress) if event.finished) == [2, 3]
    assert outcome.engine.alive == {0, 1}
    outcome.scheduler.close()
    assert not outcome.engine.alive


def test_items_are_read_as_workers_become_free() -> None:
    """Memory use does not depend on the number of items."""
    read = count()
    items = ((f"image {next(read)}",) for _ in range(1000))
    engine: SimulatedEngine[Item, Done] = SimulatedEngine(process)
    finished, ahead = 0, []
    for event in Scheduler(engine, 4).run(items):
        finished += isinstance(event, Progress) and event.finished
        ahead.append(int(repr(read)[6:-1]) - finished)
    assert finished == 1000
    assert max(ahead) == 4


def test_images_that_crash_workers_are_quarantined() -> None:
    outcome = run(ITEMS, 2, fate=crash_at("a", "c"))
    assert outcome.done == ALL - Counter("ac")
    failed = outcome.of(Failed)
    # the first attempt, then three per image
    assert [(event.index, event.attempt) for event in failed] == [(0, attempt) for attempt in range(1, 8)]
    assert {event.reason for event in failed} == {"it crashed"}
    assert not outcome.of(Lost)


def test_exceptions_quarantine_no_image() -> None:
    """An exception, for example of a full disk, does not blame an image."""
    outcome = run(ITEMS, 2, fate=lambda worker, _, image: WorkerFailed(worker, "full") if image == "b" else None)
    (lost,) = outcome.of(Lost)
    assert (lost.index, lost.work, lost.reason) == (0, ITEMS[0], "full")
    assert lost.place.startswith("worker ")
    assert [event.attempt for event in outcome.of(Failed)] == [1, 2]
    assert outcome.done == Counter("def")


def test_deaths_at_different_images_quarantine_none() -> None:
    met = set[str]()

    def once(worker: int, attempt: Attempt[Item], image: str) -> WorkerEvent[Done] | None:
        if image in met or image not in "abc":
            return None
        met.add(image)
        return WorkerDied(worker, "lost")

    outcome = run(ITEMS, 2, fate=once)
    assert outcome.done == ALL
    assert [event.attempt for event in outcome.of(Failed)] == [1, 2, 3]


def test_an_item_is_given_up_after_the_maximum_number_of_failures() -> None:
    item = tuple(f"image {index}" for index in range(MAX_FAILURES))
    (lost,) = run([item], 1, fate=crash_at(*item)).of(Lost)
    assert lost.work == item


@pytest.mark.parametrize("hanging", [1, 2])
def test_a_straggler_is_duplicated_until_an_attempt_finishes(hanging: int) -> None:
    attempts = count()

    def attempt_of(worker: int, attempt: Attempt[Item]) -> Script:
        return iter(()) if attempt.work == ("a",) and next(attempts) < hanging else process(worker, attempt)

    outcome = run([("b",), ("c",), ("a",)], hanging + 1, attempt_of)
    assert outcome.done == Counter("abc")
    assert not outcome.of(Failed) + outcome.of(Lost)
    # the other items took a second each, so the minimum applies, plus at most one tick until each search
    assert hanging * STRAGGLER_MIN_S < outcome.engine.now() <= hanging * (STRAGGLER_MIN_S + 1) + 2
    assert outcome.engine.alive == {hanging}


def test_items_below_the_limit_are_not_stragglers() -> None:
    """The limit is the factor times the median, which is 10 s."""
    slow = STRAGGLER_FACTOR * 10
    seconds = {"a": 10.0, "b": 10.0, "c": 10.0, "d": slow}
    outcome = run(
        [(name,) for name in seconds],
        2,
        lambda worker, attempt: process(worker, attempt, seconds=seconds[attempt.work[0]]),
    )
    assert outcome.done == Counter("abcd")
    assert outcome.engine.busy_seconds == sum(seconds.values())


def test_the_work_of_a_slow_worker_is_duplicated_before_it_takes_too_long() -> None:
    """Worker 1 is three times slower and gets the last item just before worker 0 is idle, which makes it again."""

    def unequal(worker: int, attempt: Attempt[Item]) -> Script:
        return process(worker, attempt, seconds=29.0 if worker == 1 else 10.0)

    outcome = run([(name,) for name in "abcde"], 2, unequal)
    assert outcome.done == Counter("abcde")
    assert outcome.engine.now() == 40.0  # 58 s without the duplicate
    assert outcome.engine.alive == {0}


def test_work_that_only_slow_workers_do_is_duplicated_again() -> None:
    """Worker 1 gets the last item at 58 s. Worker 2 duplicates it at 59 s, and worker 0, which is fast, at 60 s."""

    def unequal(worker: int, attempt: Attempt[Item]) -> Script:
        return process(worker, attempt, seconds=(10.0, 58.0, 59.0)[worker])

    outcome = run([(name,) for name in "abcdefghi"], 3, unequal)
    assert outcome.done == Counter("abcdefghi")
    assert outcome.engine.now() == 70.0
    assert outcome.engine.alive == {0}


def test_the_first_duplicate_to_finish_counts() -> None:
    """The original worker continues after its work was duplicated, and finishes first."""

    def waking(worker: int, attempt: Attempt[Item]) -> Script:
        return process(worker, attempt, seconds=8.0 if worker == 0 else 1.0 if attempt.work != ("a",) else 60.0)

    items = [("b",), ("a",)]  # the last item goes to the first worker
    outcome = run(items, 2, waking)
    assert outcome.done == Counter("ab")
    assert outcome.engine.now() == 8.0
    assert [(event.index, event.place) for event in outcome.of(Progress) if event.finished] == [
        (0, "worker 1"),
        (1, "worker 0"),
    ]
    assert outcome.engine.alive == {0}


def test_a_failed_attempt_waits_for_its_duplicate() -> None:
    """The item is not queued again while its duplicate runs."""

    def dying(worker: int, attempt: Attempt[Item]) -> Script:
        return (
            iter([(10.0, WorkerDied(worker, "lost"))])
            if worker == 0
            else process(worker, attempt, seconds=1.0 if attempt.work == ("b",) else 6.0)
        )

    outcome = run([("b",), ("a",)], 2, dying)
    assert outcome.done == Counter("ab")
    assert [(event.index, event.attempt) for event in outcome.of(Failed)] == [(1, 1)]
    # the duplicate started at 6 s, at the first search after the minimum of 5 s
    assert outcome.engine.now() == 12.0


def test_remaining_workers_do_the_work_of_a_lost_one() -> None:
    """Worker 0 is lost at once, and no replacement ever starts."""

    def lost(worker: int, attempt: Attempt[Item]) -> Script:
        return iter([(0.5, WorkerDied(worker, "its machine is lost"))]) if worker == 0 else process(worker, attempt)

    outcome = run(ITEMS, 2, lost, start=lambda worker: [(0.0, WorkerStarted(worker, ""))] if worker < 2 else [])
    assert outcome.done == ALL
    assert [event.reason for event in outcome.of(Failed)] == ["its machine is lost"]


def test_an_idle_worker_that_dies_is_replaced() -> None:
    """No attempt failed, because the worker was idle."""
    deaths: dict[int, list[tuple[float, WorkerEvent[Done]]]] = {
        0: [(0.0, WorkerStarted(0, "")), (5.0, WorkerDied(0, "killed"))]
    }
    engine: SimulatedEngine[Item, Done] = SimulatedEngine(
        process, lambda worker: deaths.get(worker, [(0.0, WorkerStarted(worker, ""))])
    )
    scheduler = Scheduler(engine, 2)
    assert not [event for event in scheduler.run(iter([tuple("bcdefghij"), ("a",)])) if isinstance(event, Failed)]
    assert engine.alive == {1}


def test_a_tally_drops_failed_attempts() -> None:
    tally = Tally(Done)
    for event, total in (
        (Progress(0, "a", Done(Counter(a=1))), 1),
        (Progress(1, "b", Done(Counter(b=5))), 6),
        (Progress(0, "a", Done(Counter(a=3))), 8),
        (Failed(0, "a", 1, "it crashed"), 5),
        (Progress(1, "b", Done(Counter(b=6)), finished=True), 6),
        (Progress(0, "a", Done(Counter(a=2))), 8),
        (Lost(0, "work", "it crashed"), 6),
    ):
        tally.add(event)
        assert tally.total().samples.total() == total


def test_the_cost_per_event_does_not_depend_on_the_workers() -> None:
    """The number of calls of ``now`` per event does not depend on the number of workers."""
    calls = 0

    class Counting(SimulatedEngine[Item, Done]):
        def now(self) -> float:
            nonlocal calls
            calls += 1
            return super().now()

    engine = Counting(lambda worker, attempt: process(worker, attempt, seconds=1 + worker / 1000))
    events = sum(1 for _ in Scheduler(engine, 1000).run((f"{index}",) for index in range(20_000)))
    assert events == 2 * 20_000
    assert calls < 4 * events


@dataclass(frozen=True)
class Bundle:
    """A work item that can be split."""

    images: Item

    def __iter__(self) -> Iterator[str]:
        return iter(self.images)

    def split(self, pieces: int) -> "list[Bundle]":
        return [Bundle(self.images[first::pieces]) for first in range(min(pieces, len(self.images)))]


def lost_once(second: float) -> Callable[[int, Attempt[Any]], Script]:
    """Let the first worker that gets an item of six images die after ``second`` seconds."""
    lost = set[int]()

    def attempt(worker: int, attempt: Attempt[Any]) -> Script:
        if len(attempt.work.images) == 6 and not lost:
            lost.add(worker)
            return iter([(second, WorkerDied(worker, "lost"))])
        return process(worker, attempt)

    return attempt


def test_a_failed_item_is_split_among_idle_workers() -> None:
    items = [Bundle(("g",)), Bundle(("h",)), Bundle(("i",)), Bundle(tuple("abcdef"))]
    outcome = run(items, 4, lost_once(5.0))
    assert outcome.done == Counter("abcdefghi")
    assert [(event.index, event.attempt) for event in outcome.of(Failed)] == [(3, 1)]
    pieces = {event.index: event.work.images for event in outcome.of(Progress) if event.finished and event.index > 3}
    assert sorted(pieces.values()) == [("a", "d"), ("b", "e"), ("c", "f")]
    # two images per worker instead of six on one worker
    assert outcome.engine.now() == 5.0 + 2.0


def test_a_failed_item_is_not_split_while_others_work() -> None:
    items = [Bundle(tuple("abcdef")), Bundle(tuple("ghijk")), Bundle(tuple("lmnop"))]
    outcome = run(items, 3, lost_once(1.0))
    assert outcome.done == Counter("abcdefghijklmnop")
    assert sorted(event.index for event in outcome.of(Progress) if event.finished) == [0, 1, 2]


def test_an_item_is_split_only_once() -> None:
    """Only the piece with the image that crashes workers is retried."""
    items = [Bundle(("g",)), Bundle(("h",)), Bundle(("i",)), Bundle(tuple("bcdefa"))]
    outcome = run(items, 4, fate=crash_at("a"))
    assert outcome.done == Counter("bcdefghi")
    whole, *others = outcome.of(Failed)
    assert whole.index == 3
    assert [event.work.images for event in others] == [("d", "a")] * MAX_ATTEMPTS


@pytest.mark.parametrize(
    ("seconds", "elapsed", "images"),
    [
        ((3, 3, 3), 4.0, "abde"),  # both workers publish their second image
        ((3, 3, 3), 2.0, "ad"),  # nothing is known yet, and nothing takes long
        ((30, 30, 30), 25.0, ""),  # the first image takes too long already
        ((3, 30, 30), 4.0, "ad"),  # the second one takes longer than expected
    ],
)
def test_an_interrupted_run_keeps_what_is_soon_published(
    seconds: tuple[float, ...], elapsed: float, images: str
) -> None:
    def attempt(worker: int, attempt: Attempt[Item]) -> Script:
        steps = process(worker, attempt)
        return ((duration, event) for duration, (_, event) in zip((*seconds, 0), steps, strict=True))

    class InterruptedEngine(SimulatedEngine[Item, Done]):
        def wait(self, timeout: float) -> Sequence[WorkerEvent[Done]]:
            if not interrupted and self.now() >= elapsed:
                interrupted.append(self.now())
                raise KeyboardInterrupt
            return super().wait(timeout)

    interrupted: list[float] = []
    engine = InterruptedEngine(attempt)
    scheduler, tally = Scheduler(engine, 2), Tally(Done)
    with suppress(KeyboardInterrupt):
        for event in scheduler.run(iter(ITEMS)):
            tally.add(event)
    for event in scheduler.drain():
        tally.add(event)
    assert interrupted
    assert tally.total().samples == Counter(images)
    assert engine.now() <= interrupted[0] + FINISH_S
    scheduler.close()
    assert not engine.alive
