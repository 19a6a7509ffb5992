"""Metrics of a report, from evaluations with known results."""

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
import perturbations
from pipeline.errors import UnfinishedError, UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.alexnet import ALEXNET_CLEAN_ERROR, ALEXNET_FLIP_PROBABILITIES, alexnet_errors
from pipeline.evaluate.metrics.bootstrap import wilson
from pipeline.evaluate.report import families
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.families import imagenet_c
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import Metric, Results
from pipeline.evaluate.report.subject import Subject
from pipeline.evaluate.report.write import latex_tables, page
from pipeline.evaluate.results.folder import CHUNKS_FILE
from tests.conftest import Run
from tests.factories.evaluations import PART, votes, write_evaluation
from tests.factories.reports import cells, has, lines, measure, only, report_on, results_of, table, value, values

ALEXNET = "AlexNet (published)"
LABELS = (0, 1, 2, 3)
FEW = "fewer than 30 images"


def predictions(right: int, classes: int = 7) -> np.ndarray:
    """Return logits of four images, of which the first ``right`` are classified correctly."""
    return votes([label if index < right else 6 for index, label in enumerate(LABELS)], classes)


def test_without_a_baseline_nothing_is_normalised(tmp_path: Path) -> None:
    logits = {("fog", 1): predictions(3), ("fog", 2): predictions(1), ("snow", 1): predictions(4)}
    report = report_on(write_evaluation(tmp_path / "r", logits, LABELS))
    found = only(report, "corruptions")
    assert (found.baseline, found.details["complete"], found.images) == ("", False, 4)
    accuracies = {("fog", 1): 0.75, ("fog", 2): 0.25, ("snow", 1): 1, "fog": 0.5, "snow": 1}
    assert values(found, "accuracy") == accuracies
    assert values(found, "mean error (unnormalised)") == {"fog": 0.5, "snow": 0}
    assert values(found, "mean accuracy") == {("", 1): pytest.approx(0.875), ("", 2): 0.25}
    mean = measure(found, "mean corruption error (unnormalised)")
    assert mean.low <= mean.value == 0.25 <= mean.high
    assert measure(found, "accuracy", "fog", 1).high == 1
    assert not any(has(found, metric) for metric in ("mCE", "CE", "1 - mCE", "clean error", "residual robustness"))
    assert FEW in table(report, "key figures").note


def test_shares_of_all_or_no_images_have_the_interval_of_wilson(tmp_path: Path) -> None:
    logits = {("fog", 1): predictions(4), ("snow", 1): votes([6] * 4)}
    found = only(report_on(write_evaluation(tmp_path / "r", logits, LABELS)), "corruptions")
    for transform, hits in (("fog", 4), ("snow", 0)):
        for level in (None, 1):
            each = measure(found, "accuracy", transform, level)
            assert (each.value, each.low, each.high) == (hits / 4, *wilson(hits, 4))


def test_no_errors_relative_to_a_baseline_have_no_interval(tmp_path: Path) -> None:
    none, some = (
        write_evaluation(tmp_path / name, {("fog", 1): predictions(hits)}, LABELS, model=name)
        for name, hits in (("none", 4), ("some", 2))
    )
    report = report_on(none, baseline=[some], resamples=20)
    each = measure(only(report, "corruptions"), "CE", "fog")
    assert each.value == 0
    assert math.isnan(each.low)


