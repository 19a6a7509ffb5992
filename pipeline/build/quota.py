"""How much work may be given out where the shards of a data set must not exceed a size. Pure: no files, no clock."""

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
"""What a sample is reckoned with, over the shard that has most bytes per sample of all that are known of its step."""

_SIZE: TypeAdapter[int] = TypeAdapter(Annotated[ByteSize, Field(gt=0, lt=2**63)])

_WRITTEN = re.compile(r"\s*[0-9]{1,20}(\.[0-9]{1,20})?\s*[A-Za-z]{0,3}\s*")
_SHOWN = 40
"""Characters of an invalid size that a message shows."""


@dataclass
class Sizes:
    """What samples take in shards, tar headers included, by step (``fog-3``)."""

    samples: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    largest: dict[str, float] = field(default_factory=dict)
    """Step -> bytes per sample where they are most."""

    def add(self, condition: str, samples: int, size: int) -> None:
        """Take in a shard, or one measured sample."""
        self.samples[condition] += samples
        self.bytes[condition] += size
        self.largest[condition] = max(self.largest.get(condition, 0.0), size / samples)


def reckoned(samples: Mapping[str, int], known: Sizes, measured: Sizes) -> int:
    """Bytes that so many samples of each step will take on average; ``measured`` where nothing is known of a step."""
    total = 0.0
    for condition, count in samples.items():
        sizes = known if known.samples[condition] else measured
        total += count * sizes.bytes[condition] / max(sizes.samples[condition], 1)
    return int(total)


@dataclass
class Quota:
    """Keeps the shards that are there, and those in the making, within ``limit`` bytes; infinity: no limit.

    ``known`` are the shards that are there; ``measured`` stands in for a step of which there is none yet.
    ``withheld`` is the piece of work that did not fit, or what is left of it.
    """

    limit: float = math.inf
    known: Sizes = field(default_factory=Sizes)
    measured: Sizes = field(default_factory=Sizes)
    withheld: WorkItem | None = None
    _making: Counter[str] = field(default_factory=Counter)
    """Step -> samples given out and not made yet."""

    def rounds(self, work: Iterator[WorkItem]) -> Iterator[Iterator[WorkItem]]:
        """The work, one part after another that fits: once a part is made, its true size may leave room for more.

        Ends when all is given out, or when the next task does not fit.
        """
        self.withheld = next(work, None)
        while self.withheld and self._fit(self.withheld):
            yield self._fitting(chain([self.withheld], work))

    def _fitting(self, work: Iterator[WorkItem]) -> Iterator[WorkItem]:
        """The pieces of work that fit, the last one cut to those of its tasks that do."""
        for block in work:
            count = self._fit(block)
            if count:
                for task in block.tasks[:count]:
                    self._making[str(task.condition)] += len(block.images)
                yield replace(block, tasks=block.tasks[:count])
            if count < len(block.tasks):
                self.withheld = replace(block, tasks=block.tasks[count:])
                return
        self.withheld = None

    def made(self, samples: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        """Shards are finished: step -> their samples, step -> their bytes."""
        for condition, size in sizes.items():
            self.known.add(condition, samples[condition], size)
            self._making[condition] -= samples[condition]

    def reserved(self) -> float:
        """Bytes of what is there, and what may come of that in the making."""
        return self.known.bytes.total() + sum(
            count * self._reckoned(condition) for condition, count in self._making.items()
        )

    def _fit(self, block: WorkItem) -> int:
        """How many tasks of a piece fit, from the first."""
        reserved = self.reserved()
        for count, task in enumerate(block.tasks):
            reserved += len(block.images) * self._reckoned(str(task.condition))
            if reserved > self.limit:
                return count
        return len(block.tasks)

    def _reckoned(self, condition: str) -> float:
        return MARGIN * (self.known.largest.get(condition) or self.measured.largest.get(condition, 0.0))


@dataclass(frozen=True)
class Withheld:
    """What --max-bytes has left unmade: shards and their reckoned bytes; ``there``: bytes of all shards that are."""

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
