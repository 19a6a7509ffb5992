"""Tests of ordered evaluations: models that adapt at test time see each image once, in the order of the data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import robustshards as rs
from pipeline.errors import UserError
from pipeline.evaluate.models.factories import adaptation_digest
from pipeline.evaluate.models.libraries import from_module
from pipeline.evaluate.predict.evaluate import evaluate
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.results.folder import read_table
from pipeline.storage import open_store
from tests.conftest import ROOT, Run
from tests.factories import small_models
from tests.factories.evaluator import Silent, content, outcome
from tests.factories.models import Small, write_onnx_static

ADAPTING = "tests.factories.small_models:adapting"
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


class Interrupting(Silent):
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


def adapted(data: Path, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return class and confidence of each image, by a loop over the shards with a new model."""
    model, logits = small_models.adapting(), []
    shards: dict[str, list[np.ndarray]] = {}
    for sample in rs.open(data).samples():
        shards.setdefault(sample.row.shard, []).append((sample.pixels() / 255 - MEAN) / STD)
    for images in shards.values():
        for start in range(0, len(images), batch):
            values = torch.from_numpy(np.stack(images[start : start + batch])).permute(0, 3, 1, 2).float()
            logits.append(model(values.contiguous()).detach())
    probabilities = torch.cat(logits).softmax(dim=1)
    return probabilities.argmax(dim=1).numpy(), probabilities.amax(dim=1).numpy()


@pytest.fixture(scope="module")
def finished(built_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ordered evaluation of the adapting model. Tests must not change it."""
    out = tmp_path_factory.mktemp("ordered") / "r"
    assert evaluate(request(built_once, out), Silent()).complete
    return out


@pytest.mark.parametrize("options", [{}, {"loaders": 1, "channels_last": True, "executor": "local"}])
def test_predictions_equal_those_of_a_loop_over_the_images(
    options: dict[str, Any], built_once: Path, tmp_path: Path
) -> None:
    result = evaluate(request(built_once, tmp_path / "r", **options), Silent())
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
    assert plain.equals(ordered)


def test_interrupted_evaluation_starts_again_from_the_first_image(
    built_once: Path, finished: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        evaluate(request(built_once, tmp_path / "r"), Interrupting(after=12))
    parts = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "r/parts").iterdir()}
    assert 0 < len(parts) < 8
    watcher = Interrupting(after=1000)
    result = evaluate(request(built_once, tmp_path / "r"), watcher)
    assert any(f"removing {len(parts)} parts" in message for message in watcher.messages)
    assert (result.chunks_before, result.done.frames) == (0, 24)
    assert all((tmp_path / "r/parts" / name).stat().st_mtime_ns > time for name, time in parts.items())
    assert content(tmp_path / "r") == content(finished)


def test_finished_evaluation_is_kept(built_once: Path, finished: Path) -> None:
    result = evaluate(request(built_once, finished), Silent())
    assert (result.complete, result.chunks_before, result.done.frames) == (True, 8, 0)


def test_evaluation_ends_at_a_shard_that_cannot_be_read(built: Path, finished: Path, tmp_path: Path) -> None:
    shard = sorted(built.glob("shards/**/*.tar"))[2]
    intact = shard.read_bytes()
    shard.write_bytes(intact[: len(intact) // 2])
    result = evaluate(request(built, tmp_path / "r"), Silent())
    assert not result.complete
    assert len(result.done.broken) == 1
    assert result.done.chunks < 8
    assert "starts again from the first image" in "\n".join(result.summary("r"))
    shard.write_bytes(intact)
    assert evaluate(request(built, tmp_path / "r"), Silent()).done.chunks == 8
    assert column(tmp_path / "r", "confidence").tolist() == column(finished, "confidence").tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 2}, "--workers 2 cannot be combined with --ordered"),
        ({"loaders": 2}, "--loaders 2 cannot be combined with --ordered"),
        ({"address": "127.0.0.1:6379"}, "--address 127.0.0.1:6379 cannot be combined with --ordered"),
        ({"executor": "ray"}, "--executor ray cannot be combined with --ordered"),
    ],
)
def test_several_processes_are_refused(options: dict[str, Any], message: str, built_once: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        evaluate(request(built_once, tmp_path / "r", **options), Silent())
    assert not (tmp_path / "r").exists()


def test_model_of_fixed_batches_is_refused(built_once: Path, tmp_path: Path) -> None:
    write_onnx_static(tmp_path / "model.onnx", Small())
    with pytest.raises(UserError, match=r"accepts only batches of 2.*remove --ordered"):
        outcome(built_once, tmp_path / "r", model=str(tmp_path / "model.onnx"), batch_size=0, ordered=True)


def test_settings_record_the_order_only_where_it_was_kept(built_once: Path, finished: Path, tmp_path: Path) -> None:
    assert "ordered = true" in (finished / "evaluation.toml").read_text()
    outcome(built_once, tmp_path / "r", batch_size=4)
    assert "ordered" not in (tmp_path / "r/evaluation.toml").read_text()
    with pytest.raises(UserError, match=r"run\.ordered is none, but True was requested"):
        outcome(built_once, tmp_path / "r", batch_size=4, ordered=True)


def test_command_evaluates_in_order_in_batches_of_64(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    out = tmp_path / "r"
    done = robustshards("evaluate", built_once, "--model", ADAPTING, "--out", out, "--ordered", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "ordered: evaluated in the order of the data set" in done.stdout
    run = read_table(open_store(str(out))).run
    assert (run.batch, run.ordered) == (64, True)
    _, confidences = adapted(built_once, batch=64)
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
