"""The worker of a build, which makes the missing shards of a work item. Independent of the engine."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import product

from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import WorkItem
from pipeline.builder.sample_maker import Failure, Output, Payload, PreparedImage, SampleMaker, quarantined
from pipeline.builder.shard_builder import PartBuilder, part_builder
from pipeline.execution.work import Attempt, CurrentItem
from pipeline.images.fingerprints import resizer_fingerprint
from pipeline.recipes.schema import Recipe
from pipeline.render.bank import load_bank
from pipeline.render.warm_up import ready_renderer
from pipeline.sources.base import SourceImage
from pipeline.sources.kinds import open_source
from pipeline.sources.threads import ReadAhead
from pipeline.storage import open_store, thread_pool
from pipeline.transforms.family import Condition

REPORT_EVERY_S = 0.5
"""Minimum interval between two reports of a worker, in seconds."""

SHARDS_AT_ONCE = 4
"""Number of shards that a worker makes at the same time, and publishes in as many threads. An interruption loses only
these, so they should take seconds."""

KEPT_BYTES = 2**28
"""Maximum size of the prepared images of a work item that are kept for its next shards. If they are larger, the
remaining shards are made at the same time, because preparing an image again takes longer than an output."""

BATCH_IMAGES, BATCH_BYTES = 8, 2**24
"""Maximum number of images in a batch, and maximum bytes of its prepared images or outputs. Stages process whole
batches, so that their code and tables stay in the CPU caches. A larger image is processed alone to limit memory."""

Shards = Mapping[Condition, PartBuilder]

Kept = dict[str, PreparedImage | None]
"""Id -> the prepared image; None if it is too large to be kept."""


@dataclass(frozen=True)
class BuildJob:
    """The settings that all workers of a build share. Small and picklable.

    Attributes:
        recipe: What to build.
        source: Absolute path or URL of the source images.
        output: Absolute path or URL of the data set.
        frost_folder: Folder of the frost textures; None for the installed ones.
    """

    recipe: Recipe
    source: str
    output: str
    frost_folder: str | None = None


def load_libraries() -> None:
    """Load what work items need, including the part of numba that its first kernel loads."""
    resizer_fingerprint("pillow-bilinear")


class BuildWorker:
    """A worker that makes and publishes shards. It keeps source, output and renderer open between work items."""

    def __init__(self, job: BuildJob) -> None:
        self._recipe = job.recipe
        self._store = open_store(job.output)
        load_bank(self._store, job.recipe)
        renderer = ready_renderer(job.recipe, job.frost_folder)
        source = open_source(job.recipe.source.kind, job.source, part=job.recipe.source)
        roots = {job.source, source.location, job.output, self._store.root}
        self._source = ReadAhead(source)
        self._maker = SampleMaker(self._source, renderer, job.recipe.encoder, roots)

    def run(self, attempt: Attempt[WorkItem]) -> Iterator[BuildCounts | CurrentItem]:
        """Make and publish the shards of a work item, a few at a time. Each source image is prepared once for all.

        Yields:
            The counts so far, whenever shards are published and at most every ``REPORT_EVERY_S`` seconds in between;
            always the same object, which is updated. If the attempt asks for it, also the item to be processed next.

        Raises:
            OSError: A shard cannot be written.
            UnreachableError: The source or the output does not respond.
        """
        counts, reported = BuildCounts(), time.monotonic()
        images, tasks, kept = attempt.work.images, list(attempt.work.tasks), Kept()
        if not attempt.report_items:  # a damaged first image may crash the worker
            self._prepared(images[0], kept, attempt, counts)
        while tasks:
            now = tasks[: len(tasks) if None in kept.values() else SHARDS_AT_ONCE]
            del tasks[: len(now)]
            with ExitStack() as stack:
                shards = {
                    task.condition: stack.enter_context(part_builder(task, self._recipe, self._store)) for task in now
                }
                stack.enter_context(self._reading(kept, attempt))
                for report in self._make(shards, kept, attempt, counts):
                    if isinstance(report, CurrentItem):
                        yield report
                    elif time.monotonic() - reported > REPORT_EVERY_S:
                        yield report
                        reported = time.monotonic()
                if attempt.report_items:
                    yield CurrentItem(None)
                self._publish(shards, len(images), counts)
            yield counts
            reported = time.monotonic()

    def _reading(self, kept: Kept, attempt: Attempt[WorkItem]) -> AbstractContextManager[None]:
        """Read the images that are not kept in advance, unless the attempt looks for one that crashes the process."""
        images = () if attempt.report_items else attempt.work.images
        return self._source.expecting(
            image for image in images if not kept.get(image.id) and image.id not in attempt.quarantined
        )

    def _make(
        self, shards: Shards, kept: Kept, attempt: Attempt[WorkItem], counts: BuildCounts
    ) -> Iterator[BuildCounts | CurrentItem]:
        """Add the samples of all images to the shards, in order; yield the counts after each batch."""
        batch: list[PreparedImage] = []
        for image in attempt.work.images:
            if attempt.report_items and image.id not in attempt.quarantined:
                yield CurrentItem(image.id)
            batch.append(self._prepared(image, kept, attempt, counts))
            has_room = len(batch) < BATCH_IMAGES and sum(each.size for each in batch) < BATCH_BYTES
            if attempt.report_items or not has_room:
                yield from self._make_batch(batch, shards, attempt, counts)
                batch = []
        yield from self._make_batch(batch, shards, attempt, counts)

    def _make_batch(
        self, images: Sequence[PreparedImage], shards: Shards, attempt: Attempt[WorkItem], counts: BuildCounts
    ) -> Iterator[BuildCounts | CurrentItem]:
        """Add the samples of these images to the shards; quarantined samples are recorded as failed."""
        outputs: list[Output] = []
        output_bytes = 0
        for condition, prepared in product(shards, images):
            skipped = bool(attempt.quarantined) and _item(prepared.source, condition) in attempt.quarantined
            image = quarantined(prepared.source, prepared.sha256) if skipped else prepared
            suspected = image.source.id in attempt.suspects and not isinstance(image.prepared, Failure)
            if suspected:
                yield CurrentItem(_item(image.source, condition))
            output = self._maker.transform(image, condition, counts)
            outputs.append(output)
            output_bytes += output.size
            if suspected or output_bytes >= BATCH_BYTES:
                _append(self._maker.finish(outputs, counts), shards, counts)
                yield counts
                outputs, output_bytes = [], 0
        _append(self._maker.finish(outputs, counts), shards, counts)
        yield counts

    def _prepared(
        self, image: SourceImage, kept: Kept, attempt: Attempt[WorkItem], counts: BuildCounts
    ) -> PreparedImage:
        """Return a prepared image, and keep it if it is not larger than its share of ``KEPT_BYTES``."""
        if image.id in attempt.quarantined:
            return quarantined(image)
        prepared = kept.get(image.id) or self._maker.prepare(image, counts)
        kept[image.id] = prepared if prepared.size * len(attempt.work.images) <= KEPT_BYTES else None
        return prepared

    def _publish(self, shards: Shards, images: int, counts: BuildCounts) -> None:
        """Publish the shards in parallel, because publishing waits for the disk. Raises OSError."""
        start = time.perf_counter()
        with thread_pool(SHARDS_AT_ONCE) as pool:
            sizes = list(pool.map(lambda shard: shard.publish(self._store), shards.values()))
        for condition, size in zip(shards, sizes, strict=True):
            counts.add_shard(str(condition), images, size)
        counts.add_time("publish", start)


def _item(image: SourceImage, condition: Condition) -> str:
    """Return the name of a sample in reports. It cannot be the id of an image, whose dots precede a suffix only."""
    return f"{image.id}.{condition}"


def _append(samples: Sequence[tuple[Output, Payload | Failure]], shards: Shards, counts: BuildCounts) -> None:
    """Append samples to their shards. Raises OSError."""
    start = time.perf_counter()
    for output, payload in samples:
        shards[output.condition].append(output.image, payload)
        counts.add_sample(output.condition.transform, payload.size)
    counts.add_time("write", start)
