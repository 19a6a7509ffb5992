"""The result of an evaluation, in numbers and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pipeline.evaluate.predict.counts import PredictionCounts
from pipeline.evaluate.results.folder import PREDICTIONS_FILE, EvaluationTable


@dataclass
class EvaluationResult:
    """The result of an evaluation.

    Attributes:
        table: What decides the predictions: model, input, device, data set, software (``evaluation.toml``).
        chunks: Chunks of the data set.
        chunks_before: Those whose predictions were there before.
        done: What was predicted.
        lost: Chunks that were given up after several attempts, and why.
        seconds: Duration.
        data_set: Path or URL of the data set.
        output: Path or URL of the folder with the predictions.
    """

    table: EvaluationTable
    chunks: int
    chunks_before: int = 0
    done: PredictionCounts = field(default_factory=PredictionCounts)
    lost: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    data_set: str = ""
    output: str = ""

    @property
    def complete(self) -> bool:
        """Whether every piece is there."""
        return not self.lost and not self.done.broken

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return {
            "model": self.table.model.name,
            "data_set": self.table.data_set.name,
            "samples": self.table.data_set.samples,
            "shards": self.chunks,
            "shards_before": self.chunks_before,
            "frames_made": self.done.frames,
            "batch": self.table.run.batch,
            "device": self.table.run.device,
            "pixels_checked": self.done.compared,
            "pixels_changed": self.done.changed,
            "complete": self.complete,
            "lost": [{"shard": name, "reason": reason} for name, reason in (*self.lost, *self.done.broken)],
            "seconds": round(self.seconds, 3),
        }

    def summary(self, output: str) -> Iterator[str]:
        """For people: a few lines."""
        if self.done.chunks:
            rate = self.done.frames / max(self.seconds, 1e-9)
            yield f"predicted {self.done.frames:,} images in {self.seconds:.1f} s ({rate:,.0f} images/s)"
        elif self.complete:
            yield f"nothing to do: all {self.chunks:,} shards are there"
        if self.done.changed:
            yield (
                f"WARNING {self.done.changed:,} of {self.done.compared:,} samples that were compared decode to other "
                "pixels here than where they were built: the decoder differs, and results may too"
            )
        for name, reason in (*self.lost, *self.done.broken):
            yield f"missing: {name}: {reason}"
        if self.complete:
            yield f"predictions: {output}/{PREDICTIONS_FILE}   the figures: robustshards report {output}"
        elif self.done.broken:
            count = len(self.done.broken)
            yield (
                f"unfinished: {count:,} of {self.chunks:,} shards cannot be used as they are; robustshards verify "
                f"{self.data_set} says why. What is finished is kept"
            )
        else:
            yield "unfinished: run the same command again"
