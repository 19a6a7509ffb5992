"""The section of docs/scale.md about a build on simulated clusters."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence

from bench.report import markdown_line, processor
from bench.simulated_cluster import NO_TROUBLE, SPREAD, Listing, Simulation, Trouble, simulate
from bench.worker_times import WorkerTimes
from pipeline.build.plan import make_plan
from pipeline.recipes import library

IMAGES = 50_000

CLUSTERS = ((256, NO_TROUBLE), (256, Trouble()), (1000, NO_TROUBLE), (1000, Trouble()))
"""Workers, and what is wrong with some of them."""

SEEDS = 10

WANTED_WORKERS, WANTED_BUSY = 256, 0.9
"""On so many workers, some of them slow or lost, the busy share is to be at least this."""

Figure = Callable[[Simulation], float]


def simulations(times: WorkerTimes, images: int = IMAGES) -> dict[tuple[int, Trouble], list[Simulation]]:
    """Return the simulations of each cluster, one for each seed.

    Raises:
        ValueError: A simulated build did not make every shard once.
    """
    plan = make_plan(library.load("imagenet-c"), Listing(images))
    runs = {}
    for workers, trouble in CLUSTERS:
        runs[workers, trouble] = [
            simulate(plan, images=images, workers=workers, times=times, trouble=trouble, seed=seed)
            for seed in range(SEEDS)
        ]
        for run in runs[workers, trouble]:
            if (run.counts.shards, run.counts.samples.total()) != (plan.shards, plan.samples):
                raise ValueError(f"{run.counts.shards} shards instead of {plan.shards}")
    return runs


def mean(runs: Sequence[Simulation], figure: Figure) -> float:
    """Return the mean of a figure over the seeds."""
    return statistics.mean(map(figure, runs))


ROWS: Sequence[tuple[str, Figure, str, bool]] = (
    ("work items", lambda run: run.items, ",.0f", False),
    ("wall-clock, s", lambda run: run.wall, ".1f", True),
    ("**busy**: share of the workers' time in attempts that count", lambda run: run.busy, ".2f", True),
    ("&nbsp; of that preparing photographs again", lambda run: run.busy - run.useful, ".2f", False),
    ("&nbsp; of that useful", lambda run: run.useful, ".2f", False),
    ("in attempts that were lost or overtaken", lambda run: run.void / run.up, ".3f", False),
    ("failed attempts", lambda run: run.failed, ".1f", False),
    ("duplicates", lambda run: run.duplicates, ".1f", False),
    (
        "CPU time of driver and simulation for a work item, ms",
        lambda run: 1e3 * run.driver / run.items,
        ".2f",
        False,
    ),
)
"""What a row tells, the figure, its format, and whether its range over the seeds is shown."""


def section(times: WorkerTimes, runs: dict[tuple[int, Trouble], list[Simulation]]) -> str:
    """Return the section as Markdown."""
    heads = (f"{workers:,}, {'all sound' if each == NO_TROUBLE else 'some slow or lost'}" for workers, each in runs)
    lines = [markdown_line(("workers", *heads)), "|---" + "|---:" * len(runs) + "|"]
    for name, figure, form, ranged in ROWS:
        cells = []
        for each in runs.values():
            values = [figure(run) for run in each]
            spread = f" ({min(values):{form}} to {max(values):{form}})" if ranged else ""
            cells.append(f"{statistics.mean(values):{form}}{spread}")
        lines.append(markdown_line((name, *cells)))
    outputs, trouble = times.outputs.values(), Trouble()
    return SECTION.format(
        heading=HEADING,
        images=IMAGES,
        table="\n".join(lines),
        photograph=times.photograph * 1e3,
        output=statistics.mean(outputs) * 1e3,
        least=min(outputs) * 1e3,
        most=max(outputs) * 1e3,
        start=times.start,
        spread=SPREAD,
        slow=trouble.slow,
        slowness=trouble.slowness,
        lost=trouble.lost,
        away=trouble.away_s / 60,
        seeds=SEEDS,
        machine=processor(),
        cpus=os.cpu_count(),
        wanted=WANTED_BUSY,
        wanted_workers=WANTED_WORKERS,
    )


HEADING = "## A build on a simulated cluster"

SECTION = """{heading}

The scheduler of every build, with a simulated clock and simulated workers. {images:,} photographs x 75 outputs
(ImageNet-C, shards of 1,000) are planned and divided into work items as a build does it.

- Workers take the CPU time that was measured on {machine}, {cpus} cores: {photograph:.2f} ms to read, decode and
  prepare a photograph, {output:.2f} ms for an output ({least:.2f} to {most:.2f} by condition), {start:.2f} s to start.
  An attempt takes up to {spread:.0%} more or less.
- Some slow: {slow:.0%} of the workers take {slowness:g} times as long.
- Some lost: {lost:.0%} of the workers die, each at a random moment of the time that the undisturbed build would take.
  Their machines come back after {away:.0f} minutes.
- Waiting for storage, and for a cluster to hand out its machines, is not simulated.

Means over {seeds} seeds, with the range over them in brackets:

{table}

The workers' time is that in which they are up: from the end of their start to the end of the build, or to their loss.
Photographs are prepared again because a block is divided among several workers, each of which decodes for itself;
useful is what a single worker would do as well. The command fails where busy is below {wanted} on {wanted_workers}
workers, some of them slow or lost.
"""
