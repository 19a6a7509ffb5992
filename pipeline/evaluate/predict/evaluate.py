"""Evaluation of a model on a data set: predict the missing chunks, then merge the predictions."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any

import torch

from pipeline.config import differences, flat
from pipeline.datasets.base import Chunk, DataSet
from pipeline.datasets.indexed import Indexed
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.loading import current_folder, load_model
from pipeline.evaluate.predict.predictor import EvaluationJob, Predictor, chunk_digest, predictor_process
from pipeline.evaluate.predict.preparation import EvaluatedImages, choose_preparation, images_of
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.predict.result import EvaluationResult, PredictionCounts, described_labels
from pipeline.evaluate.predict.settings import check_labelled, first_row, input_size, settings
from pipeline.evaluate.predict.stream import StreamOrder
from pipeline.evaluate.report.families import report_on
from pipeline.evaluate.results.folder import (
    CHUNKS_FILE,
    EVALUATION,
    EVALUATION_FILE,
    FACT_EVALUATION,
    FACT_PIXELS_CHANGED,
    FACT_PIXELS_CHECKED,
    PREDICTIONS_FILE,
    EvaluationTable,
    StreamTable,
    is_finished,
    read_table,
)
from pipeline.execution.pools import IN_PROCESS, Crew, Executor
from pipeline.execution.resumable import ImageJob, ImageWatcher, count_frames, run_resumable
from pipeline.execution.work import Tally
from pipeline.loaders.ccc_samples import CCCSamples, open_ccc
from pipeline.loaders.protocols import CCC
from pipeline.loaders.rows import read_schedule, with_clean_images
from pipeline.loaders.schedule import Schedule
from pipeline.software import cpu_count
from pipeline.storage import Store, is_url, open_store, trusted_locations
from pipeline.text import counted

MAX_LOADERS = 16
"""Maximum default number of loader processes per worker."""

MAX_LOCAL_PROCESSES = 16
"""Maximum number of workers, or of loaders per worker, on a machine with fewer CPUs."""

MAX_CLUSTER_PROCESSES = 4096
"""Maximum number of workers, or of loaders per worker, on a cluster."""

CHUNKS, CHUNKS_PER_LOADER = 4, 32
"""Number of chunks per work item: of a worker that reads them itself, and for each loader process."""

FEW_PIXELS = 5000 * 224 * 224
"""Number of stored pixels up to which reading them in the worker takes less time than starting loader processes."""


EvaluationWatcher = ImageWatcher[Sequence[Chunk], PredictionCounts]


def evaluate(request: EvaluationRequest, watcher: EvaluationWatcher, loaded: Model | None = None) -> EvaluationResult:
    """Predict the missing chunks of a data set, then merge the predictions. The result also lists chunks that failed.

    Predictions are published chunk by chunk. To continue an interrupted evaluation, run the same request again.

    Args:
        request: Model, data set, output folder and options.
        watcher: Receiver of progress messages.
        loaded: Model that exists only in this process, used instead of ``request.model``. Requires one worker.

    Raises:
        UserError: An input is invalid, no report can be made of it, or the output folder contains another evaluation.
            Nothing was predicted.
    """
    _check_processes(request)
    data_set = opened(request)
    watcher.preparing(f"reading the manifest of {data_set.name}")
    chunks = list(data_set.chunks())
    watcher.preparing(f"loading {request.model}")
    model = (
        loaded.for_trial()
        if loaded
        else load_model(request.model, request.weights, trust=request.trust_model, adapts=request.ordered)
    )
    preparation = choose_preparation(data_set, request.steps, request.resize, input_size(request, model))
    images = images_of(data_set, chunks, preparation)
    if cached := data_set.prepare_cache():
        watcher.preparing(cached)
    evaluation = _Evaluation(request, images, model, watcher, loaded)
    run_resumable(evaluation, PredictionCounts)
    return evaluation.result


def opened(request: EvaluationRequest) -> DataSet:
    """Return the data set of a request. Raise UserError if no report can be made of it, or the output is inside."""
    if request.protocol == CCC:
        _check_ccc(request)
        data_set: DataSet = open_ccc(request.data_set, request.parameters or {}, request.seed, request.pixels)
    else:
        data_set = open_data_set(request.data_set, request.data, request.pixels, request.cache)
        if request.ordered:
            data_set = with_clean_images(data_set, request.protocol, request.parameters or {})
    _check_output(request.out, data_set)
    if report_on(data_set.family_name, data_set.task).needs_labels:
        check_labelled(data_set)
    return data_set


class _Evaluation(ImageJob[Chunk, PredictionCounts]):
    """An evaluation as a resumable job."""

    folder = EVALUATION
    result: EvaluationResult

    def __init__(
        self,
        request: EvaluationRequest,
        images: EvaluatedImages,
        model: Model,
        watcher: EvaluationWatcher,
        loaded: Model | None,
    ) -> None:
        self._request, self._images, self._model, self._loaded = request, images, model, loaded
        self._schedule, self._ids, self._missing_images = None, None, 0
        if request.ordered:
            self._schedule, self._ids, self._missing_images = _schedule(request, images, model)
        super().__init__(open_store(request.out), watcher, images.chunks)

    def claim(self) -> None:
        """Determine the settings, and check that the output folder is empty or contains the same evaluation."""
        request, images = self._request, self._images
        earlier = earlier_settings(self.store)
        self._table = table = settings(request, images, self._model, earlier, self._stream_table())
        self._order = None
        if self._schedule:
            ccc = images.data_set if isinstance(images.data_set, CCCSamples) else None
            self._order = StreamOrder(self._schedule, self._ids, self._schedule.batches(table.run.batch), ccc)
            self.parts = self._order.chunks()
        claim_folder(self.store, table, earlier)
        self.result = EvaluationResult(
            table,
            len(self.parts),
            data_set=request.data_set,
            output=request.out,
            labels=described_labels(images.data_set),
            unprepared=images.unprepared,
        )

    def _stream_table(self) -> StreamTable | None:
        """Return what is recorded of a stream."""
        if not (schedule := self._schedule):
            return None
        return StreamTable(
            protocol=schedule.protocol.name,
            seed=schedule.seed,
            parameters={name: value for name, value in schedule.parameters.items() if value is not None},
            order_sha256=schedule.digest,
            entries=tuple(schedule.sizes),
            repeats=schedule.repeats,
            subset=self._request.subset,
            missing=self._missing_images if self._request.subset else None,
        )

    def find_missing(self) -> bool:
        """Find the chunks without predictions, and report the number of their frames to the watcher."""
        self.missing = self.without_part()
        if self.missing and self._order:
            self._start_again()
        self.result.chunks_before = len(self.parts) - len(self.missing)
        self.store.publish_bytes("".join(f"{chunk.name}\n" for chunk in self.parts).encode(), CHUNKS_FILE)
        return self.count_missing()

    def digest(self, part: Chunk) -> str:
        """Return the digest of a chunk and of the settings."""
        return chunk_digest(self._table, part)

    def crew(self) -> Crew[EvaluationJob, Sequence[Chunk], PredictionCounts]:
        """Return the workers, with one GPU each, if available; this process if one worker is enough."""
        request, table, data_set = self._request, self._table, self._images.data_set
        workers = _workers(request, table)
        # A model that adapts was called with other images: load it again.
        loaded = self._loaded or (None if self._model.adapts else self._model)
        return Crew(
            job=EvaluationJob(
                table,
                data_set.absolute_location,
                trusted_locations.absolute(request.out),
                self._loaders(workers),
                _threads(request, table, workers),
                current_folder(),
                request.trust_model,
                self._order,
            ),
            worker=partial(Predictor, loaded=loaded) if self._in_process else predictor_process,
            outputs=count_frames(self.missing),
            executor=IN_PROCESS if self._in_process else request.executor,
            workers=workers,
            address=request.address,
            labels={"model": table.model.name, "data_set": table.data_set.name},
            gpus=torch.cuda.device_count() if table.run.device == "cuda" else 0,  # all workers share a named GPU
        )

    def rounds(self, workers: int) -> Iterator[Iterator[Sequence[Chunk]]]:
        """Yield the missing chunks: as one work item for this process, otherwise a few chunks per loader process."""
        if self._in_process:
            yield iter([self.missing])
            return
        missing = iter(self.missing)
        loaders = self._loaders(workers)
        group_size = min(CHUNKS_PER_LOADER * loaders or CHUNKS, -(-len(self.missing) // workers))
        yield iter(lambda: tuple(islice(missing, group_size)), ())

    def advanced(self, tally: Tally[PredictionCounts]) -> None:
        """Report the number of predicted frames."""
        self._watcher.advanced(tally.total().frames)

    def kept(self, done: PredictionCounts) -> str:
        """Return how many parts of the predictions are kept; those of an ordered evaluation are not used again."""
        if self._order:
            return f"0 of {counted(len(self.parts), 'part')} are kept"
        return super().kept(done)

    def merge(self) -> None:
        """Merge the predictions, unless the merged file is complete."""
        if not is_finished(self.store, self._table, count_frames(self.parts)):
            self.store.remove(PREDICTIONS_FILE)
            merge_parts(self.store, self._table, self.parts)

    def _start_again(self) -> None:
        """Remove the parts of an interrupted ordered evaluation, because the state that its model had is lost."""
        if parts := self.store.listing(self.folder.parts, ".parquet"):
            self._watcher.preparing(
                f"starting again from the first image, because an ordered evaluation cannot continue: removing "
                f"{counted(len(parts), 'part')} of an interrupted run"
            )
        for name in parts:
            self.store.remove(name)
        self.missing = self.parts

    def _loaders(self, workers: int) -> int:
        """Return the number of loader processes per worker."""
        if self._request.loaders is not None:
            return self._request.loaders
        row = first_row(self._images)
        pixels = count_frames(self.missing) * (row.height or 0) * (row.width or 0)
        return default_loaders(self._table.run.device, pixels // workers, cpu_count() // workers)

    @property
    def _in_process(self) -> bool:
        """Whether to predict in this process: it can use all CPUs, and has already loaded the model."""
        request = self._request
        alone = _workers(request, self._table) == 1 and request.address is None and request.executor == Executor.AUTO
        return alone or request.ordered or self._loaded is not None


def _check_processes(request: EvaluationRequest) -> None:
    """Raise UserError if the number of workers or loaders is out of range, or of workers too large for a stream."""
    limit = MAX_CLUSTER_PROCESSES if request.address else max(cpu_count(), MAX_LOCAL_PROCESSES)
    for option, count in (("--workers", request.workers), ("--loaders", request.loaders or 0)):
        if not 0 <= count <= limit:
            raise UserError(f"invalid {option} {count}: use 0 to {limit}")
    several = {
        f"--workers {request.workers}": request.workers > 1,
        f"--address {request.address}": request.address is not None,
        f"--executor {Executor.RAY}": request.executor == Executor.RAY,
    }
    for option in (option for option, given in several.items() if given and request.ordered):
        raise UserError(
            f"{option} cannot be combined with --ordered and --protocol, because one model sees the whole stream: "
            f"remove {option}"
        )


def _check_ccc(request: EvaluationRequest) -> None:
    """Raise UserError for options that streams of CCC do not have."""
    unused = {"subset": request.subset, "steps": request.steps, "data": request.data, "cache": request.cache}
    if given := [name for name, value in unused.items() if value is not None]:
        raise UserError(f"{', '.join(given)} cannot be combined with the protocol ccc: omit it")


def _schedule(
    request: EvaluationRequest, images: EvaluatedImages, model: Model
) -> tuple[Schedule, frozenset[str] | None, int]:
    """Return what a stream shows, the ids of its images (None for all), and the number of missing ones of a subset."""
    data_set = images.data_set
    if isinstance(data_set, CCCSamples):
        return data_set.schedule(), None, 0
    if data_set.family.sequences:
        raise UserError(
            f"{data_set.name} contains sequences, which protocols are not for: omit --ordered and --protocol"
        )
    if images.unprepared:
        raise UserError(
            f"{counted(images.unprepared, 'image')} of {data_set.name} smaller than a crop: resize before the crop, "
            "since a stream needs all images"
        )
    parameters = dict(request.parameters or {})
    conditions = parameters.pop("conditions", None)
    schedule, ids, missing = read_schedule(
        data_set, request.protocol, parameters, request.seed, conditions=conditions, subset=request.subset
    )
    reset = schedule.protocol.reset
    if reset != "start" and model.adapts and not model.resets and not model.again:
        raise UserError(
            f"the protocol {schedule.protocol.name} resets the model before each {reset}, but {request.model} has no "
            "method reset(): add one, pass a function that returns a new model, or use the parameter reset='start'"
        )
    return schedule, ids, missing


def _check_output(output: str, data_set: DataSet) -> None:
    """Raise UserError if the output folder contains files of the data set, or is inside the data set's folders."""
    root, inside = data_set.store.root, ("shards", "manifest", "runs")
    refused = [root, *(f"{root}/{name}" for name in inside)]
    if isinstance(data_set.main, Indexed):
        refused.append(data_set.files.root)
    place = trusted_locations.absolute(output)
    for folder in map(trusted_locations.absolute, refused):
        if place == folder or (folder != trusted_locations.absolute(root) and _is_inside(place, folder)):
            raise UserError(f"the output {output} is in {folder}, which contains the data set: choose another folder")


