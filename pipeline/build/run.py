"""Plan minus what is committed -> run -> merge the manifest last."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Protocol

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
from pipeline.images.fingerprints import fingerprints
from pipeline.recipes.schema import Recipe
from pipeline.render.warm_up import try_transforms
from pipeline.software import host_facts, versions
from pipeline.sources.base import Source
from pipeline.sources.kinds import AUTO, KINDS, detect, open_source
from pipeline.storage import Store, is_url, local_path, open_store
from pipeline.storage.places import absolute, remember


@dataclass(frozen=True)
class BuildRequest:
    """What to build, from where, to where, and how. Only recipe and source decide the bytes.

    ``workers``: None for one per CPU. ``executor``: auto, ray or local. ``address``: of a Ray cluster to join.
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


class BuildWatcher(Protocol):
    """Told how a build goes on."""

    def preparing(self, what: str) -> None:
        """Told of each step before the work."""

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """``todo``: transform -> samples still to make; ``shards``: shards still to make."""

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """Told whenever a worker has reported, several hundred times a second where there are many."""

    def on_event(self, event: Event[BuildCounts, WorkItem]) -> None:
        """Told that a piece of work is finished, has failed and is tried again, or is given up."""


MakeWorker = Callable[[BuildJob], base.Worker[WorkItem, BuildCounts]]


def run_build(request: BuildRequest, watcher: BuildWatcher, worker: MakeWorker = BuildWorker) -> BuildResult:
    """Build what is missing of a data set, then its manifest.

    Args:
        request: What to build.
        watcher: Told how the build goes on.
        worker: Makes the workers, in their processes.

    Returns:
        What was done.

    Raises:
        UserError: An input is invalid, or the output holds another data set. Nothing has been built.
        UnfinishedError: No worker starts, or a part cannot be read.
    """
    plan, source = prepare(request, watcher)
    build = _Build(request, plan, source, watcher, worker)
    run_resumable(build.store, build, Tally(BuildCounts))
    return build.result


def prepare(request: BuildRequest, watcher: BuildWatcher) -> tuple[Plan, Source]:
    """Return what is to be built, after all that can be checked before the output is read. Raises UserError."""
    parse_executor(request.executor, request.address)
    check_overlap(request.source, request.output)
    recipe = with_detected_kind(request.recipe, request.source)
    recipe = recipe.canonical(versions(recipe.family.libraries), fingerprints(recipe.used_decoders()))
    source = open_source(recipe.source.kind, request.source, request.ids)
    watcher.preparing(f"listing {source.location}: {KINDS[recipe.source.kind].words}")
    plan = make_plan(recipe, source)
    watcher.preparing("trying every transform once")
    try_transforms(recipe, request.frost_folder)
    return plan, source


