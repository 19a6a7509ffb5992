"""The policy of execution on simulated workers: retries, quarantine, stragglers, lost workers, failed starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from bench.simulated_engine import SimulatedEngine
from pipeline.errors import UnfinishedError, UserError
from pipeline.execution.base import (
    AttemptFinished,
    AttemptRaised,
    WorkerDied,
    WorkerEvent,
    WorkerReported,
    WorkerStarted,
    WorkerStartFailed,
)
from pipeline.execution.scheduler import (
    MAX_ATTEMPTS,
    MAX_FAILED_STARTS,
    MAX_FAILURES,
    STRAGGLER_FACTOR,
    STRAGGLER_MIN_S,
    ItemRecord,
    Scheduler,
)
from pipeline.execution.work import Attempt, CurrentItem, Event, Failed, Lost, Measure, Progress, Tally

Item = tuple[str, ...]


@dataclass
class Parts:
    """The images that were done."""

    images: Counter[str] = field(default_factory=Counter)

    def add(self, other: Parts) -> None:
        self.images.update(other.images)

    def measures(self) -> Iterator[Measure]:
        yield from ()


Script = Iterator[tuple[float, WorkerEvent[Parts]]]
Fate = Callable[[int, Attempt[Item], str], WorkerEvent[Parts] | None]
"""Worker, attempt, image -> how the attempt ends there, or None where it goes on."""


def sound(worker: int, attempt: Attempt[Item], fate: Fate = lambda *_: None, seconds: float = 1.0) -> Script:
    """Do one image after another, as a careful worker if asked to be one."""
    parts = Parts()
    for image in (each for each in attempt.work if each not in attempt.quarantined):
        if attempt.report_items:
            yield 0.0, WorkerReported(worker, CurrentItem(image))
        if (end := fate(worker, attempt, image)) is not None:
            yield seconds, end
            return
        parts.images[image] += 1
        yield seconds, WorkerReported(worker, Parts(parts.images.copy()))
    if not attempt.work or not parts.images:
        yield 0.0, WorkerReported(worker, parts)
    yield 0.0, AttemptFinished(worker)


def cursed(*images: str) -> Fate:
    """A fate: these images end every worker that processes them."""
    return lambda worker, attempt, image: WorkerDied(worker, "it has died") if image in images else None


@dataclass
class Outcome:
    """What a run came to."""

    engine: SimulatedEngine[Item, Parts]
    events: list[Event[Parts, Item]]
    scheduler: Scheduler[Item, Parts]

    @property
    def done(self) -> Counter[str]:
        tally = Tally(Parts)
        for event in self.events:
            tally.add(event)
        return tally.total().images

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def run(
    items: Iterable[Item], workers: int, attempt: Callable[[int, Attempt[Item]], Script], **start: object
) -> Outcome:
    engine: SimulatedEngine[Item, Parts] = SimulatedEngine(attempt, **start)
    scheduler = Scheduler(engine, workers)
    return Outcome(engine, list(scheduler.run(iter(items))), scheduler)


ITEMS = (("a", "b", "c"), ("d", "e", "f"))
ALL = Counter("abcdef")


def test_all_items_are_done_once_side_by_side() -> None:
    outcome = run(ITEMS, 2, sound)
    assert outcome.done == ALL
    assert (outcome.engine.now(), outcome.engine.busy_seconds) == (3.0, 6.0)
    finished = [(event.index, event.place) for event in outcome.of(Progress) if event.finished]
    assert sorted(finished) == [(0, "worker 1"), (1, "worker 0")]
    assert not outcome.of(Failed) + outcome.of(Lost)


def test_no_worker_is_started_without_work() -> None:
    assert run(ITEMS[:1], 8, sound).engine.alive == {0}


def test_workers_are_kept_for_the_next_run_and_ended_at_the_end() -> None:
    outcome = run(ITEMS, 2, sound)
    again = Outcome(outcome.engine, list(outcome.scheduler.run(iter(ITEMS))), outcome.scheduler)
    assert sorted(event.index for event in again.of(Progress) if event.finished) == [2, 3]
    assert outcome.engine.alive == {0, 1}
    outcome.scheduler.close()
    assert not outcome.engine.alive


def test_items_are_read_as_workers_become_free() -> None:
    """Memory does not grow with the number of items."""
    read = count()
    items = ((f"image {next(read)}",) for _ in range(1000))
    engine: SimulatedEngine[Item, Parts] = SimulatedEngine(sound)
    finished, ahead = 0, []
    for event in Scheduler(engine, 4).run(items):
        finished += isinstance(event, Progress) and event.finished
        ahead.append(int(repr(read)[6:-1]) - finished)
    assert finished == 1000
    assert max(ahead) == 4


def test_images_that_end_workers_are_found_and_left_out() -> None:
    outcome = run(ITEMS, 2, lambda worker, attempt: sound(worker, attempt, cursed("a", "c")))
    assert outcome.done == ALL - Counter("ac")
    failed = outcome.of(Failed)
    # one plain attempt, then three for each image
    assert [(event.index, event.attempt) for event in failed] == [(0, attempt) for attempt in range(1, 8)]
    assert {event.reason for event in failed} == {"it has died"}
    assert not outcome.of(Lost)


def test_an_image_that_raises_is_not_to_blame() -> None:
    """An error that is raised (a full disk, say) would be raised at any other image as well."""
    outcome = run(
        ITEMS,
        2,
        lambda worker, attempt: sound(worker, attempt, lambda *at: AttemptRaised(worker, "full") if at[2] == "b" else None),
    )
    (lost,) = outcome.of(Lost)
    assert (lost.index, lost.work, lost.reason) == (0, ITEMS[0], "full")
    assert lost.place.startswith("worker ")
    assert [event.attempt for event in outcome.of(Failed)] == [1, 2]
    assert outcome.done == Counter("def")


def test_deaths_at_different_images_are_no_image_s_fault() -> None:
    met = set[str]()

    def once(worker: int, attempt: Attempt[Item], image: str) -> WorkerEvent[Parts] | None:
        if image in met or image not in "abc":
            return None
        met.add(image)
        return WorkerDied(worker, "lost")

    outcome = run(ITEMS, 2, lambda worker, attempt: sound(worker, attempt, once))
    assert outcome.done == ALL
    assert [event.attempt for event in outcome.of(Failed)] == [1, 2, 3]


def test_an_item_fails_in_the_end_however_many_images_are_to_blame() -> None:
    item = tuple(f"image {index}" for index in range(MAX_FAILURES))
    (lost,) = run([item], 1, lambda worker, attempt: sound(worker, attempt, cursed(*item))).of(Lost)
    assert lost.work == item


def test_a_record_gives_up_and_condemns() -> None:
    record = ItemRecord(0, "work")
    assert record.attempt() == Attempt("work")
    for death in range(MAX_FAILURES):
        assert not record.given_up
        record.add_failure(f"image {death // MAX_ATTEMPTS}")
    assert record.given_up
    attempt = record.attempt()
    assert attempt.quarantined == {f"image {index}" for index in range(33)}
    assert attempt.suspects - attempt.quarantined == {"image 33"}


def hanging(worker: int, attempt: Attempt[Item]) -> Script:
    """Worker 0 stands still at its first image; the others take a second for each."""
    return iter(()) if worker == 0 else sound(worker, attempt)


def test_a_straggler_is_duplicated_and_ended() -> None:
    outcome = run([("a",), ("b",), ("c",)], 2, hanging)
    assert outcome.done == Counter("abc")
    assert not outcome.of(Failed) + outcome.of(Lost)
    # others finished in a second each: the limit is the least one, and the search follows it by a tick at most
    assert STRAGGLER_MIN_S < outcome.engine.now() <= STRAGGLER_MIN_S + 2 + 1
    assert outcome.engine.alive == {1}


def test_slow_items_are_no_stragglers_before_their_time() -> None:
    """Three times the median, with the median 10 s."""
    slow = STRAGGLER_FACTOR * 10
    seconds = {"a": 10.0, "b": 10.0, "c": 10.0, "d": slow}
    outcome = run(
        [(name,) for name in seconds],
        2,
        lambda worker, attempt: sound(worker, attempt, seconds=seconds[attempt.work[0]]),
    )
    assert outcome.done == Counter("abcd")
    assert outcome.engine.busy_seconds == sum(seconds.values())


def test_the_first_of_two_to_finish_counts_and_the_other_is_ended() -> None:
    """The original comes back after it has been duplicated, and is faster."""

    def waking(worker: int, attempt: Attempt[Item]) -> Script:
        return sound(worker, attempt, seconds=8.0 if worker == 0 else 1.0 if attempt.work != ("a",) else 60.0)

    items = [("b",), ("a",)]  # the last one goes to the first worker
    outcome = run(items, 2, waking)
    assert outcome.done == Counter("ab")
    assert outcome.engine.now() == 8.0
    assert [(event.index, event.place) for event in outcome.of(Progress) if event.finished] == [
        (0, "worker 1"),
        (1, "worker 0"),
    ]
    assert outcome.engine.alive == {0}


def test_a_failed_attempt_waits_for_its_duplicate() -> None:
    """The item is not queued a third time."""

    def dying(worker: int, attempt: Attempt[Item]) -> Script:
        return (
            iter([(10.0, WorkerDied(worker, "lost"))])
            if worker == 0
            else sound(worker, attempt, seconds=1.0 if attempt.work == ("b",) else 6.0)
        )

    outcome = run([("b",), ("a",)], 2, dying)
    assert outcome.done == Counter("ab")
    assert [(event.index, event.attempt) for event in outcome.of(Failed)] == [(1, 1)]
    # the duplicate began at 6 s, at the first look after the limit of 5 s
    assert outcome.engine.now() == 12.0


def test_the_rest_is_done_by_the_workers_that_are_left() -> None:
    """Worker 0 is lost at once, and no worker that comes later ever starts."""

    def lost(worker: int, attempt: Attempt[Item]) -> Script:
        return iter([(0.5, WorkerDied(worker, "its machine is lost"))]) if worker == 0 else sound(worker, attempt)

    outcome = run(ITEMS, 2, lost, start=lambda worker: [(0.0, WorkerStarted(worker, ""))] if worker < 2 else [])
    assert outcome.done == ALL
    assert [event.reason for event in outcome.of(Failed)] == ["its machine is lost"]


def test_an_idle_worker_that_dies_is_replaced() -> None:
    """Nobody's attempt has failed then."""
    deaths: dict[int, list[tuple[float, WorkerEvent[Parts]]]] = {0: [(0.0, WorkerStarted(0, "")), (5.0, WorkerDied(0, "killed"))]}
    engine: SimulatedEngine[Item, Parts] = SimulatedEngine(
        sound, lambda worker: deaths.get(worker, [(0.0, WorkerStarted(worker, ""))])
    )
    scheduler = Scheduler(engine, 2)
    assert not [event for event in scheduler.run(iter([tuple("bcdefghij"), ("a",)])) if isinstance(event, Failed)]
    assert engine.alive == {1}


