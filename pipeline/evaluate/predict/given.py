"""Evaluations of given predictions: of a loop of one's own, of a model served elsewhere, or of merged runs."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

import manifests
from pipeline.datasets.adversarial import recorded_attack
from pipeline.datasets.base import OK_ROWS, Chunk, DataSet
from pipeline.errors import UserError
from pipeline.evaluate.metrics import TOP
from pipeline.evaluate.predict.classifier import Groups, fetched, ranked
from pipeline.evaluate.predict.evaluate import claim_folder, earlier_settings, merge_parts, opened
from pipeline.evaluate.predict.predictor import publish_part
from pipeline.evaluate.predict.preparation import EvaluatedImages, choose_preparation, prepared_size
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.predict.result import EvaluationResult, PredictionCounts, described_labels
from pipeline.evaluate.predict.settings import check_labels, data_set_table, display_name, first_row, note_of
from pipeline.evaluate.results.folder import (
    CHUNKS_FILE,
    PREDICTIONS_FILE,
    EvaluationTable,
    InputTable,
    ModelTable,
    RunTable,
    is_finished,
    shortcut_of,
)
from pipeline.evaluate.results.predictions import ConditionPredictions, Frame, Outputs, sound_values
from pipeline.storage import open_store
from pipeline.text import shown
from pipeline.transforms.family import Condition

T = TypeVar("T", bound=np.generic)

_ACCEPTED = "an Arrow table, a data frame, a mapping of columns, or an iterable of these"

EXAMPLES = 3
"""Number of examples in messages."""

ELSEWHERE = "elsewhere"
"""Recorded as the origin and the device of models whose predictions are given."""

SCORES = ("logits", "probabilities")
RANKED = ("top5", "label_probability", "confidence", "squared_probability")
"""Columns of predictions; one of ``SCORES``, or all of ``RANKED``, is required."""
SHORTCUT = "shortcut_probability"
"""An optional column beside ``RANKED``."""

_TOLERANCE = 1e-2
"""By how much probabilities may exceed 1, or their sum differ from it, as rounded to half precision."""


def evaluate_given(request: EvaluationRequest, predictions: Any) -> EvaluationResult:
    """Write the evaluation of given predictions (columns, an iterable of these, or a data frame or Arrow table).

    Raises:
        UserError: Predictions are missing, repeated or invalid, or the output folder contains another evaluation.
    """
    start = perf_counter()
    data_set, store = opened(request), open_store(request.out)
    images = EvaluatedImages(data_set, list(data_set.chunks()), choose_preparation(data_set, None, None, None))
    first, earlier, name = first_row(images), earlier_settings(store), display_name(request)
    height, width = prepared_size(images.preparation, first) or (first.height or 0, first.width or 0)
    digest = hashlib.sha256(f"{ELSEWHERE}\n{name}".encode()).hexdigest()
    model = ModelTable(name=name, spec=ELSEWHERE, digest=digest, classes=1, note=note_of(request, earlier))
    if earlier and earlier.model.digest != digest:
        raise UserError(f"{store.root} contains an evaluation of {shown(earlier.model.name)}: choose another folder")
    given = _Given(data_set, name)
    for columns in _batches_of(predictions):
        given.add(columns)
    classes = given.check_complete()
    table = EvaluationTable(
        model=model.model_copy(update={"classes": classes}),
        input=InputTable(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)),
        run=RunTable(device=ELSEWHERE, batch=1, predictions=given.digest()),
        data_set=data_set_table(images, height, width),
        task=data_set.task,
        attack=recorded_attack(data_set),
    )
    chunks = images.chunks
    result = EvaluationResult(
        table, len(chunks), data_set=request.data_set, output=request.out, labels=described_labels(data_set)
    )
    with store.exclusive():
        claim_folder(store, table, earlier)
        if is_finished(store, table, given.frames):
            result.chunks_before = len(chunks)
        else:
            store.remove(PREDICTIONS_FILE)
            for chunk, frames, outputs in given.parts(chunks):
                publish_part(store, table, chunk, frames, outputs)
            store.publish_bytes("".join(f"{chunk.name}\n" for chunk in chunks).encode(), CHUNKS_FILE)
            merge_parts(store, table, chunks)
            result.done = PredictionCounts(chunks=len(chunks), frames=given.frames)
    result.seconds = perf_counter() - start
    return result


class _Given:
    """The outputs of each frame of a data set, in the order of the manifest, as far as they were given."""

    def __init__(self, data_set: DataSet, model: str) -> None:
        task = data_set.task
        self._data_set, self._model, self._task, self._classes = data_set, model, task, 0
        self._groups = Groups(task, torch.device("cpu")) if task and task.groups else None
        self._samples = _Samples(data_set)
        self._labels, self._of_frames = self._samples.labels, self._samples.of_frames
        self._given = np.zeros(len(self._of_frames), bool)
        self._outputs: list[NDArray[Any]] = []

    @property
    def frames(self) -> int:
        """The number of frames of the data set."""
        return len(self._given)

    def add(self, columns: Mapping[str, Any]) -> None:
        """Store the predictions of a batch. Raise UserError if some are unknown, repeated or invalid."""
        keys = _keys_of(columns)
        if not keys:
            return
        positions = self._samples.positions(columns, keys)
        repeated = self._given[positions]
        repeated[np.delete(np.arange(len(keys)), np.unique(positions, return_index=True)[1])] = True
        _refuse(repeated, keys, "given more than once")
        labels = self._labels[self._of_frames[positions]]
        score = next((name for name in SCORES if name in columns), None)
        outputs = self._scored(columns, score, labels, keys) if score else self._ranked(columns, labels, keys)
        arrays = [getattr(outputs, each.name) for each in fields(Outputs)]
        self._outputs = self._outputs or [np.zeros((self.frames, *each.shape[1:]), each.dtype) for each in arrays]
        if arrays[0].shape[1] != self._outputs[0].shape[1]:
            raise UserError(
                f"top5 has {arrays[0].shape[1]} classes in one batch and {self._outputs[0].shape[1]} in an earlier one"
            )
        for target, values in zip(self._outputs, arrays, strict=True):
            target[positions] = values
        self._given[positions] = True

    def _scored(
        self, columns: Mapping[str, Any], score: str, labels: NDArray[np.int64], keys: Sequence[str]
    ) -> Outputs:
        """Return the outputs of logits or probabilities."""
        values = torch.from_numpy(_matrix_of(columns[score], score, len(keys)))
        self._check_classes(values.shape[1])
        normalised = score == SCORES[1]
        shortcut = shortcut_of(self._data_set.family_name, self._task, self._classes)
        outputs = fetched(ranked(values, torch.from_numpy(labels), self._groups, shortcut, normalised=normalised))
        _refuse(~np.isfinite(outputs.confidence), keys, f"{score} with NaN or infinite values")
        if normalised:
            apart = (values.sum(dim=1) - 1).abs() > _TOLERANCE
            _refuse(
                (apart | (values < 0).any(dim=1)).numpy(), keys, "probabilities that are negative or do not sum to 1"
            )
        return outputs

    def _ranked(self, columns: Mapping[str, Any], labels: NDArray[np.int64], keys: Sequence[str]) -> Outputs:
        """Return the outputs that another evaluation has recorded."""
        required = (*RANKED, *(["free"] if self._groups else []))
        if missing := [name for name in required if name not in columns]:
            raise UserError(
                f"predictions without {', '.join(missing)}: give logits, probabilities, or all of {', '.join(required)}"
            )
        top5 = np.nan_to_num(_matrix_of(columns["top5"], "top5", len(keys)), nan=-1).astype(np.int32)
        found = top5 == labels[:, None]
        ranks = np.where(found.any(axis=1), found.argmax(axis=1) + 1, TOP + 1) * (labels >= 0)
        columns = {SHORTCUT: np.full(len(keys), np.nan), **columns}
        given = {name: _numbers_of(columns[name], name, len(keys), np.float32) for name in (*RANKED[1:], SHORTCUT)}
        rank, free = (
            _numbers_of(columns.get(name, default), name, len(keys), np.int32)
            for name, default in (("label_rank", ranks), ("free", top5[:, 0]))
        )
        outputs = Outputs(top5=top5, label_rank=rank, free=free, **given)
        values = {each.name: getattr(outputs, each.name)[:, None] for each in fields(Outputs)}
        known = Condition("", 0), keys, labels.astype(np.int32), top5[:, :1]
        checks = sound_values(ConditionPredictions(*known, digests=labels, **values), self._limit())
        for name, sound in checks.items():
            _refuse(~sound.reshape(len(keys)), keys, f"with invalid {name}")
        return outputs

    def _limit(self) -> int | None:
        """Return the number of labels that the model chooses among; None if unknown."""
        labels = self._data_set.labels
        return self._task.labels if self._task else self._classes or (labels.classes if labels else 0) or None

    def _check_classes(self, classes: int) -> None:
        """Raise UserError if a model with this number of outputs does not fit the labels."""
        if self._classes not in (0, classes):
            raise UserError(f"predictions of {classes} outputs after some of {self._classes}: give those of one model")
        if self._classes:
            return
        check_labels(self._data_set, self._model, classes)
        self._classes = classes
        above = np.flatnonzero(self._labels >= (self._limit() or classes))
        if len(above):
            raise UserError(
                f"{len(above):,} labels exceed the {classes} outputs of {self._model}, for example "
                f"{self._labels[above[0]]} of {shown(self._samples.key(above[0]))}: give all outputs"
            )

    def check_complete(self) -> int:
        """Return the number of outputs. Raise UserError if frames have no prediction."""
        missing = np.flatnonzero(~self._given)
        if len(missing):
            examples = ", ".join(shown(self._samples.key(sample)) for sample in self._of_frames[missing[:EXAMPLES]])
            raise UserError(
                f"{len(missing):,} of the {self.frames:,} predictions of {self._data_set.name} are missing, for "
                f"example {examples}: predict every sample once; for a part of the images, pass that part as data"
            )
        if not self._classes:
            most = int(max(self._labels.max(), self._outputs[0].max())) + 1
            self._check_classes(self._task.outputs if self._task else self._limit() or most)
        return self._classes

    def digest(self) -> str:
        """Return the SHA-256 of all outputs in hexadecimal, which does not depend on the order of the predictions."""
        *usual, shortcuts = self._outputs
        outputs = usual if np.isnan(shortcuts).all() else self._outputs
        return hashlib.sha256(b"".join(hashlib.sha256(each.data).digest() for each in outputs)).hexdigest()

    def parts(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, list[Frame], Outputs]]:
        """Yield each chunk, its frames, and their outputs."""
        end = 0
        for chunk in chunks:
            rows = [row for row in self._data_set.rows_of(chunk) if row.status == manifests.OK]
            frames = [Frame.of(row, frame) for row in rows for frame in range(row.frames or 0)]
            start, end = end, end + len(frames)
            yield chunk, frames, Outputs(*(each[start:end] for each in self._outputs))


# Rows


class _Samples:
    """The samples of a data set that did not fail, found by their keys, and the frames of each.

    Attributes:
        labels: Label of each sample, in the order of the manifest.
        of_frames: Index of the sample of each frame.
    """

    def __init__(self, data_set: DataSet) -> None:
        self._data_set = data_set
        self._conditions, self._sources = dict[str, int](), dict[str, int]()
        rows = [np.zeros((4, 0), np.int64)]
        for table in data_set.tables(("transform", "level", "source_id", "label", "frames"), OK_ROWS):
            transforms, levels, ids, *numbers = (table[name].to_pylist() for name in table.column_names)
            names = map(str, map(Condition, transforms, levels))
            codes = [self._conditions.setdefault(name, len(self._conditions)) for name in names]
            rows.append(np.array([codes, [self._sources.setdefault(id_, len(self._sources)) for id_ in ids], *numbers]))
        conditions, sources, self.labels, self._lengths = np.concatenate(rows, axis=1)
        self._codes = conditions * len(self._sources) + sources
        self._order = np.argsort(self._codes)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self.of_frames = np.repeat(np.arange(len(sources)), self._lengths)

    def key(self, sample: int) -> str:
        """Return the key of a sample."""
        condition, source = divmod(int(self._codes[sample]), len(self._sources))
        return f"{[*self._sources][source]}-{[*self._conditions][condition]}"

    def positions(self, columns: Mapping[str, Any], keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the position of each prediction among all frames. Raise UserError for unknown samples and frames."""
        codes, name = np.array([self._code(key) for key in keys]), self._data_set.name
        samples = self._order[np.searchsorted(self._codes, codes, sorter=self._order).clip(max=len(self._order) - 1)]
        _refuse(self._codes[samples] != codes, keys, f"of samples that {name} does not have, or that failed there")
        if self._data_set.family.sequences and "frame" not in columns:
            raise UserError(f"{name} consists of sequences: add the column frame, the number of each frame from 0")
        frames = _numbers_of(columns.get("frame", [0] * len(keys)), "frame", len(keys), np.int64)
        _refuse((frames < 0) | (frames >= self._lengths[samples]), keys, "of frames that their samples do not have")
        positions: NDArray[np.int64] = self._starts[samples] + frames
        return positions

    def _code(self, key: str) -> int:
        """Return the number of a key, which consists of a source id and a condition; -1 if one is unknown."""
        end = key.rfind("-", 0, max(key.rfind("-"), 0))
        while end > 0:
            source, condition = self._sources.get(key[:end]), self._conditions.get(key[end + 1 :])
            if source is not None and condition is not None:
                return condition * len(self._sources) + source
            end = key.rfind("-", 0, end)
        return -1


