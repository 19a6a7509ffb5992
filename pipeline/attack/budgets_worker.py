"""The worker of a search of smallest budgets. It publishes one part per block of images."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from manifests import Row
from pipeline.attack.clean import CleanImages, pixels_of
from pipeline.attack.search import Smallest, search
from pipeline.attack.worker import Loading
from pipeline.builder.sample_maker import failure_reason
from pipeline.datasets.norms import Stored
from pipeline.errors import SampleError
from pipeline.evaluate.results.budgets import BUDGETS, BUDGETS_SCHEMA, BudgetsTable
from pipeline.execution.resumable import FACT_FAILED
from pipeline.execution.work import Attempt, CurrentItem, Reading, Summable
from pipeline.recipes.attacks import AttackedModel
from pipeline.sources.base import SourceImage
from pipeline.storage import open_store


@dataclass(frozen=True)
class Block:
    """Consecutive images whose results are one part.

    Attributes:
        index: Number of the block.
        images: The images.
    """

    index: int
    images: tuple[SourceImage, ...]

    @property
    def name(self) -> str:
        """Stem of its part."""
        return f"{self.index:06d}"

    @property
    def frames(self) -> int:
        """Number of its images."""
        return len(self.images)

    def digest(self, table: BudgetsTable) -> str:
        """Return the digest of everything that decides its results."""
        content = "".join(f"{image.id}\n{image.label}\n{image.size}\n" for image in self.images)
        return hashlib.sha256(f"{table.digest}\n{self.index}\n{content}".encode()).hexdigest()


@dataclass
class SearchCounts(Summable):
    """The finished work of a worker or of a search: blocks, images, and images that failed."""

    blocks: int = 0
    images: int = 0
    failed: int = 0

    @property
    def parts(self) -> int:
        """Return the number of finished blocks."""
        return self.blocks

    def readings(self) -> Iterator[Reading]:
        """Yield the counts as metrics for monitoring."""
        yield Reading("searched_images", "Images whose smallest budget was searched", self.images)
        yield Reading("failed_samples", "Samples that failed", self.failed)


@dataclass(frozen=True)
class SearchJob:
    """The settings that all workers of a search share.

    Attributes:
        table: Attack, model and images.
        model: The model, as workers load it.
        output: Absolute path or URL of the output.
        loading: How to load model and images.
    """

    table: BudgetsTable
    model: AttackedModel
    output: str
    loading: Loading


@dataclass
class _Row:
    """A row of the part: the image, its key in the clean data set, its pixels and its result."""

    image: SourceImage
    key: str
    pixels: Stored | None = None
    result: Smallest = field(default_factory=lambda: Smallest(False))


class SearchWorker:
    """A worker that searches smallest budgets. It keeps the model loaded between blocks."""

    def __init__(self, job: SearchJob) -> None:
        """Load the model. Raise UserError like ``Loading.attacker``."""
        self._job, self._store = job, open_store(job.output)
        self._clean = CleanImages(job.loading.clean, job.loading.data)
        self._attacker = job.loading.attacker(job.model, job.table.device, job.table.search.seed)
        self._roots = {job.loading.clean, job.output, self._store.root}

    def run(self, attempt: Attempt[Sequence[Block]]) -> Iterator[SearchCounts | CurrentItem]:
        """Search the budgets of blocks, publish their parts, and yield the counts so far after each batch.

        Raises:
            OSError: A part cannot be written.
            UserError: The model fails.
        """
        counts, batch = SearchCounts(), self._job.table.run.batch
        for block in attempt.work:
            known = self._clean.rows([image.id for image in block.images])
            rows = [_Row(image, known[image.id].key if image.id in known else image.id) for image in block.images]
            for first in range(0, len(rows), batch):
                self._search(rows[first : first + batch], known)
                counts.images += len(rows[first : first + batch])
                yield counts
            failed = sum(row.result.error is not None for row in rows)
            self._publish(block, rows, failed)
            counts.add(SearchCounts(blocks=1, failed=failed))
        yield counts

    def _search(self, rows: Sequence[_Row], known: dict[str, Row]) -> None:
        """Set the results of a batch, given the rows of its images in the clean data set."""
        for row in rows:
            try:
                row.pixels = pixels_of(self._clean.pick(known, row.image.id))
            except (SampleError, OSError) as error:
                row.result = Smallest(False, error=f"{row.image.origin}: {failure_reason(error, self._roots)}")
        readable = [(row, row.pixels) for row in rows if row.pixels is not None]
        if not readable:
            return
        ids, labels = [row.image.id for row, _ in readable], [row.image.label for row, _ in readable]
        before = self._attacker.before(ids, [pixels for _, pixels in readable], labels)
        results = search(self._attacker, before, self._job.table.search)
        for (row, _), result in zip(readable, results, strict=True):
            row.result, row.pixels = result, None

    def _publish(self, block: Block, rows: Sequence[_Row], failed: int) -> None:
        content = [
            {
                "key": row.key,
                "source_id": row.image.id,
                "label": row.image.label,
                "right_before": row.result.right_before,
                "found": row.result.found,
                "smallest": row.result.smallest,
                "largest_survived": row.result.survived,
                "error": row.result.error,
            }
            for row in rows
        ]
        facts = {BUDGETS.fact: block.digest(self._job.table), FACT_FAILED: str(failed)}
        BUDGETS.publish(self._store, block.name, content, BUDGETS_SCHEMA, facts)