def test_work_goes_to_the_worker_that_starts_first() -> None:
    outcome = run(ITEMS, 2, sound, start=lambda worker: [(100.0 if worker == 0 else 1.0, WorkerStarted(worker, f"{worker}"))])
    assert outcome.done == ALL
    assert {event.place for event in outcome.of(Progress) if event.finished} == {"1"}
    assert outcome.engine.now() == 1.0 + 6.0


def failing(mistake: str | None = None, until: int = 10**9) -> Callable[[int], list[tuple[float, WorkerEvent[Parts]]]]:
    """A script of starts that fail, up to a worker."""
    return lambda worker: [
        (1.0, WorkerStartFailed(worker, "no memory", mistake) if worker < until else WorkerStarted(worker, f"worker {worker}"))
    ]


def test_a_failed_start_is_put_down_to_the_next_item() -> None:
    outcome = run(ITEMS[:1], 1, sound, start=failing(until=MAX_ATTEMPTS - 1))
    assert outcome.done == Counter("abc")
    assert [event.reason for event in outcome.of(Failed)] == ["cannot start a worker: no memory"] * (MAX_ATTEMPTS - 1)


def test_where_no_worker_starts_the_run_ends() -> None:
    with pytest.raises(UnfinishedError, match=rf"no memory \({MAX_FAILED_STARTS} times in a row\).*Write another script"):
        run([(name,) for name in "abcdefgh"], 2, sound, start=failing())


