"""What a worker of an evaluation has done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.execution.work import Measure


@dataclass
class PredictionCounts:
    """What a worker has done so far of what it was given. ``broken``: pieces that could not be read, and why."""

    chunks: int = 0
    frames: int = 0
    compared: int = 0
    changed: int = 0
    broken: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: PredictionCounts) -> None:
        """Add what another has done."""
        self.chunks += other.chunks
        self.frames += other.frames
        self.compared += other.compared
        self.changed += other.changed
        self.broken += other.broken
        self.seconds += other.seconds

    def measures(self) -> Iterator[Measure]:
        """What monitoring is told."""
        yield Measure("predicted_frames", "Frames that a model was shown", self.frames)
        yield Measure("prediction_seconds", "Time of the workers", self.seconds)