def test_alexnet_is_the_baseline_of_imagenet_at_224(tmp_path: Path) -> None:
    names, generator = corruptions.names("benchmark"), np.random.default_rng(0)
    labels = generator.integers(0, 999, 40)
    wrong = generator.random((15, 5, 40)) < 0.1 * np.arange(1, 6)[:, None]
    logits = {
        (name, level): votes(np.where(wrong[row, level - 1], 999, labels).tolist(), 1000)
        for row, name in enumerate(names)
        for level in range(1, 6)
    }
    clean = {("none", 0): votes([*labels[:-4].tolist(), *[999] * 4], 1000)}
    evaluation = write_evaluation(tmp_path / "c", logits, labels.tolist(), profile="imagenet")
    of_clean = write_evaluation(tmp_path / "clean", clean, labels.tolist(), family="none", profile="imagenet")
    report = report_on(evaluation, of_clean)
    found = only(report, "corruptions")
    assert (found.baseline, found.details["complete"]) == (ALEXNET, True)
    errors, baseline = wrong.mean(axis=-1), alexnet_errors(names)
    mce = metrics.mean_corruption_error(errors, baseline)
    expected = {
        "mCE": mce,
        "relative mCE": metrics.relative_mean_corruption_error(errors, 0.1, baseline, ALEXNET_CLEAN_ERROR),
        "1 - mCE": 1 - mce,
        "residual robustness": errors.mean() - 0.1,
        "clean error": 0.1,
    }
    for metric, wanted in expected.items():
        each = measure(found, metric)
        assert each.value == pytest.approx(wanted), metric
        assert each.low < each.value < each.high, metric
        assert each.covers == "", metric
    assert value(only(report, "clean"), "top-1 error") == pytest.approx(0.1)
    assert measure(found, "1 - mCE").low == pytest.approx(1 - measure(found, "mCE").high)
    assert values(found, "CE") == pytest.approx(
        dict(zip(names, metrics.corruption_error(errors, baseline), strict=True))
    )
    for metric in ("CE", "relative CE"):
        assert all(each.low < each.value < each.high for each in found.measures if each.metric == metric)
    assert FEW not in table(report, "key figures", "corruptions").note
    other = write_evaluation(tmp_path / "c299", logits, labels.tolist(), profile="inception")
    assert only(report_on(other), "corruptions").baseline == ""


def test_an_evaluated_model_can_be_the_baseline(tmp_path: Path) -> None:
    base: dict[str, Any] = {"model": "base"}
    mine = write_evaluation(tmp_path / "r", {("fog", 1): predictions(3), ("snow", 1): predictions(2)}, LABELS)
    other = write_evaluation(tmp_path / "b", {("fog", 1): predictions(2), ("snow", 1): predictions(0)}, LABELS, **base)
    clean = write_evaluation(tmp_path / "bc", {("none", 0): predictions(3)}, LABELS, family="none", **base)
    own = write_evaluation(tmp_path / "rc", {("none", 0): predictions(4)}, LABELS, family="none")
    found = only(report_on(mine, own, baseline=[other, clean]), "corruptions")
    assert (found.baseline, value(found, "mCE")) == ("base", 0.5)
    assert values(found, "CE") == {"fog": 0.5, "snow": 0.5}
    assert values(found, "relative CE") == {"fog": pytest.approx(0.25 / 0.25), "snow": pytest.approx(0.5 / 0.75)}
    with pytest.raises(UserError, match=r"2 models \(base, made\): give evaluations of one model"):
        report_on(mine, baseline=[other, mine])


def test_flip_probability_compares_neighbours_or_the_first_frame(tmp_path: Path) -> None:
    """Noise frames are compared with the first frame, others with the frame ``difficulty`` frames before."""
    frames = np.stack([votes(classes) for classes in ([0, 0, 1, 1, 0, 0], [2, 2, 2, 2, 2, 3])])
    logits = {("gaussian_noise", 1): frames, ("gaussian_noise", 2): frames[:, ::-1], ("tilt", 1): frames}
    report = report_on(write_evaluation(tmp_path / "r", logits, (0, 2), family="perturbations"))
    assert [each.title for each in report.sections] == ["made-perturbations", "made-perturbations, difficulty 2"]
    easy, hard = results_of(report, "perturbations")
    assert [(each.level, each.details["complete"], each.baseline) for each in (easy, hard)] == [
        (1, False, ""),
        (2, False, ""),
    ]
    assert values(easy, "flip probability") == pytest.approx({"gaussian_noise": (2 + 1) / 10, "tilt": (2 + 1) / 10})
    assert values(hard, "flip probability") == pytest.approx({"gaussian_noise": (2 + 5) / 10, "tilt": (4 + 1) / 8})
    ranks = metrics.ordinal_ranks(frames)
    ordered = {"gaussian_noise": False, "tilt": True}
    distances = {name: metrics.top5_distance(ranks, ordered=each) for name, each in ordered.items()}
    assert values(easy, "top-5 distance") == pytest.approx(distances)
    mean, negated = measure(easy, "mean flip probability (unnormalised)"), measure(easy, "NmFP")
    assert mean.value == pytest.approx(0.3)
    assert (negated.value, negated.low) == pytest.approx((-0.3, -mean.high))


