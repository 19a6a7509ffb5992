"""Plan minus what is committed -> run -> merge the manifest last."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import manifests
from pipeline.cards import CARD_FILE, CROISSANT_FILE, card, croissant
from pipeline.dataset import MANIFEST_FILE, RECIPE_FILE
from pipeline.errors import UserError
from pipeline.estimate import measured_sizes, shard_sizes
from pipeline.executor import MAX_ATTEMPTS, Lost, Pool, cluster
from pipeline.fingerprints import fingerprints
from pipeline.plan import Block, Missing, Plan, Task, make_blocks, make_plan, survey
from pipeline.quota import Quota, Withheld, reckoned
from pipeline.recipes import Recipe, parse
from pipeline.render import try_transforms
from pipeline.software import host_facts, versions
from pipeline.sources import AUTO, KINDS, Source, detect, open_source
from pipeline.storage import LocalStore
from pipeline.worker import FACT_FAILED, FACT_SHARD_SIZE, FACT_TASK, Job, Report, Worker

FACT_PLAN = "plan"
"""Metadata of the merged manifest: the digest of the plan that it completes."""

ENOUGH_PER_WORKER = 4
"""With this many pieces of work for each worker, all end at about one time, even or not."""


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


@dataclass
class Outcome:
    """What a build came to. ``failed`` counts failed samples of the whole data set, ``lost`` the work given up."""

    plan: Plan
    shards_before: int = 0
    failed: int = 0
    done: Report = field(default_factory=Report)
    lost: list[Lost[Block]] = field(default_factory=list)
    withheld: Withheld | None = None
    workers: int = 0
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every shard is there."""
        return not self.lost and not self.withheld

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return {
            "recipe": self.plan.recipe.name,
            "images": self.plan.images,
            "samples": self.plan.samples,
            "shards": self.plan.shards,
            "shards_before": self.shards_before,
            "shards_made": self.done.shards,
            "samples_made": self.done.samples.total(),
            "failed": self.failed,
            "complete": self.complete,
            "withheld": asdict(self.withheld) if self.withheld else None,
            "lost": [{"images": len(each.work.images), "reason": each.reason} for each in self.lost],
            "seconds": round(self.seconds, 3),
        }

    def summary(self, output: str) -> Iterator[str]:
        """For people: a few lines."""
        made, rate = self.done.samples.total(), self.done.samples.total() / max(self.seconds, 1e-9)
        if self.done.shards:
            yield f"made {self.done.shards:,} shards, {made:,} images, in {self.seconds:.1f} s ({rate:,.0f} images/s)"
        elif self.complete:
            yield f"nothing to do: all {self.plan.shards:,} shards are there"
        for each in self.lost:
            names = f"{each.work.tasks[0].name} to {each.work.tasks[-1].name}"
            yield f"given up after {MAX_ATTEMPTS} attempts: {names}: {each.reason}"
        if self.failed:
            yield (
                f"{self.failed:,} of {self.plan.samples:,} samples failed; their reasons stand in the manifest "
                "(status = 'failed'); --retry-failed tries them again, --allow-failures accepts them"
            )
        if self.withheld:
            yield str(self.withheld)
        elif self.lost:
            yield "unfinished: run the same command again"
        else:
            yield f"manifest: {output}/{MANIFEST_FILE}   check it: robustshards verify {output}"


class Watcher(Protocol):
    """Told how a build goes on."""

    def preparing(self, what: str) -> None:
        """Told of each step before the work."""

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """``todo``: transform -> samples still to make; ``shards``: shards still to make."""

    def reported(self, report: Report) -> None:
        """Told what a worker has done since its last report."""


def run_build(request: Request, watcher: Watcher) -> Outcome:
    """Build what is missing of a data set, then its manifest; returns what was done.

    Raises UserError before any work for bad input, and if the output holds another data set.
    """
    plan, source = prepare(request, watcher)
    store = LocalStore(request.output)
    with store.exclusive():
        check_claim(store, plan.recipe)
        store.publish_bytes(plan.recipe.to_toml().encode(), RECIPE_FILE)
        return _build(request, plan, source, store, watcher)


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


def _build(request: Request, plan: Plan, source: Source, store: LocalStore, watcher: Watcher) -> Outcome:
    begun, start = datetime.now(UTC), perf_counter()
    outcome = Outcome(plan)
    missing = survey(missing_blocks(request, plan, source, store))
    outcome.shards_before = plan.shards - missing.shards
    watcher.started(plan, missing.by_transform(), missing.shards)
    if missing.shards:
        quota = _quota(request, plan, source, store, missing)
        store.remove(MANIFEST_FILE)  # it stands for a whole data set, which this is not until the merge
        job = Job(plan.recipe, str(request.source), str(request.output), request.frost_folder)
        with cluster(request.workers, request.address) as workers:
            outcome.workers = workers
            pieces = pieces_of_a_block(missing.blocks, workers)
            pool = Pool(job, workers, Worker)
            work = (piece for block in missing_blocks(request, plan, source, store) for piece in split(block, pieces))
            for event in (event for fitting in quota.rounds(work) for event in pool.run(fitting)):
                if isinstance(event, Lost):
                    outcome.lost.append(event)
                else:
                    outcome.done.add(event)
                    quota.made(event.shard_samples, event.shard_bytes)
                    watcher.reported(event)
            if quota.withheld:
                outcome.withheld = _withheld(plan, store, missing, outcome.done, quota)
    if outcome.complete:
        outcome.failed = _merge(plan, store)
    outcome.seconds = perf_counter() - start
    if missing.shards:
        _record_run(request, outcome, begun, store)
    return outcome


