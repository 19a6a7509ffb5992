"""The report on ImageNet-C-bar: mean corruption error, the table by corruption, and the difference to ImageNet-C."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import corruptions
from corruptions import c_bar
from corruptions.catalogue import SEVERITIES
from pipeline.evaluate.report.families import layouts
from pipeline.evaluate.report.imagenet_c_bar import BarSummary
from pipeline.evaluate.report.sections import sections, tables
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.summary import Summary
from pipeline.evaluate.report.tables import coverage
from pipeline.evaluate.report.text import to_markdown
from tests.evaluate.test_tables import table
from tests.factories.evaluations import votes, write_evaluation

LABELS = [0, 1, 2, 3]
TEN, FIFTEEN = c_bar.PUBLISHED["imagenet"], corruptions.names("benchmark")
HALF, RIGHT = [0, 1, 0, 0], [0, 1, 2, 3]
"""Answers that are wrong for the last two images, and for none."""


def evaluation(
    folder: Path,
    names: Iterable[str] = TEN,
    answers: Sequence[int] = HALF,
    *,
    family: str = "c-bar",
    classes: int = 4,
    severities: Iterable[int] = SEVERITIES,
    labels: Sequence[int] = LABELS,
    images: Sequence[str] | None = None,
    **options: Any,
) -> str:
    """Write an evaluation with the same answers under all corruptions and severities."""
    logits = {(name, severity): votes(answers, classes) for name in names for severity in severities}
    settings: dict[str, Any] = {"family": family, "profile": "imagenet", "names": images, **options}
    return write_evaluation(folder, logits, labels[: len(answers)], **settings)


def on_imagenet_c(folder: Path, answers: Sequence[int] = HALF, names: Iterable[str] = FIFTEEN, **options: Any) -> str:
    return evaluation(folder, names, answers, family="corruptions", **options)


def bar(summary: Summary) -> BarSummary:
    (found,) = summary.families["c_bar"]
    assert isinstance(found, BarSummary)
    return found


def test_errors_are_means_over_severities_and_corruptions(tmp_path: Path) -> None:
    logits = {(name, severity): votes(RIGHT, 4) for name in TEN for severity in SEVERITIES}
    logits["sparkles", 1] = votes([1, 0, 3, 2], 4)
    logits["sparkles", 5] = votes(HALF, 4)
    folder = write_evaluation(tmp_path / "c", logits, LABELS, family="c-bar", profile="imagenet")
    found = bar(summarise([folder]))
    rows = {row.name: row for row in found.rows}
    assert tuple(rows) == TEN
    assert {(row.group, row.benchmark) for row in found.rows} == {("benchmark", True)}
    assert [estimate.value for estimate in rows["sparkles"].errors.values()] == [1, 0, 0, 0, 0.5]
    assert rows["sparkles"].mean_error.value == pytest.approx(0.3)
    assert rows["perlin_noise"].mean_error.value == 0
    assert found.mean_error.value == pytest.approx(0.03)
    assert [found.curve[severity].value for severity in SEVERITIES] == pytest.approx([0.9, 1, 1, 1, 0.95])
    assert (found.complete, found.baseline, found.difference, found.mean_corruption_error) == (True, None, None, None)
    assert coverage(layouts()["c_bar"], found, layouts()["c_bar"].figures[0]) == ""


def test_a_part_is_marked(tmp_path: Path) -> None:
    layout = layouts()["c_bar"]
    some = bar(summarise([evaluation(tmp_path / "some", TEN[:3])]))
    assert coverage(layout, some, layout.figures[0]) == "3 of 10 corruptions"
    early = bar(summarise([evaluation(tmp_path / "early", severities=(1, 2))]))
    assert coverage(layout, early, layout.figures[0]) == "10 of 10 corruptions, with missing severities"
    others = bar(summarise([evaluation(tmp_path / "others", ["ripple", "lines"])]))
    assert others.mean_error.value == 0.5
    assert coverage(layout, others, layout.figures[0]) == "2 corruptions that are not in the benchmark"
    other = bar(summarise([evaluation(tmp_path / "other", ["ripple"])]))
    assert coverage(layout, other, layout.figures[0]) == "1 corruption that is not in the benchmark"
    mixed = bar(summarise([evaluation(tmp_path / "mixed", ["sparkles", "ripple"], profile="cifar")]))
    assert [row.benchmark for row in mixed.rows] == [True, True]


def test_the_difference_is_of_pairs_of_images(tmp_path: Path) -> None:
    """The model makes the same errors on both, so the difference has no uncertainty although the errors have."""
    folders = [evaluation(tmp_path / "bar"), on_imagenet_c(tmp_path / "c")]
    found = bar(summarise(folders))
    assert found.imagenet_c_error
    assert found.difference
    assert found.imagenet_c_error.value == 0.5
    assert found.imagenet_c_error.low < 0.5 < found.imagenet_c_error.high
    assert (found.difference.value, found.difference.low, found.difference.high) == (0, 0, 0)
    better = bar(summarise([folders[0], on_imagenet_c(tmp_path / "better", [0, 1, 2, 0])]))
    assert better.difference
    assert better.difference.value == pytest.approx(0.25)


def test_extra_corruptions_of_imagenet_c_are_not_counted(tmp_path: Path) -> None:
    logits = {(name, severity): votes(RIGHT, 4) for name in corruptions.names("all") for severity in SEVERITIES}
    logits |= {(name, severity): votes(HALF, 4) for name in corruptions.names("extra") for severity in SEVERITIES}
    folder = write_evaluation(tmp_path / "c", logits, LABELS, profile="imagenet")
    found = bar(summarise([evaluation(tmp_path / "bar"), folder]))
    assert found.difference
    assert found.difference.value == 0.5


@pytest.mark.parametrize(
    ("kept", "options", "reason"),
    [
        (FIFTEEN[:-1], {}, "lacks some of the 15 corruptions at five severities"),
        (FIFTEEN, {"severities": (1, 2, 3, 4)}, "lacks some of the 15 corruptions at five severities"),
        (FIFTEEN, {"profile": "cifar"}, "has the profile 'cifar' instead of 'imagenet'"),
        (FIFTEEN, {"images": "abcd"}, "has no images in common with this evaluation"),
        (FIFTEEN, {"labels": [3, 2, 1, 0]}, "4 labels differ in total"),
    ],
)
def test_a_difference_needs_the_same_images(
    tmp_path: Path, kept: Sequence[str], options: dict[str, Any], reason: str
) -> None:
    summary = summarise([evaluation(tmp_path / "bar"), on_imagenet_c(tmp_path / "c", names=kept, **options)])
    assert (bar(summary).difference, bar(summary).imagenet_c_error) == (None, None)
    (warning,) = (text for text in summary.warnings if "no difference to ImageNet-C's corruptions: " in text)
    assert reason in warning


def test_the_difference_needs_a_single_evaluation_of_the_same_model(tmp_path: Path) -> None:
    both = [on_imagenet_c(tmp_path / name, data_set=name) for name in ("c", "again")]
    summary = summarise([evaluation(tmp_path / "bar"), *both])
    assert bar(summary).difference is None
    assert any("all have its images under the corruptions of ImageNet-C: give one" in text for text in summary.warnings)
    other = summarise([evaluation(tmp_path / "bar"), on_imagenet_c(tmp_path / "other", model="other")])
    assert bar(other).difference is None
    assert not any("no difference" in text for text in other.warnings)


def test_the_difference_is_over_the_common_images(tmp_path: Path) -> None:
    folders = [evaluation(tmp_path / "bar"), on_imagenet_c(tmp_path / "c", HALF[:3])]
    summary = summarise(folders)
    found = bar(summary)
    assert found.difference
    assert found.imagenet_c_error
    assert found.mean_error.value == 0.5
    assert found.imagenet_c_error.value == pytest.approx(1 / 3)
    assert found.difference.value == pytest.approx(0)
    assert any("contains only 3 of the 4 images" in text for text in summary.warnings)


def test_only_an_evaluated_baseline_normalises(tmp_path: Path) -> None:
    """AlexNet's errors on ImageNet-C-bar were not published."""
    folder = evaluation(tmp_path / "bar", classes=1000)
    assert bar(summarise([folder])).baseline is None
    baseline = evaluation(tmp_path / "baseline", answers=[0, 0, 0, 0], classes=1000, model="worse")
    found = bar(summarise([folder], [baseline]))
    assert found.mean_corruption_error
    assert found.baseline == "worse"
    assert found.mean_corruption_error.value == pytest.approx(2 / 3)
    assert "corruption error (CE)" in to_markdown(tables(summarise([folder], [baseline])))