def _batches_of(predictions: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the columns of each batch of predictions. Raise UserError for values that have none."""
    single = _columns(predictions)
    if single is None and (isinstance(predictions, str | torch.Tensor) or not isinstance(predictions, Iterable)):
        raise UserError(f"invalid predictions of type {type(predictions).__name__}: pass {_ACCEPTED}")
    for batch in predictions if single is None else [single]:
        if (columns := _columns(batch)) is None:
            raise UserError(f"invalid predictions of type {type(batch).__name__}: pass {_ACCEPTED}")
        yield columns


def _columns(batch: Any) -> Mapping[str, Any] | None:
    """Return the columns of an Arrow table, data frame or mapping; None for other values."""
    if isinstance(batch, Mapping):
        return batch
    arrow = isinstance(batch, pa.Table | pa.RecordBatch)
    if not arrow and not (hasattr(batch, "columns") and hasattr(batch, "to_dict")):
        return None
    return {name: batch[name] for name in (batch.schema.names if arrow else batch.columns)}


def _keys_of(columns: Mapping[str, Any]) -> list[str]:
    """Return the keys of predictions."""
    parts = ("source_id", "transform", "level")
    if "key" in columns:
        return [*map(str, _values_of(columns["key"], "key"))]
    if missing := [name for name in parts if name not in columns]:
        raise UserError(f"predictions lack the column {missing[0]}: give key, or {', '.join(parts)}, in {_ACCEPTED}")
    ids = _values_of(columns["source_id"], "source_id")
    transforms, levels = (_values_of(columns[name], name, len(ids)) for name in parts[1:])
    shown_levels = (f"{level:g}" if isinstance(level, float) else level for level in levels)  # floats of pandas
    return [f"{id_}-{name}-{level}" for id_, name, level in zip(ids, transforms, shown_levels, strict=True)]


def _values_of(column: Any, name: str, count: int | None = None) -> list[Any]:
    """Return the values of a column. Raise UserError if their number is not ``count``."""
    convert = next((each for each in ("to_pylist", "to_list", "tolist") if hasattr(column, each)), None)
    values = getattr(column, convert)() if convert else list(column)
    if count not in (None, len(values)):
        raise UserError(f"{name} has {len(values)} values for {count} predictions: give one each")
    return values


def _numbers_of(column: Any, name: str, count: int, dtype: type[T]) -> NDArray[T]:
    """Return a column of numbers as an array of shape (count,). Raise UserError if they are of another type."""
    try:
        return np.array(_values_of(column, name, count), dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"invalid {name} ({error}): give one number for each prediction") from error


def _matrix_of(column: Any, name: str, count: int) -> NDArray[np.float32]:
    """Return a column of lists of one length, or a matrix, as an array of shape (count, K)."""
    column = column.to_arrow() if hasattr(column, "to_arrow") else column
    try:
        if isinstance(column, torch.Tensor):
            values = column.detach().float().cpu().numpy()
        elif isinstance(column, pa.Array | pa.ChunkedArray):
            lists = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
            (width,) = pc.unique(pc.list_value_length(lists)).to_pylist()
            values = pc.list_flatten(lists).to_numpy().reshape(-1, width)
        else:
            values = np.stack([np.asarray(row, np.float32) for row in column])
        values = np.array(values, np.float32, order="C")  # a copy: torch needs memory that may be written
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise UserError(f"invalid {name} ({error}): give as many numbers for each prediction") from error
    if values.ndim != 2 or len(values) != count or not values.size:
        raise UserError(f"invalid {name} of shape {values.shape}: give an array of shape ({count}, outputs)")
    return values


def _refuse(wrong: NDArray[np.bool_], keys: Sequence[str], what: str) -> None:
    """Raise UserError with the number and first examples of wrong predictions, if there are any."""
    if wrong.any():
        found = dict.fromkeys(keys[index] for index in np.flatnonzero(wrong).tolist())
        examples = ", ".join(map(shown, islice(found, EXAMPLES)))
        raise UserError(
            f"{wrong.sum():,} of {len(keys):,} predictions are {what}, for example {examples}: "
            "give one valid prediction of each sample"
        )
