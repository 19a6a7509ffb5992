"""A build's scheduler on a simulated cluster, some of whose workers are slow or lost: how busy the workers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from time import process_time

from bench.simulated_engine import SimulatedEngine, Timed
from bench.worker_times import WorkerTimes
from pipeline.build.counts import BuildCounts
from pipeline.build.division import pieces_of_a_block
from pipeline.build.plan import Plan, WorkItem, make_blocks
from pipeline.build.worker import REPORT_EVERY_S
from pipeline.execution.base import Died, Done, Said, Started
from pipeline.execution.scheduler import Scheduler
from pipeline.execution.work import Attempt, Failed, Progress, Tally
from pipeline.sources.base import SourceImage

SPREAD = 0.03
"""An attempt takes up to this share more or less than measured."""


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a cluster.

    ``slow``: share of workers that take ``slowness`` times as long. ``lost``: share of workers whose machine is lost,
    each at a random moment of the time that the build would take without trouble. It comes back ``away_s`` seconds
    later.
    """

    slow: float = 0.02
    slowness: float = 3.0
    lost: float = 0.01
    away_s: float = 600.0


NO_TROUBLE = Trouble(slow=0.0, lost=0.0)


@dataclass(frozen=True)
class Simulation:
    """What became of a build on a simulated cluster. Times in seconds; those of workers are sums over all of them.

    ``up``: workers had started and were not lost. ``making``: finished attempts, without ``again``: preparing
    photographs that another work item had prepared already. ``void``: attempts that were lost, or overtaken by a
    duplicate. ``driver``: CPU time of scheduling, with that of the simulated workers.
    """

    workers: int
    items: int
    wall: float
    up: float
    making: float
    again: float
    void: float
    failed: int
    duplicates: int
    counts: BuildCounts
    driver: float = field(compare=False)

    @property
    def busy(self) -> float:
        """Return the share of their time in which workers do work that counts, preparing photographs again included."""
        return (self.making + self.again) / self.up

    @property
    def useful(self) -> float:
        """Return the share of their time in which workers do work that a single worker would do as well."""
        return self.making / self.up


class Listing:
    """A source that lists images without any files."""

    location = "nowhere"

    def __init__(self, images: int) -> None:
        self._images = images
        self.ignored: Counter[str] = Counter()

    def __iter__(self) -> Iterator[SourceImage]:
        """List the images."""
        for index in range(self._images):
            yield SourceImage(f"image{index:08d}", 0, "all", f"all/image{index:08d}.JPEG", 100_000)

    def read(self, image: SourceImage) -> bytes:
        """Raise FileNotFoundError."""
        raise FileNotFoundError(image.origin)


