"""The predictions of an evaluation: one row per frame, with all the data that reports need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import manifests
from pipeline.errors import UserError
from pipeline.evaluate.metrics import TOP
from pipeline.transforms.family import Condition

SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("transform", pa.string(), nullable=False),
        pa.field("level", pa.int64(), nullable=False),
        pa.field("frame", pa.int32(), nullable=False),
        pa.field("label", pa.int32(), nullable=False),
        pa.field("top1", pa.int32(), nullable=False),
        pa.field("top5", pa.list_(pa.int32()), nullable=False),
        pa.field("label_rank", pa.int32(), nullable=False),
        pa.field("label_probability", pa.float32(), nullable=False),
        pa.field("confidence", pa.float32(), nullable=False),
    ]
)
"""Columns of predictions. ``frame`` is the frame number within a sequence, from 0, and 0 for an image. ``label`` is -1
if unknown; ``label_rank`` is then 0 and ``label_probability`` NaN. ``top5`` contains the classes of the five largest
logits in rank order, or all classes if there are fewer; of equal logits, the lower class index is first. ``label_rank``
starts at 1. ``confidence`` is the largest class probability."""


_FIGURE_COLUMNS = ("source_id", "transform", "level", "frame", "label", "top1", "top5", "label_rank", "confidence")
"""Columns that reports need."""

REMEDY = "run the same evaluate command again to rewrite them"

_ROUNDING = 1e-3
"""Rounding error by which a probability may exceed 1."""

MAX_CONDITION_ROWS = 2**23
"""Maximum number of rows per condition: 8 million frames. All rows of a condition are in memory at once."""

MAX_CONDITION_BYTES = 2**29
"""Maximum uncompressed size of the columns of a condition in bytes, as declared by the file."""

_FOOTER_LIMITS: Mapping[str, int] = {"thrift_string_size_limit": 2**22, "thrift_container_size_limit": 2**20}
"""Memory limits of the Parquet footer reader."""


@dataclass(frozen=True)
class Outputs:
    """The model outputs for N frames.

    Attributes:
        top5: Top-5 classes in rank order, shape (N, min(5, classes)).
        label_rank: Rank of the label, shape (N,).
        label_probability: Probability of the label, shape (N,).
        confidence: Largest class probability, shape (N,).
    """

    top5: NDArray[np.int32]
    label_rank: NDArray[np.int32]
    label_probability: NDArray[np.float32]
    confidence: NDArray[np.float32]


@dataclass(frozen=True)
class Frames:
    """The keys, source ids, labels and frame numbers of the frames of a part, in order."""

    keys: Sequence[str]
    source_ids: Sequence[str]
    labels: Sequence[int]
    frames: Sequence[int]


def write_part(condition: Condition, frames: Frames, outputs: Outputs, facts: Mapping[str, str], path: Path) -> None:
    """Write and seal the predictions of one chunk. The file bytes depend only on the arguments.

    Args:
        condition: Transform and level of the chunk.
        frames: Identity of each frame.
        outputs: Model outputs of each frame.
        facts: Metadata of the file.
        path: File to write.
    """
    count, width = outputs.top5.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    columns = [
        pa.array(frames.keys, pa.string()),
        pa.array(frames.source_ids, pa.string()),
        pa.array([condition.transform] * count, pa.string()),
        pa.array([condition.level] * count, pa.int64()),
        pa.array(frames.frames, pa.int32()),
        pa.array(frames.labels, pa.int32()),
        pa.array(outputs.top5[:, 0], pa.int32()),
        pa.ListArray.from_arrays(offsets, pa.array(outputs.top5.ravel(), pa.int32())),
        pa.array(outputs.label_rank, pa.int32()),
        pa.array(outputs.label_probability, pa.float32()),
        pa.array(outputs.confidence, pa.float32()),
    ]
    content = pa.BufferOutputStream()
    with pq.ParquetWriter(content, SCHEMA, compression="zstd") as writer:
        writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))
        writer.add_key_value_metadata(manifests.with_blank_seal(facts))
    path.write_bytes(manifests.seal(content.getvalue().to_pybytes()))


@dataclass(frozen=True)
class ConditionPredictions:
    """The predictions of one condition: S samples of T frames each, in the order of the manifest.

    Attributes:
        condition: Transform and level.
        source_ids: Source id of each sample, length S.
        labels: Labels, shape (S,). Unknown labels are -1.
        top1: Predicted classes, shape (S, T).
        top5: Top-5 classes in rank order, shape (S, T, min(5, classes)).
        label_rank: Ranks of the labels, shape (S, T). Unknown labels have rank 0.
        confidence: Largest class probabilities, shape (S, T).
    """

    condition: Condition
    source_ids: Sequence[str]
    labels: NDArray[np.int32]
    top1: NDArray[np.int32]
    top5: NDArray[np.int32]
    label_rank: NDArray[np.int32]
    confidence: NDArray[np.float32]


def read_predictions(path: Path, classes: int | None = None) -> Iterator[ConditionPredictions]:
    """Yield the predictions of an evaluation by condition. Only one condition is in memory at a time.

    Args:
        path: Sealed Parquet file with the columns of ``SCHEMA``.
        classes: Number of classes of the model. None if unknown.

    Raises:
        UserError: The file is damaged or contains invalid values.
    """
    if not manifests.is_sealed_file(path):
        raise UserError(f"the predictions {path} are damaged or unfinished: {REMEDY}")
    seen = set[tuple[str, int]]()
    try:
        with pq.ParquetFile(path, read_dictionary=["source_id", "transform"], **_FOOTER_LIMITS) as file:
            _check_columns(path, file)
            for key, tables in _conditions(path, file, manifests.read_row_groups(path)):
                if key in seen:
                    raise UserError(f"the predictions {path} contain {Condition(*key)} more than once: {REMEDY}")
                seen.add(key)
                yield _condition_predictions(path, Condition(*key), tables, classes)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise UserError(f"the predictions {path} cannot be read: {error}; {REMEDY}") from error


def _check_columns(path: Path, file: pq.ParquetFile) -> None:
    schema = file.metadata.schema.to_arrow_schema()  # not file.schema_arrow, which has dictionary types
    if not schema.remove_metadata().equals(SCHEMA):
        raise UserError(
            f"{path} does not have the columns of predictions: {', '.join(file.schema_arrow.names)[:200]}; {REMEDY}"
        )


def _conditions(
    path: Path, file: pq.ParquetFile, groups: Sequence[manifests.RowGroup]
) -> Iterator[tuple[tuple[str, int], list[pa.Table]]]:
    """Yield the tables of each condition, one condition after another."""
    pending: list[pa.Table] = []
    previous: tuple[str, int] | None = None
    rows = size = 0
    for group, group_info in enumerate(groups):
        group_bytes = sum(
            each.uncompressed for each in group_info.columns if each.name.partition(".")[0] in _FIGURE_COLUMNS
        )
        rows, size = rows + group_info.rows, size + group_bytes
        if rows > MAX_CONDITION_ROWS or size > MAX_CONDITION_BYTES:
            raise UserError(
                f"the predictions {path} contain more than {MAX_CONDITION_ROWS} frames or {MAX_CONDITION_BYTES} bytes "
                "for one transform and level: evaluate smaller data sets"
            )
        table = file.read_row_group(group, columns=list(_FIGURE_COLUMNS), use_threads=False)
        manifests.check_indices(str(path), table)
        for key, part in _split(table):
            if key != previous:
                if pending and previous is not None:
                    yield previous, pending
                pending, rows, size = [], part.num_rows, group_bytes
            pending.append(part)
            previous = key
    if pending and previous is not None:
        yield previous, pending


def _split(table: pa.Table) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    """Yield each run of rows with the same condition in a table."""
    if not table.num_rows:
        return
    table = table.unify_dictionaries().combine_chunks()
    codes = _indices(table["transform"])
    changes = (np.diff(codes) != 0) | (np.diff(table["level"].to_numpy()) != 0)
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), table.num_rows]
    for first, last in pairwise(cuts):
        part = table.slice(first, last - first)
        yield (part["transform"][0].as_py(), part["level"][0].as_py()), part


def _condition_predictions(
    path: Path, condition: Condition, tables: Sequence[pa.Table], classes: int | None
) -> ConditionPredictions:
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    if any(table[name].null_count for name in _FIGURE_COLUMNS):
        raise _invalid(path, condition, "empty fields")
    frames = table["frame"].to_numpy()
    length = int(frames.max()) + 1
    count = table.num_rows // max(length, 1)
    if length < 1 or table.num_rows != count * length or (frames.reshape(count, length) != np.arange(length)).any():
        raise UserError(f"the predictions {path} lack frames of {condition}: {REMEDY}")

    def column(name: str) -> Any:
        return table[name].to_numpy().reshape(count, length)

    predictions = ConditionPredictions(
        condition,
        table["source_id"].take(pa.array(np.arange(count) * length)).to_pylist(),
        column("label")[:, 0],
        column("top1"),
        _top5(path, condition, table["top5"]).reshape(count, length, -1),
        column("label_rank"),
        column("confidence"),
    )
    sources = _indices(table["source_id"]).reshape(count, length)
    if (column("label") != predictions.labels[:, None]).any() or (sources != sources[:, :1]).any():
        raise _invalid(path, condition, "frames of one sequence with different labels or sources")
    _check_values(path, predictions, classes)
    return predictions


def _indices(column: pa.ChunkedArray) -> NDArray[np.int32]:
    """Return the dictionary indices of a column with a single dictionary."""
    return np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in column.chunks])


def _top5(path: Path, condition: Condition, column: pa.ChunkedArray) -> NDArray[np.int32]:
    """Return the lists of a column, shape (N, min(5, classes)). Raise UserError if their lengths differ."""
    lengths = pc.min_max(pc.list_value_length(column)).as_py()
    width = lengths["min"]
    if lengths["max"] != width or not 1 <= width <= TOP:
        raise _invalid(
            path, condition, f"top-5 lists of {width} to {lengths['max']} classes instead of {TOP} or all classes"
        )
    values = pc.list_flatten(column)
    if values.null_count:
        raise _invalid(path, condition, "empty fields")
    return values.to_numpy().reshape(-1, width)


def _check_values(path: Path, predictions: ConditionPredictions, classes: int | None) -> None:
    """Raise UserError if predictions contain invalid values."""
    limit = np.iinfo(np.int32).max if classes is None else classes
    labels = predictions.labels[:, None]
    allowed = {
        "labels": (predictions.labels >= -1) & (predictions.labels < limit),
        "classes": (predictions.top5.min(axis=2) >= 0) & (predictions.top5.max(axis=2) < limit),
        "top-1 classes that are not first in top-5": predictions.top1 == predictions.top5[:, :, 0],
        "ranks": (predictions.label_rank >= 0)
        & (predictions.label_rank <= limit)
        & ((predictions.label_rank == 0) == (labels < 0)),
        "ranks that contradict top-1": (predictions.label_rank == 1) == (predictions.top1 == labels),
        "confidences": (predictions.confidence >= 0) & (predictions.confidence <= 1 + _ROUNDING),  # false for NaN too
    }
    if faults := [name for name, sound in allowed.items() if not sound.all()]:
        raise _invalid(path, predictions.condition, f"invalid values ({', '.join(faults)})")


def _invalid(path: Path, condition: Condition, what: str) -> UserError:
    return UserError(f"the predictions {path} contain, for {condition}, {what}: {REMEDY}")
