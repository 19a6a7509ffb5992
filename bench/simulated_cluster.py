"""The scheduler of a build on a simulated cluster with slow and lost workers."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from time import process_time

from bench.simulated_engine import SimulatedEngine, Timed
from bench.worker_times import WorkerTimes
from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import Plan, WorkItem, divided, division, make_blocks
from pipeline.builder.worker import REPORT_EVERY_S
from pipeline.execution.base import AttemptFinished, WorkerDied, WorkerReported, WorkerStarted
from pipeline.execution.scheduler import Scheduler
from pipeline.execution.work import Attempt, Failed, Progress, Tally
from pipeline.sources.base import SourceImage

SPREAD = 0.03
"""Largest relative deviation of an attempt's time from the measured time."""


@dataclass(frozen=True)
class Trouble:
    """Faults of a cluster.

    Attributes:
        slow: Fraction of workers that are slow.
        slowness: Factor by which slow workers take longer.
        lost: Fraction of workers whose machine is lost, each at a random time of the build.
        away_s: Seconds after which a lost machine returns.
    """

    slow: float = 0.02
    slowness: float = 3.0
    lost: float = 0.01
    away_s: float = 600.0


NO_TROUBLE = Trouble(slow=0.0, lost=0.0)


@dataclass(frozen=True)
class Simulation:
    """Result of a build on a simulated cluster. Times are in seconds, and those of workers are sums over all workers.

    Attributes:
        workers: Number of workers.
        items: Number of finished work items.
        wall: Wall-clock time of the build.
        up: Time in which workers were running, after their start and until they were lost.
        making: Time of finished attempts, without ``again``.
        again: Time of preparing photographs that another work item had already prepared.
        void: Time of attempts that were lost, or overtaken by a duplicate.
        failed: Number of failed attempts.
        duplicates: Number of duplicated work items.
        counts: Counts of the build.
        driver: CPU time of the scheduler and the simulation.
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
        """Return the fraction of the workers' time in finished attempts."""
        return (self.making + self.again) / self.up

    @property
    def useful(self) -> float:
        """Return the fraction of the workers' time in work that a single worker would also do."""
        return self.making / self.up


class Listing:
    """A source that lists images without files."""

    location = "nowhere"
    labels = None

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
    """A simulated cluster whose workers take the measured times. The seed decides the faults.

    Attributes:
        up_seconds: Running time, summed over the workers that have ended.
        attempts: Number of attempts.
    """

    def __init__(self, workers: int, times: WorkerTimes, trouble: Trouble, undisturbed: float, seed: int) -> None:
        """Choose slow and lost workers. ``undisturbed``: seconds of a build without faults."""
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
        """Kill a worker."""
        super().kill(worker)
        if (ready := self._ready.get(worker)) is not None:
            self.up_seconds += max(0.0, self.now() - ready)

    def attempt_seconds(self, worker: int) -> float:
        """Return the seconds since a worker received its last attempt."""
        return self.now() - self._given[worker]

    def _begin(self, worker: int) -> Iterator[Timed[BuildCounts]]:
        """Start when a machine is available, and die with it."""
        wait = self._wait_for_a_machine() + self._times.start
        self._ready[worker] = self.now() + wait
        yield wait, WorkerStarted(worker, str(worker))
        if (remaining := self._deaths.get(worker, 0.0) - self._ready[worker]) > 0:
            yield remaining, WorkerDied(worker, "its machine is lost")

    def _wait_for_a_machine(self) -> float:
        """Return the seconds until a machine is available."""
        away = [death for death in self._deaths.values() if death <= self.now() < death + self._trouble.away_s]
        missing = len(self.alive) - (self._workers - len(away))
        return sorted(away)[missing - 1] + self._trouble.away_s - self.now() if missing > 0 else 0.0

    def _do(self, worker: int, attempt: Attempt[WorkItem]) -> Iterator[Timed[BuildCounts]]:
        """Report at intervals like a real worker, then finish."""
        item = attempt.work
        chance = Random(f"{self._seed} {worker} {item.tasks[0].name}").uniform(1 - SPREAD, 1 + SPREAD)
        left = (self._times.preparing(item) + self._times.making(item)) * chance
        if worker in self._slow:
            left *= self._trouble.slowness
        while left > REPORT_EVERY_S:
            yield REPORT_EVERY_S, WorkerReported(worker, BuildCounts())
            left -= REPORT_EVERY_S
        yield left, WorkerReported(worker, made(item))
        yield 0.0, AttemptFinished(worker)


def made(item: WorkItem) -> BuildCounts:
    """Return the counts of a finished work item."""
    counts = BuildCounts(shards=len(item.tasks))
    for task in item.tasks:
        counts.samples[task.condition.transform] += len(item.images)
        counts.shard_samples[task.name] += len(item.images)
    return counts


def simulate(plan: Plan, *, images: int, workers: int, times: WorkerTimes, trouble: Trouble, seed: int) -> Simulation:
    """Divide a plan among workers as a build does, and run it on a simulated cluster.

    Args:
        plan: Plan of a :class:`Listing` with this number of images.
        images: Number of images.
        workers: Number of workers.
        times: Measured times of a worker.
        trouble: Faults of the cluster.
        seed: Seed of the faults and of the deviations.

    Returns:
        The result of the build.
    """
    tasks = len(plan.recipe.conditions())
    work = images * (times.photograph + sum(times.outputs.values()))
    engine = SimulatedCluster(workers, times, trouble, work / workers, seed)
    scheduler = Scheduler(engine, workers)
    items = divided(
        make_blocks(plan, Listing(images)), *division(plan.blocks, workers, tasks, equal=False), WorkItem.split
    )
    tally, prepared = Tally(BuildCounts), set[int]()
    making = again = 0.0
    finished = failed = 0
    start = process_time()
    for event in scheduler.run(items):
        tally.add(event)
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
