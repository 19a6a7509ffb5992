"""Plan minus what is committed -> run -> merge the manifest last."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Protocol

import manifests
from pipeline.cards import CARD_FILE, CROISSANT_FILE, card, croissant
from pipeline.claim import check_claim
from pipeline.dataset import MANIFEST_FILE, RECIPE_FILE, facts_of_parts
from pipeline.errors import UserError
from pipeline.estimate import measured_sizes, shard_sizes
from pipeline.executor import Pool, Runner, cluster
from pipeline.fingerprints import fingerprints
from pipeline.outcome import Outcome
from pipeline.pieces import Event, Lost, Progress, Tally
from pipeline.plan import PARTS, SHARDS, Block, Missing, Plan, make_blocks, make_plan, shard_of_part, survey
from pipeline.quota import Quota, Withheld, reckoned
from pipeline.recipes import Recipe
from pipeline.render import try_transforms
from pipeline.software import host_facts, versions
from pipeline.sources import AUTO, KINDS, Source, detect, open_source
from pipeline.storage import Store, open_store, read_groups_ahead
from pipeline.worker import FACT_FAILED, FACT_SHARD_SIZE, FACT_TASK, Job, Report, Worker

FACT_PLAN = "plan"
"""Metadata of the merged manifest: the digest of the plan that it completes."""

SHARED, SHARED_OF_SEQUENCES = 3, 0
"""Reading, decoding and preparing a photograph takes as long as making so many outputs of it (docs/benchmark.md)."""


@dataclass(frozen=True)
class Request:
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


class Watcher(Protocol):
    """Told how a build goes on."""

    def preparing(self, what: str) -> None:
        """Told of each step before the work."""

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """``todo``: transform -> samples still to make; ``shards``: shards still to make."""

    def reported(self, tally: Tally[Report]) -> None:
        """Told whenever a worker has reported, several hundred times a second where there are many."""

    def heard(self, event: Event[Report, Block]) -> None:
        """Told that a piece of work is finished, has failed and is tried again, or is given up."""


def run_build(request: Request, watcher: Watcher, worker: Callable[[Job], Runner[Block, Report]] = Worker) -> Outcome:
    """Build what is missing of a data set, then its manifest; returns what was done. ``worker`` makes the shards.

    Raises UserError before any work for bad input, and if the output holds another data set.
    """
    plan, source = prepare(request, watcher)
    store = open_store(request.output)
    with store.exclusive():
        check_claim(store, plan.recipe)
        store.publish_bytes(plan.recipe.to_toml().encode(), RECIPE_FILE)
        return _build(request, plan, source, store, watcher, worker)


def prepare(request: Request, watcher: Watcher) -> tuple[Plan, Source]:
    """What is to be built, after all that can be checked before the output is looked at. Raises UserError."""
    recipe = with_kind(request.recipe, request.source)
    recipe = recipe.canonical(versions(), fingerprints(recipe.used_decoders()))
    source = open_source(recipe.source.kind, request.source, request.ids)
    watcher.preparing(f"listing {source.location}: {KINDS[recipe.source.kind].words}")
    plan = make_plan(recipe, source)
    watcher.preparing("trying every transform once")
    try_transforms(recipe, request.frost_folder)
    return plan, source


def _build(
    request: Request,
    plan: Plan,
    source: Source,
    store: Store,
    watcher: Watcher,
    worker: Callable[[Job], Runner[Block, Report]],
) -> Outcome:
    begun, start = datetime.now(UTC), perf_counter()
    outcome = Outcome(plan)
    done = committed(store, request.retry_failed)
    missing = survey(missing_blocks(plan, source, done))
    outcome.shards_before = plan.shards - missing.shards
    watcher.started(plan, missing.by_transform(), missing.shards)
    if missing.shards:
        quota = _quota(request, plan, source, store, missing)
        store.remove(MANIFEST_FILE)  # it stands for a whole data set, which this is not until the merge
        _make(request, outcome, missing, missing_blocks(plan, source, done), quota, watcher, worker)
        if quota.withheld:
            outcome.withheld = _withheld(plan, store, missing, outcome.done, quota)
    if outcome.complete:
        outcome.failed = merge_parts(plan, store)
    outcome.seconds = perf_counter() - start
    if missing.shards:
        _record_run(request, outcome, begun, store)
    return outcome


def _make(
    request: Request,
    outcome: Outcome,
    missing: Missing,
    blocks: Iterator[Block],
    quota: Quota,
    watcher: Watcher,
    worker: Callable[[Job], Runner[Block, Report]],
) -> None:
    """Have the shards of the blocks made, as many as the quota allows; ``outcome`` takes in what comes of it."""
    recipe = outcome.plan.recipe
    job = Job(recipe, str(request.source), str(request.output), request.frost_folder)
    with cluster(request.workers, request.address) as workers:
        outcome.workers = workers
        shared = SHARED_OF_SEQUENCES if recipe.family.sequences else SHARED
        pieces = pieces_of_a_block(missing.blocks, workers, -(-missing.shards // missing.blocks), shared)
        pool = Pool(job, workers, worker, {"recipe": recipe.name})
        work = (piece for block in blocks for piece in split(block, pieces))
        tally = Tally(Report)
        for event in (event for fitting in quota.rounds(work) for event in pool.run(fitting)):
            tally.take(event)
            if isinstance(event, Lost):
                outcome.lost.append(event)
            elif isinstance(event, Progress) and event.finished:
                quota.made(event.report.shard_samples, event.report.shard_bytes)
            if not isinstance(event, Progress) or event.finished:
                watcher.heard(event)
            watcher.reported(tally)
        outcome.done = tally.total()


def with_kind(recipe: Recipe, source: str) -> Recipe:
    """The recipe with the kind of its source, found out if it says "auto". Raises UserError."""
    return recipe.changed(source={"kind": detect(source)}) if recipe.source.kind == AUTO else recipe


def pieces_of_a_block(blocks: int, workers: int, tasks: int, shared: int = SHARED) -> int:
    """Into how few pieces to split each block of so many tasks, for all to be done soonest.

    More pieces keep more workers busy to the end, but each decodes the block's photographs again (``shared``).
    """

    def reckoned(pieces: int) -> int:
        return -(-blocks * pieces // workers) * (shared + -(-tasks // pieces))

    return min(range(1, tasks + 1), key=reckoned)


def split(block: Block, pieces: int) -> Iterator[Block]:
    """A block's tasks dealt out to up to ``pieces``, so that each gets of every family; each decodes for itself."""
    for first in range(min(pieces, len(block.tasks))):
        yield replace(block, tasks=block.tasks[first::pieces])