def test_what_the_user_can_mend_ends_the_run_sooner() -> None:
    with pytest.raises(UserError, match="the frost textures are missing"):
        run(ITEMS, 2, sound, start=failing("the frost textures are missing"))


def test_workers_that_never_start_are_waited_for() -> None:
    """A cluster may still grow: nothing is given up."""
    with pytest.raises(RuntimeError, match="nothing happens any more"):
        run(ITEMS, 2, sound, start=lambda worker: [])


def test_a_tally_goes_down_with_an_attempt_and_is_exact_in_the_end() -> None:
    tally = Tally(Parts)
    for event, total in (
        (Progress(0, "a", Parts(Counter(a=1))), 1),
        (Progress(1, "b", Parts(Counter(b=5))), 6),
        (Progress(0, "a", Parts(Counter(a=3))), 8),
        (Failed(0, "a", 1, "it died"), 5),
        (Progress(1, "b", Parts(Counter(b=6)), finished=True), 6),
        (Progress(0, "a", Parts(Counter(a=2))), 8),
        (Lost(0, "work", "it died"), 6),
    ):
        tally.add(event)
        assert tally.total().images.total() == total


def test_a_thousand_workers_cost_little_per_event() -> None:
    """The engine is asked the time a few times per event, however many workers there are."""
    asked = 0

    class Counting(SimulatedEngine[Item, Parts]):
        def now(self) -> float:
            nonlocal asked
            asked += 1
            return super().now()

    engine = Counting(lambda worker, attempt: sound(worker, attempt, seconds=1 + worker / 1000))
    events = sum(1 for _ in Scheduler(engine, 1000).run((f"{index}",) for index in range(20_000)))
    assert events == 2 * 20_000
    assert asked < 4 * events


