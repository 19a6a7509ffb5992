"""Tests of reading predictions: valid files, invalid values, damage and memory limits."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import manifests
from pipeline.errors import UserError
from pipeline.evaluate.results import predictions as records
from pipeline.evaluate.results.folder import DataSetTable, require_finished
from pipeline.evaluate.results.predictions import SCHEMA, read_predictions
from pipeline.recipes import library
from pipeline.storage import LocalStore
from tests.factories.evaluations import votes, write_evaluation

Columns = dict[str, list[Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write predictions of two conditions with three images each, for 7 classes."""
    logits = {("contrast", 1): votes([1, 2, 0]), ("fog", 3): votes([1, 1, 0])}
    write_evaluation(tmp_path / "r", logits, [1, 2, 3])
    return tmp_path / "r" / "predictions.parquet"


def write(path: Path, columns: Columns, schema: pa.Schema = SCHEMA, row_group_size: int | None = None) -> None:
    """Write predictions with a valid seal."""
    with pq.ParquetWriter(path, schema) as writer:
        writer.write_table(pa.table(columns, schema=schema), row_group_size)
        writer.add_key_value_metadata(manifests.with_blank_seal({}))
    manifests.seal_file(path)


def first(name: str, value: Any) -> Callable[[Columns], None]:
    """Return a function that changes the first value of a column."""

    def change(columns: Columns) -> None:
        columns[name][0] = value

    return change


def every(name: str, value: Any) -> Callable[[Columns], None]:
    """Return a function that changes all values of a column."""

    def change(columns: Columns) -> None:
        columns[name] = [value] * len(columns[name])

    return change


def test_read_predictions_returns_what_was_written(path: Path) -> None:
    contrast, fog = read_predictions(path, 7)
    assert [str(contrast.condition), str(fog.condition)] == ["contrast-1", "fog-3"]
    assert list(contrast.source_ids) == ["image0", "image1", "image2"]
    assert contrast.labels.tolist() == [1, 2, 3]
    assert contrast.top1[:, 0].tolist() == [1, 2, 0]
    assert contrast.top5[2, 0].tolist() == [0, 1, 2, 3, 4]
    assert contrast.label_rank[:, 0].tolist() == [1, 1, 4]
    assert [values.dtype for values in (contrast.top5, contrast.confidence)] == [np.int32, np.float32]
    assert contrast.free[:, 0].tolist() == [1, 2, 0]
    largest = math.exp(5) / (math.exp(5) + 6)
    assert contrast.label_probability[:, 0] == pytest.approx([largest, largest, (1 - largest) / 6])
    assert fog.squared_probability[:, 0] == pytest.approx([largest**2 + (1 - largest) ** 2 / 6] * 3)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_conditions_may_be_in_several_row_groups_and_share_one(path: Path, rows: int) -> None:
    expected = [(each.condition, each.labels.tolist(), each.top1.tolist()) for each in read_predictions(path, 7)]
    write(path, pq.read_table(path).to_pydict(), row_group_size=rows)
    assert [(each.condition, each.labels.tolist(), each.top1.tolist()) for each in read_predictions(path)] == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (first("label", 7), r"invalid values \(labels"),
        (first("label", -2), "labels"),
        (first("top1", 2), "top-1 classes that are not first in top-5"),
        (first("top5", [1, 2, 3, 4, 7]), "classes"),
        (first("top5", [1, -2, 3, 4, 5]), "classes"),
        (first("top5", [1, 2, 3, 4]), "top-5 lists of 4 to 5 classes"),
        (first("top5", [1, None, 3, 4, 5]), "empty fields"),
        (every("top5", []), "top-5 lists of 0 to 0 classes"),
        (every("top5", list(range(1000))), "top-5 lists of 1000 to 1000 classes"),
        (first("label_rank", 8), "ranks"),
        (first("label_rank", 0), "ranks"),
        (first("label_rank", 3), "ranks that contradict top-1"),
        (first("confidence", math.nan), "confidences"),
        (first("confidence", math.inf), "confidences"),
        (first("confidence", 1.5), "confidences"),
        (first("label_probability", math.nan), "probabilities of labels"),
        (first("label_probability", -0.1), "probabilities of labels"),
        (first("label_probability", 0.99), "probabilities of labels"),
        (first("free", -2), "free classes"),
        (first("free", 7), "free classes"),
        (first("squared_probability", math.nan), "squared probabilities"),
        (first("squared_probability", 0.5), "squared probabilities"),
        (first("squared_probability", 0.99), "squared probabilities"),
        (first("frame", 2**31 - 1), "lack frames of contrast-1"),
        (first("frame", -1), "lack frames of contrast-1"),
        (every("frame", -1), "lack frames of contrast-1"),
    ],
)
def test_invalid_values_are_rejected_with_the_remedy(
    path: Path, change: Callable[[Columns], None], message: str
) -> None:
    columns: Columns = pq.read_table(path).to_pydict()
    change(columns)
    write(path, columns)
    with pytest.raises(UserError, match=f"predictions.parquet.*{message}.*run the same evaluate command again"):
        list(read_predictions(path, 7))


