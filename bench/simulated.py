"""A worker that makes no pixels: it commits shards whose tars are holes, with the rows that they would have."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections import Counter
from collections.abc import Iterator

import manifests
from manifests import Row
from pipeline.build.counts import BuildCounts
from pipeline.build.plan import ShardTask, WorkItem
from pipeline.build.shard_builder import commit
from pipeline.build.worker import BuildJob
from pipeline.execution.work import Attempt
from pipeline.recipes.schema import Recipe
from pipeline.storage import LocalStore

PAYLOAD_BYTES = 20_000
"""Of a JPEG of 224 x 224, about."""

SAMPLE_BYTES = 24_576
"""In a tar: image, label and description, with their headers and filling."""

SIDE = 224


class Simulated:
    """Does what :class:`pipeline.build.worker.BuildWorker` does, but for reading, rendering and writing images."""

    def __init__(self, job: BuildJob) -> None:
        self._recipe = job.recipe
        self._store = LocalStore(job.output)

    def run(self, attempt: Attempt[WorkItem]) -> Iterator[BuildCounts]:
        """Commit all shards of a block."""
        block, report = attempt.work, BuildCounts()
        for task in block.tasks:
            size = tarfile.RECORDSIZE * -(-len(block.images) * SAMPLE_BYTES // tarfile.RECORDSIZE)
            tar = self._store.scratch()
            tar.touch()
            os.truncate(tar, size)
            commit(self._store, task, tar, size, made_rows(self._recipe, block, task))
            report.shards += 1
            report.samples += Counter({task.condition.transform: len(block.images)})
        yield report


def made_rows(recipe: Recipe, block: WorkItem, task: ShardTask) -> list[Row]:
    """The rows of a shard that nobody made; the digests of payloads are as hard to compress as real ones."""
    pair, version = recipe.pair(task.condition), recipe.family.version(task.condition.transform)
    shard_sha256, encoder = _digest(task.name), str(recipe.encoder)
    return [
        Row(
            key=f"{image.id}-{task.condition}",
            shard=task.shard,
            shard_sha256=shard_sha256,
            offset=place * SAMPLE_BYTES + tarfile.BLOCKSIZE,
            size=PAYLOAD_BYTES,
            source_id=image.id,
            source_sha256=_digest(""),  # the files are empty, which a build that is resumed looks at
            origin=image.origin,
            label=image.label,
            class_name=image.class_name,
            transform=task.condition.transform,
            version=version,
            level=task.condition.level,
            profile=recipe.profile,
            decoder=pair.decoder,
            resize=pair.resize,
            frames=1,
            height=SIDE,
            width=SIDE,
            encoder=encoder,
            payload_sha256=_digest(f"payload {image.id} {task.condition}"),
            pixel_sha256=_digest(f"pixels {image.id} {task.condition}"),
            status=manifests.OK,
            error=None,
        )
        for place, image in enumerate(block.images)
    ]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