class _Build:
    """A build as a resumable job."""

    merged = MANIFEST_FILE

    def __init__(
        self, request: BuildRequest, plan: Plan, source: Source, watcher: BuildWatcher, worker: MakeWorker
    ) -> None:
        self._request, self._plan, self._source, self._watcher, self._worker = request, plan, source, watcher, worker
        self.store = open_store(request.output)
        self.result = BuildResult(plan)
        self._committed = Committed()
        self._missing = Missing(Counter(), shards=0, blocks=0)
        self._quota = Quota()
        self._begun, self._start = datetime.now(UTC), perf_counter()

    def claim(self) -> None:
        """Check that the output is empty, or holds this data set or a part of it, and write the recipe."""
        check_claim(self.store, self._plan.recipe)
        self._committed = find_committed(self.store, self._plan, self._request.retry_failed)
        blocks = checked_blocks(make_blocks(self._plan, self._source), self._committed, self.store, self._source)
        self._missing = count_missing(missing_blocks(blocks, self._committed))
        self.store.publish_bytes(self._plan.recipe.to_toml().encode(), RECIPE_FILE)
        remember(self._request.output, "source", self._request.source)

    def find_missing(self) -> bool:
        """Tell the watcher what is missing."""
        self._begun, self._start = datetime.now(UTC), perf_counter()
        missing = self._missing
        self.result.shards_before = self._plan.shards - missing.shards
        self._watcher.started(self._plan, missing.by_transform(), missing.shards)
        if missing.shards:
            self._quota = _quota(self._request, self._plan, self._source, self.store, missing)
        return missing.shards > 0

    def open_pool(self) -> AbstractContextManager[base.Pool[WorkItem, BuildCounts]]:
        """Open the workers."""
        request, recipe = self._request, self._plan.recipe
        frost = request.frost_folder and _everywhere(request.frost_folder)
        return open_pool(
            BuildJob(recipe, _everywhere(request.source), _everywhere(request.output), frost),
            self._worker,
            executor=request.executor,
            workers=request.workers,
            address=request.address,
            outputs=self._missing.samples.total(),
            labels={"recipe": recipe.name},
        )

    def rounds(self, workers: int) -> Iterator[Iterator[WorkItem]]:
        """Yield what is missing, as far as the quota allows."""
        self.result.workers = workers
        shared = SHARED_COST_OF_SEQUENCES if self._plan.recipe.family.sequences else SHARED_COST
        missing = self._missing
        pieces = pieces_per_block(missing.blocks, workers, -(-missing.shards // missing.blocks), shared)
        blocks = missing_blocks(make_blocks(self._plan, self._source), self._committed)
        yield from self._quota.rounds(piece for block in blocks for piece in block.split(pieces))

    def handle(self, event: Event[BuildCounts, WorkItem], tally: Tally[BuildCounts]) -> None:
        """Note what is lost, count what is made towards the quota, and tell the watcher."""
        if isinstance(event, Lost):
            self.result.lost.append(event)
        elif isinstance(event, Progress) and event.finished:
            self._quota.add_finished(event.counts.shard_samples, event.counts.shard_bytes)
        if not isinstance(event, Progress) or event.finished:
            self._watcher.on_event(event)
        self._watcher.reported(tally)

    def finish(self, done: BuildCounts) -> bool:
        """Return whether every shard is there."""
        self.result.done = done
        if self._quota.withheld:
            self.result.withheld = _withheld(self._plan, self.store, self._missing, done, self._quota)
        return self.result.complete

    def merge(self) -> None:
        """Write the manifest, and what describes it."""
        self.result.failed, self.result.kept = merge_parts(self._plan, self.store)

    def record(self) -> None:
        """Write down what this run has made, if anything was missing."""
        self.result.seconds = perf_counter() - self._start
        if self._missing.shards:
            _record_run(self._request, self.result, self._begun, self.store)


def with_detected_kind(recipe: Recipe, source: str) -> Recipe:
    """Return the recipe with the kind of its source, detected if it says "auto". Raises UserError."""
    return recipe.changed(source={"kind": detect(source)}) if recipe.source.kind == AUTO else recipe


def _everywhere(location: str) -> str:
    """Return a place as a worker finds it in another current folder. Links stay: they may differ between machines."""
    return location if is_url(location) else str(local_path(location).absolute())


def _quota(request: BuildRequest, plan: Plan, source: Source, store: Store, missing: Missing) -> Quota:
    """Return what keeps the shards within --max-bytes; without a limit, nothing is read."""
    if math.isinf(request.max_bytes):
        return Quota()
    known = shard_sizes(plan, store)
    conditions = map(str, missing.samples)
    return Quota(request.max_bytes, known, measured_sizes(plan, source, conditions, known, request.frost_folder))


def _withheld(plan: Plan, store: Store, missing: Missing, done: BuildCounts, quota: Quota) -> Withheld:
    """Return what is there, and what is missing, of a build that has stopped at its limit."""
    left = Counter({str(condition): count for condition, count in missing.samples.items()}) - done.shard_samples
    size = estimated_bytes(left, quota.known, quota.measured)
    return Withheld(missing.shards - done.shards, size, shard_sizes(plan, store).bytes.total())


def _record_run(request: BuildRequest, outcome: BuildResult, begun: datetime, store: Store) -> None:
    done = outcome.done
    facts = host_facts()
    record = {
        "begun": begun.isoformat(timespec="seconds"),
        "seconds": round(outcome.seconds, 3),
        "source": absolute(request.source),
        "workers": outcome.workers,
        "software": versions(),
        "decoders": fingerprints(),
        **facts,
        "shards": done.shards,
        "samples": dict(done.samples),
        "failed": done.failed,
        "lost_blocks": len(outcome.lost),
        "payload_bytes": done.payload_bytes,
        "worker_seconds": {stage: round(spent, 3) for stage, spent in sorted(done.seconds.items())},
    }
    name = f"{RUNS}/{begun:%Y%m%dT%H%M%S.%fZ}-{facts['host']}.json"
    store.publish_bytes(json.dumps(record, indent=1).encode(), name)