def test_unknown_labels_are_read(path: Path) -> None:
    columns: Columns = pq.read_table(path).to_pydict()
    for name, value in (("label", -1), ("label_rank", 0), ("label_probability", math.nan)):
        every(name, value)(columns)
    write(path, columns)
    assert [condition.labels.tolist() for condition in read_predictions(path, 7)] == [[-1] * 3] * 2


def test_levels_that_are_equal_modulo_32_bits_are_distinguished(path: Path) -> None:
    columns: Columns = pq.read_table(path).to_pydict()
    columns |= {"transform": ["fog"] * 6, "level": [1] * 3 + [2**32 + 1] * 3}
    write(path, columns)
    assert [condition.condition.level for condition in read_predictions(path, 7)] == [1, 2**32 + 1]


def test_a_repeated_condition_is_rejected(path: Path) -> None:
    columns: Columns = pq.read_table(path).to_pydict()
    write(path, {name: values + values[:3] for name, values in columns.items()})
    with pytest.raises(UserError, match="contain contrast-1 more than once: run the same evaluate command again"):
        list(read_predictions(path))


def test_frames_of_one_sequence_must_have_the_same_label_and_source(path: Path) -> None:
    columns: Columns = pq.read_table(path).to_pydict()
    columns |= {"frame": [0, 1, 2] * 2, "label": [1] * 6, "label_rank": [1, 2, 2, 1, 1, 2], "source_id": ["a"] * 6}
    write(path, columns)
    assert [condition.top1.shape for condition in read_predictions(path)] == [(1, 3), (1, 3)]
    for name, value in (("source_id", "b"), ("label", 2)):
        write(path, {**columns, name: [value, *columns[name][1:]]})
        with pytest.raises(UserError, match="frames of one sequence with different labels or sources"):
            list(read_predictions(path))


def test_files_with_other_columns_are_rejected(path: Path) -> None:
    columns: Columns = pq.read_table(path).to_pydict()
    empty = pa.schema([field.with_nullable(True) for field in SCHEMA])
    write(path, {**columns, "label": [None] * 6}, empty)
    with pytest.raises(UserError, match=r"does not have the columns of predictions: .*run the same evaluate command"):
        list(read_predictions(path))


def test_every_flipped_bit_and_truncation_is_detected(path: Path) -> None:
    valid = path.read_bytes()
    for index in range(0, len(valid), 97):
        path.write_bytes(valid[:index] + bytes([valid[index] ^ 4]) + valid[index + 1 :])
        with pytest.raises(UserError, match=r"is damaged: run the same evaluate command again"):
            require_finished(LocalStore(str(path.parent)))
    for content in (b"", b"PAR1", valid[:-1], valid[: len(valid) // 2]):
        path.write_bytes(content)
        with pytest.raises(UserError, match="is damaged: run"):
            require_finished(LocalStore(str(path.parent)))


def test_conditions_above_the_memory_limits_are_rejected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_CONDITION_ROWS", 2)
    with pytest.raises(UserError, match=r"contain more than 2 frames or 536870912 bytes for one transform"):
        list(read_predictions(path))
    monkeypatch.setattr(records, "MAX_CONDITION_ROWS", 2**23)
    monkeypatch.setattr(records, "MAX_CONDITION_BYTES", 50)
    with pytest.raises(UserError, match=r"contain more than 8388608 frames or 50 bytes for one transform"):
        list(read_predictions(path))


def test_a_small_file_with_too_many_rows_is_rejected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_CONDITION_ROWS", 2**17)
    columns: Columns = pq.read_table(path).to_pydict()
    some = pa.table({name: values[:1] for name, values in columns.items()}, schema=SCHEMA)
    many = some.take(pa.array(np.zeros(2**13, np.int64)))
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for _ in range(17):
            writer.write_table(many, row_group_size=2**13)
        writer.add_key_value_metadata(manifests.with_blank_seal({}))
    manifests.seal_file(path)
    assert path.stat().st_size < 2**20
    with pytest.raises(UserError, match="contain more than 131072 frames"):
        list(read_predictions(path))


@pytest.mark.parametrize("name", library.shipped())
def test_evaluations_may_record_the_encoder_of_every_recipe(name: str) -> None:
    encoder = str(library.load(name).encoder)
    fields = {"name": name, "family": "none", "profile": "imagenet", "manifest_sha256": "", "samples": 1, "failed": 0}
    assert DataSetTable.model_validate({**fields, "encoder": encoder}).encoder == encoder
