"""CPU time of a build worker for a photograph, for each output, and to start."""

import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

from pipeline.builder.plan import ShardTask, WorkItem, make_blocks, make_plan
from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.execution.work import Attempt
from pipeline.recipes import library
from pipeline.sources.kinds import open_source

_ROUNDS = 7

_START_PROGRAM = """
import sys
from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.recipes import library
BuildWorker(BuildJob(library.load("imagenet-c"), *sys.argv[1:]))
"""


@dataclass(frozen=True)
class WorkerTimes:
    """CPU seconds of a worker.

    Attributes:
        photograph: Time to read, decode and prepare a photograph.
        outputs: Time for one output without that, by condition (``fog-3``).
        start: Time to start a worker.
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
    """Build each condition of ImageNet-C separately, then all of them together, in this process.

    Separate builds prepare the photographs once per condition; the common build prepares them once. CPU time, and the
    minimum of seven rounds, depend little on the load of the machine. Waiting for the disk is not included.

    Args:
        photographs: An ImageFolder of photographs.
        scratch: A folder for outputs.
    """
    recipe = library.load("imagenet-c")
    source = open_source("imagefolder", str(photographs))
    (block,) = make_blocks(make_plan(recipe, source), source)
    worker = BuildWorker(BuildJob(recipe, str(photographs), str(scratch / "times")))
    items = [block, *(replace(block, tasks=(task,)) for task in block.tasks)]
    _seconds(worker, block)  # warm up
    rounds = [[_seconds(worker, item) for item in items] for _ in range(_ROUNDS)]
    together, *separate = map(min, zip(*rounds, strict=True))
    return solve_times(
        dict(zip(block.tasks, separate, strict=True)),
        together,
        len(block.images),
        _start_seconds(photographs, scratch / "times"),
    )


def solve_times(separate: Mapping[ShardTask, float], together: float, images: int, start: float) -> WorkerTimes:
    """Compute the times for one photograph and for one output of each condition.

    Args:
        separate: Seconds of a work item with only this task.
        together: Seconds of a work item with all these tasks.
        images: Number of photographs of each work item.
        start: Seconds to start a worker.
    """
    photograph = (sum(separate.values()) - together) / (len(separate) - 1) / images
    outputs = {str(task.condition): seconds / images - photograph for task, seconds in separate.items()}
    return WorkerTimes(photograph, outputs, start)


def _seconds(worker: BuildWorker, item: WorkItem) -> float:
    start = process_time()
    for _ in worker.run(Attempt(item)):
        pass
    return process_time() - start


def _start_seconds(photographs: Path, output: Path) -> float:
    """Return the minimum CPU time of a process that creates a worker and exits."""
    times = []
    for _ in range(_ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", _START_PROGRAM, str(photographs), str(output)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(times)
