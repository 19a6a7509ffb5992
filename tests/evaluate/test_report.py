"""Metrics of a report, from evaluations with known results."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
import perturbations
from pipeline.errors import UnfinishedError, UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.alexnet import ALEXNET_CLEAN_ERROR, ALEXNET_ERRORS, ALEXNET_FLIP_PROBABILITIES
from pipeline.evaluate.report.baseline import ALEXNET
from pipeline.evaluate.report.summarise import summarise
from tests.conftest import Run
from tests.factories.evaluations import votes, write_evaluation

LABELS = (0, 1, 2, 3)


def predictions(right: int, classes: int = 7) -> np.ndarray:
    """Return logits of four images, of which the first ``right`` are classified correctly."""
    return votes([label if index < right else 6 for index, label in enumerate(LABELS)], classes)


def test_without_a_baseline_nothing_is_normalised(tmp_path: Path) -> None:
    logits = {("fog", 1): predictions(3), ("fog", 2): predictions(1), ("snow", 1): predictions(4)}
    folder = write_evaluation(tmp_path / "r", logits, LABELS)
    (found,) = summarise([folder]).families["corruptions"]
    assert (found.baseline, found.mean_corruption_error, found.complete, found.images) == (None, None, False, 4)
    assert found.robustness is None
    fog, snow = found.rows
    assert {level: error.value for level, error in fog.errors.items()} == {1: 0.25, 2: 0.75}
    assert (fog.mean_error.value, snow.mean_error.value) == (0.5, 0.0)
    assert found.mean_error is not None
    assert found.mean_error.value == 0.25
    assert found.mean_error.low <= 0.25 <= found.mean_error.high
    assert {level: each.value for level, each in found.curve.items()} == {1: pytest.approx(0.875), 2: 0.25}
    assert fog.errors[1].low == 0.0
    assert (found.clean_error, found.residual_robustness) == (None, None)


def test_alexnet_is_the_baseline_of_imagenet_at_224(tmp_path: Path) -> None:
    names, generator = corruptions.names("benchmark"), np.random.default_rng(0)
    labels = generator.integers(0, 1000, 40).tolist()
    logits: dict[tuple[str, int], np.ndarray] = {}
    errors: dict[str, list[float]] = {}
    for name in names:
        for level in range(1, 6):
            wrong = generator.random(40) < 0.1 * level
            logits[name, level] = votes(np.where(wrong, 999, labels).tolist(), 1000)
            errors.setdefault(name, []).append(float(np.mean(wrong & (np.array(labels) != 999))))
    clean = {("none", 0): votes([*labels[:-4], 999, 999, 999, 999], 1000)}
    common: dict[str, Any] = {"profile": "imagenet", "model": "made"}
    folders = [
        write_evaluation(tmp_path / "c", logits, labels, **common),
        write_evaluation(tmp_path / "clean", clean, labels, family="none", **common),
    ]
    summary = summarise(folders)
    (found,) = summary.families["corruptions"]
    assert (found.baseline, found.complete) == (ALEXNET, True)
    assert found.mean_corruption_error is not None
    clean_error = summary.families["clean"][0].error.value
    assert clean_error == pytest.approx(0.1)
    assert found.mean_corruption_error.value == pytest.approx(metrics.mean_corruption_error(errors, ALEXNET_ERRORS))
    assert found.robustness.value == pytest.approx(1 - metrics.mean_corruption_error(errors, ALEXNET_ERRORS))
    assert found.robustness.low == pytest.approx(1 - found.mean_corruption_error.high)
    assert found.relative_mean_corruption_error == pytest.approx(
        metrics.relative_mean_corruption_error(errors, clean_error, ALEXNET_ERRORS, ALEXNET_CLEAN_ERROR)
    )
    assert found.residual_robustness == pytest.approx(metrics.unnormalised_mean_error(errors) - clean_error)
    for row in found.rows:
        assert row.corruption_error is not None
        assert row.corruption_error.value == pytest.approx(
            metrics.corruption_error(errors[row.name], ALEXNET_ERRORS[row.name])
        )
        assert row.corruption_error.low < row.corruption_error.value < row.corruption_error.high
    other = write_evaluation(tmp_path / "c299", logits, labels, profile="inception")
    assert summarise([other]).families["corruptions"][0].baseline is None


def test_an_evaluated_model_can_be_the_baseline(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "r", {("fog", 1): predictions(3), ("snow", 1): predictions(2)}, LABELS)
    base = write_evaluation(
        tmp_path / "b", {("fog", 1): predictions(2), ("snow", 1): predictions(0)}, LABELS, model="base"
    )
    clean = write_evaluation(tmp_path / "bc", {("none", 0): predictions(3)}, LABELS, family="none", model="base")
    own = write_evaluation(tmp_path / "rc", {("none", 0): predictions(4)}, LABELS, family="none")
    (found,) = summarise([mine, own], [base, clean]).families["corruptions"]
    assert found.baseline == "base"
    ratios = {row.name: row.corruption_error and row.corruption_error.value for row in found.rows}
    assert ratios == {"fog": 0.5, "snow": 0.5}
    assert found.mean_corruption_error is not None
    assert found.mean_corruption_error.value == 0.5
    relative = {row.name: row.relative_corruption_error for row in found.rows}
    assert relative == {"fog": pytest.approx(0.25 / 0.25), "snow": pytest.approx(0.5 / 0.75)}
    with pytest.raises(UserError, match=r"2 models \(base, made\): give evaluations of one model"):
        summarise([mine], [base, mine])


def test_flip_probability_compares_neighbours_or_the_first_frame(tmp_path: Path) -> None:
    """Noise frames are compared with the first frame, others with the frame ``difficulty`` frames before."""
    walk = [[0, 0, 1, 1, 0, 0], [2, 2, 2, 2, 2, 3]]
    frames = np.stack([votes(classes) for classes in walk])
    logits = {("gaussian_noise", 1): frames, ("gaussian_noise", 2): frames[:, ::-1], ("tilt", 1): frames}
    folder = write_evaluation(tmp_path / "r", logits, (0, 2), family="perturbations")
    easy, hard = summarise([folder]).families["perturbations"]
    assert (easy.difficulty, hard.difficulty, easy.complete, easy.baseline) == (1, 2, False, None)
    assert {row.name: row.flip_probability.value for row in easy.rows} == {
        "gaussian_noise": pytest.approx((2 + 1) / 10),
        "tilt": pytest.approx((2 + 1) / 10),
    }
    assert {row.name: row.flip_probability.value for row in hard.rows} == {
        "gaussian_noise": pytest.approx((2 + 5) / 10),
        "tilt": pytest.approx((4 + 1) / 8),
    }
    ranks = metrics.ordinal_ranks(frames)
    assert {row.name: row.top5_distance.value for row in easy.rows} == {
        "gaussian_noise": pytest.approx(metrics.top5_distance(ranks, ordered=False)),
        "tilt": pytest.approx(metrics.top5_distance(ranks, ordered=True)),
    }
    assert easy.mean_flip_probability is not None
    assert easy.mean_flip_probability.value == pytest.approx(0.3)
    assert easy.nmfp.value == pytest.approx(-0.3)
    assert easy.nmfp.low == pytest.approx(-easy.mean_flip_probability.high)


def test_alexnet_has_flip_probabilities_but_no_top5_distances(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    logits = {
        (name, 1): generator.normal(size=(5, 6, 1000)).astype(np.float32) for name in perturbations.names("benchmark")
    }
    folder = write_evaluation(tmp_path / "r", logits, [0] * 5, family="perturbations", profile="imagenet")
    (found,) = summarise([folder]).families["perturbations"]
    assert (found.baseline, found.complete, found.mean_top5_ratio) == (ALEXNET, True, None)
    flips = {row.name: row.flip_probability.value for row in found.rows}
    assert found.mean_flip_rate is not None
    assert found.mean_flip_rate.value == pytest.approx(metrics.mean_flip_rate(flips, ALEXNET_FLIP_PROBABILITIES))
    base = write_evaluation(tmp_path / "b", logits, [0] * 5, family="perturbations", model="base", profile="imagenet")
    (found,) = summarise([folder], [base]).families["perturbations"]
    assert found.mean_top5_ratio is not None
    assert found.mean_top5_ratio.value == pytest.approx(1)
    assert found.baseline == "base"


def test_system_noise_has_accuracy_by_pair_and_nsd(tmp_path: Path) -> None:
    logits = {("pillow_pillow-bilinear", 0): predictions(4), ("opencv_pillow-bilinear", 0): predictions(2)}
    folder = write_evaluation(tmp_path / "r", logits, LABELS, family="system-noise")
    (found,) = summarise([folder]).families["system_noise"]
    assert [(row.decoder, row.resize, row.accuracy.value) for row in found.rows] == [
        ("pillow", "pillow-bilinear", 1.0),
        ("opencv", "pillow-bilinear", 0.5),
    ]
    assert found.mean_accuracy.value == 0.75
    assert found.nsd.value == pytest.approx(-25)
    assert found.nsd.low <= found.nsd.value <= found.nsd.high


def test_clean_errors(tmp_path: Path) -> None:
    usual = write_evaluation(
        tmp_path / "r", {("none", 0): votes([0, 1, 6, 6]) * 4 + np.arange(7)}, LABELS, family="none"
    )
    summary = summarise([usual])
    assert summary.families["clean"][0].error.value == 0.5
    assert summary.families["clean"][0].top5_error.value == 0.0


def test_only_images_with_every_transform_are_used(tmp_path: Path) -> None:
    """An image that failed under one corruption is omitted from all, so that intervals are over the same images."""
    logits = {("fog", 1): predictions(2), ("snow", 1): predictions(4)}
    folder = write_evaluation(tmp_path / "r", logits, LABELS, only={("snow", 1): (1, 2, 3)})
    (found,) = summarise([folder]).families["corruptions"]
    assert found.images == 3
    assert [row.mean_error.value for row in found.rows] == [pytest.approx(2 / 3), 0.0]


def test_an_unfinished_evaluation_is_refused(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "r", {("fog", 1): predictions(2), ("snow", 1): predictions(4)}, LABELS)
    (tmp_path / "r" / "predictions.parquet").unlink()
    (tmp_path / "r" / "parts" / "snow-1-000000.parquet").unlink()
    with pytest.raises(UnfinishedError, match="1 of 2 shards are missing: snow-1-000000"):
        summarise([folder])


def test_the_command_writes_all_formats(tmp_path: Path, robustshards: Run) -> None:
    logits = {("fog", 1): predictions(3), ("snow", 1): predictions(2)}
    mine = write_evaluation(tmp_path / "r", logits, LABELS, model="a <b> & c")
    clean = write_evaluation(tmp_path / "k", {("none", 0): predictions(4)}, LABELS, family="none", model="a <b> & c")
    done = robustshards("report", mine, clean, "--out", tmp_path / "out", "--title", "Fog & snow")
    assert done.returncode == 0, done.stderr
    assert "mean corruption error (unnormalised)" in done.stdout.lower()
    assert "mCE" not in done.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Fog &amp; snow" in page
    assert "a &lt;b&gt; &amp; c" in page
    assert "<b>" not in page.replace("<b>a", "")
    facts = json.loads((tmp_path / "out" / "report.json").read_text())
    assert facts["corruptions"][0]["rows"][0]["errors"]["1"]["value"] == 0.25
    lines = list(csv.DictReader((tmp_path / "out" / "report.csv").open()))
    assert {line["model"] for line in lines} == {"a <b> & c"}
    assert "mean corruption error (unnormalised)" in (tmp_path / "out" / "report.md").read_text().lower()
    done = robustshards("report", mine, "--json")
    assert json.loads(done.stdout)["corruptions"][0]["mean_error"]["value"] == 0.375
