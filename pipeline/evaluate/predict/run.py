"""A data set through a model: pieces minus what is committed -> run -> merge the predictions last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from pipeline.evaluate.models.loading import current_folder, load_model
from pipeline.evaluate.predict.counts import PredictionCounts
from pipeline.evaluate.predict.predictor import EvaluationJob, Predictor, chunk_digest
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.evaluate.predict.settings import EvaluationRequest, settings
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
from pipeline.execution.ray_cluster import cluster
from pipeline.execution.ray_pool import RayPool
from pipeline.execution.work import Attempt, Event, Lost, Progress, Tally
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

    def heard(self, event: Event[PredictionCounts, Sequence[Chunk]]) -> None:
        """Told that a piece of work is finished, has failed and is tried again, or is given up."""


def evaluate(request: EvaluationRequest, watcher: EvaluationWatcher) -> EvaluationResult:
    """Predict what is missing of a data set, then merge; returns what was done.

    Predictions are committed piece by piece, each sample once: the same request again goes on where it ended. Raises
    UserError before any work for bad input, and where the output holds another evaluation.
    """
    _check_processes(request)
    data_set = open_data_set(request.data_set, request.data)
    store = open_store(request.output)
    _check_output(request.output, data_set)
    watcher.preparing(f"reading the manifest of {data_set.name}")
    chunks = list(data_set.chunks())
    watcher.preparing(f"loading {request.model}")
    model = load_model(request.model, request.weights, trust=request.trust_model)
    with store.exclusive():
        table = _claim(store, settings(request, data_set, chunks, model, _earlier(store)))
        outcome = EvaluationResult(table, len(chunks), data_set=request.data_set, output=request.output)
        start = perf_counter()
        done = committed(store)
        missing = [chunk for chunk in chunks if done.get(part_file(chunk.name)) != chunk_digest(table, chunk)]
        outcome.chunks_before = len(chunks) - len(missing)
        store.publish_bytes("".join(f"{chunk.name}\n" for chunk in chunks).encode(), CHUNKS_FILE)
        frames = sum(chunk.frames for chunk in chunks)
        watcher.counting(frames, frames - sum(chunk.frames for chunk in missing))
        if missing or not is_finished(store, table, frames):
            store.remove(PREDICTIONS_FILE)  # it stands for a whole evaluation
        if missing:
            tally = Tally(PredictionCounts)
            for event in _work(request, data_set, table, missing):
                tally.take(event)
                if isinstance(event, Lost):
                    outcome.lost += [(chunk.name, event.reason) for chunk in event.work]
                if not isinstance(event, Progress) or event.finished:
                    watcher.heard(event)
                watcher.advanced(tally.total().frames)
            outcome.done = tally.total()
        if outcome.complete and store.size(PREDICTIONS_FILE) < 0:
            _merge(store, table, chunks)
        outcome.seconds = perf_counter() - start
    return outcome


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


def _work(
    request: EvaluationRequest, data_set: DataSet, table: EvaluationTable, chunks: Sequence[Chunk]
) -> Iterator[Event[PredictionCounts, Sequence[Chunk]]]:
    """Run the pieces here, or on several workers of a Ray cluster, each with a GPU of its own where there are any."""
    asked = _workers(request, table)
    loaders = _loaders(request, table, asked)
    job = EvaluationJob(
        table,
        places.absolute(request.data_set),
        places.absolute(request.output),
        loaders,
        places.absolute(data_set.files.root) if isinstance(data_set, Indexed) else None,
        current_folder(),
        request.trust_model,
    )
    if asked == 1 and request.address is None:
        yield from (Progress(0, chunks, report) for report in Predictor(job).run(Attempt(chunks)))
        return
    listed = iter(chunks)
    at_once = CHUNKS_AT_ONCE * max(loaders, 1)
    pieces = iter(lambda: tuple(islice(listed, min(at_once, -(-len(chunks) // asked)))), ())
    on_gpu = table.run.device.startswith("cuda")
    needs = {"num_gpus": 1, "num_cpus": 1} if on_gpu else {"num_cpus": 1}
    with cluster(asked, request.address) as workers:
        labels = {"model": table.model.name, "data_set": table.data_set.name}
        yield from RayPool(job, workers, Predictor, labels=labels, needs=needs).run(pieces)


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
    if rows != sum(chunk.frames for chunk in chunks):
        raise UserError(f"the parts in {store.root} hold {rows} predictions, not one for each frame: remove them")
    manifests.seal_file(scratch)
    store.publish(scratch, PREDICTIONS_FILE)
