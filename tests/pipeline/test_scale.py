"""Whole builds of many samples without pixels: the product's plan, pool, commits, merge and resuming."""

from __future__ import annotations

from pathlib import Path

from bench.scale import listed, measure
from pipeline.recipes import library
from pipeline.render.warm_up import try_transforms

SHARD_SIZE = 500


def test_resuming_makes_what_is_missing_and_memory_does_not_grow_with_samples(tmp_path: Path, ray_address: str) -> None:
    """``measure`` itself checks which shards are made again, and that the manifest has the same bytes after that."""
    try_transforms(library.load("imagenet-c"), None)  # compiles the kernels, or the first driver would need more memory
    address = ("--address", ray_address)
    runs = measure(listed(tmp_path / "many", 1334), tmp_path / "data", SHARD_SIZE, *address)
    assert [(run.samples, run.shards) for run in runs.values()] == [(100_050, 225), (100_050, 0), (100_050, 2)]
    few = measure(listed(tmp_path / "few", 134), tmp_path / "few-data", SHARD_SIZE, *address)
    assert [(run.samples, run.shards) for run in few.values()] == [(10_050, 75), (10_050, 0), (10_050, 1)]
    for name, run in runs.items():
        assert run.megabytes < 1.15 * few[name].megabytes, name
