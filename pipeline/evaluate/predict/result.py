"""The progress and the result of an evaluation, and its summary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow.compute as pc

import manifests
from pipeline.datasets.base import DataSet
from pipeline.evaluate.predict.preparation import recorded_preparation
from pipeline.evaluate.results.folder import PREDICTIONS_FILE, EvaluationTable
from pipeline.execution.work import Reading, Summable
from pipeline.sources.base import UNLABELLED
from pipeline.text import counted, rate


@dataclass
class PredictionCounts(Summable):
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

    def readings(self) -> Iterator[Reading]:
        """Yield the counts that are exported for monitoring."""
        yield Reading("predicted_frames", "Frames predicted by a model", self.frames)
        yield Reading("prediction_seconds", "Time spent by workers, in seconds", self.seconds)


def described_labels(data_set: DataSet) -> str:
    """Return what the outputs of a model are compared with; empty if this is obvious or unknown."""
    if task := data_set.task:
        groups = f"{counted(len(task.groups), 'group')} of " if task.groups else ""
        return f"{groups}{counted(task.outputs, 'output')} ({task.outputs_are}), by the task {task.name}"
    if not (space := data_set.labels):
        return ""
    labels = (
        pc.unique(table["label"]).to_pylist() for table in data_set.tables(("label",), {"status": [manifests.OK]})
    )
    space = space.among(len({*chain.from_iterable(labels)} - {UNLABELLED}))
    return "" if space.is_imagenet else str(space)


@dataclass
class EvaluationResult:
    """The result of an evaluation.

    Attributes:
        table: Settings that determine the predictions (``evaluation.toml``): model, input, device, data set, software.
        chunks: Number of chunks in the data set.
        chunks_before: Number of chunks that an earlier run had predicted.
        done: Counts of this run.
        lost: Name of each chunk that failed in every attempt, and the reason.
        seconds: Duration in seconds.
        data_set: Path or URL of the data set.
        output: Path or URL of the evaluation folder.
        labels: What the outputs of the model are compared with. Empty if these are the 1,000 classes of ImageNet, or
            if it is unknown.
        unprepared: Number of images that are smaller than a crop of the preparation, which count as failed.
    """

    table: EvaluationTable
    chunks: int
    chunks_before: int = 0
    done: PredictionCounts = field(default_factory=PredictionCounts)
    lost: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    data_set: str = ""
    output: str = ""
    labels: str = ""
    unprepared: int = 0

    @property
    def complete(self) -> bool:
        """Whether every chunk was predicted."""
        return not self.lost and not self.done.broken

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "model": self.table.model.name,
            "data_set": self.table.data_set.name,
            "samples": self.table.data_set.samples,
            "shards": self.chunks,
            "shards_before": self.chunks_before,
            "frames_made": self.done.frames,
            "batch": self.table.run.batch,
            "device": self.table.run.device,
            "labels": self.labels,
            "steps": [list(step) for step in self.table.input.steps or ()],
            "unprepared": self.unprepared,
            "pixels_checked": self.done.compared,
            "pixels_changed": self.done.changed,
            "complete": self.complete,
            "lost": [{"shard": name, "reason": reason} for name, reason in (*self.lost, *self.done.broken)],
            "seconds": round(self.seconds, 3),
        }

    def summary(self, output: str) -> Iterator[str]:
        """Yield the lines of a summary for the terminal."""
        if self.labels:
            yield f"labels: {self.labels}"
        if prepared := recorded_preparation(self.table.input):
            yield f"preparation: {prepared}, {prepared.resize}"
        if stream := self.table.stream:
            yield (
                f"ordered: {stream}: by one process, in batches that are not padded; a model of your own code was used "
                "in the mode (training or evaluation) in which the code left it"
            )
        if self.unprepared:
            yield f"WARNING {counted(self.unprepared, 'image')} smaller than a crop: not evaluated, counted as failed"
        if self.done.chunks:
            frames, seconds = self.done.frames, self.seconds
            yield f"predicted {counted(frames, 'image')} in {seconds:.1f} s ({rate(frames, seconds)})"
        elif self.complete:
            yield f"nothing to do: all {self.chunks:,} shards were already predicted"
        if self.done.changed:
            yield (
                f"WARNING {self.done.changed:,} of {self.done.compared:,} compared samples decode to other pixels on "
                "this machine than on the machine that built them: the decoder differs, so results may differ"
            )
        for name, reason in (*self.lost, *self.done.broken):
            yield f"missing: {name}: {reason}"
        if self.complete:
            yield f"predictions: {output}/{PREDICTIONS_FILE}   next: robustshards report {output}"
        elif self.table.stream:
            yield (
                f"unfinished: a shard cannot be read; to find out why, run robustshards verify {self.data_set}. The "
                "same command starts again from the first image"
            )
        elif self.done.broken:
            count = len(self.done.broken)
            yield (
                f"unfinished: {count:,} of {self.chunks:,} shards cannot be read; to find out why, run "
                f"robustshards verify {self.data_set}. Finished predictions are kept"
            )
        else:
            yield "unfinished: run the same command again"
