"""The report on ImageNet-Syn2Nat: accuracy and residual robustness by candidate, and their means."""

from pathlib import Path

import pytest

from pipeline.transforms.syn2nat import FAMILY, SYN2NAT
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import cells, has, measure, only, report_on, table, tables_of, value

LABELS = [0, 1, 2, 3]
RESIDUAL = "residual robustness"


def evaluation(folder: Path, **answers: list[int]) -> str:
    """Write an evaluation of four images with these answers under each candidate."""
    logits = {(name, 1): votes(answer, 4) for name, answer in answers.items()}
    return write_evaluation(folder, logits, LABELS, family="syn2nat", profile="imagenet")


def clean(folder: Path, answers: list[int]) -> str:
    return write_evaluation(folder, {("none", 0): votes(answers, 4)}, LABELS, family="none", profile="imagenet")


def test_residual_robustness_is_clean_minus_corrupted_accuracy(tmp_path: Path) -> None:
    corrupted = evaluation(tmp_path / "c", Affines=[0, 1, 0, 0], Posterize=[0, 0, 0, 0], Flip=[0, 1, 2, 3])
    found = only(report_on(corrupted, clean(tmp_path / "n", [0, 1, 2, 0])), "syn2nat")
    assert [(each.group, each.benchmark) for each in found.transforms.values()] == [
        *(("spatial", True), ("fine-grain", True), ("", False))
    ]
    expected = {"Affines": (0.5, 0.25), "Posterize": (0.25, 0.5), "Flip": (1.0, -0.25)}
    assert {name: (value(found, "accuracy", name), value(found, RESIDUAL, name)) for name in expected} == expected
    assert (found.clean_accuracy, value(found, "clean accuracy")) == (0.75, 0.75)
    assert value(found, "mean accuracy") == 0.375  # without Flip, which is not in the benchmark
    residual = measure(found, RESIDUAL)
    assert residual.value == pytest.approx(0.375)
    assert residual.low < 0.375 < residual.high
    assert residual.covers == "2 of 18 corruptions"


def test_intervals_are_of_pairs_of_images(tmp_path: Path) -> None:
    """The model makes the same errors on both, so the difference has no uncertainty although accuracies have."""
    folder = evaluation(tmp_path / "c", Affines=[0, 1, 0, 0])
    found = only(report_on(folder, clean(tmp_path / "n", [0, 1, 0, 0])), "syn2nat")
    residual, accuracy = (measure(found, name, "Affines") for name in (RESIDUAL, "accuracy"))
    assert (residual.low, residual.high) == (0, 0)
    assert accuracy.low < accuracy.high


def test_other_candidates_alone_are_averaged(tmp_path: Path) -> None:
    report = report_on(evaluation(tmp_path / "c", Flip=[0, 1, 2, 3], Blur=[0, 1, 0, 0]))
    found = only(report, "syn2nat")
    assert value(found, "mean accuracy") == 0.75
    assert not has(found, RESIDUAL)
    assert not has(found, "clean accuracy")
    assert [each.title for each in tables_of(report)] == ["key figures", "accuracy by candidate", "calibration"]


def test_candidates_outside_the_benchmark_are_marked(tmp_path: Path) -> None:
    """All 40 candidates cover the benchmark: the marked ones are not in means."""
    answers = {name: [0, 1, 0, 0] if name in SYN2NAT else [0, 1, 2, 3] for name in FAMILY.names}
    report = report_on(evaluation(tmp_path / "c", **answers), clean(tmp_path / "n", [0, 1, 2, 3]))
    found = only(report, "syn2nat")
    assert (measure(found, RESIDUAL).covers, value(found, RESIDUAL)) == ("", 0.5)
    key = list(cells(table(report, "key figures", "syn2nat")))
    assert key == [RESIDUAL, "mean accuracy", "clean accuracy", "clean images", "images", "failed"]
    by_candidate = table(report, "residual robustness by candidate")
    rows = cells(by_candidate)
    assert len(rows) == 40
    assert rows["Solarize"][0].startswith("50.0 [")
    assert [name for name in rows if name.endswith(" †")] == list(rows)[18:]
    assert "† not in the benchmark" in by_candidate.note
    assert by_candidate.plot
    assert by_candidate.plot.kind == "bars"
    panels = {panel.title: [each.x for each in panel.points] for panel in by_candidate.plot.panels}
    assert "not in the benchmark" in panels
    assert "RandomGamma" in panels["lighting"]
    (headline,) = (each for each in report.document().headlines["made"] if each.section == "made-syn2nat")
    assert (headline.metric, headline.part) == (RESIDUAL, "")
