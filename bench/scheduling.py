"""The section of docs/scale.md about builds on simulated clusters."""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.report import table
from bench.simulated_cluster import NO_TROUBLE, SPREAD, Listing, Simulation, Trouble, simulate
from bench.worker_times import WorkerTimes
from pipeline.builder.doctor import processor
from pipeline.builder.plan import make_plan
from pipeline.recipes import library

Cluster = tuple[int, int, Trouble]
"""Numbers of photographs and of workers, and faults."""

VALIDATION, TRAINING = 50_000, 1_281_167
"""Numbers of ImageNet's photographs."""

MEDIUM, LARGE = (VALIDATION, 256, Trouble()), (TRAINING, 1000, Trouble())

CLUSTERS: Sequence[Cluster] = (
    (VALIDATION, 256, NO_TROUBLE),
    MEDIUM,
    (VALIDATION, 1000, NO_TROUBLE),
    (VALIDATION, 1000, Trouble()),
    LARGE,
)

REQUIRED = ((MEDIUM, "busy", 0.9), (LARGE, "busy", 0.85), (LARGE, "useful", 0.85))
"""Clusters, and the required minimum of a fraction there."""

SEEDS = 10

Figure = Callable[[Simulation], float]


def simulations(times: WorkerTimes) -> dict[Cluster, list[Simulation]]:
    """Simulate each cluster with each seed.

    Raises:
        ValueError: A simulated build did not make every shard exactly once.
    """
    plans = {images: make_plan(library.load("imagenet-c"), Listing(images)) for images in (VALIDATION, TRAINING)}
    runs = {}
    for cluster in CLUSTERS:
        images, workers, trouble = cluster
        plan = plans[images]
        runs[cluster] = [
            simulate(plan, images=images, workers=workers, times=times, trouble=trouble, seed=seed)
            for seed in range(SEEDS)
        ]
        for run in runs[cluster]:
            if (run.counts.shards, run.counts.samples.total()) != (plan.shards, plan.samples):
                raise ValueError(f"a simulated build made {run.counts.shards} shards, expected {plan.shards}")
    return runs


def shortfalls(runs: Mapping[Cluster, Sequence[Simulation]]) -> Iterator[str]:
    """Yield the fractions whose mean over the seeds is below the required minimum."""
    for cluster, name, minimum in REQUIRED:
        if (fraction := statistics.mean(getattr(run, name) for run in runs[cluster])) < minimum:
            yield f"{cluster[1]:,} simulated workers: {name} is {fraction:.2f}, required is {minimum}"


ROWS: Sequence[tuple[str, Figure, str, bool]] = (
    ("work items", lambda run: run.items, ",.0f", False),
    ("wall-clock, s", lambda run: run.wall, ".1f", True),
    ("**busy**: fraction of the workers' time in finished attempts", lambda run: run.busy, ".2f", True),
    ("&nbsp; of which preparing photographs again", lambda run: run.busy - run.useful, ".2f", False),
    ("&nbsp; of which useful", lambda run: run.useful, ".2f", False),
    ("fraction in attempts that were lost or overtaken", lambda run: run.void / run.up, ".3f", False),
    ("failed attempts", lambda run: run.failed, ".1f", False),
    ("duplicates", lambda run: run.duplicates, ".1f", False),
    ("CPU time of driver and simulation per work item, ms", lambda run: 1e3 * run.driver / run.items, ".2f", False),
)
"""Title, figure and format of each row, and whether the range over the seeds is shown."""


def section(times: WorkerTimes, runs: dict[Cluster, list[Simulation]]) -> str:
    """Return the section as Markdown."""
    heads = (
        f"{workers:,} for {images:,}, {'no faults' if trouble == NO_TROUBLE else 'some slow or lost'}"
        for images, workers, trouble in runs
    )
    rows = []
    for name, figure, form, ranged in ROWS:
        cells = []
        for each in runs.values():
            values = [figure(run) for run in each]
            spread = f" ({min(values):{form}} to {max(values):{form}})" if ranged else ""
            cells.append(f"{statistics.mean(values):{form}}{spread}")
        rows.append((name, *cells))
    outputs, trouble = times.outputs.values(), Trouble()
    return SECTION.format(
        heading=HEADING,
        table=table(("workers, photographs", *heads), rows),
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
        required=", ".join(
            f"{name} {least} on {workers:,} workers for {images:,}" for (images, workers, _), name, least in REQUIRED
        ),
        machine=processor(),
        cpus=os.cpu_count(),
    )


HEADING = "## A build on a simulated cluster"

SECTION = """{heading}

The real scheduler with a simulated clock and simulated workers. The plan and its division into work items are those of
a real build: 75 outputs of each photograph (ImageNet-C, shards of 1,000).

- Workers need the CPU time that was measured on {machine}, {cpus} cores: {photograph:.2f} ms to read, decode and
  prepare a photograph, {output:.2f} ms per output ({least:.2f} to {most:.2f} by condition), {start:.2f} s to start.
  The time of an attempt varies by up to {spread:.0%}.
- Slow workers: {slow:.0%} of the workers take {slowness:g} times as long.
- Lost workers: {lost:.0%} of the workers die, each at a random time of the build.
  Their machines return after {away:.0f} minutes.
- Not simulated: waiting for storage, and for a cluster to provide its machines.

Means over {seeds} seeds; brackets contain the range over the seeds:

{table}

The workers' time is counted from the end of their start to the end of the build or to their loss. Photographs are
prepared again because a block is divided among several workers, each of which decodes its photographs; the fewer blocks
per worker, the more. Useful work is work that a single worker would also do. Where some workers are slow or lost, the
command requires: {required}.
"""
