"""The budgets command: search the missing blocks of images, then merge the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import Any, Protocol

import manifests
from pipeline.attack.budgets_worker import Block, SearchCounts, SearchJob, SearchWorker
from pipeline.attack.methods import METHODS
from pipeline.attack.request import AttackRequest
from pipeline.attack.run import loading, prepare, processes
from pipeline.attack.settings import Setup
from pipeline.datasets.paths import FACT_FAILED, MANIFEST_FILE, facts_of_parts
from pipeline.errors import UserError
from pipeline.evaluate.results.budgets import (
    BUDGETS_FILE,
    BUDGETS_SCHEMA,
    FACT_CHUNK,
    FACT_SETTINGS,
    PARTS,
    SETTINGS_FILE,
    BudgetsTable,
    SearchTable,
    is_budgets,
    part_file,
    read_budgets_table,
)
from pipeline.execution.base import Pool
from pipeline.execution.pools import open_pool, parse_executor
from pipeline.execution.resumable import run_resumable
from pipeline.execution.work import Event, Lost, Progress, Tally
from pipeline.storage import Store, open_store, read_groups_ahead, trusted_locations
from pipeline.text import counted, rate

MAX_STEPS = 30
"""Largest number of halvings, after which float32 pixel values do not change."""


class SearchWatcher(Protocol):
    """An observer of a search."""

    def preparing(self, what: str) -> None:
        """Handle the start of a preparation step."""

    def counting(self, frames: int, predicted: int) -> None:
        """Handle the number of images, and of those that earlier runs finished."""

    def advanced(self, frames: int) -> None:
        """Handle the number of images finished in this run."""

    def on_event(self, event: Event[SearchCounts, Sequence[Block]]) -> None:
        """Handle a work item that is finished, is retried or is given up."""


@dataclass
class SearchResult:
    """The result of a search.

    Attributes:
        table: Attack, model and images.
        images: Number of images.
        images_before: Number of images that earlier runs had finished.
        failed: Number of failed images among all. Only known if the search is complete.
        done: Counts of this run.
        lost: Name of each block that failed in every attempt, and the reason.
        warnings: What the user should know about the model.
        seconds: Duration in seconds.
    """

    table: BudgetsTable
    images: int
    images_before: int = 0
    failed: int = 0
    done: SearchCounts = field(default_factory=SearchCounts)
    lost: list[tuple[str, str]] = field(default_factory=list)
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every image was searched."""
        return not self.lost

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "model": self.table.model.name,
            "attack": self.table.search.attack,
            "images": self.images,
            "images_before": self.images_before,
            "images_made": self.done.images,
            "failed": self.failed,
            "complete": self.complete,
            "lost": [{"block": name, "reason": reason} for name, reason in self.lost],
            "warnings": list(self.warnings),
            "seconds": round(self.seconds, 3),
        }

    def summary(self, output: str) -> Iterator[str]:
        """Yield the lines of a summary; ``output`` is the folder as the user gave it."""
        yield from (f"warning: {text}" for text in self.warnings)
        if self.done.images:
            images = self.done.images
            yield f"searched {counted(images, 'image')} in {self.seconds:.1f} s ({rate(images, self.seconds)})"
        elif self.complete:
            yield f"nothing to do: all {self.images:,} images were already searched"
        yield from (f"gave up after several attempts: {name}: {reason}" for name, reason in self.lost)
        if self.failed:
            yield (
                f"{self.failed:,} of {self.images:,} images failed; {BUDGETS_FILE} lists the reasons. --retry-failed "
                "tries them again, --allow-failures accepts them"
            )
        if self.complete:
            yield f"budgets: {output}/{BUDGETS_FILE}   next: robustshards report {output}"
        else:
            yield "unfinished: fix the problems above, then run the same command again"


def run_budgets(request: AttackRequest, largest: float, steps: int, watcher: SearchWatcher) -> SearchResult:
    """Search the smallest budget of each image. To continue an interrupted search, run the same request again.

    Args:
        request: Model, images and one attack.
        largest: Largest budget, for pixel values 0..1.
        steps: Number of times that the bracket is halved.
        watcher: Observer of the search.

    Raises:
        UserError: An input is invalid, or the output contains something else. Nothing has been searched.
        UnfinishedError: No worker can be started.
    """
    parse_executor(request.executor, request.address)
    if not largest > 0:
        raise UserError(f"invalid --largest {largest:g}: use a budget above 0, for example 16/255")
    if not 0 <= steps <= MAX_STEPS:
        raise UserError(f"invalid --steps {steps}: use 0 to {MAX_STEPS}")
    setup = prepare(request, watcher.preparing)
    job = _Budgets(request, setup, _table(request, setup, largest, steps), watcher)
    run_resumable(job.store, job, Tally(SearchCounts))
    return job.result


def _table(request: AttackRequest, setup: Setup, largest: float, steps: int) -> BudgetsTable:
    (entry,) = setup.entries
    table = setup.table
    return BudgetsTable(
        search=SearchTable(
            attack=entry.name,
            norm=entry.norm,
            largest=largest,
            steps=0 if METHODS[entry.name].minimises else steps,
            seed=request.recipe.seed,
            settings=entry.settings,
        ),
        model=table.model,
        input=table.input,
        run=table.run,
        data_set=table.data_set,
        clean=setup.clean_table(request),
        device=setup.device,
        software=setup.software,
    )


