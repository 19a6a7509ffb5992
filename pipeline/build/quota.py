"""How much work may be handed out while the shards of a data set stay within a size. Pure: no files, no clock."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Annotated

from pydantic import ByteSize, Field, TypeAdapter
from rich.filesize import decimal

from pipeline.build.plan import WorkItem
from pipeline.errors import UserError

MARGIN = 1.25
"""An unmade sample is assumed to take this times the most bytes per sample of any known shard of its condition."""

_SIZE: TypeAdapter[int] = TypeAdapter(Annotated[ByteSize, Field(gt=0, lt=2**63)])

_WRITTEN = re.compile(r"\s*[0-9]{1,20}(\.[0-9]{1,20})?\s*[A-Za-z]{0,3}\s*")
_SHOWN = 40
"""Characters of an invalid size that a message shows."""


@dataclass
class Sizes:
    """What samples take in shards, tar headers included, by condition (``fog-3``)."""

    samples: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    largest: dict[str, float] = field(default_factory=dict)
    """Condition -> bytes per sample, in the shard where they are most."""

    def add(self, condition: str, samples: int, size: int) -> None:
        """Add a shard, or one measured sample."""
        self.samples[condition] += samples
        self.bytes[condition] += size
        self.largest[condition] = max(self.largest.get(condition, 0.0), size / samples)


def estimated_bytes(samples: Mapping[str, int], known: Sizes, measured: Sizes) -> int:
    """Return the bytes that these samples will take; ``measured`` stands in for conditions that are not ``known``."""
    total = 0.0
    for condition, count in samples.items():
        sizes = known if known.samples[condition] else measured
        total += count * sizes.bytes[condition] / max(sizes.samples[condition], 1)
    return int(total)


@dataclass
class Quota:
    """A limit in bytes on the finished shards and those in progress; infinity: no limit.

    ``known``: the finished shards. ``measured``: stands in for a condition without any. ``withheld``: the work item
    that did not fit, or the rest of it.
    """

    limit: float = math.inf
    known: Sizes = field(default_factory=Sizes)
    measured: Sizes = field(default_factory=Sizes)
    withheld: WorkItem | None = None
    _in_progress: Counter[str] = field(default_factory=Counter)
    """Condition -> samples handed out and not finished."""

    def rounds(self, work: Iterator[WorkItem]) -> Iterator[Iterator[WorkItem]]:
        """Yield the work in rounds that fit: once a round is finished, its true size may leave room for more.

        Ends when everything has been handed out, or when the next task does not fit.
        """
        self.withheld = next(work, None)
        while self.withheld and self._fit(self.withheld):
            yield self._fitting(chain([self.withheld], work))

    def _fitting(self, work: Iterator[WorkItem]) -> Iterator[WorkItem]:
        """Yield the work items that fit, the last one cut to those of its tasks that do."""
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
        """Count finished shards: condition -> their samples, condition -> their bytes."""
        for condition, size in sizes.items():
            self.known.add(condition, samples[condition], size)
            self._in_progress[condition] -= samples[condition]

    def reserved(self) -> float:
        """Return the bytes of the finished shards and the most that those in progress may take."""
        return self.known.bytes.total() + sum(
            count * self._sample_bytes(condition) for condition, count in self._in_progress.items()
        )

    def _fit(self, block: WorkItem) -> int:
        """Return how many tasks of a work item fit, from the first."""
        reserved = self.reserved()
        for count, task in enumerate(block.tasks):
            reserved += len(block.images) * self._sample_bytes(str(task.condition))
            if reserved > self.limit:
                return count
        return len(block.tasks)

    def _sample_bytes(self, condition: str) -> float:
        """Return the most that a sample of a condition is assumed to take."""
        return MARGIN * (self.known.largest.get(condition) or self.measured.largest.get(condition, 0.0))


@dataclass(frozen=True)
class Withheld:
    """What --max-bytes has left unmade: shards and their estimated bytes; ``there``: bytes of all finished shards."""

    shards: int
    bytes: int
    there: int

    def __str__(self) -> str:
        return (
            f"--max-bytes is reached: {decimal(self.there)} are there, {self.shards:,} shards of about "
            f"{decimal(self.bytes)} are missing; run the same command again with more room"
        )


def parse_size(text: str) -> int:
    """Return the bytes of "50GB", "1.5TB", "800MiB" or a plain number. Raises UserError."""
    try:
        if not _WRITTEN.fullmatch(text):
            raise ValueError(text)
        return _SIZE.validate_python(text)
    except (ValueError, OverflowError):  # pydantic's error is a ValueError
        raise UserError(
            f"invalid size {text[:_SHOWN]!r}: use a positive number of bytes or a unit, for example 800MiB, 50GB, 1.5TB"
        ) from None
