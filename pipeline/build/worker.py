"""One work item: its source images through every condition that still lacks them. Independent of the engine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product

from pipeline.build.counts import BuildCounts
from pipeline.build.failures import Failure
from pipeline.build.plan import WorkItem
from pipeline.build.records import Output, PreparedImage, SampleResult
from pipeline.build.sample_maker import SampleMaker, quarantined
from pipeline.build.shard_builder import ShardBuilder
from pipeline.execution.work import Attempt, CurrentItem
from pipeline.recipes.schema import Recipe
from pipeline.render.warm_up import ready_renderer
from pipeline.sources.base import SourceImage
from pipeline.sources.kinds import open_source
from pipeline.storage import open_store
from pipeline.transforms.family import Condition

REPORT_EVERY_S = 0.5
"""Seconds between two reports of a worker."""

PUBLISHING_THREADS = 4

IMAGES_TOGETHER, BYTES_TOGETHER = 8, 2**24
"""Largest number of images whose samples are made together, condition by condition, and bytes of outputs that go
through a stage together. Stage by stage, code and tables stay in the CPU's caches. All of them are in memory, so an
image whose prepared form is larger than these bytes is processed alone."""

Shards = Mapping[Condition, ShardBuilder]


@dataclass(frozen=True)
class BuildJob:
    """What every worker of a build needs, the same for all work items. Small, and picklable."""

    recipe: Recipe
    source: str
    output: str
    frost_folder: str | None = None


class BuildWorker:
    """Builds work items; holds what stays the same from one to the next."""

    def __init__(self, job: BuildJob) -> None:
        self._recipe = job.recipe
        self._store = open_store(job.output)
        renderer = ready_renderer(job.recipe, job.frost_folder)
        source = open_source(job.recipe.source.kind, job.source)
        roots = {job.source, source.location, job.output, self._store.root}
        self._maker = SampleMaker(source, renderer, job.recipe.encoder, sorted(roots, key=len, reverse=True))

    def run(self, attempt: Attempt[WorkItem]) -> Iterator[BuildCounts | CurrentItem]:
        """Make and publish the shards of a work item; read and prepare each source image once for all of them.

        Args:
            attempt: The work item, and which of its samples are suspected or condemned.

        Yields:
            What has been done so far, about every half second and once at the end: one object, which grows. A
            careful attempt also yields where it is.

        Raises:
            OSError: A shard cannot be written.
            UnreachableError: The source or the output does not answer.
        """
        counts, reported = BuildCounts(), time.monotonic()
        with ExitStack() as stack:
            shards = {
                task.condition: stack.enter_context(ShardBuilder(task, self._recipe, self._store.scratch()))
                for task in attempt.work.tasks
            }
            for news in self._make(shards, attempt, counts):
                if isinstance(news, CurrentItem):
                    yield news
                elif time.monotonic() - reported > REPORT_EVERY_S:
                    yield news
                    reported = time.monotonic()
            if attempt.report_items:
                yield CurrentItem(None)
            self._publish(shards, len(attempt.work.images), counts)
        yield counts

    def _make(self, shards: Shards, attempt: Attempt[WorkItem], counts: BuildCounts) -> Iterator[BuildCounts | CurrentItem]:
        """Add the samples of all images to the shards, in the order of the images; yield the counts after some."""
        together: list[PreparedImage] = []
        for image in attempt.work.images:
            if image.id in attempt.quarantined:
                together.append(quarantined(image))
            else:
                if attempt.report_items:
                    yield CurrentItem(image.id)
                together.append(self._maker.prepare(image, counts))
            room = len(together) < IMAGES_TOGETHER and sum(each.size for each in together) < BYTES_TOGETHER
            if attempt.report_items or not room:
                yield from self._make_together(together, shards, attempt, counts)
                together = []
        yield from self._make_together(together, shards, attempt, counts)

    def _make_together(
        self, images: Sequence[PreparedImage], shards: Shards, attempt: Attempt[WorkItem], counts: BuildCounts
    ) -> Iterator[BuildCounts | CurrentItem]:
        """Add the samples of these images to the shards; condemned ones fail untried."""
        outputs: list[Output] = []
        held = 0
        for condition, prepared in product(shards, images):
            left_out = bool(attempt.quarantined) and _item(prepared.source, condition) in attempt.quarantined
            image = quarantined(prepared.source, prepared.sha256) if left_out else prepared
            suspected = image.source.id in attempt.suspects and not isinstance(image.prepared, Failure)
            if suspected:
                yield CurrentItem(_item(image.source, condition))
            output = self._maker.transform(image, condition, counts)
            outputs.append(output)
            held += output.size
            if suspected or held >= BYTES_TOGETHER:
                _append(self._maker.finish(outputs, counts), shards, counts)
                yield counts
                outputs, held = [], 0
        _append(self._maker.finish(outputs, counts), shards, counts)
        yield counts

    def _publish(self, shards: Shards, images: int, counts: BuildCounts) -> None:
        """Publish the shards in parallel, since each waits for the disk. Raises OSError."""
        start = time.perf_counter()
        with ThreadPoolExecutor(PUBLISHING_THREADS) as pool:
            sizes = list(pool.map(lambda shard: shard.publish(self._store), shards.values()))
        for condition, size in zip(shards, sizes, strict=True):
            counts.add_shard(str(condition), images, size)
        counts.lap("publish", start)


def _item(image: SourceImage, condition: Condition) -> str:
    """Return what a careful worker calls the sample of an image: no image's id, since those hold no dot."""
    return f"{image.id}.{condition}"


def _append(results: Sequence[SampleResult], shards: Shards, counts: BuildCounts) -> None:
    """Append results to their shards. Raises OSError."""
    start = time.perf_counter()
    for result in results:
        shards[result.condition].append(result)
        counts.add_sample(result.condition.transform, _payload_bytes(result))
    counts.lap("write", start)


def _payload_bytes(result: SampleResult) -> int | None:
    """Return the length of a sample's payload; None of a failed sample."""
    if isinstance(result.payload, Failure):
        return None
    return sum(map(len, result.payload.members.values()))