class SimulatedCluster(SimulatedEngine[WorkItem, BuildCounts]):
    """Workers that take the measured times, and their troubles, which follow from the seed.

    ``up_seconds``: sum over the workers that have ended of the time since they had started. ``finished_seconds``: of a
    worker's last attempt. ``attempts``: number of them.
    """

    def __init__(self, workers: int, times: WorkerTimes, trouble: Trouble, undisturbed: float, seed: int) -> None:
        """Decide which workers are slow, and when which are lost; ``undisturbed``: seconds of a build without that."""
        super().__init__(self._do, self._begin)
        chosen = Random(seed)
        self._workers, self._times, self._trouble, self._seed = workers, times, trouble, seed
        self._slow = frozenset(chosen.sample(range(workers), round(trouble.slow * workers)))
        lost = chosen.sample(range(workers), round(trouble.lost * workers))
        self._deaths = {worker: times.start + chosen.uniform(0, undisturbed) for worker in lost}
        self._ready: dict[int, float] = {}
        self._given: dict[int, float] = {}
        self.up_seconds = 0.0
        self.attempts = 0

    def give(self, worker: int, attempt: Attempt[WorkItem]) -> None:
        """Give a worker an attempt."""
        self._given[worker] = self.now()
        self.attempts += 1
        super().give(worker, attempt)

    def kill(self, worker: int) -> None:
        """End a worker."""
        super().kill(worker)
        if (ready := self._ready.get(worker)) is not None:
            self.up_seconds += max(0.0, self.now() - ready)

    def attempt_seconds(self, worker: int) -> float:
        """Return the time since a worker was given its last attempt."""
        return self.now() - self._given[worker]

    def _begin(self, worker: int) -> Iterator[Timed[BuildCounts]]:
        """Start once there is a machine; die with it."""
        wait = self._wait_for_a_machine() + self._times.start
        self._ready[worker] = self.now() + wait
        yield wait, Started(worker, str(worker))
        if (remaining := self._deaths.get(worker, 0.0) - self._ready[worker]) > 0:
            yield remaining, Died(worker, "its machine is lost")

    def _wait_for_a_machine(self) -> float:
        """Return the seconds until one comes back, where all others have workers."""
        away = [death for death in self._deaths.values() if death <= self.now() < death + self._trouble.away_s]
        missing = len(self.alive) - (self._workers - len(away))
        return sorted(away)[missing - 1] + self._trouble.away_s - self.now() if missing > 0 else 0.0

    def _do(self, worker: int, attempt: Attempt[WorkItem]) -> Iterator[Timed[BuildCounts]]:
        """Report as workers do, then finish."""
        item = attempt.work
        chance = Random(f"{self._seed} {worker} {item.tasks[0].name}").uniform(1 - SPREAD, 1 + SPREAD)
        left = (self._times.preparing(item) + self._times.making(item)) * chance
        if worker in self._slow:
            left *= self._trouble.slowness
        while left > REPORT_EVERY_S:
            yield REPORT_EVERY_S, Said(worker, BuildCounts())
            left -= REPORT_EVERY_S
        yield left, Said(worker, made(item))
        yield 0.0, Done(worker)


def made(item: WorkItem) -> BuildCounts:
    """Return the counts of a finished work item."""
    counts = BuildCounts(shards=len(item.tasks))
    for task in item.tasks:
        counts.samples[task.condition.transform] += len(item.images)
        counts.shard_samples[task.name] += len(item.images)
    return counts


def simulate(plan: Plan, *, images: int, workers: int, times: WorkerTimes, trouble: Trouble, seed: int) -> Simulation:
    """Divide a plan among workers as a build does, and schedule it by the simulated clock.

    Args:
        plan: Of a :class:`Listing` of so many images.
        images: Number of images.
        workers: Number of workers.
        times: What each of them takes.
        trouble: What is wrong with some of them.
        seed: Decides with which, and when.
    """
    tasks = len(plan.recipe.conditions())
    work = images * (times.photograph + sum(times.outputs.values()))
    engine = SimulatedCluster(workers, times, trouble, work / workers, seed)
    scheduler = Scheduler(engine, workers)
    pieces = pieces_of_a_block(plan.blocks, workers, tasks)
    items = (piece for block in make_blocks(plan, Listing(images)) for piece in block.divided(pieces))
    tally, prepared = Tally(BuildCounts), set[int]()
    making = again = 0.0
    finished = failed = 0
    start = process_time()
    for event in scheduler.run(items):
        tally.take(event)
        if isinstance(event, Failed):
            failed += 1
        elif isinstance(event, Progress) and event.finished:
            finished += 1
            spent = engine.attempt_seconds(int(event.place))
            share = times.preparing(event.work) / (times.preparing(event.work) + times.making(event.work))
            repeated = share * spent if event.work.index in prepared else 0.0
            prepared.add(event.work.index)
            making += spent - repeated
            again += repeated
    driver = process_time() - start
    scheduler.close()
    return Simulation(
        workers=workers,
        items=finished,
        wall=engine.now(),
        up=engine.up_seconds,
        making=making,
        again=again,
        void=max(0.0, engine.busy_seconds - making - again),
        failed=failed,
        duplicates=engine.attempts - finished - failed,
        counts=tally.total(),
        driver=driver,
    )