@dataclass(frozen=True)
class Bundle:
    """A divisible work item."""

    images: Item

    def __iter__(self) -> Iterator[str]:
        return iter(self.images)

    def split(self, pieces: int) -> list[Bundle]:
        return [Bundle(self.images[first::pieces]) for first in range(min(pieces, len(self.images)))]


def lost_once(second: float) -> Callable[[int, Attempt[Any]], Script]:
    """The first worker that is given an item of six images dies after so many seconds; the others are sound."""
    lost = set[int]()

    def attempt(worker: int, attempt: Attempt[Any]) -> Script:
        if len(attempt.work.images) == 6 and not lost:
            lost.add(worker)
            return iter([(second, WorkerDied(worker, "lost"))])
        return sound(worker, attempt)

    return attempt


def test_what_is_lost_at_the_end_is_divided_among_idle_workers() -> None:
    items = [Bundle(("g",)), Bundle(("h",)), Bundle(("i",)), Bundle(tuple("abcdef"))]
    outcome = run(items, 4, lost_once(5.0))
    assert outcome.done == Counter("abcdefghi")
    assert [(event.index, event.attempt) for event in outcome.of(Failed)] == [(3, 1)]
    pieces = {event.index: event.work.images for event in outcome.of(Progress) if event.finished and event.index > 3}
    assert sorted(pieces.values()) == [("a", "d"), ("b", "e"), ("c", "f")]
    # two images each, instead of six by one worker
    assert outcome.engine.now() == 5.0 + 2.0


def test_what_is_lost_while_others_work_is_not_divided() -> None:
    items = [Bundle(tuple("abcdef")), Bundle(tuple("ghijk")), Bundle(tuple("lmnop"))]
    outcome = run(items, 3, lost_once(1.0))
    assert outcome.done == Counter("abcdefghijklmnop")
    assert sorted(event.index for event in outcome.of(Progress) if event.finished) == [0, 1, 2]


def test_an_item_that_fails_again_is_not_divided_again() -> None:
    """An image that ends every worker is found by the piece that holds it."""
    items = [Bundle(("g",)), Bundle(("h",)), Bundle(("i",)), Bundle(tuple("bcdefa"))]
    outcome = run(items, 4, lambda worker, attempt: sound(worker, attempt, cursed("a")))
    assert outcome.done == Counter("bcdefghi")
    whole, *others = outcome.of(Failed)
    assert whole.index == 3
    assert [event.work.images for event in others] == [("d", "a")] * MAX_ATTEMPTS