class _Budgets:
    """A search as a resumable job."""

    merged = BUDGETS_FILE

    def __init__(self, request: AttackRequest, setup: Setup, table: BudgetsTable, watcher: SearchWatcher) -> None:
        self._request, self._setup, self._table, self._watcher = request, setup, table, watcher
        self._blocks = _blocks(setup, request)
        self.store = open_store(request.out)
        images = sum(len(block.images) for block in self._blocks)
        self.result = SearchResult(table, images, warnings=setup.warnings)
        self._missing: Sequence[Block] = ()
        self._start = perf_counter()

    def claim(self) -> None:
        """Write budgets.toml. Raise UserError if the folder contains another search or other files."""
        _check_claim(self.store, self._table)
        self.store.publish_bytes(self._table.to_toml().encode(), SETTINGS_FILE)

    def find_missing(self) -> bool:
        """Find the blocks without results, and report the number of images to the watcher."""
        done = {
            name: facts.get(FACT_CHUNK)
            for name, facts in facts_of_parts(self.store, PARTS)
            if not (self._request.retry_failed and facts.get(FACT_FAILED) != "0")
        }
        self._missing = [
            block for block in self._blocks if done.get(part_file(block.name)) != block.digest(self._table)
        ]
        missing = sum(len(block.images) for block in self._missing)
        self.result.images_before = self.result.images - missing
        self._watcher.counting(self.result.images, self.result.images_before)
        return bool(self._missing)

    def open_pool(self) -> AbstractContextManager[Pool[Sequence[Block], SearchCounts]]:
        """Open the pool of workers: one per CPU with one thread, or one per GPU."""
        workers, gpus = processes(self._request, self._setup)
        output, load = trusted_locations.absolute(self._request.out), loading(self._request, self._setup)
        return open_pool(
            SearchJob(self._table, self._setup.model, self._setup.fixed_batch or 1, output, load),
            SearchWorker,
            executor=self._request.executor,
            workers=workers,
            address=self._request.address,
            outputs=sum(len(block.images) for block in self._missing),
            labels={"model": self._table.model.name},
            gpus=gpus,
        )

    def rounds(self, workers: int) -> Iterator[Iterator[Sequence[Block]]]:
        """Yield the missing blocks, each as one work item."""
        yield ((block,) for block in self._missing)

    def handle(self, event: Event[SearchCounts, Sequence[Block]], tally: Tally[SearchCounts]) -> None:
        """Record blocks that failed in every attempt, and forward the event to the watcher."""
        if isinstance(event, Lost):
            self.result.lost += [(block.name, event.reason) for block in event.work]
        if not isinstance(event, Progress) or event.finished:
            self._watcher.on_event(event)
        self._watcher.advanced(tally.total().images)

    def kept(self, done: SearchCounts) -> str:
        """Return how many parts of the results are finished."""
        parts = len(self._blocks) - len(self._missing) + done.blocks
        return f"{parts:,} of {counted(len(self._blocks), 'part')} are kept"

    def finish(self, done: SearchCounts) -> bool:
        """Record the counts, and return whether every image was searched."""
        self.result.done = done
        return self.result.complete

    def merge(self) -> None:
        """Merge the results, and count the failed images."""
        parts = [[part_file(block.name) for block in self._blocks]]
        scratch, facts = self.store.scratch(), manifests.with_blank_seal({FACT_SETTINGS: self._table.digest})
        try:
            merged = manifests.merge(
                read_groups_ahead(self.store, parts), facts, scratch, BUDGETS_SCHEMA, summed=[FACT_FAILED]
            )
        except manifests.MergeError as error:
            raise UserError(f"{error}: delete it and run the same command again") from error
        manifests.seal_file(scratch)
        self.store.publish(scratch, BUDGETS_FILE)
        self.result.failed = int(merged.facts[FACT_FAILED])

    def record(self) -> None:
        """Record the duration."""
        self.result.seconds = perf_counter() - self._start


def _blocks(setup: Setup, request: AttackRequest) -> list[Block]:
    """Return the images in blocks of one part each."""
    images = iter(islice(setup.source, request.limit or None))
    groups = iter(lambda: tuple(islice(images, request.recipe.shard_size)), ())
    return [Block(index, group) for index, group in enumerate(groups)]


def _check_claim(store: Store, table: BudgetsTable) -> None:
    """Raise UserError if a folder contains another search, or results without settings."""
    if not is_budgets(store):
        taken = [
            name for name in (BUDGETS_FILE, MANIFEST_FILE, "recipe.toml", "evaluation.toml") if store.size(name) >= 0
        ]
        if taken or any(True for _ in store.listing(PARTS, ".parquet")):
            raise UserError(
                f"{store.root} contains {', '.join(taken) or PARTS} but no {SETTINGS_FILE}: use an empty folder"
            )
        return
    earlier = read_budgets_table(store)
    if earlier.digest == table.digest:
        return
    old, new = (each.model_dump(mode="json") for each in (earlier, table))
    differ = "; ".join(
        f"{part}.{name} is {old[part].get(name)}, but {value} was requested"
        for part in new
        if isinstance(new[part], dict)
        for name, value in new[part].items()
        if isinstance(old[part], dict) and old[part].get(name) != value
    )
    raise UserError(
        f"{store.root} contains another search ({differ or 'another device'}): use another folder, or the same options"
    )
