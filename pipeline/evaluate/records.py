"""What an evaluation writes: one row per frame that a model was shown, so that every figure can be had again."""

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

from pipeline.errors import UserError
from pipeline.families import Step

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


@dataclass(frozen=True)
class Outputs:
    """What a model made of N frames: ``top5`` (N, min(5, K)), and (N,) each ``label_rank``, probabilities of label
    and of the first class."""

    top5: NDArray[np.int32]
    label_rank: NDArray[np.int32]
    label_probability: NDArray[np.float32]
    confidence: NDArray[np.float32]


@dataclass(frozen=True)
class Frames:
    """What the frames of a part are, in order."""

    keys: Sequence[str]
    source_ids: Sequence[str]
    labels: Sequence[int]
    frames: Sequence[int]


def write_part(step: Step, frames: Frames, outputs: Outputs, facts: Mapping[str, str], path: Path) -> None:
    """Write the predictions of one unit. Same content, same bytes."""
    count, width = outputs.top5.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    columns = [
        pa.array(frames.keys, pa.string()),
        pa.array(frames.source_ids, pa.string()),
        pa.array([step.transform] * count, pa.string()),
        pa.array([step.level] * count, pa.int64()),
        pa.array(frames.frames, pa.int32()),
        pa.array(frames.labels, pa.int32()),
        pa.array(outputs.top5[:, 0], pa.int32()),
        pa.ListArray.from_arrays(offsets, pa.array(outputs.top5.ravel(), pa.int32())),
        pa.array(outputs.label_rank, pa.int32()),
        pa.array(outputs.label_probability, pa.float32()),
        pa.array(outputs.confidence, pa.float32()),
    ]
    table = pa.Table.from_arrays(columns, schema=SCHEMA.with_metadata(dict(facts)))
    pq.write_table(table, path, compression="zstd")


@dataclass(frozen=True)
class StepPredictions:
    """All predictions of one step: S samples of T frames, in the manifest's order.

    ``labels`` (S,), ``top1`` (S, T), ``top5`` (S, T, min(5, K)), ``label_rank`` (S, T), ``confidence`` (S, T).
    """

    step: Step
    source_ids: Sequence[str]
    labels: NDArray[np.int32]
    top1: NDArray[np.int32]
    top5: NDArray[np.int32]
    label_rank: NDArray[np.int32]
    confidence: NDArray[np.float32]


def read_predictions(path: Path) -> Iterator[StepPredictions]:
    """The predictions of an evaluation, one step in memory at a time. Raises UserError for a damaged file."""
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.remove_metadata().equals(SCHEMA):
                raise UserError(f"{path} has other columns than predictions: {', '.join(file.schema_arrow.names)}")
            waiting: list[pa.Table] = []
            latest: tuple[str, int] | None = None
            for group in range(file.num_row_groups):
                for place, table in _split(file.read_row_group(group)):
                    if place != latest and waiting:
                        yield _step_predictions(path, waiting)
                        waiting = []
                    waiting.append(table)
                    latest = place
            if waiting:
                yield _step_predictions(path, waiting)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"the predictions {path} cannot be read: {error}") from error


def _split(table: pa.Table) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    """The runs of equal steps in a table."""
    if not table.num_rows:
        return
    transforms = table["transform"].combine_chunks().dictionary_encode()
    places = transforms.indices.to_numpy(zero_copy_only=False).astype(np.int64) << 32 | table["level"].to_numpy()
    cuts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), table.num_rows]
    for first, last in pairwise(cuts):
        part = table.slice(first, last - first)
        yield (part["transform"][0].as_py(), part["level"][0].as_py()), part


def _step_predictions(path: Path, tables: Sequence[pa.Table]) -> StepPredictions:
    table = pa.concat_tables(tables).combine_chunks()
    frames = table["frame"].to_numpy()
    length = int(frames.max()) + 1
    count = table.num_rows // length
    if table.num_rows != count * length or not (frames.reshape(count, length) == np.arange(length)).all():
        raise UserError(f"{path} lacks frames of {table['transform'][0]}-{table['level'][0]}")
    lists = table["top5"].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    top5 = pc.list_flatten(lists).to_numpy(zero_copy_only=False)

    def column(name: str) -> Any:
        return table[name].to_numpy().reshape(count, length)

    return StepPredictions(
        Step(table["transform"][0].as_py(), table["level"][0].as_py()),
        table["source_id"].take(pa.array(np.arange(count) * length)).to_pylist(),
        column("label")[:, 0],
        column("top1"),
        top5.reshape(count, length, -1),
        column("label_rank"),
        column("confidence"),
    )
