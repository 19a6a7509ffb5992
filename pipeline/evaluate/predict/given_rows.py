"""Rows of given predictions: their columns, and the samples of a data set that they are of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from pipeline.datasets.base import OK_ROWS, DataSet
from pipeline.errors import UserError
from pipeline.text import shown
from pipeline.transforms.family import Condition

T = TypeVar("T", bound=np.generic)

_ACCEPTED = "an Arrow table, a data frame, a mapping of columns, or an iterable of these"

EXAMPLES = 3
"""Number of examples in messages."""


class Samples:
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
        refuse(self._codes[samples] != codes, keys, f"of samples that {name} does not have, or that failed there")
        if self._data_set.family.sequences and "frame" not in columns:
            raise UserError(f"{name} consists of sequences: add the column frame, the number of each frame from 0")
        frames = numbers_of(columns.get("frame", [0] * len(keys)), "frame", len(keys), np.int64)
        refuse((frames < 0) | (frames >= self._lengths[samples]), keys, "of frames that their samples do not have")
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


def batches_of(predictions: Any) -> Iterator[Mapping[str, Any]]:
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


def keys_of(columns: Mapping[str, Any]) -> list[str]:
    """Return the keys of predictions."""
    parts = ("source_id", "transform", "level")
    if "key" in columns:
        return [*map(str, values_of(columns["key"], "key"))]
    if missing := [name for name in parts if name not in columns]:
        raise UserError(f"predictions lack the column {missing[0]}: give key, or {', '.join(parts)}, in {_ACCEPTED}")
    ids = values_of(columns["source_id"], "source_id")
    transforms, levels = (values_of(columns[name], name, len(ids)) for name in parts[1:])
    shown_levels = (f"{level:g}" if isinstance(level, float) else level for level in levels)  # floats of pandas
    return [f"{id_}-{name}-{level}" for id_, name, level in zip(ids, transforms, shown_levels, strict=True)]


def values_of(column: Any, name: str, count: int | None = None) -> list[Any]:
    """Return the values of a column. Raise UserError if their number is not ``count``."""
    convert = next((each for each in ("to_pylist", "to_list", "tolist") if hasattr(column, each)), None)
    values = getattr(column, convert)() if convert else list(column)
    if count not in (None, len(values)):
        raise UserError(f"{name} has {len(values)} values for {count} predictions: give one each")
    return values


def numbers_of(column: Any, name: str, count: int, dtype: type[T]) -> NDArray[T]:
    """Return a column of numbers as an array of shape (count,). Raise UserError if they are of another type."""
    try:
        return np.array(values_of(column, name, count), dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"invalid {name} ({error}): give one number for each prediction") from error


def matrix_of(column: Any, name: str, count: int) -> NDArray[np.float32]:
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


def refuse(wrong: NDArray[np.bool_], keys: Sequence[str], what: str) -> None:
    """Raise UserError with the number and first examples of wrong predictions, if there are any."""
    if wrong.any():
        found = dict.fromkeys(keys[index] for index in np.flatnonzero(wrong).tolist())
        examples = ", ".join(map(shown, islice(found, EXAMPLES)))
        raise UserError(
            f"{wrong.sum():,} of {len(keys):,} predictions are {what}, for example {examples}: "
            "give one valid prediction of each sample"
        )
