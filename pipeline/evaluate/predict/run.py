"""Evaluation of a model on a data set: predict the missing chunks, then merge the predictions."""

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
from pipeline.datasets.rendered import Rendered
from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.loading import current_folder, load_model
from pipeline.evaluate.predict.counts import PredictionCounts
from pipeline.evaluate.predict.predictor import EvaluationJob, Predictor, chunk_digest
from pipeline.evaluate.predict.preparation import EvaluatedImages, images_of
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.predict.result import EvaluationResult, described_labels
from pipeline.evaluate.predict.settings import check_labelled, preparation, settings
from pipeline.evaluate.report.families import report_on
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
from pipeline.evaluate.results.predictions import SCHEMA, has_all_columns
from pipeline.execution.base import Pool
from pipeline.execution.pools import Executor, InProcessPool, open_pool, parse_executor
from pipeline.execution.resumable import run_resumable
from pipeline.execution.work import Event, Lost, Progress, Tally
from pipeline.software import cpu_count
from pipeline.storage import Store, is_url, open_store, read_groups_ahead, trusted_locations
from pipeline.text import counted

MAX_LOADERS = 16
"""Maximum default number of loader processes per worker."""

MAX_LOCAL_PROCESSES = 16
"""Maximum number of workers, or of loaders per worker, on a machine with fewer CPUs."""

MAX_CLUSTER_PROCESSES = 4096
"""Maximum number of workers, or of loaders per worker, on a cluster."""

CHUNKS_PER_LOADER = 4
"""Number of chunks per work item, for each loader process of the worker."""


class EvaluationWatcher(Protocol):
    """A receiver of progress messages."""

    def preparing(self, what: str) -> None:
        """Report a preparation step, for example loading the model."""

    def counting(self, frames: int, predicted: int) -> None:
        """Report the total number of frames and the number that earlier runs predicted."""

    def advanced(self, frames: int) -> None:
        """Report the number of frames predicted so far in this run."""

    def on_event(self, event: Event[PredictionCounts, Sequence[Chunk]]) -> None:
        """Report that a work item is finished, is retried after a failure, or failed in every attempt."""


def evaluate(request: EvaluationRequest, watcher: EvaluationWatcher, loaded: Model | None = None) -> EvaluationResult:
    """Predict the missing chunks of a data set, then merge the predictions.

    Predictions are published chunk by chunk. To continue an interrupted evaluation, run the same request again.

    Args:
        request: Model, data set, output folder and options.
        watcher: Receiver of progress messages.
        loaded: Model that exists only in this process, used instead of ``request.model``. Requires one worker.

    Returns:
        The result, which also lists chunks that failed.

    Raises:
        UserError: An input is invalid, no report can be made of it, or the output folder contains another evaluation.
            Nothing was predicted.
    """
    parse_executor(request.executor, request.address)
    _check_processes(request)
    data_set = open_data_set(request.data_set, request.data, request.pixels, request.cache)
    _check_output(request.out, data_set)
    if report_on(data_set.family_name, data_set.task).needs_labels:
        check_labelled(data_set)
    watcher.preparing(f"reading the manifest of {data_set.name}")
    chunks = list(data_set.chunks())
    watcher.preparing(f"loading {request.model}")
    model = loaded.for_trial() if loaded else _load(request)
    images = images_of(data_set, chunks, preparation(request, data_set, model))
    if isinstance(data_set, Rendered):
        watcher.preparing(data_set.prepare_cache())
    evaluation = _Evaluation(request, images, model, watcher, loaded)
    run_resumable(evaluation.store, evaluation, Tally(PredictionCounts))
    return evaluation.result


