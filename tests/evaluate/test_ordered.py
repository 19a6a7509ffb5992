"""Tests of evaluations in the order of a protocol, for models that adapt at test time."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import robustshards as rs
from corruptions import ccc
from pipeline.errors import UserError
from pipeline.evaluate.models.factories import adaptation_digest
from pipeline.evaluate.models.libraries import from_module
from pipeline.evaluate.predict.evaluate import evaluate
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.results.folder import read_table
from pipeline.execution.resumable import SilentWatcher
from pipeline.storage import open_store
from robustshards.torch import CCC, Stream
from tests.conftest import ROOT, Run
from tests.factories import small_models
from tests.factories.evaluator import content, outcome
from tests.factories.models import Small, write_onnx_static
from tests.factories.reports import report_on

ROUNDED = ["label_probability", "confidence", "squared_probability"]
ADAPTING = "tests.factories.small_models:adapting"
MEAN, STD = (torch.tensor(each).view(3, 1, 1) for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


class Interrupting(SilentWatcher):
    """A watcher that interrupts the evaluation, and keeps the messages that it gets."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.messages: list[str] = []

    def preparing(self, what: str) -> None:
        self.messages.append(what)

    def advanced(self, frames: int) -> None:
        if frames >= self.after:
            raise KeyboardInterrupt


def request(data: Path, out: Path, **options: Any) -> EvaluationRequest:
    return EvaluationRequest(str(data), ADAPTING, str(out), **{"batch_size": 4, "ordered": True, **options})


def column(out: Path, name: str) -> np.ndarray:
    return pq.ParquetFile(out / "predictions.parquet").read()[name].to_numpy()


