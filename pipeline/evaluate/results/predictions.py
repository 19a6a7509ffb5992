"""The predictions of an evaluation: one row per frame, with all the data that reports need."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

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
        pa.field("free", pa.int32(), nullable=False),
        pa.field("squared_probability", pa.float32(), nullable=False),
        pa.field("source_digest", pa.int64(), nullable=False),
    ]
)
"""Columns of predictions. ``frame`` is the frame number within a sequence, from 0, and 0 for an image. ``label`` is -1
if unknown; ``label_rank`` is then 0 and ``label_probability`` NaN. ``top5`` contains the classes of the five largest
logits in rank order, or all classes if there are fewer; of equal logits, the lower class index is first. ``label_rank``
starts at 1. ``confidence`` is the largest class probability. ``squared_probability`` is the sum of the squares of all
class probabilities. If the task of the data set has groups of classes, all of these columns are about groups instead of
classes. ``free`` is the group of the first of all classes, or -1 if this class is in no group; without groups, it is
the same as ``top1``. ``source_digest`` identifies the photograph: see :class:`Frame`."""

STREAM_SCHEMA = SCHEMA.append(pa.field("listed", pa.int64(), nullable=False))
"""Columns of predictions in the order of a stream. ``listed`` is the index in the order of the manifest."""

SHORTCUT_SCHEMA = SCHEMA.append(pa.field("shortcut_probability", pa.float32(), nullable=False))
"""Columns of predictions with the probability of the class that a shortcut leads to; NaN where it was not given."""

REMEDY = "run the same evaluate command again to rewrite them"
_ROUNDING = 1e-3  # rounding error by which a probability may exceed 1
MAX_CONDITION_ROWS = 2**23
"""Maximum number of rows per condition: 8 million frames. All rows of a condition are in memory at once."""

MAX_CONDITION_BYTES = 2**29
"""Maximum uncompressed size of the columns of a condition in bytes, as declared by the file."""

_FOOTER_LIMITS: Mapping[str, int] = {"thrift_string_size_limit": 2**22, "thrift_container_size_limit": 2**20}
"""Memory limits of the Parquet footer reader."""


@dataclass(frozen=True)
class Outputs:
    """The model outputs for N frames, (N,) each; see ``SCHEMA``."""

    top5: NDArray[np.int32]  # (N, min(5, labels))
    label_rank: NDArray[np.int32]
    label_probability: NDArray[np.float32]
    confidence: NDArray[np.float32]
    free: NDArray[np.int32]  # if labels are classes, but the task has groups: the group that the model chooses
    squared_probability: NDArray[np.float32]
    shortcut_probability: NDArray[np.float32]  # NaN without a shortcut


class Frame(NamedTuple):
    """A frame of a sample; see ``SCHEMA``. The source digest is the start of the photograph's; 0 if it is unknown."""

    key: str
    source_id: str
    label: int
    frame: int = 0
    source_digest: int = 0

    @classmethod
    def of(cls, row: manifests.Row, frame: int) -> "Frame":
        """Return a frame of the sample of a manifest row."""
        sha256 = row.source_sha256
        digest = int.from_bytes(bytes.fromhex(sha256[:16]), signed=True) if sha256 else 0
        return cls(row.key, row.source_id, row.label, frame, digest)


@dataclass(frozen=True)
class Frames:
    """The frames of a part, in order: their columns of ``SCHEMA``, and what only streams have."""

    key: Sequence[str]
    source_id: Sequence[str]
    label: Sequence[int]
    frame: Sequence[int]
    source_digest: Sequence[int]
    conditions: Sequence[Condition] | None = None
    listed: Sequence[int] | None = None  # indices in the order of the manifest


def write_part(
    condition: Condition, frames: Frames, outputs: Outputs, facts: Mapping[str, str], path: Path, schema: pa.Schema
) -> None:
    """Write and seal the predictions of one chunk, with facts as metadata.

    The file bytes depend only on the arguments.
    """
    count, width = outputs.top5.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    conditions = [condition] * count if frames.conditions is None else frames.conditions
    values = {
        **vars(frames),
        **vars(outputs),
        "transform": [each.transform for each in conditions],
        "level": [each.level for each in conditions],
        "top1": outputs.top5[:, 0],
        "top5": pa.ListArray.from_arrays(offsets, pa.array(outputs.top5.ravel(), pa.int32())),
    }
    columns = [pa.array(values[field.name], field.type) for field in schema]
    content = pa.BufferOutputStream()
    with pq.ParquetWriter(content, schema, compression="zstd") as writer:
        writer.write_table(pa.Table.from_arrays(columns, schema=schema))
        writer.add_key_value_metadata(manifests.with_blank_seal(facts))
    path.write_bytes(manifests.seal(content.getvalue().to_pybytes()))


