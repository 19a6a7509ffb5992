"""A worker without images: it publishes sparse tars and complete manifest rows."""

import hashlib
import os
import tarfile
from collections import Counter
from collections.abc import Iterator

import manifests
from manifests import Row
from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import ShardTask, WorkItem
from pipeline.builder.shard_builder import commit
from pipeline.builder.worker import BuildJob
from pipeline.datasets.content import template_row
from pipeline.execution.work import Attempt
from pipeline.recipes.schema import Recipe
from pipeline.storage import LocalStore

PAYLOAD_BYTES = 20_000
"""Approximate size of a JPEG of 224 x 224."""

SAMPLE_BYTES = 24_576
"""Size of a sample in a tar: image, label and description, with headers and padding."""

SIDE = 224


class Simulated:
    """A worker like :class:`pipeline.builder.worker.BuildWorker` that does not read, render or write images."""

    def __init__(self, job: BuildJob) -> None:
        self._recipe = job.recipe
        self._store = LocalStore(job.output)

    def run(self, attempt: Attempt[WorkItem]) -> Iterator[BuildCounts]:
        """Publish all shards of a work item."""
        block, report = attempt.work, BuildCounts()
        for task in block.tasks:
            size = tarfile.RECORDSIZE * -(-len(block.images) * SAMPLE_BYTES // tarfile.RECORDSIZE)
            tar = self._store.scratch()
            tar.touch()
            os.truncate(tar, size)
            commit(self._store, task, tar, size, simulated_rows(self._recipe, block, task))
            report.shards += 1
            report.samples += Counter({task.condition.transform: len(block.images)})
        yield report


def simulated_rows(recipe: Recipe, block: WorkItem, task: ShardTask) -> list[Row]:
    """Return the rows of a simulated shard. Their digests compress as badly as real ones."""
    template = template_row(recipe, task.condition, task.shard)._replace(
        shard_sha256=_digest(task.name), size=PAYLOAD_BYTES, frames=1, height=SIDE, width=SIDE, status=manifests.OK
    )
    return [
        template._replace(
            key=f"{image.id}-{task.condition}",
            offset=index * SAMPLE_BYTES + tarfile.BLOCKSIZE,
            source_id=image.id,
            source_sha256=_digest(""),  # digest of the empty files, which a resumed build compares
            origin=image.origin,
            label=image.label,
            class_name=image.class_name,
            payload_sha256=_digest(f"payload {image.id} {task.condition}"),
            pixel_sha256=_digest(f"pixels {image.id} {task.condition}"),
        )
        for index, image in enumerate(block.images)
    ]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
