"""Evaluations of given predictions: equal to those of a model, and what is refused."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import robustshards as rs
from tests.evaluate.test_tasks import indexed_with_task, loaded, run, true_class, wnids_of, write_photographs
from tests.factories.small_models import tiny

RANKED = ["key", "top5", "label_probability", "confidence", "squared_probability"]


class Recorded(torch.nn.Module):
    """A small model that keeps its outputs."""

    outputs: ClassVar[list[torch.Tensor]] = []

    def __init__(self) -> None:
        super().__init__()
        self.inner = tiny()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of images."""
        self.outputs.append(self.inner(images))
        return self.outputs[-1]


@dataclass(frozen=True)
class Predicted:
    """An evaluation of a model, and its logits in the order of the manifest."""

    evaluation: rs.Evaluation
    data: rs.DataSet
    logits: torch.Tensor

    @property
    def table(self) -> pa.Table:
        """The predictions."""
        return self.evaluation.predictions

    def columns(self) -> dict[str, Any]:
        """Return the logits as given predictions."""
        return {"key": self.table["key"].to_pylist(), "logits": self.logits}


def predicted(data: rs.DataSet, out: Path) -> Predicted:
    """Evaluate the small model, and keep its logits."""
    evaluation = rs.evaluate(Recorded(), data, out, name="tiny", batch_size=4)
    logits = torch.cat(Recorded.outputs)[-evaluation.predictions.num_rows :]
    return Predicted(evaluation, data, logits)


