"""Plan minus what is committed -> run -> merge the manifest last."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Protocol

from pipeline.build.committed import There, look
from pipeline.build.compatibility import check_claim
from pipeline.build.content import checked
from pipeline.build.counts import BuildCounts
from pipeline.build.division import SHARED, SHARED_OF_SEQUENCES, missing_blocks, pieces_of_a_block, split
from pipeline.build.estimate import measured_sizes, shard_sizes
from pipeline.build.merge import merge_parts
from pipeline.build.overlap import check_places
from pipeline.build.plan import Missing, Plan, WorkItem, make_blocks, make_plan, survey
from pipeline.build.quota import Quota, Withheld, reckoned
from pipeline.build.result import BuildResult
from pipeline.build.worker import BuildJob, Worker
from pipeline.datasets.paths import MANIFEST_FILE, RECIPE_FILE, RUNS
from pipeline.execution import base
from pipeline.execution.ray_cluster import cluster
from pipeline.execution.ray_pool import RayPool
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
    """What to build, from where, to where, and with how many hands. Only recipe and source decide the bytes."""

    recipe: Recipe
    source: str
    output: str
    workers: int | None = None
    address: str | None = None
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

    def heard(self, event: Event[BuildCounts, WorkItem]) -> None:
        """Told that a piece of work is finished, has failed and is tried again, or is given up."""


def run_build(
    request: BuildRequest,
    watcher: BuildWatcher,
    worker: Callable[[BuildJob], base.Worker[WorkItem, BuildCounts]] = Worker,
) -> BuildResult:
    """Build what is missing of a data set, then its manifest; returns what was done. ``worker`` makes the shards.

    Raises UserError before any work for bad input, and if the output holds another data set.
    """
    plan, source = prepare(request, watcher)
    store = open_store(request.output)
    with store.exclusive():
        check_claim(store, plan.recipe)
        there = look(store, plan, request.retry_failed)
        missing = survey(missing_blocks(checked(make_blocks(plan, source), there, store, source), there))
        store.publish_bytes(plan.recipe.to_toml().encode(), RECIPE_FILE)
        remember(request.output, "source", request.source)
        return _build(request, plan, source, store, there, missing, watcher, worker)


def prepare(request: BuildRequest, watcher: BuildWatcher) -> tuple[Plan, Source]:
    """What is to be built, after all that can be checked before the output is looked at. Raises UserError."""
    check_places(request.source, request.output)
    recipe = with_kind(request.recipe, request.source)
    recipe = recipe.canonical(versions(recipe.family.libraries), fingerprints(recipe.used_decoders()))
    source = open_source(recipe.source.kind, request.source, request.ids)
    watcher.preparing(f"listing {source.location}: {KINDS[recipe.source.kind].words}")
    plan = make_plan(recipe, source)
    watcher.preparing("trying every transform once")
    try_transforms(recipe, request.frost_folder)
    return plan, source


def _build(
    request: BuildRequest,
    plan: Plan,
    source: Source,
    store: Store,
    there: There,
    missing: Missing,
    watcher: BuildWatcher,
    worker: Callable[[BuildJob], base.Worker[WorkItem, BuildCounts]],
) -> BuildResult:
    begun, start = datetime.now(UTC), perf_counter()
    outcome = BuildResult(plan)
    outcome.shards_before = plan.shards - missing.shards
    watcher.started(plan, missing.by_transform(), missing.shards)
    if missing.shards:
        quota = _quota(request, plan, source, store, missing)
        blocks = missing_blocks(make_blocks(plan, source), there)
        _make(request, outcome, missing, blocks, quota, watcher, worker)
        if quota.withheld:
            outcome.withheld = _withheld(plan, store, missing, outcome.done, quota)
    if outcome.complete:
        outcome.failed, outcome.kept = merge_parts(plan, store)
    outcome.seconds = perf_counter() - start
    if missing.shards:
        _record_run(request, outcome, begun, store)
    return outcome


def _make(
    request: BuildRequest,
    outcome: BuildResult,
    missing: Missing,
    blocks: Iterator[WorkItem],
    quota: Quota,
    watcher: BuildWatcher,
    worker: Callable[[BuildJob], base.Worker[WorkItem, BuildCounts]],
) -> None:
    """Have the shards of the blocks made, as many as the quota allows; ``outcome`` takes in what comes of it."""
    recipe = outcome.plan.recipe
    frost = request.frost_folder and _everywhere(request.frost_folder)
    job = BuildJob(recipe, _everywhere(request.source), _everywhere(request.output), frost)
    with cluster(request.workers, request.address) as workers:
        # it stands for a whole data set, which this is not until the merge
        open_store(request.output).remove(MANIFEST_FILE)
        outcome.workers = workers
        shared = SHARED_OF_SEQUENCES if recipe.family.sequences else SHARED
        pieces = pieces_of_a_block(missing.blocks, workers, -(-missing.shards // missing.blocks), shared)
        pool = RayPool(job, workers, worker, labels={"recipe": recipe.name})
        work = (piece for block in blocks for piece in split(block, pieces))
        tally = Tally(BuildCounts)
        for event in (event for fitting in quota.rounds(work) for event in pool.run(fitting)):
            tally.take(event)
            if isinstance(event, Lost):
                outcome.lost.append(event)
            elif isinstance(event, Progress) and event.finished:
                quota.made(event.counts.shard_samples, event.counts.shard_bytes)
            if not isinstance(event, Progress) or event.finished:
                watcher.heard(event)
            watcher.reported(tally)
        outcome.done = tally.total()


def with_kind(recipe: Recipe, source: str) -> Recipe:
    """The recipe with the kind of its source, found out if it says "auto". Raises UserError."""
    return recipe.changed(source={"kind": detect(source)}) if recipe.source.kind == AUTO else recipe


def _everywhere(location: str) -> str:
    """A place as a worker finds it, whose current folder is another one; links may differ between machines."""
    return location if is_url(location) else str(local_path(location).absolute())


def _quota(request: BuildRequest, plan: Plan, source: Source, store: Store, missing: Missing) -> Quota:
    """What keeps the shards within --max-bytes; without it, nothing is looked at."""
    if math.isinf(request.max_bytes):
        return Quota()
    known = shard_sizes(plan, store)
    conditions = map(str, missing.samples)
    return Quota(request.max_bytes, known, measured_sizes(plan, source, conditions, known, request.frost_folder))


def _withheld(plan: Plan, store: Store, missing: Missing, done: BuildCounts, quota: Quota) -> Withheld:
    """What there is, and what is missing, of a build that has stopped at its limit."""
    left = Counter({str(condition): count for condition, count in missing.samples.items()}) - done.shard_samples
    size = reckoned(left, quota.known, quota.measured)
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