@dataclass(frozen=True)
class ConditionPredictions:
    """The predictions of one condition: S samples of T frames each, in the order of the manifest; see ``SCHEMA``.

    Arrays have the shape (S, T) unless stated otherwise.
    """

    condition: Condition
    source_ids: Sequence[str]
    labels: NDArray[np.int32]  # (S,)
    top1: NDArray[np.int32]
    top5: NDArray[np.int32]  # (S, T, min(5, labels))
    label_rank: NDArray[np.int32]
    label_probability: NDArray[np.float32]
    confidence: NDArray[np.float32]
    free: NDArray[np.int32]
    squared_probability: NDArray[np.float32]
    digests: NDArray[np.int64]  # of the photographs, (S,); 0 where unknown
    shortcut_probability: NDArray[np.float32] | None = None  # None without one


def read_predictions(path: Path, labels: int | None = None) -> Iterator[ConditionPredictions]:
    """Yield the predictions of an evaluation by condition. Only one condition is in memory at a time.

    Args:
        path: Parquet file with one of the three schemas. Its seal has been checked.
        labels: Number of labels that the model chooses among. None if unknown.

    Raises:
        UserError: The file is damaged or contains invalid values.
    """
    seen = set[tuple[str, int]]()
    try:
        names, groups = _Names(), manifests.read_row_groups(path)
        # Texts that are dictionaries in the file remain so: decoded, few bytes would become many.
        texts = {each.name for group in groups for each in group.columns if each.is_text and each.has_dictionary}
        with pq.ParquetFile(path, read_dictionary=["transform", *texts], **_FOOTER_LIMITS) as file:
            columns = _columns(path, file)
            found = _of_stream(path, file, columns) if "listed" in columns else _conditions(path, file, groups, columns)
            for key, tables in found:
                if key in seen:
                    raise UserError(f"the predictions {path} contain {Condition(*key)} more than once: {REMEDY}")
                seen.add(key)
                yield _condition_predictions(path, Condition(*key), tables, labels, names)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise UserError(f"the predictions {path} cannot be read: {error}; {REMEDY}") from error


def _columns(path: Path, file: pq.ParquetFile) -> list[str]:
    """Return the columns that reports need. Raise UserError if the file has other columns than predictions."""
    schema = file.metadata.schema.to_arrow_schema().remove_metadata()  # not schema_arrow, which has dictionary types
    if not any(schema.equals(known) for known in (SCHEMA, STREAM_SCHEMA, SHORTCUT_SCHEMA)):
        raise UserError(f"{path} does not have the columns of predictions: {', '.join(schema.names)[:200]}; {REMEDY}")
    return [name for name in schema.names if name != "key"]


def _conditions(
    path: Path, file: pq.ParquetFile, groups: Sequence[manifests.RowGroup], columns: Sequence[str]
) -> Iterator[tuple[tuple[str, int], list[pa.Table]]]:
    """Yield the tables of each condition, one condition after another."""
    pending: list[pa.Table] = []
    previous: tuple[str, int] | None = None
    rows = size = 0
    for group, group_info in enumerate(groups):
        group_bytes = sum(each.uncompressed for each in group_info.columns if each.name.partition(".")[0] in columns)
        rows, size = rows + group_info.rows, size + group_bytes
        if rows > MAX_CONDITION_ROWS or size > MAX_CONDITION_BYTES:
            raise UserError(
                f"the predictions {path} contain more than {MAX_CONDITION_ROWS} frames or {MAX_CONDITION_BYTES} bytes "
                "for one transform and level: evaluate smaller data sets"
            )
        table = file.read_row_group(group, columns=list(columns), use_threads=False)
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


def _of_stream(
    path: Path, file: pq.ParquetFile, columns: Sequence[str]
) -> Iterator[tuple[tuple[str, int], list[pa.Table]]]:
    """Yield the table of each condition of a stream, in the order of the manifest."""
    if file.metadata.num_rows > MAX_CONDITION_ROWS:
        raise UserError(f"the predictions {path} contain more than {MAX_CONDITION_ROWS} frames: evaluate fewer images")
    table = file.read(columns=list(columns), use_threads=False).unify_dictionaries().combine_chunks()
    order = np.argsort(table["listed"].to_numpy(), kind="stable")
    for key, part in _split(table.take(pa.array(order))):
        yield key, [part]


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