@pytest.fixture(scope="module")
def corrupted(small_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    """Six images under two corruptions at two severities."""
    root = tmp_path_factory.mktemp("given")
    only = ["contrast", "brightness"]
    data = rs.render("imagenet-c", small_source, root / "data", only=only, severities=(1, 3))
    return predicted(data, root / "out")


def shuffled(given: dict[str, Any], size: int = 5) -> Iterator[dict[str, Any]]:
    """Yield batches of predictions in a random order."""
    order = list(range(len(given["key"])))
    random.Random(0).shuffle(order)
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        yield {"key": [given["key"][index] for index in batch], "logits": given["logits"][batch]}


def test_equal_predictions_give_equal_files_and_reports(
    corrupted: Predicted, small_source: Path, tmp_path: Path
) -> None:
    data = rs.render("imagenet-c-clean", small_source, tmp_path / "data")
    clean = predicted(data, tmp_path / "clean")
    given = [
        rs.Evaluation.from_predictions(shuffled(each.columns()), each.data, "tiny", tmp_path / name)
        for each, name in ((corrupted, "c"), (clean, "k"))
    ]
    for own, other in zip((corrupted, clean), given, strict=True):
        assert other.complete
        assert other.predictions.equals(own.table)
    of_model, of_given = (rs.report(each) for each in ([corrupted.evaluation, clean.evaluation], given))
    tables = [each.table().to_pylist() for each in (of_model, of_given)]
    assert "clean error" in {row["metric"] for row in tables[1]}
    first, second = ([str(row) for row in rows if row["family"] != "models"] for rows in tables)  # sizes of weights
    assert first == second
    assert "predictions given" in of_given.facts()["provenance"]["tiny on imagenet-c"]


FORMS: dict[str, Callable[[Predicted], Any]] = {
    "array and parts of keys": lambda each: {
        **{name: each.table[name].to_numpy() for name in ("source_id", "transform", "level")},
        "logits": each.logits.numpy(),
    },
    "lists in Arrow": lambda each: pa.table({"key": each.table["key"], "logits": each.logits.tolist()}),
    "batches of Arrow": lambda each: pa.table({"key": each.table["key"], "logits": each.logits.tolist()}).to_batches(
        max_chunksize=7
    ),
    "polars": lambda each: pl.DataFrame({"key": each.table["key"].to_pylist(), "logits": each.logits.numpy()}),
    "pandas": lambda each: pa.table({"key": each.table["key"], "logits": each.logits.tolist()}).to_pandas(),
    "other evaluation": lambda each: [each.table.slice(10), each.table.slice(0, 10).to_pandas()],
    "ranked columns": lambda each: each.table.select(RANKED),
}


@pytest.mark.parametrize("form", FORMS)
def test_predictions_have_many_forms(corrupted: Predicted, form: str) -> None:
    made = rs.Evaluation.from_predictions(FORMS[form](corrupted), corrupted.data, "tiny")
    for name in made.predictions.column_names:
        if (form, name) != ("ranked columns", "label_rank"):
            assert made.predictions[name].equals(corrupted.table[name])
    ranks = corrupted.table["label_rank"].to_numpy()
    assert np.array_equal(made.predictions["label_rank"].to_numpy().clip(max=6), ranks.clip(max=6))


def test_probabilities_give_the_same_up_to_rounding(corrupted: Predicted) -> None:
    given = {**corrupted.columns(), "probabilities": corrupted.logits.softmax(dim=1)}
    del given["logits"]
    made = rs.Evaluation.from_predictions(given, corrupted.data, "tiny").predictions
    assert made["top5"].equals(corrupted.table["top5"])
    for name in ("label_probability", "confidence", "squared_probability"):
        assert np.allclose(made[name], corrupted.table[name], rtol=1e-5)


def with_nan(given: dict[str, Any]) -> dict[str, Any]:
    logits = given["logits"].clone()
    logits[[1, 3], 2] = float("nan")
    return {**given, "logits": logits}


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "missing": (lambda given: {name: each[2:] for name, each in given.items()}, "2 of the 24 predictions .* missing"),
    "repeated": (lambda given: [given, {n: each[:3] for n, each in given.items()}], "3 of 3 predictions .* more than"),
    "repeated in a batch": (lambda given: {**given, "key": given["key"][:23] + given["key"][:1]}, "1 of 24 .* more"),
    "unknown": (lambda given: {**given, "key": [*given["key"][:22], "a-fog-1", "b"]}, "2 of 24 .*'a-fog-1', 'b'"),
    "not a number": (with_nan, "2 of 24 predictions are logits with NaN"),
    "other outputs": (lambda given: {**given, "logits": given["logits"][:, :5]}, "5 outputs"),
    "outputs that change": (
        lambda given: [{n: v[:9] for n, v in given.items()}, {**given, "logits": given["logits"].repeat(1, 2)}],
        "14 outputs after some of 7|more than once",
    ),
    "ragged": (lambda given: {**given, "logits": [[0.0, 1.0]] * 23 + [[0.0]]}, "invalid logits"),
    "too few": (lambda given: {**given, "logits": given["logits"][:3]}, r"shape \(3, 7\).*\(24, outputs\)"),
    "no probabilities": (lambda given: {"key": given["key"], "probabilities": given["logits"]}, "24 .* sum to 1"),
    "no outputs": (lambda given: {"key": given["key"], "confidence": [1.0] * 24}, "without top5, label_probability"),
    "no keys": (lambda given: {"logits": given["logits"], "source_id": ["a"]}, "column transform"),
    "a tensor": (lambda given: given["logits"], "type Tensor"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_predictions_are_refused(corrupted: Predicted, case: str, tmp_path: Path) -> None:
    change, message = WRONG[case]
    with pytest.raises(rs.UserError, match=message):
        rs.Evaluation.from_predictions(change(corrupted.columns()), corrupted.data, "tiny", tmp_path / "out")
    assert not (tmp_path / "out" / "evaluation.toml").exists()


def test_values_of_other_evaluations_are_checked(corrupted: Predicted) -> None:
    table = corrupted.table
    wrong = table.set_column(table.schema.get_field_index("confidence"), "confidence", pa.array([-1.0] * 24))
    with pytest.raises(rs.UserError, match="24 of 24 predictions are with invalid confidences"):
        rs.Evaluation.from_predictions(wrong, corrupted.data, "tiny")


def test_a_folder_holds_the_predictions_of_one_call(corrupted: Predicted, tmp_path: Path) -> None:
    first = rs.Evaluation.from_predictions(corrupted.columns(), corrupted.data, "tiny", tmp_path, note="served")
    again = rs.Evaluation.from_predictions(shuffled(corrupted.columns()), corrupted.data, "tiny", tmp_path)
    assert (first.done.frames, again.done.frames, again.table) == (24, 0, first.table)
    changed = {**corrupted.columns(), "logits": -corrupted.logits}
    with pytest.raises(rs.UserError, match=r"run\.predictions"):
        rs.Evaluation.from_predictions(changed, corrupted.data, "tiny", tmp_path)
    with pytest.raises(rs.UserError, match="'tiny'"):
        rs.Evaluation.from_predictions(iter(()), corrupted.data, "other", tmp_path)
    assert again.predictions.equals(corrupted.table)


def test_frames_of_sequences_are_found(small_source: Path, tmp_path: Path) -> None:
    data = rs.render("imagenet-p", small_source, tmp_path / "data", only=["tilt"], limit=1)
    own = predicted(data, tmp_path / "out")
    given = {**own.columns(), "frame": own.table["frame"]}
    reverse = {name: values[::-1] if isinstance(values, list) else values for name, values in given.items()}
    reverse |= {"frame": given["frame"].to_pylist()[::-1], "logits": own.logits.flip(0)}
    assert rs.Evaluation.from_predictions(reverse, data, "tiny").predictions.equals(own.table)
    with pytest.raises(rs.UserError, match="column frame"):
        rs.Evaluation.from_predictions(own.columns(), data, "tiny")


def test_groups_of_indexed_data_sets_are_ranked(tmp_path: Path) -> None:
    folder = indexed_with_task(write_photographs(tmp_path / "data", wnids_of("imagenet-a")[:9]), "imagenet-a")
    outputs: list[torch.Tensor] = []

    def logits(classes: torch.Tensor) -> torch.Tensor:
        outputs.append(true_class(classes + classes % 3))
        return outputs[-1]

    run(folder, tmp_path / "out", loaded(logits))
    table = pq.read_table(tmp_path / "out/predictions.parquet")
    for given in ({"key": table["key"], "logits": outputs[-1]}, table):
        made = rs.Evaluation.from_predictions(given, folder, "reader")
        assert made.predictions.equals(table)
        assert (made.table.model.classes, made.table.labels) == (1000, 200)
    with pytest.raises(rs.UserError, match="free"):
        rs.Evaluation.from_predictions(table.drop_columns("free"), folder, "reader")


def test_predictions_of_a_report_have_the_names_of_models_and_data_sets(corrupted: Predicted) -> None:
    other = rs.Evaluation.from_predictions({**corrupted.columns(), "logits": -corrupted.logits}, corrupted.data, "up")
    report = rs.report([corrupted.evaluation, other], rename={"tiny": "down"})
    del other  # with its temporary folder, unless the report keeps it
    table = report.predictions
    assert table.column_names == ["model", "data_set", *corrupted.table.column_names]
    assert pa.types.is_dictionary(table.schema.field("model").type)
    assert table["model"].to_pylist() == ["down"] * 24 + ["up"] * 24
    assert set(table["data_set"].to_pylist()) == {"imagenet-c"}
    assert table.drop_columns(["model", "data_set"]).slice(0, 24).equals(corrupted.table)
