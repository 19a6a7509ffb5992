"""A data set through a model: pieces minus what is committed -> run -> merge the predictions last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import groupby, islice
from time import perf_counter
from typing import Any, Protocol

import torch

import manifests
from pipeline.datasets.base import Chunk, DataSet
from pipeline.datasets.indexed import Indexed
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.paths import facts_of_parts
from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.loading import current_folder, load_model
from pipeline.evaluate.predict.counts import PredictionCounts
from pipeline.evaluate.predict.predictor import EvaluationJob, Predictor, chunk_digest
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.evaluate.predict.settings import EvaluationRequest, settings
from pipeline.evaluate.report.families import report_of
from pipeline.evaluate.results.folder import (
    CHUNKS_FILE,
    EVALUATION_FILE,
    FACT_CHUNK,
    FACT_EVALUATION,
    FACT_PIXELS_CHANGED,
    FACT_PIXELS_CHECKED,
    PARTS,
    PREDICTIONS_FILE,
    EvaluationTable,
    is_finished,
    part_file,
    read_table,
)
from pipeline.evaluate.results.predictions import SCHEMA
from pipeline.execution.base import Pool
from pipeline.execution.pools import Executor, InProcessPool, open_pool, parse_executor
from pipeline.execution.resumable import run_resumable
from pipeline.execution.work import Event, Lost, Progress, Tally
from pipeline.software import cpu_count
from pipeline.storage import Store, is_url, open_store, places, read_groups_ahead

MAX_LOADERS = 16

MOST_PROCESSES = 16
"""Workers of this machine, or loaders of each, that may be asked for where it has fewer CPUs."""

MOST_ON_CLUSTER = 4096
"""Workers, or loaders of each, that may be asked for on a cluster."""

CHUNKS_AT_ONCE = 4
"""Pieces that a worker is given together, for each of its loader processes."""


class EvaluationWatcher(Protocol):
    """Told how an evaluation goes on."""

    def preparing(self, what: str) -> None:
        """Told of each step before the work."""

    def counting(self, frames: int, there: int) -> None:
        """Frames in all, and of them those that are there already."""

    def advanced(self, frames: int) -> None:
        """Frames done so far."""

    def on_event(self, event: Event[PredictionCounts, Sequence[Chunk]]) -> None:
        """Told that a piece of work is finished, has failed and is tried again, or is given up."""


def evaluate(request: EvaluationRequest, watcher: EvaluationWatcher, loaded: Model | None = None) -> EvaluationResult:
    """Predict what is missing of a data set, then merge the predictions.

    Predictions are committed chunk by chunk, each sample once: the same request again continues where it ended.

    Args:
        request: What to evaluate.
        watcher: Told how the evaluation goes on.
        loaded: The model itself, for one that only this process has; the request must ask for one worker then.

    Returns:
        What was done.

    Raises:
        UserError: An input is invalid, or the output holds another evaluation. Nothing has been predicted.
    """
    parse_executor(request.executor, request.address)
    _check_processes(request)
    data_set = open_data_set(request.data_set, request.data)
    _check_output(request.output, data_set)
    report_of(data_set.family_name)  # raises for a family without a report
    watcher.preparing(f"reading the manifest of {data_set.name}")
    chunks = list(data_set.chunks())
    watcher.preparing(f"loading {request.model}")
    model = loaded or load_model(request.model, request.weights, trust=request.trust_model)
    evaluation = _Evaluation(request, data_set, chunks, model, watcher, loaded)
    run_resumable(evaluation.store, evaluation, Tally(PredictionCounts))
    return evaluation.result


class _Evaluation:
    """An evaluation as a resumable job."""

    merged = PREDICTIONS_FILE

    def __init__(
        self,
        request: EvaluationRequest,
        data_set: DataSet,
        chunks: Sequence[Chunk],
        model: Model,
        watcher: EvaluationWatcher,
        loaded: Model | None,
    ) -> None:
        self._request, self._data_set, self._chunks = request, data_set, chunks
        self._model, self._watcher, self._loaded = model, watcher, loaded
        self.store = open_store(request.output)
        self._missing: Sequence[Chunk] = ()
        self._start = perf_counter()

    def claim(self) -> None:
        """Decide what decides the predictions, and check that the output is empty, or holds the same evaluation."""
        table = settings(self._request, self._data_set, self._chunks, self._model, _earlier(self.store))
        self._table = _claim(self.store, table)
        request = self._request
        self.result = EvaluationResult(table, len(self._chunks), data_set=request.data_set, output=request.output)

    def find_missing(self) -> bool:
        """Find the chunks without predictions, and tell the watcher."""
        self._start = perf_counter()
        done, chunks = committed(self.store), self._chunks
        self._missing = [
            chunk for chunk in chunks if done.get(part_file(chunk.name)) != chunk_digest(self._table, chunk)
        ]
        self.result.chunks_before = len(chunks) - len(self._missing)
        self.store.publish_bytes("".join(f"{chunk.name}\n" for chunk in chunks).encode(), CHUNKS_FILE)
        frames = _frames(chunks)
        self._watcher.counting(frames, frames - _frames(self._missing))
        return bool(self._missing)

    def open_pool(self) -> AbstractContextManager[Pool[Sequence[Chunk], PredictionCounts]]:
        """Use this process where one worker will do, else open workers, each with its own GPU if there are any."""
        request, table, job = self._request, self._table, self._job()
        if self._in_process:
            return nullcontext(InProcessPool(job, partial(Predictor, loaded=self._loaded)))
        return open_pool(
            job,
            Predictor,
            executor=request.executor,
            workers=_workers(request, table),
            address=request.address,
            outputs=_frames(self._missing),
            labels={"model": table.model.name, "data_set": table.data_set.name},
            gpus=torch.cuda.device_count() if table.run.device.startswith("cuda") else 0,
        )

    def rounds(self, workers: int) -> Iterator[Iterator[Sequence[Chunk]]]:
        """Yield what is missing: at once in this process, else a few chunks for each loader of a worker."""
        if self._in_process:
            yield iter([self._missing])
            return
        missing = iter(self._missing)
        loaders = _loaders(self._request, self._table, workers)
        at_once = min(CHUNKS_AT_ONCE * max(loaders, 1), -(-len(self._missing) // workers))
        yield iter(lambda: tuple(islice(missing, at_once)), ())

    def handle(self, event: Event[PredictionCounts, Sequence[Chunk]], tally: Tally[PredictionCounts]) -> None:
        """Note what is lost, and tell the watcher."""
        if isinstance(event, Lost):
            self.result.lost += [(chunk.name, event.reason) for chunk in event.work]
        if not isinstance(event, Progress) or event.finished:
            self._watcher.on_event(event)
        self._watcher.advanced(tally.total().frames)

    def finish(self, done: PredictionCounts) -> bool:
        """Return whether every chunk is predicted."""
        self.result.done = done
        return self.result.complete

    def merge(self) -> None:
        """Write the predictions, unless they are there and whole."""
        if not is_finished(self.store, self._table, _frames(self._chunks)):
            self.store.remove(PREDICTIONS_FILE)
            _merge(self.store, self._table, self._chunks)

    def record(self) -> None:
        """Note the duration."""
        self.result.seconds = perf_counter() - self._start

    @property
    def _in_process(self) -> bool:
        """Whether one worker in this process will do: it has all CPUs, and the model need not be loaded again."""
        request = self._request
        alone = _workers(request, self._table) == 1 and request.address is None and request.executor == Executor.AUTO
        return alone or self._loaded is not None

    def _job(self) -> EvaluationJob:
        request, data_set = self._request, self._data_set
        return EvaluationJob(
            self._table,
            places.absolute(request.data_set),
            places.absolute(request.output),
            _loaders(request, self._table, _workers(request, self._table)),
            places.absolute(data_set.files.root) if isinstance(data_set, Indexed) else None,
            current_folder(),
            request.trust_model,
        )


def _frames(chunks: Iterable[Chunk]) -> int:
    return sum(chunk.frames for chunk in chunks)


def _check_processes(request: EvaluationRequest) -> None:
    """Raises UserError for more processes than any machine has use for."""
    most = MOST_ON_CLUSTER if request.address else max(cpu_count(), MOST_PROCESSES)
    for option, count in (("--workers", request.workers), ("--loaders", request.loaders or 0)):
        if not 0 <= count <= most:
            raise UserError(f"{option} {count} is not allowed here: give at most {most}")


def _check_output(output: str, data_set: DataSet) -> None:
    """Raises UserError for an output folder in which files of the data set are, or would be taken for such."""
    own, inside = data_set.store.root, ("shards", "manifest", "runs")
    refused = [own, *(f"{own}/{name}" for name in inside)]
    if isinstance(data_set, Indexed):
        refused.append(data_set.files.root)
    place = places.absolute(output)
    for folder in map(places.absolute, refused):
        if place == folder or (folder != places.absolute(own) and _is_below(place, folder)):
            raise UserError(f"the output {output} is in {folder}, which holds the data set: choose another folder")


def _is_below(place: str, folder: str) -> bool:
    return is_url(place) == is_url(folder) and f"{place}/".startswith(f"{folder.rstrip('/')}/")


def _earlier(store: Store) -> EvaluationTable | None:
    """What an earlier run of this evaluation found out."""
    return read_table(store) if store.size(EVALUATION_FILE) >= 0 else None


def committed(store: Store) -> dict[str, str]:
    """The parts whose predictions are there and sound: file -> digest of the piece."""
    return {name: facts.get(FACT_CHUNK, "") for name, facts in facts_of_parts(store, PARTS)}


def _workers(request: EvaluationRequest, table: EvaluationTable) -> int:
    """As many as were asked for, or one for each GPU of this machine."""
    return request.workers or (torch.cuda.device_count() if table.run.device == "cuda" else 1)


def _loaders(request: EvaluationRequest, table: EvaluationTable, workers: int) -> int:
    """Loader processes of a worker: on a GPU the CPUs that are left, on the CPU none, since the model needs them."""
    if request.loaders is not None:
        return request.loaders
    if table.run.device == "cpu":
        return 0
    return max(min(cpu_count() // workers - 1, MAX_LOADERS), 1)


def _claim(store: Store, table: EvaluationTable) -> EvaluationTable:
    """Write evaluation.toml, or check that what is there is the same evaluation. Raises UserError."""
    if store.size(EVALUATION_FILE) >= 0:
        there, wanted = _flat(read_table(store)), _flat(table)
        differ = [
            f"{name}: {there.get(name) or 'none'} there, {wanted.get(name) or 'none'} asked for"
            for name in {**there, **wanted}
            if there.get(name) != wanted.get(name)
        ]
        if differ:
            what = "; ".join(differ)
            raise UserError(
                f"{store.root} holds another evaluation ({what}): choose another folder, or give the same options"
            )
        return table
    foreign = [name for name in (PREDICTIONS_FILE, CHUNKS_FILE) if store.size(name) >= 0]
    foreign += islice(store.listing(PARTS, ".parquet"), 1)
    if foreign:
        raise UserError(
            f"{store.root} holds {', '.join(foreign)} and no {EVALUATION_FILE}: they are of no evaluation, and would "
            "be overwritten; choose another folder"
        )
    store.publish_bytes(table.to_toml().encode(), EVALUATION_FILE)
    return table


def _flat(table: EvaluationTable) -> dict[str, Any]:
    content = table.model_dump(mode="json")
    return {f"{part}.{key}": value for part, fields in content.items() for key, value in fields.items()}


def _merge(store: Store, table: EvaluationTable, chunks: Sequence[Chunk]) -> None:
    """Write predictions.parquet, sealed. Raises UserError where its rows are not those of the manifest."""
    conditions = groupby(chunks, key=lambda chunk: chunk.condition)
    parts = [[part_file(chunk.name) for chunk in group] for _, group in conditions]
    scratch, summed = store.scratch(), (FACT_PIXELS_CHECKED, FACT_PIXELS_CHANGED)
    facts = manifests.with_blank_seal({FACT_EVALUATION: table.digest})
    try:
        rows = manifests.merge(read_groups_ahead(store, parts), facts, scratch, SCHEMA, summed).rows
    except manifests.MergeError as error:
        raise UserError(f"{error}: remove it, and run the same command again") from error
    if rows != _frames(chunks):
        raise UserError(f"the parts in {store.root} hold {rows} predictions, not one for each frame: remove them")
    manifests.seal_file(scratch)
    store.publish(scratch, PREDICTIONS_FILE)
