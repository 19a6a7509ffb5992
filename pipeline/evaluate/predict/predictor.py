"""A worker of an evaluation: chunks in, parts of the predictions out, each committed when it is complete."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import torch

from pipeline.datasets.base import Chunk
from pipeline.errors import UserError
from pipeline.evaluate.metrics import TOP
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.loading import load_model
from pipeline.evaluate.predict.classifier import Classifier
from pipeline.evaluate.predict.counts import PredictionCounts
from pipeline.evaluate.predict.stream import Batch, Broken, load
from pipeline.evaluate.results.folder import (
    FACT_CHUNK,
    FACT_PIXELS_CHANGED,
    FACT_PIXELS_CHECKED,
    EvaluationTable,
    part_file,
)
from pipeline.evaluate.results.predictions import Frames, Outputs, write_part
from pipeline.execution.work import Attempt
from pipeline.storage import open_store

IN_FLIGHT = 2
"""Batches that are started before the outputs of the first are read, so that a GPU is never idle."""


@dataclass(frozen=True)
class EvaluationJob:
    """What every worker of an evaluation is given once, with absolute paths.

    ``loaders``: processes that read and decode, per worker. ``data``: where the files of an index are. ``folder``:
    where relative paths of models and the user's modules start from. ``trust_model``: as in the request.
    """

    table: EvaluationTable
    data_set: str
    output: str
    loaders: int
    data: str | None = None
    folder: str | None = None
    trust_model: bool = False


@dataclass
class _Part:
    """The predictions of a chunk so far."""

    frames: list[tuple[str, str, int, int]] = field(default_factory=list)
    outputs: list[Outputs] = field(default_factory=list)
    compared: int = 0
    changed: int = 0


class Predictor:
    """A model on its device, and where its predictions go."""

    def __init__(self, job: EvaluationJob, loaded: Model | None = None) -> None:
        """Raise UserError where the model cannot be loaded, or has changed since the evaluation began.

        ``loaded``: the model itself, instead of one that is loaded as the job says.
        """
        self._job = job
        self._store = open_store(job.output)
        model = loaded or load_model(job.table.model.spec, job.table.model.weights or None, job.folder, job.trust_model)
        check_same(job.table, model)
        self._classifier = Classifier(job.table, model)

    def run(self, attempt: Attempt[Sequence[Chunk]]) -> Iterator[PredictionCounts]:
        """Predict and commit some chunks; yield the counts so far after each batch, always the same growing record.

        Raises:
            UserError: The model lacks a label's class or returns NaN, or a loader process dies.
        """
        chunks, report = attempt.work, PredictionCounts()
        parts = [_Part() for _ in chunks]
        for chunk, part in zip(chunks, parts, strict=True):
            if not chunk.frames:
                self._commit(chunk, part, report)
        device, batch = self._classifier.device, self._job.table.run.batch
        job, pin = self._job, device.type == "cuda"
        stream = load(job.data_set, chunks, batch, job.loaders, pin, job.data)
        waiting: deque[tuple[Batch, tuple[torch.Tensor, ...]]] = deque()
        start = perf_counter()
        for item in stream:
            if isinstance(item, Broken):
                report.broken.append((chunks[item.chunk].name, item.reason))
                continue
            waiting.append((item, self._classifier.start(item)))
            if len(waiting) >= IN_FLIGHT:
                self._take(chunks, parts, *waiting.popleft(), report)
            report.seconds += perf_counter() - start
            yield report
            start = perf_counter()
        while waiting:
            self._take(chunks, parts, *waiting.popleft(), report)
        yield report

    def _take(
        self,
        chunks: Sequence[Chunk],
        parts: Sequence[_Part],
        batch: Batch,
        outputs: tuple[torch.Tensor, ...],
        report: PredictionCounts,
    ) -> None:
        """Add a batch's outputs to its part, and commit the part after its last batch."""
        part = parts[batch.chunk]
        part.outputs.append(self._classifier.finish(outputs))
        part.frames += [
            (row.key, row.source_id, row.label, frame) for row, frame in zip(batch.rows, batch.frames, strict=True)
        ]
        part.compared += batch.compared
        part.changed += batch.changed
        report.add(PredictionCounts(frames=len(batch.rows), compared=batch.compared, changed=batch.changed))
        if batch.last:
            self._commit(chunks[batch.chunk], part, report)
            parts[batch.chunk].outputs.clear()
            parts[batch.chunk].frames.clear()

    def _commit(self, chunk: Chunk, part: _Part, report: PredictionCounts) -> None:
        """Write a part and publish it."""
        names = ("top5", "label_rank", "label_probability", "confidence")
        blank = Outputs(
            np.zeros((0, min(TOP, self._job.table.model.classes)), np.int32),
            np.zeros(0, np.int32),
            np.zeros(0, np.float32),
            np.zeros(0, np.float32),
        )
        outputs = part.outputs or [blank]
        whole = Outputs(*(np.concatenate([getattr(each, name) for each in outputs]) for name in names))
        keys, ids, labels, frames = zip(*part.frames, strict=True) if part.frames else ((), (), (), ())
        facts = {
            FACT_CHUNK: chunk_digest(self._job.table, chunk),
            FACT_PIXELS_CHECKED: str(part.compared),
            FACT_PIXELS_CHANGED: str(part.changed),
        }
        scratch = self._store.scratch()
        write_part(chunk.condition, Frames(keys, ids, labels, frames), whole, facts, scratch)
        self._store.publish(scratch, part_file(chunk.name))
        report.chunks += 1


def chunk_digest(table: EvaluationTable, chunk: Chunk) -> str:
    """Return a digest of all that decides the predictions of a chunk."""
    return hashlib.sha256(f"{table.digest}\n{chunk}".encode()).hexdigest()


def check_same(table: EvaluationTable, model: Model) -> None:
    """Raise UserError where a model, or a library that it needs, has changed since an evaluation began."""
    wanted, here = table.model, {**model.software}
    differ = [
        f"{name} is {now[:12] or 'none'}, not {before[:12] or 'none'}"
        for name, before, now in (
            ("the digest of its weights", wanted.digest, model.digest),
            ("the digest of its code", wanted.code, model.code),
            *((name, table.software.get(name, ""), here.get(name, "")) for name in sorted({*table.software, *here})),
        )
        if before != now
    ]
    if differ:
        raise UserError(f"the model {model.spec} has changed since the evaluation began: {'; '.join(differ)}")