def test_alexnet_has_flip_probabilities_but_no_top5_distances(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    names = perturbations.names("benchmark")
    logits = {(name, 1): generator.normal(size=(5, 6, 1000)).astype(np.float32) for name in names}
    options: dict[str, Any] = {"family": "perturbations", "profile": "imagenet"}
    folder = write_evaluation(tmp_path / "r", logits, [0] * 5, **options)
    found = only(report_on(folder), "perturbations")
    assert (found.baseline, found.details["complete"], has(found, "mT5D")) == (ALEXNET, True, False)
    flips = [value(found, "flip probability", name) for name in names]
    alexnet = [ALEXNET_FLIP_PROBABILITIES[name] for name in names]
    assert value(found, "mFR") == pytest.approx(metrics.mean_flip_rate(flips, alexnet))
    base = write_evaluation(tmp_path / "b", logits, [0] * 5, model="base", **options)
    found = only(report_on(folder, baseline=[base]), "perturbations")
    assert found.baseline == "base"
    assert value(found, "mT5D") == pytest.approx(1)


def test_system_noise_has_accuracy_by_pair_and_nsd(tmp_path: Path) -> None:
    logits = {("pillow_pillow-bilinear", 0): predictions(4), ("opencv_pillow-bilinear", 0): predictions(2)}
    found = only(report_on(write_evaluation(tmp_path / "r", logits, LABELS, family="system-noise")), "system_noise")
    assert values(found, "accuracy") == {"pillow_pillow-bilinear": 1.0, "opencv_pillow-bilinear": 0.5}
    assert [each.labels for each in found.transforms.values()] == [
        ("pillow", "pillow-bilinear"),
        ("opencv", "pillow-bilinear"),
    ]
    nsd = measure(found, "NSD (percentage points)")
    assert (value(found, "mean accuracy"), nsd.value) == pytest.approx((0.75, -25))
    assert nsd.low <= nsd.value <= nsd.high


def test_clean_errors(tmp_path: Path) -> None:
    logits = {("none", 0): votes([0, 1, 6, 6]) * 4 + np.arange(7)}
    found = only(report_on(write_evaluation(tmp_path / "r", logits, LABELS, family="none")), "clean")
    assert (value(found, "top-1 error"), value(found, "top-5 error")) == (0.5, 0.0)


def test_only_images_with_every_transform_are_used(tmp_path: Path) -> None:
    """An image that failed under one corruption is omitted from all, so that intervals are over the same images."""
    logits = {("fog", 1): predictions(2), ("snow", 1): predictions(4)}
    folder = write_evaluation(tmp_path / "r", logits, LABELS, only={("snow", 1): (1, 2, 3)})
    found = only(report_on(folder), "corruptions")
    assert found.images == 3
    assert values(found, "mean error (unnormalised)") == {"fog": pytest.approx(2 / 3), "snow": 0}


def test_an_unfinished_evaluation_is_refused(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "r", {("fog", 1): predictions(2), ("snow", 1): predictions(4)}, LABELS)
    (tmp_path / "r" / "predictions.parquet").unlink()
    (tmp_path / "r" / CHUNKS_FILE).write_text(f"{PART}\nsnow-1-000000\n")
    with pytest.raises(UnfinishedError, match="1 of 2 shards are missing: snow-1-000000"):
        report_on(folder)


def test_a_new_metric_is_defined_computed_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These three edits of a family's file show it in every output."""
    median = Metric("median error", -1)

    def measured(evaluation: Evaluation, context: Context) -> Iterator[Results]:
        for each in imagenet_c.measure(evaluation, context):
            subject = Subject(evaluation, context, benchmark=imagenet_c.BENCHMARK, what="corruption")
            found = subject.grid.estimate(median, lambda means: np.nanmedian(means.cells, axis=(-2, -1)))
            yield replace(each, report=report, measures=[*each.measures, *found])

    report = replace(imagenet_c.REPORT, measure=measured, metrics=(*imagenet_c.REPORT.metrics, median))
    monkeypatch.setattr(families, "REPORTS", (report, *families.REPORTS[1:]))
    logits = {("fog", level): predictions(right) for level, right in ((1, 3), (2, 2), (3, 0))}
    made = report_on(write_evaluation(tmp_path / "r", logits, LABELS))
    each = measure(only(made, "corruptions"), "median error")
    assert each.value == 0.5
    assert each.low < 0.5 < each.high
    assert cells(table(made, "key figures"))["median error"][0].startswith("50.0 [")
    row = {"unit": "fraction", "covers": "1 of 15 corruptions", "value": "0.5"}
    assert [line for line in lines(made) if line["metric"] == "median error" and row.items() <= line.items()]
    document = made.document("t")
    for text in (page(document), *list(latex_tables(document, intervals=True).values())[:1], json.dumps(made.facts())):
        assert "median error" in text


def test_provenance_names_what_the_values_depend_on(tmp_path: Path) -> None:
    options: dict[str, Any] = {"digest": "1" * 64, "manifest": "2" * 64, "failed": 3, "encoder": "png compression=3"}
    mine = write_evaluation(tmp_path / "r", {("fog", 1): predictions(3)}, LABELS, **options)
    base = write_evaluation(tmp_path / "b", {("fog", 1): predictions(3)}, LABELS, model="base")
    made = report_on(mine, baseline=[base], resamples=20, command="robustshards report r")
    facts = made.provenance
    parts = ("4 samples, 3 failed, png compression=3 (lossless)", "manifest 222222222222", "weights 111111111111")
    for part in (*parts, "batch 8, fp32, cpu"):
        assert part in facts["made on made-corruptions"]
    assert facts["baseline, base on made-corruptions"].startswith("4 samples, 0 failed, ")
    assert facts["command"] == "robustshards report r"
    assert facts["confidence intervals"] == "bootstrap over images, 20 draws, seed 0"
    assert "numpy" in facts["software"]
    assert made.facts()["provenance"] == facts
    (latex, *_) = latex_tables(made.document(), intervals=False).values()
    assert "% made on made-corruptions: 4 samples" in latex


def test_the_command_writes_all_formats_with_equal_bytes(tmp_path: Path, robustshards: Run) -> None:
    logits = {("fog", 1): predictions(3), ("snow", 1): predictions(2)}
    mine = write_evaluation(tmp_path / "r", logits, LABELS, model="a <b> & c")
    clean = write_evaluation(tmp_path / "k", {("none", 0): predictions(4)}, LABELS, family="none", model="a <b> & c")
    command = ("report", mine, clean, "--out", tmp_path / "out", "--title", "Fog & snow", "--json")
    done = robustshards(*command)
    assert done.returncode == 0, done.stderr
    written = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert {path.suffix for path in written} >= {".html", ".md", ".csv", ".parquet", ".json", ".tex"}
    assert robustshards(*command).stdout == done.stdout
    assert {path: path.read_bytes() for path in written} == written
    shown = (tmp_path / "out" / "report.html").read_text()
    assert "Fog &amp; snow" in shown
    assert "a &lt;b&gt; &amp; c" in shown
    assert "<b>" not in shown
    facts = json.loads((tmp_path / "out" / "report.json").read_text())
    found = next(each for each in facts["results"] if each["family"] == "corruptions")
    fog = {"metric": "accuracy", "transform": "fog", "level": 1, "value": 0.75}
    assert any(fog.items() <= each.items() for each in found["measures"])
    rows = list(csv.DictReader((tmp_path / "out" / "report.csv").open()))
    assert {row["model"] for row in rows} == {"a <b> & c"}
    assert facts == {"generator": facts["generator"], **json.loads(done.stdout)}
    assert "mean corruption error (unnormalised)" in shown
    assert "mCE" not in (tmp_path / "out" / "report.md").read_text()