def adapted(
    data: Path | rs.DataSet, batch: int, protocol: str = "continual", seed: int = 0, **parameters: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return class and confidence of each image, by a loop over a stream with a new model."""
    model, logits = small_models.adapting(), []
    for images, _ in Stream(data, protocol=protocol, batch_size=batch, shuffle=seed, as_="float", **parameters):
        logits.append(model(((images - MEAN) / STD).contiguous()).detach())
    probabilities = torch.cat(logits).softmax(dim=1)
    return probabilities.argmax(dim=1).numpy(), probabilities.amax(dim=1).numpy()


@pytest.fixture(scope="module")
def finished(built_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ordered evaluation of the adapting model. Tests must not change it."""
    out = tmp_path_factory.mktemp("ordered") / "r"
    assert evaluate(request(built_once, out), SilentWatcher()).complete
    return out


@pytest.mark.parametrize("options", [{}, {"loaders": 2, "channels_last": True, "executor": "local"}])
def test_predictions_equal_those_of_a_loop_over_the_images(
    options: dict[str, Any], built_once: Path, tmp_path: Path
) -> None:
    result = evaluate(request(built_once, tmp_path / "r", **options), SilentWatcher())
    classes, confidences = adapted(built_once, batch=4)
    assert result.done.frames == len(classes) == 24
    np.testing.assert_allclose(column(tmp_path / "r", "confidence"), confidences, atol=2e-4)
    assert column(tmp_path / "r", "top1").tolist() == classes.tolist()


def test_predictions_depend_on_the_images_before(built_once: Path, finished: Path, tmp_path: Path) -> None:
    _, confidences = adapted(built_once, batch=3)
    assert np.abs(column(finished, "confidence") - confidences).max() > 0.005


def test_model_in_memory_is_copied_and_sees_only_images_of_the_data_set(built_once: Path, finished: Path) -> None:
    seen: list[tuple[int, int, bool]] = []

    class Watched(small_models.Adapting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            logits = super().forward(images)
            if (images.amax(dim=(2, 3)) > images.amin(dim=(2, 3))).all():  # not one of the black images of a trial
                seen.append((len(self.batches), len(images), torch.is_grad_enabled()))
            return logits

    torch.manual_seed(0)
    model = Watched()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = rs.evaluate(model, built_once, batch_size=4, ordered=True)
    again = rs.evaluate(model, built_once, batch_size=4, ordered=True)
    assert seen == [(number, size, True) for number, size in enumerate((4, 2) * 4, 1)] * 2
    assert first.predictions == again.predictions
    assert first.predictions["confidence"].to_pylist() == column(finished, "confidence").tolist()
    assert model.training
    assert model.batches == []
    assert all((before[name] == value).all() for name, value in model.state_dict().items())


def test_stateless_model_predicts_the_same_in_order(built_once: Path, tmp_path: Path) -> None:
    for name, ordered in (("plain", False), ("ordered", True)):
        outcome(built_once, tmp_path / name, batch_size=2, ordered=ordered)
    plain, ordered = (pq.ParquetFile(tmp_path / name / "predictions.parquet").read() for name in ("plain", "ordered"))
    listed, exact = ordered.sort_by("listed"), [name for name in plain.column_names if name not in ROUNDED]
    assert listed.select(exact).equals(plain.select(exact))
    for name in ROUNDED:
        np.testing.assert_allclose(listed[name], plain[name], atol=1e-6)
    rows = [list(report_on(str(tmp_path / name), resamples=10).rows()) for name in ("plain", "ordered")]
    name = "mean corruption error (unnormalised)"
    mces = [next(row["value"] for row in each if row["metric"] == name) for each in rows]
    assert mces[0] == pytest.approx(mces[1], abs=1e-12)


@pytest.mark.parametrize(
    ("protocol", "parameters"),
    [
        ("mixed", {"severity": 3}),
        ("temporal", {"slots": 2}),
        ("label-shift", {"total": 6, "ratio": 2, "reset": "start"}),
        ("markov", {"max_state_samples": 9}),
    ],
)
def test_protocols_predict_as_a_loop_over_the_stream(
    protocol: str, parameters: dict[str, Any], built_once: Path, rendered: rs.DataSet
) -> None:
    _, expected = adapted(built_once, 4, protocol, 3, **parameters)
    for data in (built_once, rendered):
        found = rs.evaluate(ADAPTING, data, protocol=protocol, seed=3, batch_size=4, **parameters)
        np.testing.assert_allclose(found.predictions["confidence"], expected, atol=2e-4)
    stream = found.table.stream
    assert stream is not None
    assert (stream.protocol, stream.seed) == (protocol, 3)
    assert stream.parameters.items() >= parameters.items()
    assert stream.order_sha256 == Stream(built_once, protocol=protocol, shuffle=3, **parameters).schedule.digest


def test_clean_images_are_mixed_in(built_once: Path, small_source: Path, tmp_path: Path) -> None:
    clean = rs.render("imagenet-c-clean", small_source, tmp_path / "clean", cache="off")
    given = {"severity": 3, "clean": clean}
    _, expected = adapted(built_once, 4, "in-out", 3, **given)
    in_out = {**given, "protocol": "in-out", "seed": 3, "batch_size": 4}
    found = rs.evaluate(ADAPTING, built_once, loaders=2, **{**in_out, "clean": tmp_path / "clean"})
    np.testing.assert_allclose(found.predictions["confidence"], expected, atol=2e-4)
    shown = found.predictions["transform"].to_pylist()
    assert [Counter(part) for part in (shown[:6], shown[6:])] == [
        {"gaussian_noise": 3, "none": 3},
        {"contrast": 3, "none": 3},
    ]
    assert found.table.stream is not None
    assert found.table.stream.parameters["clean"] == clean.manifest_digest()[:12]
    assert rs.evaluate(Resetting, built_once, **in_out, reset="batch").predictions["top1"].to_pylist() == [1] * 12
    for wrong, message in (
        (None, "give the parameter clean, the folder"),
        (built_once, "no corrupted and clean images"),
    ):
        with pytest.raises(UserError, match=message):
            Stream(built_once, protocol="in-out", clean=wrong)


FALLING = np.add.outer(np.arange(21), np.arange(21))[::-1, ::-1] * 2.0
ACCURACIES = dict.fromkeys(ccc.pair_keys(ccc.HARD).values(), FALLING)
STREAM_OF_CCC: Any = {"baseline": 0, "speed": 5, "images": 16}


def test_ccc_predicts_as_a_loop_over_its_stream(small_source: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "matrix.npz", **ACCURACIES)
    columns, model = ("source_id", "step", "first", "second"), small_models.adapting()
    confidences: list[float] = []
    shown: list[tuple[str, str, int]] = []
    stream = CCC(small_source, ACCURACIES, seed=44, batch_size=6, as_="float", columns=columns, **STREAM_OF_CCC)
    for images, _, known in stream:
        confidences += model(((images - MEAN) / STD).contiguous()).detach().softmax(dim=1).amax(dim=1).tolist()
        pairs = map("+".join, zip(known["first"], known["second"], strict=True))
        shown += zip(known["source_id"], pairs, (known["step"] + 1).tolist(), strict=True)
    given = {"protocol": "ccc", "seed": 44, "batch_size": 6}
    parameters = {**STREAM_OF_CCC, "matrix": str(tmp_path / "matrix.npz")}
    evaluate(request(small_source, tmp_path / "r", **given, loaders=2, parameters=parameters), SilentWatcher())
    rows = pq.ParquetFile(tmp_path / "r" / "predictions.parquet").read()
    np.testing.assert_allclose(rows["confidence"], confidences, atol=2e-4)
    assert [*zip(*(rows[name].to_pylist() for name in ("source_id", "transform", "level")), strict=True)] == shown
    assert rows["key"].to_pylist() == [f"sample_{number}" for number in rows["listed"].to_pylist()]
    again = rs.evaluate(ADAPTING, small_source, matrix=ACCURACIES, **given, **STREAM_OF_CCC)
    assert again.predictions.to_pylist() == rows.to_pylist()
    data = report_on(str(tmp_path / "r"), resamples=10)
    wrong = np.array(rows["top1"]) != np.array(rows["label"])
    found = {(row["metric"], row["transform"]): row["value"] for row in data.rows() if row["family"] == "streams"}
    assert found["error in the stream", shown[0][1]] == found["error over all samples", ""] == wrong.mean()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"matrix": None}, "needs an accuracy matrix: give the parameter matrix"),
        ({"baseline": 101}, "invalid baseline 101: use an accuracy in percent, 0 to 100"),
        ({"severity": 3}, "invalid parameters severity of the protocol ccc: use baseline, speed"),
        ({"subset": "robustbench-5000"}, "subset cannot be combined with the protocol ccc"),
    ],
)
def test_invalid_streams_of_ccc_are_refused(small_source: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        rs.evaluate(ADAPTING, small_source, protocol="ccc", **{**STREAM_OF_CCC, "matrix": ACCURACIES, **given})


class Counting(torch.nn.Module):
    """A model whose logits are the number of batches since it was made or reset."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.batches = torch.nn.Parameter(torch.zeros(1)), 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.batches += 1
        return torch.eye(7)[[self.batches % 7] * len(images)]


class Resetting(Counting):
    """The same with a method that resets it."""

    def reset(self) -> None:
        self.batches = 0


@pytest.mark.parametrize("model", [Resetting, Counting, Resetting()])
def test_models_are_reset_before_each_condition(model: Any, built_once: Path) -> None:
    found = rs.evaluate(model, built_once, protocol="single", batch_size=4)
    assert found.predictions["top1"].to_pylist() == [1, 1, 1, 1, 2, 2] * 4
    kept = rs.evaluate(model, built_once, protocol="single", batch_size=4, reset="start", severity=3)
    assert kept.predictions["top1"].to_pylist() == [1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4]


def test_models_that_cannot_be_reset_are_refused(built_once: Path) -> None:
    with pytest.raises(UserError, match=r"protocol single resets .*Counting has no method reset\(\): add one, pass a"):
        rs.evaluate(Counting(), built_once, protocol="single")
    with pytest.raises(UserError, match="gamma has no effect without a protocol"):
        rs.evaluate(Counting(), built_once, gamma=1)


def test_interrupted_evaluation_starts_again_from_the_first_image(
    built_once: Path, finished: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        evaluate(request(built_once, tmp_path / "r"), Interrupting(after=12))
    parts = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "r/parts").iterdir()}
    assert 0 < len(parts) < 4
    watcher = Interrupting(after=1000)
    result = evaluate(request(built_once, tmp_path / "r"), watcher)
    assert any(f"removing {len(parts)} parts" in message for message in watcher.messages)
    assert (result.chunks_before, result.done.frames) == (0, 24)
    assert all((tmp_path / "r/parts" / name).stat().st_mtime_ns > time for name, time in parts.items())
    assert content(tmp_path / "r") == content(finished)


def test_finished_evaluation_is_kept(built_once: Path, finished: Path) -> None:
    result = evaluate(request(built_once, finished), SilentWatcher())
    assert (result.complete, result.chunks_before, result.done.frames) == (True, 4, 0)


def test_evaluation_ends_at_a_shard_that_cannot_be_read(built: Path, finished: Path, tmp_path: Path) -> None:
    shard = sorted(built.glob("shards/**/*.tar"))[2]
    intact = shard.read_bytes()
    shard.write_bytes(intact[: len(intact) // 2])
    result = evaluate(request(built, tmp_path / "r"), SilentWatcher())
    assert not result.complete
    assert len(result.done.broken) == 1
    assert result.done.chunks < 4
    assert "starts again from the first image" in "\n".join(result.summary("r"))
    shard.write_bytes(intact)
    assert evaluate(request(built, tmp_path / "r"), SilentWatcher()).done.chunks == 4
    assert column(tmp_path / "r", "confidence").tolist() == column(finished, "confidence").tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 2}, "--workers 2 cannot be combined with --ordered"),
        ({"address": "127.0.0.1:6379"}, "--address 127.0.0.1:6379 cannot be combined with --ordered"),
        ({"executor": "ray"}, "--executor ray cannot be combined with --ordered"),
    ],
)
def test_several_processes_are_refused(options: dict[str, Any], message: str, built_once: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        evaluate(request(built_once, tmp_path / "r", **options), SilentWatcher())
    assert not (tmp_path / "r").exists()


def test_model_of_fixed_batches_is_refused(built_once: Path, tmp_path: Path) -> None:
    write_onnx_static(tmp_path / "model.onnx", Small())
    with pytest.raises(UserError, match=r"accepts only batches of 2.*remove --ordered"):
        outcome(built_once, tmp_path / "r", model=str(tmp_path / "model.onnx"), batch_size=0, ordered=True)


def test_settings_record_the_order_only_where_it_was_kept(built_once: Path, finished: Path, tmp_path: Path) -> None:
    assert read_table(open_store(str(finished))).stream.entries == (6, 6, 6, 6)  # type: ignore[union-attr]
    outcome(built_once, tmp_path / "r", batch_size=4)
    assert "stream" not in (tmp_path / "r/evaluation.toml").read_text()
    with pytest.raises(UserError, match=r"stream\.protocol is none, but continual was requested"):
        outcome(built_once, tmp_path / "r", batch_size=4, ordered=True)


def test_command_evaluates_in_order_in_batches_of_64(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    out = tmp_path / "r"
    options = ("--protocol", "temporal", "--parameters", "gamma=0.2,slots=3", "--seed", 5)
    done = robustshards.succeed("evaluate", built_once, "--model", ADAPTING, "--out", out, *options, cwd=ROOT)
    assert "ordered: protocol temporal (severity all, order 5, reset start, across True, gamma 0.2" in done.stdout
    assert read_table(open_store(str(out))).run.batch == 64
    _, confidences = adapted(built_once, 64, "temporal", 5, gamma=0.2, slots=3)
    np.testing.assert_allclose(column(out, "confidence"), confidences, atol=2e-4)


def test_identity_covers_mode_gradients_and_optimizer() -> None:
    def changed(change: Any) -> str:
        torch.manual_seed(0)
        model = small_models.Adapting()
        change(model)
        return adaptation_digest(model, "code")

    digests = [
        changed(lambda model: None),
        changed(lambda model: model.network[2].eval()),
        changed(lambda model: model.network[0].requires_grad_(False)),
        changed(lambda model: model.optimizer.param_groups[0].update(lr=0.1)),
        changed(lambda model: setattr(model, "steps", 2)),
    ]
    assert len(set(digests)) == len(digests)
    assert changed(lambda model: None) == digests[0]


def test_only_a_model_that_adapts_keeps_its_mode() -> None:
    assert not from_module(small_models.Adapting()).module.inner.training  # type: ignore[union-attr]
    assert from_module(small_models.Adapting(), adapts=True).module.inner.training  # type: ignore[union-attr]


def test_report_measures_streams_by_condition_by_visit_and_over_time(built_once: Path, tmp_path: Path) -> None:
    visited = {"protocol": "recurring", "visits": 3, "order": "canonical", "severity": 3, "batch_size": 4}
    evaluations = [rs.evaluate(Resetting(), built_once, tmp_path / str(seed), seed=seed, **visited) for seed in (0, 1)]
    rs.evaluate(Resetting(), built_once, tmp_path / "2", seed=0, gamma=5, **visited)
    data = report_on(*(str(tmp_path / name) for name in "012"), resamples=10)
    wrong = evaluations[0].predictions["top1"].to_numpy() != evaluations[0].predictions["label"].to_numpy()
    noise = np.array([name == "gaussian_noise" for name in evaluations[0].predictions["transform"].to_pylist()])
    found = {
        (row["metric"], row["transform"], row["level"]): row["value"]
        for row in data.rows()
        if row["data_set"].endswith("seed 0") and "gamma" not in row["data_set"]
    }
    assert {each.report.key for each in data.results} == {"streams"}  # images are repeated: no mCE
    assert (
        found["error over all samples", "", None] == wrong.mean() == evaluations[0].figures()["error over all samples"]
    )
    windows = [
        row["value"]
        for row in report_on(str(tmp_path / "0"), window=9, resamples=10).rows()
        if row["metric"] == "error over time"
    ]
    assert windows == wrong.reshape(4, 9).mean(axis=1).tolist()
    assert found["error in the stream", "gaussian_noise", 3] == wrong[noise].mean()
    assert [found["error by visit", "", visit] for visit in (1, 2, 3)] == wrong.reshape(3, 12).mean(axis=1).tolist()
    assert found["error of the last visit", "", None] == wrong[24:].mean()
    assert [found["error over time", "", end] for end in range(4, 37, 4)] == wrong.reshape(9, 4).mean(axis=1).tolist()
    facts = Stream(built_once, protocol="recurring", visits=3, order="canonical", severity=3).schedule.facts(4)
    assert found["mean run of equal labels", "", None] == pytest.approx(facts["mean run of equal labels"])
    assert found["labels in a batch", "", None] == pytest.approx(facts["labels in a batch"])
    tables = {table.title: table for chapter in data.document().chapters for table in chapter.tables}
    curve = tables["error by visit"].plot.panels[0].points  # type: ignore[union-attr]
    assert [(each.x, math.isnan(each.low)) for each in curve] == [(1, True), (2, True), (3, True)]
    table = tables["error over several streams"]
    assert [[row[0], row[1], row[3]] for row in table.rows] == [
        ["Resetting", "imagenet-c", "2"]
    ]  # not that of another gamma
    assert table.rows[0][2] == "recurring, severity 3, visits 3"