def committed(store: Store, retry_failed: bool = False) -> frozenset[str]:
    """The digests of all tasks whose shard is there and whole; with ``retry_failed``, and without failures.

    Shards and parts are listed once, and only parts that are there are opened: object stores answer slowly.
    """
    sizes = store.listing(SHARDS, ".tar")
    return frozenset(
        facts[FACT_TASK]
        for part, facts in facts_of_parts(store, PARTS)
        if facts.keys() >= {FACT_TASK, FACT_SHARD_SIZE, FACT_FAILED}
        and sizes.get(shard_of_part(part)) == int(facts[FACT_SHARD_SIZE])
        and not (retry_failed and int(facts[FACT_FAILED]))
    )


def missing_blocks(plan: Plan, source: Source, done: Set[str]) -> Iterator[Block]:
    """The blocks of the plan with the tasks that are not committed; blocks without any are left out."""
    for block in make_blocks(plan, source):
        tasks = tuple(task for task in block.tasks if task.digest not in done)
        if tasks:
            yield replace(block, tasks=tasks)


def _quota(request: Request, plan: Plan, source: Source, store: Store, missing: Missing) -> Quota:
    """What keeps the shards within --max-bytes; without it, nothing is looked at."""
    if math.isinf(request.max_bytes):
        return Quota()
    known = shard_sizes(plan, store)
    steps = map(str, missing.samples)
    return Quota(request.max_bytes, known, measured_sizes(plan, source, steps, known, request.frost_folder))


def _withheld(plan: Plan, store: Store, missing: Missing, done: Report, quota: Quota) -> Withheld:
    """What there is, and what is missing, of a build that has stopped at its limit."""
    left = Counter({str(step): count for step, count in missing.samples.items()}) - done.shard_samples
    size = reckoned(left, quota.known, quota.measured)
    return Withheld(missing.shards - done.shards, size, shard_sizes(plan, store).bytes.total())


def merge_parts(plan: Plan, store: Store) -> int:
    """Write the merged manifest unless it is there already, and what describes it; the number of failed samples.

    Raises UserError where a part cannot be read.
    """
    there = manifests.read_facts(store.path(MANIFEST_FILE))
    if there.get(FACT_PLAN) == plan.digest:
        return int(there[FACT_FAILED])
    scratch, parts = store.scratch(), read_groups_ahead(store, plan.parts())
    try:
        merged = manifests.merge(parts, {FACT_PLAN: plan.digest}, scratch, summed=[FACT_FAILED])
    except manifests.MergeError as error:
        raise UserError(f"{error}: remove it, and run the same command again") from error
    failed = int(merged.facts[FACT_FAILED])
    with open(scratch, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    # before the manifest, which says that all is there
    store.publish_bytes(card(plan.recipe, plan.samples, failed).encode(), CARD_FILE)
    store.publish_bytes(croissant(plan.recipe, sha256).encode(), CROISSANT_FILE)
    store.publish(scratch, MANIFEST_FILE)
    return failed


def _record_run(request: Request, outcome: Outcome, begun: datetime, store: Store) -> None:
    done = outcome.done
    facts = host_facts()
    record = {
        "begun": begun.isoformat(timespec="seconds"),
        "seconds": round(outcome.seconds, 3),
        "source": request.source if "://" in request.source else str(Path(request.source).resolve()),
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
    name = f"runs/{begun:%Y%m%dT%H%M%S.%fZ}-{facts['host']}.json"
    store.publish_bytes(json.dumps(record, indent=1).encode(), name)
