"""The build command: plan the shards, make those that are not committed, then merge the manifest."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

from pipeline.build.committed import Committed, find_committed
from pipeline.build.compatibility import check_claim
from pipeline.build.content import checked_blocks
from pipeline.build.counts import BuildCounts
from pipeline.build.division import SHARED_COST, SHARED_COST_OF_SEQUENCES, missing_blocks, pieces_per_block
from pipeline.build.estimate import measured_sizes, shard_sizes
from pipeline.build.merge import merge_parts
from pipeline.build.overlap import check_overlap
from pipeline.build.plan import Missing, Plan, WorkItem, count_missing, make_blocks, make_plan
from pipeline.build.quota import Quota, Withheld, estimated_bytes
from pipeline.build.result import BuildResult
from pipeline.build.worker import BuildJob, BuildWorker
from pipeline.datasets.paths import MANIFEST_FILE, RECIPE_FILE, RUNS
from pipeline.execution import base
from pipeline.execution.pools import Executor, open_pool, parse_executor
from pipeline.execution.resumable import run_resumable
from pipeline.execution.work import Event, Lost, Progress, Tally
from pipeline.images.fingerprints import decoder_fingerprints, resizer_fingerprints
from pipeline.recipes.schema import Recipe
from pipeline.render.warm_up import try_transforms
from pipeline.software import host_facts, versions
from pipeline.sources.base import Source
from pipeline.sources.kinds import AUTO, KINDS, detect, open_source
from pipeline.storage import Store, is_url, local_path, open_store
from pipeline.storage.trusted_locations import absolute, remember
from pipeline.text import counted


@dataclass(frozen=True)
class BuildRequest:
    """The settings of a build. Only ``recipe``, ``source`` and ``ids`` decide the bytes of the data set.

    Attributes:
        recipe: What to build.
        source: Folder or URL of the source images.
        output: Folder or URL of the data set.
        workers: Number of workers; None for one per CPU.
        address: Address of a Ray cluster to join, or None.
        executor: auto, ray or local.
        frost_folder: Folder of the frost textures; None for the installed ones.
        ids: File that selects images by their ids, or None for all images.
        retry_failed: Whether to remake shards that have failed samples.
        max_bytes: Maximum size of all shards, in bytes.
    """

    recipe: Recipe
    source: str
    output: str
    _: KW_ONLY
    workers: int | None = None
    address: str | None = None
    executor: str = Executor.AUTO
    frost_folder: str | None = None
    ids: str | None = None
    retry_failed: bool = False
    max_bytes: float = math.inf


class Preparing(Protocol):
    """An observer of the steps before a build."""

    def preparing(self, what: str) -> None:
        """Handle the start of a preparation step, before any work."""


class BuildWatcher(Preparing, Protocol):
    """An observer of a build."""

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """Handle the start of the work.

        Args:
            plan: The whole data set.
            todo: Transform -> number of samples to make.
            shards: Number of shards to make.
        """

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """Handle a report of a worker. With many workers, this is called several hundred times per second."""

    def on_event(self, event: Event[BuildCounts, WorkItem]) -> None:
        """Handle a work item that is finished, is retried or is given up."""


Job = TypeVar("Job")

MakeWorker = Callable[[BuildJob], base.Worker[WorkItem, BuildCounts]]


@dataclass(frozen=True)
class Crew(Generic[Job]):
    """The workers of a build.

    Attributes:
        job: The settings that all workers share.
        worker: Called with ``job`` in each worker process; returns the worker.
        workers: Number of workers; None for one per CPU.
        gpus: Number of GPUs of this machine; each worker needs one. 0 if workers need none.
    """

    job: Job
    worker: Callable[[Job], base.Worker[WorkItem, BuildCounts]]
    workers: int | None = None
    gpus: int = 0


def run_build(request: BuildRequest, watcher: BuildWatcher, worker: MakeWorker = BuildWorker) -> BuildResult:
    """Make the missing shards of a data set, then its manifest.

    Args:
        request: The settings of the build.
        watcher: Observer of the build.
        worker: Called in each worker process; returns the worker.

    Returns:
        The result of the build.

    Raises:
        UserError: An input is invalid, or the output contains another data set. Nothing has been built.
        UnfinishedError: No worker can be started, or a manifest part cannot be read.
    """
    plan, source = prepare(request, watcher)
    frost = request.frost_folder and _absolute_location(request.frost_folder)
    job = BuildJob(plan.recipe, _absolute_location(request.source), _absolute_location(request.output), frost)
    build = Build(request, plan, source, watcher, Crew(job, worker, request.workers))
    run_resumable(build.store, build, Tally(BuildCounts))
    return build.result


def prepare(request: BuildRequest, watcher: Preparing) -> tuple[Plan, Source]:
    """Check the request and return the plan and the source. The output is not read yet.

    Args:
        request: The settings of the build.
        watcher: Observer of the build.

    Returns:
        The plan and the opened source.

    Raises:
        UserError: An input is invalid, or a transform cannot run on this machine.
    """
    parse_executor(request.executor, request.address)
    check_overlap(request.source, request.output)
    recipe = with_detected_kind(request.recipe, request.source)
    recipe = recipe.canonical(
        versions(recipe.family.libraries),
        decoder_fingerprints(recipe.used_decoders()),
        resizer_fingerprints(recipe.used_resizers()),
    )
    source = open_source(recipe.source.kind, request.source, request.ids, recipe.source.classes, recipe.source)
    watcher.preparing(f"listing {source.location}: {KINDS[recipe.source.kind].description}")
    plan = make_plan(recipe, source)
    watcher.preparing("testing every transform once")
    try_transforms(recipe, request.frost_folder)
    return plan, source


class Build:
    """A build as a resumable job.

    Attributes:
        store: The output.
        result: The result, complete at the end of the job.
    """

    merged = MANIFEST_FILE

    def __init__(
        self, request: BuildRequest, plan: Plan, source: Source, watcher: BuildWatcher, crew: Crew[Any]
    ) -> None:
        self._request, self._plan, self._source, self._watcher, self._crew = request, plan, source, watcher, crew
        self.store = open_store(request.output)
        self.result = BuildResult(plan)
        self._committed = Committed()
        self._missing = Missing(Counter(), shards=0, blocks=0)
        self._quota = Quota()
        self._start_time, self._start = datetime.now(UTC), perf_counter()

    def claim(self) -> None:
        """Check that the output is empty or contains this data set or a part of it, and write the recipe."""
        check_claim(self.store, self._plan.recipe)
        self._committed = find_committed(self.store, self._plan, self._request.retry_failed)
        blocks = checked_blocks(make_blocks(self._plan, self._source), self._committed, self.store, self._source)
        self._missing = count_missing(missing_blocks(blocks, self._committed))
        self.store.publish_bytes(self._plan.recipe.to_toml().encode(), RECIPE_FILE)
        remember(self._request.output, "source", self._request.source)

    def find_missing(self) -> bool:
        """Report the missing shards to the watcher, and return whether there are any."""
        self._start_time, self._start = datetime.now(UTC), perf_counter()
        missing = self._missing
        self.result.shards_before = self._plan.shards - missing.shards
        self._watcher.started(self._plan, missing.by_transform(), missing.shards)
        if missing.shards:
            self._quota = _quota(self._request, self._plan, self._source, self.store, missing)
        return missing.shards > 0

    def open_pool(self) -> AbstractContextManager[base.Pool[WorkItem, BuildCounts]]:
        """Open the pool of workers."""
        request, crew = self._request, self._crew
        return open_pool(
            crew.job,
            crew.worker,
            executor=request.executor,
            workers=crew.workers,
            address=request.address,
            outputs=self._missing.samples.total(),
            labels={"recipe": self._plan.recipe.name},
            gpus=crew.gpus,
        )

    def rounds(self, workers: int) -> Iterator[Iterator[WorkItem]]:
        """Yield rounds of missing work items that fit into the quota."""
        self.result.workers = workers
        blocks = missing_blocks(make_blocks(self._plan, self._source), self._committed)
        yield from self._quota.rounds(self._pieces(blocks, workers))

    def _pieces(self, blocks: Iterator[WorkItem], workers: int) -> Iterator[WorkItem]:
        """Yield the work items into which missing blocks are split."""
        shared = SHARED_COST_OF_SEQUENCES if self._plan.recipe.family.sequences else SHARED_COST
        missing = self._missing
        pieces = pieces_per_block(missing.blocks, workers, -(-missing.shards // missing.blocks), shared)
        return (piece for block in blocks for piece in block.split(pieces))

    def handle(self, event: Event[BuildCounts, WorkItem], tally: Tally[BuildCounts]) -> None:
        """Record work items that are given up, update the quota, and notify the watcher."""
        if isinstance(event, Lost):
            self.result.lost.append(event)
        elif isinstance(event, Progress) and event.finished:
            self._quota.add_finished(event.counts.shard_samples, event.counts.shard_bytes)
        if not isinstance(event, Progress) or event.finished:
            self._watcher.on_event(event)
        self._watcher.reported(tally)

    def kept(self, done: BuildCounts) -> str:
        """Return how many shards of the data set are finished."""
        return f"{self.result.shards_before + done.shards:,} of {counted(self._plan.shards, 'shard')} are kept"

    def finish(self, done: BuildCounts) -> bool:
        """Store the counts of this run, and return whether every shard is finished."""
        self.result.done = done
        if self._quota.withheld:
            self.result.withheld = _withheld(self._plan, self.store, self._missing, done, self._quota)
        return self.result.complete

    def merge(self) -> None:
        """Write the manifest and the files that describe it."""
        self.result.failed, self.result.kept = merge_parts(self._plan, self.store)

    def record(self) -> None:
        """Write the record of this run, unless there was nothing to do."""
        self.result.seconds = perf_counter() - self._start
        if self._missing.shards:
            _record_run(self._request, self.result, self._start_time, self.store)


def with_detected_kind(recipe: Recipe, source: str) -> Recipe:
    """Return the recipe with the kind of its source, which is detected if the recipe has "auto".

    Args:
        recipe: The recipe.
        source: Folder or URL of the source images.

    Raises:
        UserError: The kind cannot be detected.
    """
    return recipe.changed(source={"kind": detect(source)}) if recipe.source.kind == AUTO else recipe


def _absolute_location(location: str) -> str:
    """Return a URL or an absolute path. Links are not resolved, because they may differ between machines."""
    return location if is_url(location) else str(local_path(location).absolute())


def _quota(request: BuildRequest, plan: Plan, source: Source, store: Store, missing: Missing) -> Quota:
    """Return the quota of --max-bytes. Without a limit, the sizes of finished shards are not read."""
    if math.isinf(request.max_bytes):
        return Quota()
    known = shard_sizes(plan, store)
    conditions = map(str, missing.samples)
    return Quota(request.max_bytes, known, measured_sizes(plan, source, conditions, known, request.frost_folder))


def _withheld(plan: Plan, store: Store, missing: Missing, done: BuildCounts, quota: Quota) -> Withheld:
    """Return the finished bytes and the missing shards of a build that stopped at --max-bytes."""
    left = Counter({str(condition): count for condition, count in missing.samples.items()}) - done.shard_samples
    size = estimated_bytes(left, quota.known, quota.measured)
    return Withheld(missing.shards - done.shards, size, shard_sizes(plan, store).bytes.total())


def _record_run(request: BuildRequest, result: BuildResult, start_time: datetime, store: Store) -> None:
    """Write the record of a run into the folder of runs."""
    done = result.done
    host = host_facts()
    record = {
        "begun": start_time.isoformat(timespec="seconds"),
        "seconds": round(result.seconds, 3),
        "source": absolute(request.source),
        "workers": result.workers,
        "software": versions(),
        "decoders": decoder_fingerprints(),
        "resizers": result.plan.recipe.resizers,
        **host,
        "shards": done.shards,
        "samples": dict(done.samples),
        "failed": done.failed,
        "lost_blocks": len(result.lost),
        "payload_bytes": done.payload_bytes,
        "worker_seconds": {stage: round(spent, 3) for stage, spent in sorted(done.seconds.items())},
    }
    name = f"{RUNS}/{start_time:%Y%m%dT%H%M%S.%fZ}-{host['host']}.json"
    store.publish_bytes(json.dumps(record, indent=1).encode(), name)
