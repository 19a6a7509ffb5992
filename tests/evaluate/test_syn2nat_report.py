"""The report on ImageNet-Syn2Nat: accuracy and residual robustness by candidate, and their means."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.evaluate.report.families import layouts
from pipeline.evaluate.report.html import page
from pipeline.evaluate.report.sections import sections, tables
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.syn2nat import CandidateSummary
from pipeline.evaluate.report.tables import coverage
from tests.evaluate.test_tables import table
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.summaries import made_candidates, made_corruptions, summary_of

LABELS = [0, 1, 2, 3]


def evaluation(folder: Path, **answers: list[int]) -> str:
    """Write an evaluation of four images with these answers under each candidate."""
    logits = {(name, 1): votes(answer, 4) for name, answer in answers.items()}
    return write_evaluation(folder, logits, LABELS, family="syn2nat", profile="imagenet")


def clean(folder: Path, answers: list[int]) -> str:
    logits = {("none", 0): votes(answers, 4)}
    return write_evaluation(folder, logits, LABELS, family="none", profile="imagenet")


def summarised(*folders: str) -> CandidateSummary:
    (summary,) = summarise(folders).families["syn2nat"]
    assert isinstance(summary, CandidateSummary)
    return summary


def test_residual_robustness_is_clean_minus_corrupted_accuracy(tmp_path: Path) -> None:
    corrupted = evaluation(tmp_path / "c", Affines=[0, 1, 0, 0], Posterize=[0, 0, 0, 0], Flip=[0, 1, 2, 3])
    summary = summarised(corrupted, clean(tmp_path / "n", [0, 1, 2, 0]))
    rows = {row.name: row for row in summary.rows}
    assert [(row.group, row.benchmark) for row in summary.rows] == [
        ("spatial", True),
        ("fine-grain", True),
        ("", False),
    ]
    assert {name: row.accuracy.value for name, row in rows.items()} == {"Affines": 0.5, "Posterize": 0.25, "Flip": 1.0}
    residuals = {name: row.residual_robustness.value for name, row in rows.items() if row.residual_robustness}
    assert residuals == {"Affines": 0.25, "Posterize": 0.5, "Flip": -0.25}
    assert summary.clean_accuracy == 0.75
    assert summary.mean_accuracy.value == 0.375  # without Flip, which is not in the benchmark
    assert summary.residual_robustness
    assert summary.residual_robustness.value == pytest.approx(0.375)
    assert summary.residual_robustness.low < 0.375 < summary.residual_robustness.high


def test_intervals_are_of_pairs_of_images(tmp_path: Path) -> None:
    """The model makes the same errors on both, so the difference has no uncertainty although accuracies have."""
    folder = evaluation(tmp_path / "c", Affines=[0, 1, 0, 0])
    (row,) = summarised(folder, clean(tmp_path / "n", [0, 1, 0, 0])).rows
    assert row.residual_robustness
    assert (row.residual_robustness.low, row.residual_robustness.high) == (0, 0)
    assert row.accuracy.low < row.accuracy.high


def test_other_candidates_alone_are_averaged(tmp_path: Path) -> None:
    folder = evaluation(tmp_path / "c", Flip=[0, 1, 2, 3], Blur=[0, 1, 0, 0])
    summary = summarised(folder)
    assert summary.mean_accuracy.value == 0.75
    assert (summary.residual_robustness, summary.clean_accuracy) == (None, None)
    titles = [each.title for each in tables(summary_of(syn2nat=[summary]))]
    assert titles == ["key figures", "accuracy by candidate", "calibration"]


def test_tables_mark_candidates_outside_the_benchmark() -> None:
    found = tables(summary_of(syn2nat=[made_candidates()]))
    titles = [each.title for each in found]
    assert titles == ["key figures", "accuracy by candidate", "residual robustness by candidate"]
    figures = table(found, "ImageNet-Syn2Nat", "key figures")
    assert list(figures) == [
        *("residual robustness", "mean accuracy", "clean accuracy", "images", "failed"),
    ]
    robustness = table(found, "ImageNet-Syn2Nat", "residual robustness by candidate")
    assert len(robustness) == 40
    assert robustness["Solarize"] == ["-0.2 [-0.6, 0.2]"]
    assert [name for name in robustness if "†" in name] == list(robustness)[18:]
    assert "not in the benchmark" in found[1].note


def test_means_over_part_of_the_benchmark_are_marked() -> None:
    layout = layouts()["syn2nat"]
    whole, part = made_candidates(), made_candidates(only=["Affines", "Posterize", "Flip"])
    for figure in layout.leads:
        assert coverage(layout, whole, figure) == ""
        assert coverage(layout, part, figure) == "2 of 18 corruptions"


def test_the_page_shows_it_beside_imagenet_c() -> None:
    summary = summary_of(corruptions=[made_corruptions()], syn2nat=[made_candidates()])
    assert [(each.title, each.headline("ResNet-50").figure) for each in sections(summary)] == [  # type: ignore[union-attr]
        ("ImageNet-C", "mCE"),
        ("ImageNet-Syn2Nat", "residual robustness"),
    ]
    text = page(summary, "Title")
    assert "Bar plot, residual robustness in percent, lighting" in text
    assert "MultiplicativeNoise" in text
    assert 'width="-' not in text
