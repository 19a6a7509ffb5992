"""The budgets command: search the missing blocks of images, then merge the results."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pipeline.attack.attack import loading, prepare, processes
from pipeline.attack.budgets_worker import Block, SearchCounts, SearchJob, SearchWorker
from pipeline.attack.request import AttackRequest
from pipeline.attack.settings import Setup
from pipeline.config import differences, flat
from pipeline.datasets.paths import MANIFEST_FILE, RECIPE_FILE
from pipeline.errors import UserError
from pipeline.evaluate.results.budgets import (
    BUDGETS,
    BUDGETS_FILE,
    BUDGETS_SCHEMA,
    FACT_SETTINGS,
    SETTINGS_FILE,
    BudgetsTable,
    SearchTable,
    read_budgets_table,
)
from pipeline.evaluate.results.folder import EVALUATION_FILE
from pipeline.execution.pools import Crew
from pipeline.execution.resumable import FACT_FAILED, ImageJob, ImageWatcher, count_frames, run_resumable
from pipeline.execution.work import Tally
from pipeline.storage import open_store, trusted_locations
from pipeline.text import counted, rate
from pipeline.transforms.adversarial import ATTACKS

MAX_STEPS = 30
"""Largest number of halvings, after which float32 pixel values do not change."""


SearchWatcher = ImageWatcher[Sequence[Block], SearchCounts]


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
    """Search the smallest budget of each image, up to the largest, for pixel values 0..1, by halving in steps.

    To continue an interrupted search, run the same request again.

    Raises:
        UserError: An input is invalid, or the output contains something else. Nothing has been searched.
        UnfinishedError: No worker can be started.
    """
    if not largest > 0:
        raise UserError(f"invalid --largest {largest:g}: use a budget above 0, for example 16/255")
    if not 0 <= steps <= MAX_STEPS:
        raise UserError(f"invalid --steps {steps}: use 0 to {MAX_STEPS}")
    setup = prepare(request, watcher.preparing)
    job = _Budgets(request, setup, _table(request, setup, largest, steps), watcher)
    run_resumable(job, SearchCounts)
    return job.result


def _table(request: AttackRequest, setup: Setup, largest: float, steps: int) -> BudgetsTable:
    (entry,) = setup.entries
    table = setup.table
    return BudgetsTable(
        search=SearchTable(
            attack=entry.name,
            norm=entry.norm,
            largest=largest,
            steps=0 if ATTACKS[entry.name].minimises else steps,
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


class _Budgets(ImageJob[Block, SearchCounts]):
    """A search as a resumable job."""

    folder = BUDGETS
    result: SearchResult

    def __init__(self, request: AttackRequest, setup: Setup, table: BudgetsTable, watcher: SearchWatcher) -> None:
        images = iter(islice(setup.source, request.limit or None))
        groups = iter(lambda: tuple(islice(images, request.recipe.shard_size)), ())
        blocks = [Block(index, group) for index, group in enumerate(groups)]
        super().__init__(open_store(request.out), watcher, blocks)
        self._request, self._setup, self._table = request, setup, table
        self.result = SearchResult(table, count_frames(blocks), warnings=setup.warnings)

    def claim(self) -> None:
        """Write budgets.toml. Raise UserError if the folder contains another search or other files."""
        self.folder.claim(
            self.store,
            lambda store: self.folder.files_of(store, (MANIFEST_FILE, RECIPE_FILE, EVALUATION_FILE)),
            lambda: differences(flat(read_budgets_table(self.store).identity()), flat(self._table.identity())),
        )
        self.store.publish_bytes(self._table.to_toml().encode(), SETTINGS_FILE)

    def find_missing(self) -> bool:
        """Find the blocks without results, and report the number of images to the watcher."""
        self.missing = self.without_part(self._request.retry_failed)
        self.result.images_before = self.result.images - count_frames(self.missing)
        return self.count_missing()

    def digest(self, part: Block) -> str:
        """Return the digest of a block and of the settings."""
        return part.digest(self._table)

    def crew(self) -> Crew[SearchJob, Sequence[Block], SearchCounts]:
        """Return the workers: one per CPU with one thread, or one per GPU."""
        request, setup = self._request, self._setup
        workers, gpus = processes(request, setup)
        output, load = trusted_locations.absolute(request.out), loading(request, setup)
        return Crew(
            job=SearchJob(self._table, setup.model, output, load),
            worker=SearchWorker,
            outputs=count_frames(self.missing),
            executor=request.executor,
            workers=workers,
            address=request.address,
            labels={"model": self._table.model.name},
            gpus=gpus,
        )

    def rounds(self, workers: int) -> Iterator[Iterator[Sequence[Block]]]:
        """Yield the missing blocks, each as one work item."""
        yield ((block,) for block in self.missing)

    def advanced(self, tally: Tally[SearchCounts]) -> None:
        """Report the number of searched images."""
        self._watcher.advanced(tally.total().images)

    def merge(self) -> None:
        """Merge the results, and count the failed images."""
        parts = [[block.name for block in self.parts]]
        facts = self.folder.merge(self.store, parts, {FACT_SETTINGS: self._table.digest}, BUDGETS_SCHEMA, [FACT_FAILED])
        self.result.failed = int(facts[FACT_FAILED])