class _Names:
    """The texts of a column; successive equal columns share one list, since millions of texts take seconds."""

    def __init__(self) -> None:
        self._column: pa.ChunkedArray | None = None
        self._texts: list[str] = []

    def __call__(self, column: pa.ChunkedArray) -> list[str]:
        """Return the texts."""
        if self._column is None or not column.equals(self._column):
            self._column, self._texts = column, column.to_pylist()
        return self._texts


def _condition_predictions(
    path: Path, condition: Condition, tables: Sequence[pa.Table], limit: int | None, source_ids: _Names
) -> ConditionPredictions:
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    if any(column.null_count for column in table.columns):
        raise _invalid(path, condition, "empty fields")
    frames = table["frame"].to_numpy()
    length = int(frames.max()) + 1
    count = table.num_rows // max(length, 1)
    if length < 1 or table.num_rows != count * length or (frames.reshape(count, length) != np.arange(length)).any():
        raise UserError(f"the predictions {path} lack frames of {condition}: {REMEDY}")

    def column(name: str) -> Any:
        return table[name].to_numpy().reshape(count, length)

    names = {each.name for each in fields(Outputs)} & {*table.column_names} - {"top5"}
    predictions = ConditionPredictions(
        condition,
        source_ids(table["source_id"][::length]),
        column("label")[:, 0],
        column("top1"),
        _top5(path, condition, table["top5"]).reshape(count, length, -1),
        digests=column("source_digest")[:, 0],
        **{name: column(name) for name in names},
    )
    if length > 1:
        sources = _indices(table["source_id"].dictionary_encode()).reshape(count, length)
        if (column("label") != predictions.labels[:, None]).any() or (sources != sources[:, :1]).any():
            raise _invalid(path, condition, "frames of one sequence with different labels or sources")
    if faults := [name for name, sound in sound_values(predictions, limit).items() if not sound.all()]:
        raise _invalid(path, condition, f"invalid values ({', '.join(faults)})")
    return predictions


def _indices(column: pa.ChunkedArray) -> NDArray[np.int32]:
    """Return the dictionary indices of a column with a single dictionary."""
    return np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in column.chunks])


def _top5(path: Path, condition: Condition, column: pa.ChunkedArray) -> NDArray[np.int32]:
    """Return the lists of a column, shape (N, min(5, labels)). Raise UserError if their lengths differ."""
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


def sound_values(predictions: ConditionPredictions, limit: int | None) -> dict[str, NDArray[np.bool_]]:
    """Return, for each check of values by name, which of them pass it; ``limit`` is the number of labels."""
    limit = np.iinfo(np.int32).max if limit is None else limit
    labels, confidence = predictions.labels[:, None], predictions.confidence
    squared = predictions.squared_probability
    allowed = {
        "labels": (predictions.labels >= -1) & (predictions.labels < limit),
        "classes": predictions.top5.view(np.uint32).max(axis=2) < limit,  # those below 0 are above 2**31
        "top-1 classes that are not first in top-5": predictions.top1 == predictions.top5[:, :, 0],
        "ranks": (predictions.label_rank >= 0)
        & (predictions.label_rank <= limit)
        & ((predictions.label_rank == 0) == (labels < 0)),
        "ranks that contradict top-1": (predictions.label_rank == 1) == (predictions.top1 == labels),
        "confidences": _are_probabilities(confidence),
        "probabilities of labels": np.where(
            labels < 0,
            np.isnan(predictions.label_probability),
            _are_probabilities(predictions.label_probability)
            & (predictions.label_probability <= confidence + _ROUNDING),
        ),
        "free classes": (predictions.free >= -1) & (predictions.free < limit),
        "squared probabilities": (np.square(confidence) - _ROUNDING <= squared) & (squared <= confidence + _ROUNDING),
    }
    if (shortcut := predictions.shortcut_probability) is not None:
        allowed["probabilities of the shortcut"] = np.isnan(shortcut) | (
            _are_probabilities(shortcut) & (shortcut <= confidence + _ROUNDING)
        )
    return allowed


def _are_probabilities(values: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which values are probabilities. NaN is none."""
    return (values >= 0) & (values <= 1 + _ROUNDING)


def _invalid(path: Path, condition: Condition, what: str) -> UserError:
    return UserError(f"the predictions {path} contain, for {condition}, {what}: {REMEDY}")
