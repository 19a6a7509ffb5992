"""What a worker counts while it builds."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.execution.work import Measure


@dataclass(kw_only=True)
class BuildCounts:
    """What a worker has done of a work item so far.

    ``samples`` by transform; of finished shards, samples and bytes by condition (``fog-3``); ``seconds`` by stage:
    read, decode, prepare, ...; ``rendering``: seconds of the transforms alone, by transform.
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
        """Add the time since ``start`` to a stage; return the time now, from which the next one starts."""
        now = time.perf_counter()
        self.seconds[stage] += now - start
        return now

    def add_sample(self, transform: str, payload_bytes: int | None) -> None:
        """Count a sample, and the length of its payload; None: it failed."""
        self.samples[transform] += 1
        if payload_bytes is None:
            self.failed += 1
        else:
            self.payload_bytes += payload_bytes

    def add_shard(self, condition: str, samples: int, size: int) -> None:
        """Count a published shard of ``size`` bytes."""
        self.shards += 1
        self.shard_samples[condition] += samples
        self.shard_bytes[condition] += size

    def add(self, other: BuildCounts) -> None:
        """Add other counts to these."""
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
        """Yield what monitoring shows."""
        yield Measure("failed_samples", "Samples that could not be made", self.failed)
        yield Measure("payload_bytes", "Bytes of encoded samples", self.payload_bytes)
        for transform, count in self.samples.items():
            yield Measure("samples", "Samples made, failed ones included", count, {"transform": transform})
        for transform, spent in self.rendering.items():
            yield Measure("rendering_seconds", "Time in the transform alone", spent, {"transform": transform})