def with_kind(recipe: Recipe, source: str) -> Recipe:
    """The recipe with the kind of its source, found out if it says "auto". Raises UserError."""
    return recipe.changed(source={"kind": detect(source)}) if recipe.source.kind == AUTO else recipe


def pieces_of_a_block(blocks: int, workers: int) -> int:
    """Into how few pieces to split each block, so that the workers share the work evenly or have many pieces each."""
    pieces = 1
    while blocks * pieces % workers and blocks * pieces < ENOUGH_PER_WORKER * workers:
        pieces += 1
    return pieces


def split(block: Block, pieces: int) -> Iterator[Block]:
    """A block's tasks dealt out to up to ``pieces``, so that each gets of every family; each decodes for itself."""
    for first in range(min(pieces, len(block.tasks))):
        yield replace(block, tasks=block.tasks[first::pieces])


def is_committed(store: LocalStore, task: Task, retry_failed: bool) -> bool:
    """Whether the shard is there, whole, and of exactly this task; with ``retry_failed``, also without failures."""
    facts = manifests.read_facts(store.path(task.part))
    return (
        facts.get(FACT_TASK) == task.digest
        and store.size(task.shard) == int(facts[FACT_SHARD_SIZE])
        and not (retry_failed and int(facts[FACT_FAILED]))
    )


def missing_blocks(request: Request, plan: Plan, source: Source, store: LocalStore) -> Iterator[Block]:
    """The blocks of the plan with the tasks that are not committed; blocks without any are left out."""
    for block in make_blocks(plan, source):
        tasks = tuple(task for task in block.tasks if not is_committed(store, task, request.retry_failed))
        if tasks:
            yield replace(block, tasks=tasks)


def _quota(request: Request, plan: Plan, source: Source, store: LocalStore, missing: Missing) -> Quota:
    """What keeps the shards within --max-bytes; without it, nothing is looked at."""
    if math.isinf(request.max_bytes):
        return Quota()
    known = shard_sizes(plan, store)
    steps = map(str, missing.samples)
    return Quota(request.max_bytes, known, measured_sizes(plan, source, steps, known, request.frost_folder))


def _withheld(plan: Plan, store: LocalStore, missing: Missing, done: Report, quota: Quota) -> Withheld:
    """What there is, and what is missing, of a build that has stopped at its limit."""
    left = Counter({str(step): count for step, count in missing.samples.items()}) - done.shard_samples
    size = reckoned(left, quota.known, quota.measured)
    return Withheld(missing.shards - done.shards, size, shard_sizes(plan, store).bytes.total())


def check_claim(store: LocalStore, recipe: Recipe) -> None:
    """Check that what is there, if anything, is the same data set or a part of it. Raises UserError."""
    if store.size(RECIPE_FILE) < 0:
        if any(store.names("shards", ".tar")):
            raise UserError(f"{store.root} holds shards but no {RECIPE_FILE}; choose an empty folder")
    else:
        there = parse(store.path(RECIPE_FILE).read_text(), str(store.path(RECIPE_FILE)))
        faults = _conflicts(there, recipe)
        if faults:
            raise UserError(
                f"{store.root} holds another data set ({'; '.join(faults)}): choose another folder, "
                "or build with the same settings and libraries"
            )


def _conflicts(there: Recipe, wanted: Recipe) -> list[str]:
    """Where two canonical recipes differ. More transforms, levels or images than there are is no conflict."""
    old, new = _flat(there), _flat(wanted)
    new_decoders = {f"decoders.{name}" for name in wanted.decoders.keys() - there.decoders.keys()}
    grown = {
        "transforms.only": set(there.transforms.only) <= set(wanted.transforms.only),
        "transforms.levels": set(there.transforms.levels) <= set(wanted.transforms.levels),
        "source.limit": not wanted.source.limit or 0 < there.source.limit <= wanted.source.limit,
    }
    return [
        f"{name}: {old.get(name)} there, {new.get(name)} asked for"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name) and not grown.get(name, name in new_decoders)
    ]


def _flat(recipe: Recipe) -> dict[str, Any]:
    content = recipe.model_dump(mode="json", exclude={"title"})
    return {
        f"{table}.{key}" if isinstance(fields, dict) else table: value
        for table, fields in content.items()
        for key, value in (fields if isinstance(fields, dict) else {"": fields}).items()
    }


def _merge(plan: Plan, store: LocalStore) -> int:
    """Write the merged manifest unless it is there already; returns the number of failed samples."""
    there = manifests.read_facts(store.path(MANIFEST_FILE))
    if there.get(FACT_PLAN) == plan.digest:
        return int(there[FACT_FAILED])
    failed = sum(int(manifests.read_facts(store.path(part))[FACT_FAILED]) for part in plan.parts())
    scratch = store.scratch()
    manifests.merge(map(store.path, plan.parts()), {FACT_PLAN: plan.digest, FACT_FAILED: str(failed)}, scratch)
    with open(scratch, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    # before the manifest, which says that all is there
    store.publish_bytes(card(plan.recipe, plan.samples, failed).encode(), CARD_FILE)
    store.publish_bytes(croissant(plan.recipe, sha256).encode(), CROISSANT_FILE)
    store.publish(scratch, MANIFEST_FILE)
    return failed


def _record_run(request: Request, outcome: Outcome, begun: datetime, store: LocalStore) -> None:
    done = outcome.done
    facts = host_facts()
    record = {
        "begun": begun.isoformat(timespec="seconds"),
        "seconds": round(outcome.seconds, 3),
        "source": str(Path(request.source).resolve()),
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
