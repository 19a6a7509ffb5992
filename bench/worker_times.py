"""What a worker of a build takes for a photograph, for each output and to start: CPU time, measured in some minutes."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

from pipeline.build.plan import ShardTask, WorkItem, make_blocks, make_plan
from pipeline.build.worker import BuildJob, BuildWorker
from pipeline.execution.work import Attempt
from pipeline.recipes import library
from pipeline.sources.kinds import open_source

_ROUNDS = 3

_START_PROGRAM = """
import sys
from pipeline.build.worker import BuildJob, BuildWorker
from pipeline.recipes import library
BuildWorker(BuildJob(library.load("imagenet-c"), *sys.argv[1:]))
"""


@dataclass(frozen=True)
class WorkerTimes:
    """Seconds of a worker.

    ``photograph``: reading, decoding and preparing one. ``outputs``: condition (``fog-3``) -> all the rest of an
    output. ``start``: from nothing to a worker that can begin.
    """

    photograph: float
    outputs: Mapping[str, float]
    start: float

    def preparing(self, item: WorkItem) -> float:
        """Return the seconds for preparing the photographs of a work item."""
        return len(item.images) * self.photograph

    def making(self, item: WorkItem) -> float:
        """Return the seconds for making the outputs of a work item from its prepared photographs."""
        return len(item.images) * sum(self.outputs[str(task.condition)] for task in item.tasks)


def measure(photographs: Path, scratch: Path) -> WorkerTimes:
    """Build each condition of ImageNet-C by itself, then all of them together, in this process.

    By themselves they prepare the photographs once for each condition, together once. CPU time, and the
    least of three rounds, are nearly the same whatever else the machine does. Waiting for the disk is left out.

    Args:
        photographs: An ImageFolder of photographs.
        scratch: A folder to write to.
    """
    recipe = library.load("imagenet-c")
    source = open_source("imagefolder", str(photographs))
    (block,) = make_blocks(make_plan(recipe, source), source)
    worker = BuildWorker(BuildJob(recipe, str(photographs), str(scratch / "times")))
    items = [block, *(replace(block, tasks=(task,)) for task in block.tasks)]
    _seconds(worker, block)  # fills the caches
    rounds = [[_seconds(worker, item) for item in items] for _ in range(_ROUNDS)]
    together, *alone = map(min, zip(*rounds, strict=True))
    return separated(
        dict(zip(block.tasks, alone, strict=True)),
        together,
        len(block.images),
        _start_seconds(photographs, scratch / "times"),
    )


def separated(alone: Mapping[ShardTask, float], together: float, images: int, start: float) -> WorkerTimes:
    """Return the times for one photograph, and for one output of each condition.

    Args:
        alone: Seconds of work items of one task each.
        together: Seconds of one work item of all these tasks.
        images: Number of photographs of each.
        start: Seconds that a worker takes to start.
    """
    photograph = (sum(alone.values()) - together) / (len(alone) - 1) / images
    outputs = {str(task.condition): seconds / images - photograph for task, seconds in alone.items()}
    return WorkerTimes(photograph, outputs, start)


def _seconds(worker: BuildWorker, item: WorkItem) -> float:
    start = process_time()
    for _ in worker.run(Attempt(item)):
        pass
    return process_time() - start


def _start_seconds(photographs: Path, output: Path) -> float:
    """Return the least CPU time of a process that makes a worker and ends."""
    taken = []
    for _ in range(_ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", _START_PROGRAM, str(photographs), str(output)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(taken)
