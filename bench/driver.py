"""Run the driver of a build, or a plan, in a new process, and print its time and memory as JSON."""

import argparse
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.simulated import Simulated
from pipeline.builder.build import run_build
from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import Plan, WorkItem, make_blocks, make_plan
from pipeline.builder.settings import BuildSettings
from pipeline.execution.resumable import SilentWatcher
from pipeline.execution.work import Event, Progress, Tally
from pipeline.recipes import library
from pipeline.render.warm_up import try_transforms
from pipeline.sources.kinds import open_source

WORKERS = 2

PLANNED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ImageNet-C, 19 corruptions": ("imagenet-c", {"only": ["all"]}),
    "ImageNet-P, 14 perturbations, 3 difficulties": ("imagenet-p", {"only": ["all"], "levels": [1, 2, 3]}),
    "ImageNet-S, 13 pairs of the paper": ("imagenet-s", {}),
    "ImageNet-S, all 33 pairs": ("imagenet-s", {"only": ["full"]}),
}
"""Plans: the recipe and changes of its transforms."""


@dataclass(frozen=True)
class Drive:
    """Seconds of each stage, peak memory in MB (10^6 bytes), and the numbers of planned samples and finished shards."""

    seconds: Mapping[str, float]
    megabytes: float
    samples: int
    shards: int


class Stages(SilentWatcher):
    """An observer that records when each stage of a build begins."""

    def __init__(self) -> None:
        self._prepared: list[float] = []
        self._started = self._reported = 0.0

    def preparing(self, what: str) -> None:
        """Record the begin of a preparation: planning first, then finding finished shards."""
        self._prepared.append(perf_counter())

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """Record the begin of the work."""
        self._started = self._reported = perf_counter()

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """Record the time of a report. The merge begins after the last one."""
        self._reported = perf_counter()

    def on_event(self, event: Event[BuildCounts, WorkItem]) -> None:
        """Raise RuntimeError if an attempt fails, because the measurement would be invalid."""
        if not isinstance(event, Progress):
            raise RuntimeError(event.reason)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each stage. Call this when the build has ended."""
        first, second, *_ = self._prepared
        return {
            "planning": second - first,
            "finding finished shards": self._started - second,
            "committing": self._reported - self._started,
            "merging": perf_counter() - self._reported,
        }


def build(source: str, output: str, shard_size: int, executor: str) -> Drive:
    """Build the missing shards without pixels."""
    recipe = library.load("imagenet-c").changed(shards={"size": shard_size})
    try_transforms(recipe, None)  # compile the kernels before the measurement
    stages = Stages()
    outcome = run_build(
        BuildSettings(recipe=recipe, source=source, out=output, workers=WORKERS, executor=executor), stages, Simulated
    )
    return Drive(stages.seconds(), peak_megabytes(), outcome.plan.samples, outcome.done.shards)


def plan(source: str, name: str) -> Drive:
    """Make one of the plans, and iterate over all its shards."""
    recipe_name, transforms = PLANNED[name]
    recipe, start = library.load(recipe_name).changed(transforms=transforms), perf_counter()
    images = open_source("imagefolder", source)
    made = make_plan(recipe, images)
    shards = sum(len(block.tasks) for block in make_blocks(made, images))
    return Drive({"planning": perf_counter() - start}, peak_megabytes(), made.samples, shards)


def peak_megabytes() -> float:
    """Return the peak memory of this process in MB. Raise OSError on systems other than Linux."""
    (kibibytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kibibytes) * 1024 / 1e6


def main() -> None:
    """Run ``build`` or ``plan``."""
    parser = argparse.ArgumentParser(prog="python -m bench.driver", description=__doc__)
    commands = parser.add_subparsers(required=True)
    building, planning = commands.add_parser("build"), commands.add_parser("plan")
    building.set_defaults(run=build)
    planning.set_defaults(run=plan)
    for command in (building, planning):
        command.add_argument("source")
    building.add_argument("output")
    building.add_argument("shard_size", type=int)
    building.add_argument("--executor", default="auto")
    planning.add_argument("name", choices=PLANNED)
    options = vars(parser.parse_args())
    print(json.dumps(asdict(options.pop("run")(**options))))


if __name__ == "__main__":
    main()
