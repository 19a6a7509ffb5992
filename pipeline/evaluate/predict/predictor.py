"""The worker of an evaluation. It predicts chunks and publishes one predictions part per chunk."""

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import Any

import numpy as np
import torch

from pipeline.datasets.base import Chunk, Location
from pipeline.errors import UserError
from pipeline.evaluate.metrics import TOP
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.loading import load_model
from pipeline.evaluate.predict.classifier import Classifier, Pending
from pipeline.evaluate.predict.loader_processes import deaths_explained, load
from pipeline.evaluate.predict.memory import IN_FLIGHT
from pipeline.evaluate.predict.preparation import current_decoder, recorded_preparation
from pipeline.evaluate.predict.requirements import keep_freed_memory
from pipeline.evaluate.predict.result import PredictionCounts
from pipeline.evaluate.predict.stream import BrokenChunk, FrameBatch, FrameStream, OrderedFrames, StreamOrder
from pipeline.evaluate.results.folder import EVALUATION, FACT_PIXELS_CHANGED, FACT_PIXELS_CHECKED, EvaluationTable
from pipeline.evaluate.results.predictions import Frame, Frames, Outputs, write_part
from pipeline.execution.work import Attempt
from pipeline.storage import Store, open_store
from pipeline.transforms.family import Condition


@dataclass(frozen=True)
class EvaluationJob:
    """The settings that every worker of an evaluation receives once. All paths are absolute.

    Attributes:
        table: Settings that determine the predictions.
        data_set: The data set.
        output: Path or URL of the evaluation folder.
        loaders: Number of loader processes per worker. They read and decode images.
        threads: Number of threads with which a worker in a process of its own computes on the CPU.
        folder: Folder that relative paths of models, and the user's modules, are resolved in.
        trust_model: Whether to load model files that can run code.
        order: Order of a stream. None if the order does not matter.
    """

    table: EvaluationTable
    data_set: Location
    output: str
    loaders: int
    threads: int = 1
    folder: str | None = None
    trust_model: bool = False
    order: StreamOrder | None = None


def predictor_process(job: EvaluationJob) -> "Predictor":
    """Return the worker of a process that only predicts. Raise UserError like :class:`Predictor`."""
    keep_freed_memory()
    torch.set_num_threads(job.threads)
    return Predictor(job)


@dataclass
class _Part:
    """The predictions of an unfinished chunk."""

    conditions: list[Condition] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    outputs: list[Outputs] = field(default_factory=list)
    compared: int = 0
    changed: int = 0


class Predictor:
    """A worker that predicts chunks with one model and publishes the predictions."""

    def __init__(self, job: EvaluationJob, loaded: Model | None = None) -> None:
        """Load the model of the job, unless one is given that was loaded before.

        Raises:
            UserError: The model cannot be loaded, or has changed since the evaluation was started.
        """
        self._job = job
        self._store = open_store(job.output)
        described = job.table.model
        self._model = model = loaded or load_model(
            described.spec, described.weights or None, job.folder, job.trust_model, adapts=job.order is not None
        )
        check_unchanged(job.table, model)
        self._classifier = Classifier(job.table, model)
        self._preparation = recorded_preparation(job.table.input)
        self._listed = job.order.listed() if job.order else None

    def run(self, attempt: Attempt[Sequence[Chunk]]) -> Iterator[PredictionCounts]:
        """Predict chunks and publish their parts. A stream ends at the first chunk that cannot be read.

        Yields:
            The progress counts after each batch. This is always the same object, which is updated in place.

        Raises:
            UserError: The model lacks a label's class or returns NaN, or a loader process died.
        """
        with self._classifier.casting_once():
            yield from self._run(attempt.work)

    def _run(self, chunks: Sequence[Chunk]) -> Iterator[PredictionCounts]:
        counts = PredictionCounts()
        parts = [_Part() for _ in chunks]
        for chunk, part in zip(chunks, parts, strict=True):
            if not chunk.frames:
                self._commit(chunk, part, counts)
        job, batch = self._job, self._job.table.run.batch
        gpu = self._classifier.device if self._classifier.device.type == "cuda" else None
        if job.order:
            frames: FrameStream = OrderedFrames(job.data_set, chunks, job.order, self._preparation)
            schedule = job.order.schedule
            ends = {"condition": np.cumsum(schedule.sizes).tolist(), "batch": job.order.batches[:, 1].tolist()}
            resets, seen = {0, *ends.get(schedule.protocol.reset, ())}, 0
        else:
            frames, resets, seen = FrameStream(job.data_set, chunks, batch, self._preparation), set(), -1
        stream = load(frames, job.loaders, gpu)
        in_flight: deque[tuple[FrameBatch, Pending]] = deque()
        start = perf_counter()
        with deaths_explained(stream):
            for item in stream:
                if isinstance(item, BrokenChunk):
                    counts.broken.append((chunks[item.chunk].name, item.reason))
                    if job.order:
                        break
                    continue
                if seen in resets:
                    self._reset(start=not seen)
                seen += len(item.frames)
                in_flight.append((item, self._classifier.start(item)))
                if len(in_flight) >= IN_FLIGHT:
                    self._collect(chunks, parts, *in_flight.popleft(), counts)
                counts.seconds += perf_counter() - start
                yield counts
                start = perf_counter()
            while in_flight:
                self._collect(chunks, parts, *in_flight.popleft(), counts)
        yield counts

    def _reset(self, start: bool) -> None:
        """Set the model back: by its method ``reset``, or as a new one; at the start it is new in any case."""
        if self._model.resets:
            self._classifier.reset()
        elif self._model.again and not start:
            self._classifier = Classifier(self._job.table, self._model.again())

    def _collect(
        self, chunks: Sequence[Chunk], parts: list[_Part], batch: FrameBatch, outputs: Pending, counts: PredictionCounts
    ) -> None:
        """Add the outputs of a batch to its part, and publish the part after its last batch."""
        part = parts[batch.chunk]
        part.outputs.append(self._classifier.finish(outputs))
        part.frames += batch.frames
        part.conditions += batch.conditions
        part.compared += batch.compared
        part.changed += batch.changed
        counts.add(PredictionCounts(frames=len(batch.frames), compared=batch.compared, changed=batch.changed))
        if batch.last:
            self._commit(chunks[batch.chunk], part, counts)
            parts[batch.chunk] = _Part()

    def _commit(self, chunk: Chunk, part: _Part, counts: PredictionCounts) -> None:
        """Write and publish a part."""
        outputs = part.outputs or [_no_outputs(self._job.table.labels)]
        names = (each.name for each in fields(Outputs))
        merged = Outputs(*(np.concatenate([getattr(each, name) for each in outputs]) for name in names))
        order = self._listed[chunk.first : chunk.first + chunk.count] if self._listed is not None else None
        of_stream = {} if order is None else {"conditions": part.conditions, "listed": order}
        publish_part(self._store, self._job.table, chunk, part.frames, merged, part.compared, part.changed, **of_stream)
        counts.chunks += 1