class _Evaluation:
    """An evaluation as a resumable job."""

    merged = PREDICTIONS_FILE

    def __init__(
        self,
        request: EvaluationRequest,
        images: EvaluatedImages,
        model: Model,
        watcher: EvaluationWatcher,
        loaded: Model | None,
    ) -> None:
        self._request, self._images, self._chunks = request, images, images.chunks
        self._model, self._watcher, self._loaded = model, watcher, loaded
        self.store = open_store(request.out)
        self._missing: Sequence[Chunk] = ()
        self._start = perf_counter()

    def claim(self) -> None:
        """Determine the settings, and check that the output folder is empty or contains the same evaluation."""
        request, images = self._request, self._images
        self._table = table = settings(request, images, self._model, _earlier_settings(self.store))
        _claim(self.store, table)
        self.result = EvaluationResult(
            table,
            len(self._chunks),
            data_set=request.data_set,
            output=request.out,
            labels=described_labels(images.data_set),
            unprepared=images.unprepared,
        )

    def find_missing(self) -> bool:
        """Find the chunks without predictions, and report their number to the watcher."""
        self._start = perf_counter()
        chunks = self._chunks
        self._missing = [] if self._is_of_earlier_version() else self._chunks_without_part()
        if self._missing and self._table.run.ordered:
            self._start_again()
        self.result.chunks_before = len(chunks) - len(self._missing)
        self.store.publish_bytes("".join(f"{chunk.name}\n" for chunk in chunks).encode(), CHUNKS_FILE)
        frames = _frames(chunks)
        self._watcher.counting(frames, frames - _frames(self._missing))
        return bool(self._missing)

    def open_pool(self) -> AbstractContextManager[Pool[Sequence[Chunk], PredictionCounts]]:
        """Return a pool: this process if one worker is enough, otherwise workers with one GPU each, if available."""
        request, table, job = self._request, self._table, self._job()
        if self._in_process:
            # A model that adapts was called with other images: load it again.
            loaded = self._loaded or (None if self._model.adapts else self._model)
            return nullcontext(InProcessPool(job, partial(Predictor, loaded=loaded)))
        return open_pool(
            job,
            Predictor,
            executor=request.executor,
            workers=_workers(request, table),
            address=request.address,
            outputs=_frames(self._missing),
            labels={"model": table.model.name, "data_set": table.data_set.name},
            gpus=torch.cuda.device_count() if table.run.device == "cuda" else 0,  # all workers share a named GPU
        )

    def rounds(self, workers: int) -> Iterator[Iterator[Sequence[Chunk]]]:
        """Yield the missing chunks: as one work item for this process, otherwise a few chunks per loader process."""
        if self._in_process:
            yield iter([self._missing])
            return
        missing = iter(self._missing)
        loaders = _loaders(self._request, self._table, workers)
        group_size = min(CHUNKS_PER_LOADER * max(loaders, 1), -(-len(self._missing) // workers))
        yield iter(lambda: tuple(islice(missing, group_size)), ())

    def handle(self, event: Event[PredictionCounts, Sequence[Chunk]], tally: Tally[PredictionCounts]) -> None:
        """Record chunks that failed in every attempt, and forward the event to the watcher."""
        if isinstance(event, Lost):
            self.result.lost += [(chunk.name, event.reason) for chunk in event.work]
        if not isinstance(event, Progress) or event.finished:
            self._watcher.on_event(event)
        self._watcher.advanced(tally.total().frames)

    def kept(self, done: PredictionCounts) -> str:
        """Return how many parts of the predictions are kept; those of an ordered evaluation are not used again."""
        parts = 0 if self._table.run.ordered else self.result.chunks_before + done.chunks
        return f"{parts:,} of {counted(len(self._chunks), 'part')} are kept"

    def finish(self, done: PredictionCounts) -> bool:
        """Record the counts, and return whether every chunk is predicted."""
        self.result.done = done
        return self.result.complete

    def merge(self) -> None:
        """Merge the predictions, unless the merged file is complete."""
        if not is_finished(self.store, self._table, _frames(self._chunks)):
            self.store.remove(PREDICTIONS_FILE)
            _merge(self.store, self._table, self._chunks)

    def record(self) -> None:
        """Record the duration."""
        self.result.seconds = perf_counter() - self._start

    def _is_of_earlier_version(self) -> bool:
        """Whether an earlier version, which wrote fewer columns, has finished the evaluation. It is left as it is."""
        finished = is_finished(self.store, self._table, _frames(self._chunks))
        return finished and not has_all_columns(self.store.path(PREDICTIONS_FILE))

    def _chunks_without_part(self) -> list[Chunk]:
        """Return the chunks whose predictions are missing, damaged or of other settings."""
        done = committed_parts(self.store)
        return [chunk for chunk in self._chunks if done.get(part_file(chunk.name)) != chunk_digest(self._table, chunk)]

    def _start_again(self) -> None:
        """Remove the parts of an interrupted ordered evaluation, because the state that its model had is lost."""
        if parts := self.store.listing(PARTS, ".parquet"):
            self._watcher.preparing(
                f"starting again from the first image, because an ordered evaluation cannot continue: removing "
                f"{counted(len(parts), 'part')} of an interrupted run"
            )
        for name in parts:
            self.store.remove(name)
        self._missing = self._chunks

    @property
    def _in_process(self) -> bool:
        """Whether to predict in this process: it can use all CPUs, and has already loaded the model."""
        request = self._request
        alone = _workers(request, self._table) == 1 and request.address is None and request.executor == Executor.AUTO
        return alone or request.ordered or self._loaded is not None

    def _job(self) -> EvaluationJob:
        request, data_set = self._request, self._images.data_set
        return EvaluationJob(
            self._table,
            data_set.absolute_location,
            trusted_locations.absolute(request.out),
            _loaders(request, self._table, _workers(request, self._table)),
            current_folder(),
            request.trust_model,
        )


def _load(request: EvaluationRequest) -> Model:
    return load_model(request.model, request.weights, trust=request.trust_model, adapts=request.ordered)


def _frames(chunks: Iterable[Chunk]) -> int:
    return sum(chunk.frames for chunk in chunks)


def _check_processes(request: EvaluationRequest) -> None:
    """Raise UserError if the number of workers or loaders is out of range, or too large for an ordered evaluation."""
    limit = MAX_CLUSTER_PROCESSES if request.address else max(cpu_count(), MAX_LOCAL_PROCESSES)
    for option, count in (("--workers", request.workers), ("--loaders", request.loaders or 0)):
        if not 0 <= count <= limit:
            raise UserError(f"invalid {option} {count}: use 0 to {limit}")
    several = {
        f"--workers {request.workers}": request.workers > 1,
        f"--loaders {request.loaders}": (request.loaders or 0) > 1,
        f"--address {request.address}": request.address is not None,
        f"--executor {Executor.RAY}": request.executor == Executor.RAY,
    }
    for option in (option for option, given in several.items() if given and request.ordered):
        raise UserError(
            f"{option} cannot be combined with --ordered, which reads and evaluates the images one after another: "
            f"remove {option}"
        )


def _check_output(output: str, data_set: DataSet) -> None:
    """Raise UserError if the output folder contains files of the data set, or is inside the data set's folders."""
    root, inside = data_set.store.root, ("shards", "manifest", "runs")
    refused = [root, *(f"{root}/{name}" for name in inside)]
    if isinstance(data_set, Indexed):
        refused.append(data_set.files.root)
    place = trusted_locations.absolute(output)
    for folder in map(trusted_locations.absolute, refused):
        if place == folder or (folder != trusted_locations.absolute(root) and _is_inside(place, folder)):
            raise UserError(f"the output {output} is in {folder}, which contains the data set: choose another folder")


def _is_inside(place: str, folder: str) -> bool:
    return is_url(place) == is_url(folder) and f"{place}/".startswith(f"{folder.rstrip('/')}/")


def _earlier_settings(store: Store) -> EvaluationTable | None:
    """Return the settings of an earlier run in the output folder, or None."""
    return read_table(store) if store.size(EVALUATION_FILE) >= 0 else None


def committed_parts(store: Store) -> dict[str, str]:
    """Return the valid parts in an evaluation folder: a mapping from file to the digest of its chunk."""
    return {name: facts.get(FACT_CHUNK, "") for name, facts in facts_of_parts(store, PARTS)}


def _workers(request: EvaluationRequest, table: EvaluationTable) -> int:
    """Return the number of workers. Default: one per GPU, or one without a GPU or for an ordered evaluation."""
    if request.ordered:
        return 1
    return request.workers or (torch.cuda.device_count() if table.run.device == "cuda" else 1)


def _loaders(request: EvaluationRequest, table: EvaluationTable, workers: int) -> int:
    """Return the number of loader processes per worker. Default: the free CPUs for a GPU, none for a CPU model."""
    if request.loaders is not None:
        return request.loaders
    if table.run.device == "cpu":
        return 0
    if request.ordered:
        return 1
    return max(min(cpu_count() // workers - 1, MAX_LOADERS), 1)


def _claim(store: Store, table: EvaluationTable) -> None:
    """Write evaluation.toml. Raise UserError if the folder contains another evaluation or unknown files."""
    if store.size(EVALUATION_FILE) >= 0:
        current, requested = _flat(read_table(store)), _flat(table)
        differ = [
            f"{name}: {current.get(name) or 'none'} in the folder, {requested.get(name) or 'none'} requested"
            for name in {**current, **requested}
            if current.get(name) != requested.get(name)
        ]
        if differ:
            what = "; ".join(differ)
            raise UserError(
                f"{store.root} contains another evaluation ({what}): choose another folder, or use the same options"
            )
        if read_table(store) != table:
            store.publish_bytes(table.to_toml().encode(), EVALUATION_FILE)
        return
    unknown_files = [name for name in (PREDICTIONS_FILE, CHUNKS_FILE) if store.size(name) >= 0]
    unknown_files += islice(store.listing(PARTS, ".parquet"), 1)
    if unknown_files:
        raise UserError(
            f"{store.root} contains {', '.join(unknown_files)} but no {EVALUATION_FILE}, so these files would be "
            "overwritten: choose another folder"
        )
    store.publish_bytes(table.to_toml().encode(), EVALUATION_FILE)


def _flat(table: EvaluationTable) -> dict[str, Any]:
    """Return all settings that predictions depend on, with the digest of the task instead of its fields."""
    content = table.identity()
    if table.task:
        content["task"] = {"name": table.task.name, "digest": table.task.digest}
    return {f"{part}.{key}": value for part, fields in content.items() for key, value in fields.items()}


def _merge(store: Store, table: EvaluationTable, chunks: Sequence[Chunk]) -> None:
    """Write predictions.parquet and seal it. Raise UserError if the number of rows differs from the manifest."""
    conditions = groupby(chunks, key=lambda chunk: chunk.condition)
    parts = [[part_file(chunk.name) for chunk in group] for _, group in conditions]
    scratch, counters = store.scratch(), (FACT_PIXELS_CHECKED, FACT_PIXELS_CHANGED)
    facts = manifests.with_blank_seal({FACT_EVALUATION: table.digest})
    try:
        rows = manifests.merge(read_groups_ahead(store, parts), facts, scratch, SCHEMA, counters).rows
    except manifests.MergeError as error:
        raise UserError(f"{error}: delete it and run the same command again") from error
    if rows != _frames(chunks):
        raise UserError(
            f"the parts in {store.root} contain {rows} predictions for {_frames(chunks)} frames: delete the folder "
            f"{PARTS} in it and run the same command again"
        )
    manifests.seal_file(scratch)
    store.publish(scratch, PREDICTIONS_FILE)
