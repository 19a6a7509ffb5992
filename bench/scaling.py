"""Costs of a build besides making samples: a second worker, planning, scheduling, merging, memory, start."""

import os
import shutil
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import manifests
from bench.images import repeated
from bench.report import section, table
from bench.simulated import simulated_rows
from pipeline.builder.build import run_build
from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import Plan, ShardTask, WorkItem, make_blocks, make_plan
from pipeline.builder.settings import BuildSettings
from pipeline.builder.worker import BuildJob
from pipeline.execution.ray_cluster import cluster
from pipeline.execution.ray_pool import RayEngine, RayPool
from pipeline.execution.resumable import SilentWatcher
from pipeline.execution.work import Attempt, Event, Progress, Tally
from pipeline.recipes import library
from pipeline.recipes import schema as recipes
from pipeline.sources.kinds import open_source

IMAGES_FOR_SCALING, SHARD_FOR_SCALING = 1000, 500
ROUNDS, STARTS = 5, 5
IMAGES_FOR_OVERHEAD = 2000
IMAGES_PER_SHARD = 1000
WARM = 1 / 20
"""Fraction of a build's samples after which all workers are warmed up."""


class Stopwatch(SilentWatcher):
    """An observer that measures the speed of a build while all workers are busy.

    It records when each worker first reported after the warm-up, when each worker finished its last work item, and how
    many samples were made by then.
    """

    def __init__(self, workers: int = 1) -> None:
        self.workers, self.cold = workers, 0.0
        self.before = self.made = 0
        self.warm: list[float] = []
        self.done: dict[str, float] = {}

    @property
    def speed(self) -> float:
        """Return samples per second, without the warm-up and without the wait for the last worker."""
        return (self.made - self.before) / (statistics.mean(self.done.values()) - statistics.mean(self.warm))

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """Compute the number of samples at which the warm-up ends."""
        self.cold = WARM * todo.total()

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """Count the samples after the warm-up. Each report contains the counts of one worker so far."""
        self.made = tally.total().samples.total()
        if self.made >= self.cold and len(self.warm) < self.workers:
            self.warm.append(perf_counter())
            self.before = self.made

    def on_event(self, event: Event[BuildCounts, WorkItem]) -> None:
        """Raise RuntimeError if an attempt fails, because the measurement would be invalid."""
        if not isinstance(event, Progress):
            raise RuntimeError(event.reason)
        self.done[event.place] = perf_counter()


def measure(photographs: Path, scratch: Path, build_ms: float) -> str:
    """Return the section of workers, driver, memory and start. ``build_ms``: milliseconds per output of a build."""
    one, two, ratio = scaling(photographs, scratch)
    planning, scheduling, merging = overhead(photographs, scratch)
    share = (planning + scheduling + merging) / (150_000 * build_ms / 1e3)
    megabytes, (first, all_) = worker_megabytes(photographs, scratch), start_seconds(photographs)
    rows = (
        ("outputs per second, 1 worker, after the start", f"{one:,.0f}"),
        ("outputs per second, 2 workers, while both run", f"{two:,.0f} ({ratio:.2f} x)"),
        ("planning 2,000 images x 75 outputs", f"{planning:.2f} s"),
        ("scheduling their work items", f"{scheduling:.2f} s"),
        ("merging their manifest", f"{merging:.2f} s"),
        ("these three, share of the build's core time", f"{share:.1%}"),
        ("peak memory of a worker, 75 shards of 1,000 images", f"{megabytes:,.0f} MB"),
        ("first payload of a process, including imports, kernels cached", f"{first:.2f} s"),
        ("one payload of each of 19 corruptions, including imports", f"{all_:.2f} s"),
    )
    return section("### Workers, driver, memory, start", table(("measured", "figure"), rows))


def scaling(photographs: Path, scratch: Path) -> tuple[float, float, float]:
    """Return outputs per second of one and of two workers, and their ratio: medians of the rounds.

    They build in turns, so that load on the machine affects both.
    """
    rounds = [[throughput(photographs, scratch, workers) for workers in (1, 2)] for _ in range(ROUNDS)]
    ones, twos = zip(*rounds, strict=True)
    middle = statistics.median
    return middle(ones), middle(twos), middle(two / one for one, two in rounds)


