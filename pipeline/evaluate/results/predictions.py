"""The predictions of an evaluation: one row per frame, from which every figure can be computed again."""

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
"""``frame`` counts from 0 in its sequence, and is 0 for an image. ``label`` is -1 where it is unknown; its rank is
then 0 and its probability NaN. ``top5`` holds the classes of the five largest logits (of fewer classes, all) in rank
order, of equal ones the lower index first; ``label_rank`` counts from 1; ``confidence`` is the largest probability."""


_FIGURED = ("source_id", "transform", "level", "frame", "label", "top1", "top5", "label_rank", "confidence")
"""Columns that figures need."""

REMEDY = "run the same evaluate command again, which writes them again"

_ROUNDING = 1e-3
"""How far a probability may exceed 1, at any precision."""

MAX_CONDITION_ROWS = 2**23
"""Largest number of rows of one condition: 8 million frames. They are in memory together."""

MAX_CONDITION_BYTES = 2**29
"""Largest size of a condition's columns, uncompressed, as the file declares it."""

_FOOTER_LIMITS: Mapping[str, int] = {"thrift_string_size_limit": 2**22, "thrift_container_size_limit": 2**20}
"""What the reader of a footer may allocate."""


@dataclass(frozen=True)
class Outputs:
    """Outputs for N frames: ``top5`` (N, min(5, K)), and (N,) each ``label_rank`` and the probabilities of the label
    and of the first class."""

    top5: NDArray[np.int32]
    label_rank: NDArray[np.int32]
    label_probability: NDArray[np.float32]
    confidence: NDArray[np.float32]


@dataclass(frozen=True)
class Frames:
    """The frames of a part, in order."""

    keys: Sequence[str]
    source_ids: Sequence[str]
    labels: Sequence[int]
    frames: Sequence[int]


def write_part(condition: Condition, frames: Frames, outputs: Outputs, facts: Mapping[str, str], path: Path) -> None:
    """Write the predictions of one chunk, sealed. The same content gives the same bytes."""
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
    """All predictions of one condition: S samples of T frames, in the manifest's order.

    ``labels`` (S,), ``top1`` (S, T), ``top5`` (S, T, min(5, K)), ``label_rank`` (S, T), ``confidence`` (S, T).
    """

    condition: Condition
    source_ids: Sequence[str]
    labels: NDArray[np.int32]
    top1: NDArray[np.int32]
    top5: NDArray[np.int32]
    label_rank: NDArray[np.int32]
    confidence: NDArray[np.float32]


def read_predictions(path: Path, classes: int | None = None) -> Iterator[ConditionPredictions]:
    """Read the predictions of an evaluation, one condition in memory at a time.

    Args:
        path: A sealed file with the columns of ``SCHEMA``.
        classes: Number of the model's classes, where it is known.

    Raises:
        UserError: The file is damaged, or holds what no evaluation writes.
    """
    if not manifests.is_sealed_file(path):
        raise UserError(f"the predictions {path} are damaged or were not finished: {REMEDY}")
    seen = set[tuple[str, int]]()
    try:
        with pq.ParquetFile(path, read_dictionary=["source_id", "transform"], **_FOOTER_LIMITS) as file:
            _check_columns(path, file)
            for place, tables in _conditions(path, file, manifests.read_row_groups(path)):
                if place in seen:
                    raise UserError(f"the predictions {path} hold {Condition(*place)} more than once: {REMEDY}")
                seen.add(place)
                yield _condition_predictions(path, Condition(*place), tables, classes)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise UserError(f"the predictions {path} cannot be read: {error}; {REMEDY}") from error


def _check_columns(path: Path, file: pq.ParquetFile) -> None:
    schema = file.metadata.schema.to_arrow_schema()  # that of the reader has dictionaries
    if not schema.remove_metadata().equals(SCHEMA):
        raise UserError(f"{path} has other columns than predictions: {', '.join(file.schema_arrow.names)[:200]}")


