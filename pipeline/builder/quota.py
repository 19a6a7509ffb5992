"""A limit on the total size of the shards of a data set. It reads no files and does not depend on time."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Annotated

from pydantic import ByteSize, Field, TypeAdapter
from rich.filesize import decimal

from pipeline.builder.plan import WorkItem
from pipeline.errors import UserError

MARGIN = 1.25
"""Factor from the largest known sample size of a condition to the size reserved for a sample not made yet."""

_SIZE: TypeAdapter[int] = TypeAdapter(Annotated[ByteSize, Field(gt=0, lt=2**63)])

_SIZE_PATTERN = re.compile(r"\s*[0-9]{1,20}(\.[0-9]{1,20})?\s*[A-Za-z]{0,3}\s*")
_SHOWN = 40
"""Maximum number of characters of an invalid size in a message."""


@dataclass
class Sizes:
    """Sizes of samples in shards, including tar headers.

    Attributes:
        samples: Condition (``fog-3``) -> number of samples.
        bytes: Condition -> total size in bytes.
        largest: Condition -> largest mean size of a sample in any shard, in bytes.
        seconds: Condition -> CPU time of the samples in seconds, of measured samples only.
    """

    samples: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    largest: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, condition: str, samples: int, size: int) -> None:
        """Add a shard, or one measured sample, of a condition such as ``fog-3`` and a size in bytes."""
        self.samples[condition] += samples
        self.bytes[condition] += size
        self.largest[condition] = max(self.largest.get(condition, 0.0), size / samples)


def estimated_bytes(samples: Mapping[str, int], known: Sizes, measured: Sizes) -> int:
    """Return the estimated size of numbers of samples, by condition, in bytes.

    Args:
        samples: Condition -> number of samples.
        known: Sizes in finished shards.
        measured: Sizes of a few measured samples, for conditions without finished shards.
    """
    total = 0.0
    for condition, count in samples.items():
        sizes = known if known.samples[condition] else measured
        total += count * sizes.bytes[condition] / max(sizes.samples[condition], 1)
    return int(total)


@dataclass
class Quota:
    """A limit on the size of the finished shards and the shards in progress.

    Attributes:
        limit: Maximum size in bytes; infinity for no limit.
        known: Sizes in finished shards.
        measured: Sizes of a few measured samples, for conditions without finished shards.
        withheld: The work item, or the rest of one, that does not fit; None if everything fits.
    """

    limit: float = math.inf
    known: Sizes = field(default_factory=Sizes)
    measured: Sizes = field(default_factory=Sizes)
    withheld: WorkItem | None = None
    _in_progress: Counter[str] = field(default_factory=Counter)
    """Condition -> number of samples in progress."""

    def rounds(self, work: Iterator[WorkItem]) -> Iterator[Iterator[WorkItem]]:
        """Yield the missing work items in rounds that fit into the limit.

        After a round, the actual sizes of its shards are known, so there may be room for another round. The iteration
        ends when no work is left or when the next task does not fit.
        """
        self.withheld = next(work, None)
        while self.withheld and self._fit(self.withheld):
            yield self._fitting(chain([self.withheld], work))

    def _fitting(self, work: Iterator[WorkItem]) -> Iterator[WorkItem]:
        """Yield the work items that fit; the last one is reduced to the tasks that fit."""
        for block in work:
            count = self._fit(block)
            if count:
                for task in block.tasks[:count]:
                    self._in_progress[str(task.condition)] += len(block.images)
                yield replace(block, tasks=block.tasks[:count])
            if count < len(block.tasks):
                self.withheld = replace(block, tasks=block.tasks[count:])
                return
        self.withheld = None

    def add_finished(self, samples: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        """Replace reserved sizes by those of finished shards: numbers of samples and bytes by condition."""
        for condition, size in sizes.items():
            self.known.add(condition, samples[condition], size)
            self._in_progress[condition] -= samples[condition]

    def reserved(self) -> float:
        """Return the bytes of the finished shards plus the bytes reserved for shards in progress."""
        return self.known.bytes.total() + sum(
            count * self._sample_bytes(condition) for condition, count in self._in_progress.items()
        )

    def _fit(self, block: WorkItem) -> int:
        """Return the number of leading tasks of a work item that fit."""
        reserved = self.reserved()
        for count, task in enumerate(block.tasks):
            reserved += len(block.images) * self._sample_bytes(str(task.condition))
            if reserved > self.limit:
                return count
        return len(block.tasks)

    def _sample_bytes(self, condition: str) -> float:
        """Return the bytes to reserve for a sample of a condition."""
        return MARGIN * (self.known.largest.get(condition) or self.measured.largest.get(condition, 0.0))


@dataclass(frozen=True)
class Withheld:
    """Shards that were not made because of --max-bytes.

    Attributes:
        shards: Number of shards that were not made.
        bytes: Their estimated size in bytes.
        there: Size of the finished shards in bytes.
    """

    shards: int
    bytes: int
    there: int

    def __str__(self) -> str:
        return (
            f"--max-bytes is reached: the finished shards have {decimal(self.there)}; {self.shards:,} shards of about "
            f"{decimal(self.bytes)} are missing. Run the same command again with a larger --max-bytes"
        )


def parse_size(text: str) -> int:
    """Return the number of bytes of a size.

    Args:
        text: A number of bytes, or a number with a unit: "50GB", "1.5TB", "800MiB".

    Raises:
        UserError: The size is invalid.
    """
    try:
        if not _SIZE_PATTERN.fullmatch(text):
            raise ValueError(text)
        return _SIZE.validate_python(text)
    except (ValueError, OverflowError):  # the errors of pydantic are ValueErrors
        raise UserError(
            f"invalid size {text[:_SHOWN]!r}: use a positive number of bytes or a unit, for example 800MiB, 50GB, 1.5TB"
        ) from None
