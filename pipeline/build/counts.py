"""What a worker counts while it builds."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.execution.work import Measure


@dataclass
class BuildCounts:
    """What a worker has done of its piece so far.

    ``samples`` by transform; of finished shards, samples and bytes by step (``fog-3``); ``seconds`` by stage: read,
    decode, prepare, ...; ``rendering``: seconds of the transforms alone, by transform.
    """

    samples: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    shards: int = 0
    shard_samples: Counter[str] = field(default_factory=Counter)
    shard_bytes: Counter[str] = field(default_factory=Counter)
    payload_bytes: int = 0
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    rendering: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def lap(self, stage: str, start: float) -> float:
        """Add the time since ``start`` to a stage; the time now, from which the next one starts."""
        now = time.perf_counter()
        self.seconds[stage] += now - start
        return now

    def add(self, other: BuildCounts) -> None:
        """Add another report to this one."""
        self.samples.update(other.samples)
        self.failed += other.failed
        self.shards += other.shards
        self.shard_samples.update(other.shard_samples)
        self.shard_bytes.update(other.shard_bytes)
        self.payload_bytes += other.payload_bytes
        for stage, spent in other.seconds.items():
            self.seconds[stage] += spent
        for transform, spent in other.rendering.items():
            self.rendering[transform] += spent

    def measures(self) -> Iterator[Measure]:
        """What monitoring is told."""
        yield Measure("failed_samples", "Samples that could not be made", self.failed)
        yield Measure("payload_bytes", "Bytes of encoded samples", self.payload_bytes)
        for transform, count in self.samples.items():
            yield Measure("samples", "Samples made, failed ones included", count, {"transform": transform})
        for transform, spent in self.rendering.items():
            yield Measure("rendering_seconds", "Time in the transform alone", spent, {"transform": transform})
