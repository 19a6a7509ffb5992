"""The build command: plan the shards, make those that are not committed, then merge the manifest."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Protocol

from pipeline.builder.committed import Committed, find_missing
from pipeline.builder.compatibility import DATA_SET
from pipeline.builder.counts import BuildCounts
from pipeline.builder.estimate import estimate, measured_sizes, shard_sizes, with_size_warning
from pipeline.builder.merge import copy_failed, first_failures, merge_parts
from pipeline.builder.plan import (
    SHARED_COST,
    SHARED_COST_OF_SEQUENCES,
    Missing,
    Plan,
    WorkItem,
    divided,
    division,
    make_blocks,
    missing_blocks,
)
from pipeline.builder.preflight import prepare
from pipeline.builder.quota import Quota, Withheld, estimated_bytes
from pipeline.builder.result import BuildResult, publish_record
from pipeline.builder.settings import BuildSettings, MirrorSettings
from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.datasets.paths import RECIPE_FILE
from pipeline.execution import base
from pipeline.execution.pools import Crew
from pipeline.execution.resumable import JobWatcher, ResumableJob, run_resumable
from pipeline.execution.work import Event, Lost, Progress, Tally
from pipeline.render.bank import publish_bank
from pipeline.sources.base import Source
from pipeline.storage import is_url, local_path, open_store
from pipeline.storage.trusted_locations import remember
from pipeline.text import counted


class BuildWatcher(JobWatcher[WorkItem, BuildCounts], Protocol):
    """An observer of a build."""

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """Handle the start of the work: numbers of samples to make, by transform, and of shards."""

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """Handle a report of a worker. With many workers, this is called several hundred times per second."""


MakeWorker = Callable[[BuildJob], base.Worker[WorkItem, BuildCounts]]

Workers = Crew[Any, WorkItem, BuildCounts]

Split = Callable[[WorkItem, int], Iterator[WorkItem]]
"""A function that splits a block into work items; the number is the one of a build without a model."""


def run_build(
    asked: BuildSettings | MirrorSettings, watcher: BuildWatcher, worker: MakeWorker = BuildWorker
) -> BuildResult:
    """Make the missing shards of a data set, then its manifest. ``worker`` is called in each worker process.

    Raises:
        UserError: An input is invalid, or the output contains another data set. Nothing has been built.
        UnfinishedError: No worker can be started, or a manifest part cannot be read.
    """
    plan, source = prepare(asked, watcher)
    plan = with_size_warning(plan, lambda: estimate(plan, source, 1, asked.frost_folder).output_bytes)
    frost = asked.frost_folder and _absolute_location(asked.frost_folder)
    job = BuildJob(plan.recipe, _absolute_location(asked.source), _absolute_location(asked.out), frost)
    crew = Workers(
        job=job, worker=worker, outputs=0, executor=asked.executor, workers=asked.workers, address=asked.address
    )
    build = Build(
        plan,
        source,
        watcher,
        crew,
        asked.out,
        asked.source,
        retry_failed=asked.retry_failed,
        max_bytes=asked.max_bytes,
        frost_folder=asked.frost_folder,
        copy_failed=isinstance(asked, MirrorSettings) and asked.copy_failed,
    )
    run_resumable(build, BuildCounts)
    return build.result


class Build(ResumableJob[WorkItem, BuildCounts]):
    """A build as a resumable job.

    Args:
        plan: The whole data set.
        source: The source images.
        watcher: Observer of the build.
        crew: The workers; the number of their outputs and their labels are added.
        out: Folder or URL of the data set.
        location: Folder or URL of the source images, as the user gave it.
        retry_failed: Whether to remake shards that have failed samples.
        max_bytes: Maximum size of all shards in bytes; None for no limit.
        frost_folder: Folder of the frost textures; None for the installed ones.
        copy_failed: Whether a mirror gets copies of the source images that failed.
        split: Splits a block with its missing tasks into work items.
    """

    folder = DATA_SET
    result: BuildResult
    _watcher: BuildWatcher

    def __init__(
        self,
        plan: Plan,
        source: Source,
        watcher: BuildWatcher,
        crew: Workers,
        out: str,
        location: str,
        *,
        retry_failed: bool,
        max_bytes: float | None = None,
        frost_folder: str | None = None,
        copy_failed: bool = False,
        split: Split = WorkItem.split,
    ) -> None:
        super().__init__(open_store(out), watcher)
        self.plan, self._source, self._crew, self._split = plan, source, crew, split
        self._out, self._location, self._retry_failed, self._max_bytes = out, location, retry_failed, max_bytes
        self._frost_folder, self._copy_failed = frost_folder, copy_failed
        self.result = BuildResult(plan)
        self._committed = Committed()
        self._missing = Missing(Counter(), shards=0, blocks=0)
        self._quota = Quota()

    def claim(self) -> None:
        """Check that the output is empty or contains this data set or a part of it, and write the recipe."""
        found = find_missing(self.store, self.plan, self._source, self._retry_failed)
        self._committed, self._missing = found
        self.store.publish_bytes(self.plan.recipe.to_toml().encode(), RECIPE_FILE)
        publish_bank(self.store, self.plan.recipe)
        remember(self._out, "source", self._location)

    def find_missing(self) -> bool:
        """Report the missing shards to the watcher, and return whether there are any."""
        self._start_time, self._start = datetime.now(UTC), perf_counter()
        plan, missing = self.plan, self._missing
        self.result.shards_before = plan.shards - missing.shards
        self._watcher.started(plan, missing.by_transform(), missing.shards)
        if missing.shards and self._max_bytes is not None:  # otherwise, the sizes of finished shards are not read
            known, conditions = shard_sizes(plan, self.store), map(str, missing.samples)
            measured = measured_sizes(plan, self._source, conditions, known, self._frost_folder)
            self._quota = Quota(self._max_bytes, known, measured)
        return missing.shards > 0

    def crew(self) -> Workers:
        """Return the workers."""
        labels = {"recipe": self.plan.recipe.name}
        return replace(self._crew, outputs=self._missing.samples.total(), labels=labels)

    def rounds(self, workers: int) -> Iterator[Iterator[WorkItem]]:
        """Yield rounds of missing work items that fit into the quota."""
        self.result.workers = workers
        missing = self._missing
        shared = SHARED_COST_OF_SEQUENCES if self.plan.recipe.family.sequences else SHARED_COST
        tasks, equal = -(-missing.shards // missing.blocks), self._crew.address is None
        whole, pieces = division(missing.blocks, workers, tasks, equal, shared)
        blocks = missing_blocks(make_blocks(self.plan, self._source), self._committed.done)
        yield from self._quota.rounds(divided(blocks, whole, pieces, self._split))

    def handle(self, event: Event[BuildCounts, WorkItem], tally: Tally[BuildCounts]) -> None:
        """Update the quota, record work items that are given up, and notify the watcher."""
        if isinstance(event, Progress) and event.finished:
            self._quota.add_finished(event.counts.shard_samples, event.counts.shard_bytes)
        super().handle(event, tally)

    def lose(self, event: Lost[WorkItem]) -> None:
        """Record a work item that is given up."""
        self.result.lost.append(event)

    def advanced(self, tally: Tally[BuildCounts]) -> None:
        """Notify the watcher of the work done so far."""
        self._watcher.reported(tally)

    def kept(self, done: BuildCounts) -> str:
        """Return how many shards of the data set are finished."""
        return f"{self.result.shards_before + done.shards:,} of {counted(self.plan.shards, 'shard')} are kept"

    def finish(self, done: BuildCounts) -> bool:
        """Store the counts of this run, and return whether every shard is finished."""
        missing, quota = self._missing, self._quota
        if quota.withheld:
            left = Counter({str(condition): count for condition, count in missing.samples.items()}) - done.shard_samples
            size = estimated_bytes(left, quota.known, quota.measured)
            there = shard_sizes(self.plan, self.store).bytes.total()
            self.result.withheld = Withheld(missing.shards - done.shards, size, there)
        return super().finish(done)

    def merge(self) -> None:
        """Write the manifest and the files that describe it."""
        self.result.failed, self.result.kept = merge_parts(self.plan, self.store)
        if self.result.failed:
            self.result.failures = first_failures(self.store)
            if self._copy_failed:
                self.result.copied = copy_failed(self.store, self.plan.recipe, self._source)

    def record(self) -> None:
        """Write the record of this run, unless there was nothing to do."""
        super().record()
        if self._missing.shards:
            publish_record(self.result, self._location, self._start_time, self.store)


def _absolute_location(location: str) -> str:
    """Return a URL or an absolute path. Links are not resolved, because they may differ between machines."""
    return location if is_url(location) else str(local_path(location).absolute())