def test_published_models_are_shown_beside_evaluated_ones(tmp_path: Path) -> None:
    folder = evaluation(tmp_path / "bar", classes=1000)
    found = tables(summarise([folder], published=True))
    models = table(found, "made-c-bar", "published models")
    assert models["ResNet-50, AugMix (published)"] == ["52.4", "49.2", "3.2", "Mintun et al."]
    by_corruption = table(found, "made-c-bar", "mean error (unnormalised) of published models")
    assert by_corruption.keys() == set(TEN)
    small = evaluation(tmp_path / "cifar", c_bar.PUBLISHED["cifar"], classes=10, profile="cifar")
    networks = {each.model.partition(",")[0] for each in summarise([small], published=True).published}
    assert networks == {"WideResNet-40-2"}
    assert not summarise([evaluation(tmp_path / "few")], published=True).published


def test_the_section_shows_the_errors_and_the_difference(tmp_path: Path) -> None:
    summary = summarise([evaluation(tmp_path / "bar"), on_imagenet_c(tmp_path / "c")])
    (section,) = (each for each in sections(summary) if each.layout.key == "c_bar")
    headline = section.headline("made")
    assert headline
    assert (headline.figure, str(headline.number)) == ("mean corruption error (unnormalised)", "50.0 [0.0, 100.0]")
    assert [each.title for each in section.tables] == [
        "key figures", "mean error over the severities (unnormalised)", "accuracy by corruption and severity",
        "accuracy by severity", "calibration",
    ]  # fmt: skip
    figures = [str(row[0]) for row in section.tables[0].rows]
    assert figures[:3] == [
        "mean corruption error (unnormalised)",
        "mean error on ImageNet-C's corruptions",
        "difference to ImageNet-C's corruptions",
    ]


def test_no_row_on_cifar_10_c_bar_says_that_errors_are_on_imagenet_c(tmp_path: Path) -> None:
    bars = evaluation(tmp_path / "bar", c_bar.PUBLISHED["cifar"], classes=10, profile="cifar")
    summary = summarise([bars, on_imagenet_c(tmp_path / "c", classes=10, profile="cifar")], published=True)
    (section,) = (each for each in sections(summary) if each.layout.key == "c_bar")
    names = [str(row[0]) for row in section.tables[0].rows]
    names += [each.title for part in section.tables for each in part.columns]
    assert {name for name in names if "ImageNet-C" in name} == {
        "mean error on ImageNet-C's corruptions",
        "difference to ImageNet-C's corruptions",
    }