def _is_inside(place: str, folder: str) -> bool:
    return is_url(place) == is_url(folder) and f"{place}/".startswith(f"{folder.rstrip('/')}/")


def earlier_settings(store: Store) -> EvaluationTable | None:
    """Return the settings of an earlier run in the output folder, or None."""
    return read_table(store) if store.size(EVALUATION_FILE) >= 0 else None


def _workers(request: EvaluationRequest, table: EvaluationTable) -> int:
    """Return the number of workers. Default: one per GPU, or one without a GPU or for an ordered evaluation."""
    if request.ordered:
        return 1
    return request.workers or (torch.cuda.device_count() if table.run.device == "cuda" else 1)


def _threads(request: EvaluationRequest, table: EvaluationTable, workers: int) -> int:
    """Return the number of threads of a worker: its share of those of this process, if it computes on this CPU."""
    if request.address is not None or table.run.device != "cpu":
        return 1
    return max(min(torch.get_num_threads(), cpu_count()) // workers, 1)


def default_loaders(device: str, pixels: int, cpus: int) -> int:
    """Return the default number of loader processes of a worker: the free CPUs for a GPU, none for few pixels."""
    return 0 if device == "cpu" or pixels <= FEW_PIXELS else max(min(cpus - 1, MAX_LOADERS), 1)


def claim_folder(store: Store, table: EvaluationTable, earlier: EvaluationTable | None) -> None:
    """Write evaluation.toml. Raise UserError if the folder has earlier settings that differ, or unknown files."""

    def flattened(settings: EvaluationTable) -> dict[str, Any]:
        """Return all settings that predictions depend on, with the digest of the task instead of its fields."""
        task = settings.task
        return flat(settings.identity() | ({"task": {"name": task.name, "digest": task.digest}} if task else {}))

    EVALUATION.claim(
        store,
        lambda store: EVALUATION.files_of(store, [CHUNKS_FILE]),
        lambda: differences(flattened(earlier or table), flattened(table)),
    )
    if earlier != table:
        store.publish_bytes(table.to_toml().encode(), EVALUATION_FILE)


def merge_parts(store: Store, table: EvaluationTable, chunks: Sequence[Chunk]) -> None:
    """Write predictions.parquet and seal it. Raise UserError if the number of rows differs from the manifest."""
    groups = groupby(chunks, key=lambda chunk: chunk.first if table.stream else chunk.condition)
    parts = [[chunk.name for chunk in group] for _, group in groups]
    summed = (FACT_PIXELS_CHECKED, FACT_PIXELS_CHANGED)
    EVALUATION.merge(store, parts, {FACT_EVALUATION: table.digest}, table.schema, summed, count_frames(chunks))