def _conditions(
    path: Path, file: pq.ParquetFile, groups: Sequence[manifests.RowGroup]
) -> Iterator[tuple[tuple[str, int], list[pa.Table]]]:
    """Yield the tables of each condition, one condition after another."""
    waiting: list[pa.Table] = []
    latest: tuple[str, int] | None = None
    rows = size = 0
    for group, about in enumerate(groups):
        bytes_here = sum(each.uncompressed for each in about.columns if each.name.partition(".")[0] in _FIGURED)
        rows, size = rows + about.rows, size + bytes_here
        if rows > MAX_CONDITION_ROWS or size > MAX_CONDITION_BYTES:
            raise UserError(
                f"the predictions {path} contain more than {MAX_CONDITION_ROWS} frames or {MAX_CONDITION_BYTES} bytes "
                "of one transform and level: evaluate smaller data sets"
            )
        table = file.read_row_group(group, columns=list(_FIGURED), use_threads=False)
        manifests.check_indices(str(path), table)
        for place, part in _split(table):
            if place != latest:
                if waiting and latest is not None:
                    yield latest, waiting
                waiting, rows, size = [], part.num_rows, bytes_here
            waiting.append(part)
            latest = place
    if waiting and latest is not None:
        yield latest, waiting


def _split(table: pa.Table) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    """Yield the runs of equal conditions in a table."""
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
    if any(table[name].null_count for name in _FIGURED):
        raise _unsound(path, condition, "empty fields")
    frames = table["frame"].to_numpy()
    length = int(frames.max()) + 1
    count = table.num_rows // max(length, 1)
    if length < 1 or table.num_rows != count * length or (frames.reshape(count, length) != np.arange(length)).any():
        raise UserError(f"{path} lacks frames of {condition}: {REMEDY}")

    def column(name: str) -> Any:
        return table[name].to_numpy().reshape(count, length)

    found = ConditionPredictions(
        condition,
        table["source_id"].take(pa.array(np.arange(count) * length)).to_pylist(),
        column("label")[:, 0],
        column("top1"),
        _top5(path, condition, table["top5"]).reshape(count, length, -1),
        column("label_rank"),
        column("confidence"),
    )
    sources = _indices(table["source_id"]).reshape(count, length)
    if (column("label") != found.labels[:, None]).any() or (sources != sources[:, :1]).any():
        raise _unsound(path, condition, "frames of one sequence that differ in their label or source")
    _check_values(path, found, classes)
    return found


def _indices(column: pa.ChunkedArray) -> NDArray[np.int32]:
    """Return the codes of a column that is one dictionary."""
    return np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in column.chunks])


def _top5(path: Path, condition: Condition, column: pa.ChunkedArray) -> NDArray[np.int32]:
    """Return the lists of a column as rows (N, min(5, K)). Raise UserError where they differ in length."""
    lengths = pc.min_max(pc.list_value_length(column)).as_py()
    width = lengths["min"]
    if lengths["max"] != width or not 1 <= width <= TOP:
        raise _unsound(path, condition, f"top-5 lists of {width} to {lengths['max']} classes; {TOP} or all are allowed")
    values = pc.list_flatten(column)
    if values.null_count:
        raise _unsound(path, condition, "empty fields")
    return values.to_numpy().reshape(-1, width)


def _check_values(path: Path, found: ConditionPredictions, classes: int | None) -> None:
    """Raise UserError for values that no evaluation writes."""
    limit = np.iinfo(np.int32).max if classes is None else classes
    labels = found.labels[:, None]
    allowed = {
        "labels": (found.labels >= -1) & (found.labels < limit),
        "classes": (found.top5.min(axis=2) >= 0) & (found.top5.max(axis=2) < limit),
        "first classes that are not first in top-5": found.top1 == found.top5[:, :, 0],
        "ranks": (found.label_rank >= 0) & (found.label_rank <= limit) & ((found.label_rank == 0) == (labels < 0)),
        "ranks that top-5 contradicts": (found.label_rank == 1) == (found.top1 == labels),
        "confidences": (found.confidence >= 0) & (found.confidence <= 1 + _ROUNDING),  # false for NaN too
    }
    if faults := [name for name, sound in allowed.items() if not sound.all()]:
        raise _unsound(path, found.condition, f"values that no evaluation gives ({', '.join(faults)})")


def _unsound(path: Path, condition: Condition, what: str) -> UserError:
    return UserError(f"the predictions {path} hold, for {condition}, {what}: {REMEDY}")