def throughput(photographs: Path, scratch: Path, workers: int) -> float:
    """Return outputs per second of a build with this number of workers, while all of them are busy."""
    source, output = repeated(photographs, scratch / "scaling", IMAGES_FOR_SCALING), scratch / "scaling-out"
    shutil.rmtree(output, ignore_errors=True)
    os.sync()  # finish writing the shards of the previous build
    recipe = library.load("imagenet-c").changed(shards={"size": SHARD_FOR_SCALING})
    watch = Stopwatch(workers)
    run_build(BuildSettings(recipe=recipe, source=str(source), out=str(output), workers=workers), watch)
    return watch.speed


class NoWork:
    """A worker that reports immediately and writes nothing, so that only scheduling is measured."""

    def __init__(self, job: BuildJob) -> None:
        self._job = job

    def run(self, attempt: Attempt[WorkItem]) -> Iterator[BuildCounts]:
        """Report the counts of a finished work item."""
        block = attempt.work
        samples = Counter(task.condition.transform for task in block.tasks for _ in block.images)
        yield BuildCounts(samples=samples, shards=len(block.tasks))


def overhead(photographs: Path, scratch: Path) -> tuple[float, float, float]:
    """Return the seconds of planning, scheduling and merging 2,000 listed images x 75 outputs, without samples."""
    folder = repeated(photographs, scratch / "overhead", IMAGES_FOR_OVERHEAD)
    recipe = library.load("imagenet-c")
    start = perf_counter()
    source = open_source("imagefolder", str(folder))
    plan = make_plan(recipe, source)
    blocks = list(make_blocks(plan, source))
    planning = perf_counter() - start
    with cluster(2, None) as workers:
        pool = RayPool(RayEngine(NoWork, BuildJob(recipe, str(folder), str(scratch / "none"))), workers, {})
        list(pool.run(iter(blocks)))  # starts the workers
        start = perf_counter()
        list(pool.run(iter(blocks)))
        scheduling = perf_counter() - start
    conditions = range(len(recipe.conditions()))
    parts = [
        [_write_part(scratch / "parts", recipe, block, block.tasks[condition]) for block in blocks]
        for condition in conditions
    ]
    start = perf_counter()
    manifests.merge(parts, {}, scratch / "merged.parquet")
    return planning, scheduling, perf_counter() - start


def _write_part(folder: Path, recipe: recipes.Recipe, block: WorkItem, task: ShardTask) -> Path:
    """Write a manifest part like that of a worker, without images."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{task.name}.parquet"
    manifests.write_part(simulated_rows(recipe, block, task), {}, path)
    return path


MEMORY_PROGRAM = """
import re, sys
from pipeline.recipes import library
from pipeline.execution.work import Attempt
from pipeline.builder.plan import make_blocks, make_plan
from pipeline.sources.kinds import open_source
from pipeline.builder.worker import BuildJob, BuildWorker
recipe, source = library.load("imagenet-c"), open_source("imagefolder", sys.argv[1])
for block in make_blocks(make_plan(recipe, source), source):
    for _ in BuildWorker(BuildJob(recipe, sys.argv[1], sys.argv[2])).run(Attempt(block)):
        pass
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1))
"""

START_PROGRAM = """
import sys
from time import perf_counter
start = perf_counter()
from pipeline.recipes import library
from pipeline.render.warm_up import ready_renderer
recipe = library.load("imagenet-c").changed(transforms={"only": ["all"], "levels": [3]})
renderer = ready_renderer(recipe, None)
with open(sys.argv[1], "rb") as file:
    photograph = file.read()
for condition in recipe.conditions():
    renderer.members(photograph, "", condition)
    print(perf_counter() - start)
"""


def worker_megabytes(photographs: Path, scratch: Path) -> float:
    """Return the peak memory in MB of a worker that makes 75 shards of 1,000 images."""
    folder = repeated(photographs, scratch / "memory", IMAGES_PER_SHARD)
    return float(_run(MEMORY_PROGRAM, str(folder), str(scratch / "memory-out"))) / 1024


def start_seconds(photographs: Path) -> tuple[float, float]:
    """Return the seconds from the start of a process to its first payload and to one payload of each corruption."""
    photograph = min(path for path in photographs.rglob("*") if path.is_file())
    runs = [list(map(float, _run(START_PROGRAM, str(photograph)).split())) for _ in range(STARTS)]
    return statistics.median(times[0] for times in runs), statistics.median(times[-1] for times in runs)


def _run(program: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    ).stdout
