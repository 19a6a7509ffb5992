"""Shards and their manifest parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import manifests
from pipeline.build.plan import ShardTask
from pipeline.datasets.paths import FACT_FAILED, FACT_IMAGES, FACT_LISTING, FACT_SHARD_SIZE, FACT_TASK
from pipeline.storage import Store


def commit(store: Store, task: ShardTask, tar: Path, size: int, rows: Sequence[manifests.Row]) -> None:
    """Give a finished tar and its part their names, the part last: a shard exists once its part does."""
    store.publish(tar, task.shard)
    failed = sum(row.status == manifests.FAILED for row in rows)
    facts = {FACT_TASK: task.digest, FACT_FAILED: str(failed), FACT_SHARD_SIZE: str(size)}
    facts |= {FACT_IMAGES: str(len(rows)), FACT_LISTING: task.listing}
    part = store.scratch()
    manifests.write_part(rows, facts, part)
    store.publish(part, task.part)
