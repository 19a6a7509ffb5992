"""Builds of many samples without images, and builds on simulated clusters."""

from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

from bench.scale import measure, write_empty_source
from bench.scheduling import LARGE, REQUIRED
from bench.simulated_cluster import NO_TROUBLE, SPREAD, Listing, Simulation, Trouble, simulate
from bench.worker_times import WorkerTimes
from pipeline.builder.plan import make_plan
from pipeline.recipes import library
from pipeline.render.warm_up import try_transforms

SHARD_SIZE = 500

IMAGENET_C = library.load("imagenet-c")

TIMES = WorkerTimes(2.6e-3, {str(condition): 0.94e-3 for condition in IMAGENET_C.conditions()}, 1.0)
"""Times like those of docs/benchmark.md, equal for all outputs."""


@pytest.mark.large
def test_resuming_makes_missing_shards_and_memory_does_not_grow_with_samples(tmp_path: Path) -> None:
    """``measure`` checks which shards are remade, and that the manifest then has the same bytes."""
    try_transforms(
        library.load("imagenet-c"), None
    )  # compile the kernels here, because compiling would increase the first driver's memory
    engine = ("--executor", "local")
    runs = measure(write_empty_source(tmp_path / "many", 1334), tmp_path / "data", SHARD_SIZE, *engine)
    assert [(run.samples, run.shards) for run in runs.values()] == [(100_050, 225), (100_050, 0), (100_050, 2)]
    few = measure(write_empty_source(tmp_path / "few", 134), tmp_path / "few-data", SHARD_SIZE, *engine)
    assert [(run.samples, run.shards) for run in few.values()] == [(10_050, 75), (10_050, 0), (10_050, 1)]
    for name, run in runs.items():
        assert run.megabytes < 1.15 * few[name].megabytes, name


def simulated(blocks: int, workers: int, trouble: Trouble, seed: int = 0) -> Simulation:
    """Simulate a build of ImageNet-C from blocks of 1,000 images."""
    plan = make_plan(IMAGENET_C, Listing(1000 * blocks))
    run = simulate(plan, images=1000 * blocks, workers=workers, times=TIMES, trouble=trouble, seed=seed)
    assert sorted(run.counts.shard_samples.values()) == [1000] * plan.shards
    assert run.counts.shards == plan.shards
    return run


def test_workers_without_faults_are_busy_from_start_to_end() -> None:
    run = simulated(4, 4, NO_TROUBLE)
    block = 2.6 + 75 * 0.94
    assert run.wall == pytest.approx(1.0 + block, rel=SPREAD)
    assert (run.items, run.failed, run.duplicates) == (4, 0, 0)
    assert run.void == pytest.approx(0.0, abs=1e-6)
    assert run.again == 0.0
    assert run.making == pytest.approx(4 * block, rel=SPREAD)
    assert run.up == pytest.approx(4 * (run.wall - 1.0))
    assert run.busy > 1 - 2 * SPREAD


@pytest.mark.parametrize("away_s", [0.0, 10_000.0])
def test_attempt_of_a_lost_worker_is_void_and_retried(away_s: float) -> None:
    """The retry runs on a new worker if the machine returns at once, and otherwise on the first idle worker."""
    run = simulated(4, 4, Trouble(slow=0.0, lost=0.25, away_s=away_s))
    block = 2.6 + 75 * 0.94
    assert (run.items, run.failed) == (4, 1)
    assert 0 < run.void < block
    assert run.making == pytest.approx(4 * block, rel=SPREAD)
    wall = 1.0 + run.void + 1.0 + block if away_s == 0 else 1.0 + 2 * block
    assert run.wall == pytest.approx(wall, rel=SPREAD)


def test_equal_seeds_give_equal_results() -> None:
    trouble = Trouble(slow=0.1, lost=0.1)
    assert simulated(5, 20, trouble, seed=3) == simulated(5, 20, trouble, seed=3)
    assert simulated(5, 20, trouble, seed=3) != simulated(5, 20, trouble, seed=4)


def test_256_workers_with_faults_are_busy(fewer: int) -> None:
    (images, workers, trouble), name, minimum = REQUIRED[0]
    runs = [simulated(images // 1000, workers, trouble, seed) for seed in range(3 if fewer == 1 else 1)]
    assert mean(getattr(run, name) for run in runs) > minimum
    assert all(run.failed == round(0.01 * workers) for run in runs)


@pytest.mark.large
def test_1000_workers_with_faults_mostly_do_useful_work() -> None:
    """With the images of ImageNet's training set, which take them a minute and a half."""
    images, workers, trouble = LARGE
    run = simulated(-(-images // 1000), workers, trouble)
    for _, name, minimum in REQUIRED[1:]:
        assert getattr(run, name) > minimum


@pytest.mark.slow
def test_slow_workers_do_not_delay_a_build_on_many_workers() -> None:
    """A slow worker needs no longer for one work item than the others need for all of theirs."""
    trouble = replace(NO_TROUBLE, slow=0.02)
    assert simulated(50, 256, trouble).wall < 1.1 * simulated(50, 256, NO_TROUBLE).wall