def publish_part(
    store: Store,
    table: EvaluationTable,
    chunk: Chunk,
    frames: Sequence[Frame],
    outputs: Outputs,
    compared: int = 0,
    changed: int = 0,
    **of_stream: Any,
) -> None:
    """Write and publish the part of a chunk.

    Args:
        store: Folder of the evaluation.
        table: Settings of the evaluation.
        chunk: The chunk.
        frames: The frames.
        outputs: Model outputs of each frame.
        compared: Number of samples whose pixels were compared with the manifest.
        changed: Number of these whose pixels differ.
        **of_stream: Fields of ``Frames`` that only streams have.
    """
    facts = {
        EVALUATION.fact: chunk_digest(table, chunk),
        FACT_PIXELS_CHECKED: str(compared),
        FACT_PIXELS_CHANGED: str(changed),
    }
    columns = Frames(*zip(*frames, strict=True), **of_stream) if frames else Frames((), (), (), (), ())
    scratch = store.scratch()
    write_part(chunk.condition, columns, outputs, facts, scratch, table.schema)
    store.publish(scratch, EVALUATION.part(chunk.name))


def _no_outputs(labels: int) -> Outputs:
    """Return the outputs for no frames."""
    integers, numbers = np.zeros(0, np.int32), np.zeros(0, np.float32)
    return Outputs(np.zeros((0, min(TOP, labels)), np.int32), integers, numbers, numbers, integers, numbers, numbers)


def chunk_digest(table: EvaluationTable, chunk: Chunk) -> str:
    """Return the hexadecimal SHA-256 of everything that determines the predictions of a chunk, and of their columns."""
    return hashlib.sha256(f"{table.digest}\n{chunk}\n{','.join(table.schema.names)}".encode()).hexdigest()


def check_unchanged(table: EvaluationTable, model: Model) -> None:
    """Raise UserError if the model, or a library that it uses, has changed since the evaluation was started."""
    expected, current = table.model, {**model.software}
    decoder = table.input.decoder or ""
    differ = [
        f"{name} is {now[:12] or 'none'} instead of {before[:12] or 'none'}"
        for name, before, now in (
            ("the digest of its weights", expected.digest, model.digest),
            ("the digest of its code", expected.code, model.code),
            ("the decoder of its images", decoder, decoder and current_decoder(decoder)),
            *(
                (name, table.software.get(name, ""), current.get(name, ""))
                for name in sorted({*table.software, *current})
            ),
        )
        if before != now
    ]
    if differ:
        raise UserError(
            f"the model {model.spec} has changed since the evaluation was started: {'; '.join(differ)}; restore it, "
            "or evaluate into another folder"
        )
