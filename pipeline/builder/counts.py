"""Counts of the work of a build."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.execution.work import Reading, Summable


@dataclass(kw_only=True)
class BuildCounts(Summable):
    """The finished work of a worker or of a build.

    Attributes:
        samples: Transform -> number of samples, including failed ones.
        failed: Number of failed samples.
        shards: Number of published shards.
        shard_samples: Condition (``fog-3``) -> number of samples in published shards.
        shard_bytes: Condition -> bytes of published shards.
        payload_bytes: Total size of the payloads.
        seconds: Stage (read, decode, prepare, ...) -> seconds.
        rendering: Transform -> seconds in the transform alone.
    """

    samples: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    shards: int = 0
    shard_samples: Counter[str] = field(default_factory=Counter)
    shard_bytes: Counter[str] = field(default_factory=Counter)
    payload_bytes: int = 0
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    rendering: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def parts(self) -> int:
        """Return the number of published shards."""
        return self.shards

    def add_time(self, stage: str, start: float) -> float:
        """Add the time since ``start``, of ``time.perf_counter()``, to a stage; return the start of the next one."""
        now = time.perf_counter()
        self.seconds[stage] += now - start
        return now

    def add_sample(self, transform: str, payload_bytes: int | None) -> None:
        """Count a sample. The length of its payload is None if it failed."""
        self.samples[transform] += 1
        if payload_bytes is None:
            self.failed += 1
        else:
            self.payload_bytes += payload_bytes

    def add_shard(self, condition: str, samples: int, size: int) -> None:
        """Count a published shard of a condition, for example ``fog-3``, and of a size in bytes."""
        self.shards += 1
        self.shard_samples[condition] += samples
        self.shard_bytes[condition] += size

    def readings(self) -> Iterator[Reading]:
        """Yield the counts as metrics for monitoring."""
        yield Reading("failed_samples", "Samples that failed", self.failed)
        yield Reading("payload_bytes", "Bytes of encoded samples", self.payload_bytes)
        for transform, count in self.samples.items():
            yield Reading("samples", "Samples made, including failed ones", count, {"transform": transform})
        for transform, spent in self.rendering.items():
            yield Reading("rendering_seconds", "Time spent in the transform alone", spent, {"transform": transform})
