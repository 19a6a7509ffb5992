"""Progress counts of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.execution.work import Reading


@dataclass
class PredictionCounts:
    """Progress of a worker on its current work item.

    Attributes:
        chunks: Number of finished chunks.
        frames: Number of predicted frames.
        compared: Number of samples whose decoded pixels were compared with the manifest.
        changed: Number of compared samples whose pixels differ.
        broken: Name of each chunk that could not be read, and the reason.
        seconds: Time spent, in seconds.
    """

    chunks: int = 0
    frames: int = 0
    compared: int = 0
    changed: int = 0
    broken: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def parts(self) -> int:
        """Return the number of finished chunks."""
        return self.chunks

    def add(self, other: PredictionCounts) -> None:
        """Add the counts of another record."""
        self.chunks += other.chunks
        self.frames += other.frames
        self.compared += other.compared
        self.changed += other.changed
        self.broken += other.broken
        self.seconds += other.seconds

    def readings(self) -> Iterator[Reading]:
        """Yield the counts that are exported for monitoring."""
        yield Reading("predicted_frames", "Frames predicted by a model", self.frames)
        yield Reading("prediction_seconds", "Time spent by workers, in seconds", self.seconds)
