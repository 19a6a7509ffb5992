"""The report on ImageNet-C-bar: mean corruption error, the table by corruption, and the difference to ImageNet-C."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import corruptions
from corruptions import c_bar
from corruptions.catalogue import SEVERITIES
from tests.factories import reports
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import cells, has, measure, only, table, tables_of, value

report_on = partial(reports.report_on, resamples=100)

LABELS = [0, 1, 2, 3]
TEN, FIFTEEN = c_bar.PUBLISHED["imagenet"], corruptions.names("benchmark")
HALF, RIGHT = [0, 1, 0, 0], [0, 1, 2, 3]
"""Answers that are wrong for the last two images, and for none."""

MEAN, BY_CORRUPTION = "mean corruption error (unnormalised)", "mean error (unnormalised)"
ON_C, DIFFERENCE = "mean error on ImageNet-C's corruptions", "difference to ImageNet-C's corruptions"


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


def test_errors_are_means_over_severities_and_corruptions(tmp_path: Path) -> None:
    logits = {(name, severity): votes(RIGHT, 4) for name in TEN for severity in SEVERITIES}
    logits["sparkles", 1] = votes([1, 0, 3, 2], 4)
    logits["sparkles", 5] = votes(HALF, 4)
    folder = write_evaluation(tmp_path / "c", logits, LABELS, family="c-bar", profile="imagenet")
    found = only(report_on(folder), "c_bar")
    assert tuple(found.transforms) == TEN
    assert {(each.group, each.benchmark) for each in found.transforms.values()} == {("benchmark", True)}
    assert [value(found, "accuracy", "sparkles", severity) for severity in SEVERITIES] == [0, 1, 1, 1, 0.5]
    assert value(found, BY_CORRUPTION, "sparkles") == pytest.approx(0.3)
    assert value(found, BY_CORRUPTION, "perlin_noise") == 0
    assert value(found, MEAN) == pytest.approx(0.03)
    by_severity = [value(found, "mean accuracy", level=severity) for severity in SEVERITIES]
    assert by_severity == pytest.approx([0.9, 1, 1, 1, 0.95])
    assert (found.details["complete"], found.baseline, measure(found, MEAN).covers) == (True, "", "")
    assert not has(found, DIFFERENCE)
    assert not has(found, "mCE")


@pytest.mark.parametrize(
    ("names", "options", "covers"),
    [
        (TEN[:3], {}, "3 of 10 corruptions"),
        (TEN, {"severities": (1, 2)}, "10 of 10 corruptions, with missing severities"),
        (["ripple", "lines"], {}, "2 corruptions that are not in the benchmark"),
        (["ripple"], {}, "1 corruption that is not in the benchmark"),
        (["sparkles", "ripple"], {"profile": "cifar"}, "2 of 10 corruptions"),
    ],
)
def test_a_part_is_marked(tmp_path: Path, names: Sequence[str], options: dict[str, Any], covers: str) -> None:
    found = measure(only(report_on(evaluation(tmp_path / "r", names, **options)), "c_bar"), MEAN)
    assert (found.covers, found.value) == (covers, 0.5)


def test_the_difference_is_of_pairs_of_images(tmp_path: Path) -> None:
    """The model makes the same errors on both, so the difference has no uncertainty although the errors have."""
    bar = evaluation(tmp_path / "bar")
    report = report_on(bar, on_imagenet_c(tmp_path / "c"))
    found = only(report, "c_bar")
    other, difference = measure(found, ON_C), measure(found, DIFFERENCE)
    assert other.value == 0.5
    assert other.low < 0.5 < other.high
    assert (difference.value, difference.low, difference.high) == (0, 0, 0)
    better = only(report_on(bar, on_imagenet_c(tmp_path / "better", [0, 1, 2, 0])), "c_bar")
    assert value(better, DIFFERENCE) == pytest.approx(0.25)
    (headline, _) = sorted(report.document().headlines["made"], key=lambda each: each.section)
    assert (headline.metric, str(headline.number)) == (MEAN, "50.0 [0.0, 100.0]")
    tables = [each for each in tables_of(report) if each.section == "made-c-bar"]
    assert [each.title for each in tables] == [
        "key figures", "mean error over the severities (unnormalised)", "accuracy by corruption and severity",
        "accuracy by severity", "calibration",
    ]  # fmt: skip
    assert list(cells(tables[0]))[:3] == [MEAN, ON_C, DIFFERENCE]


def test_extra_corruptions_of_imagenet_c_are_not_counted(tmp_path: Path) -> None:
    logits = {(name, severity): votes(RIGHT, 4) for name in corruptions.names("all") for severity in SEVERITIES}
    logits |= {(name, severity): votes(HALF, 4) for name in corruptions.names("extra") for severity in SEVERITIES}
    folder = write_evaluation(tmp_path / "c", logits, LABELS, profile="imagenet")
    assert value(only(report_on(evaluation(tmp_path / "bar"), folder), "c_bar"), DIFFERENCE) == 0.5


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
    report = report_on(evaluation(tmp_path / "bar"), on_imagenet_c(tmp_path / "c", names=kept, **options))
    found = only(report, "c_bar")
    assert not has(found, DIFFERENCE)
    assert not has(found, ON_C)
    (warning,) = (text for text in report.warnings if f"no {DIFFERENCE}: " in text)
    assert reason in warning


def test_the_difference_needs_a_single_evaluation_of_the_same_model(tmp_path: Path) -> None:
    both = [on_imagenet_c(tmp_path / name, data_set=name) for name in ("c", "again")]
    report = report_on(evaluation(tmp_path / "bar"), *both)
    assert not has(only(report, "c_bar"), DIFFERENCE)
    assert any("all have its images under the corruptions of ImageNet-C: give one" in text for text in report.warnings)
    other = report_on(evaluation(tmp_path / "bar"), on_imagenet_c(tmp_path / "other", model="other"))
    assert not has(only(other, "c_bar"), DIFFERENCE)
    assert not any("no difference" in text for text in other.warnings)


def test_the_difference_is_over_the_common_images(tmp_path: Path) -> None:
    report = report_on(evaluation(tmp_path / "bar"), on_imagenet_c(tmp_path / "c", HALF[:3]))
    found = only(report, "c_bar")
    assert [value(found, name) for name in (MEAN, ON_C, DIFFERENCE)] == pytest.approx([0.5, 1 / 3, 0])
    assert any("contains only 3 of the 4 images" in text for text in report.warnings)


def test_only_an_evaluated_baseline_normalises(tmp_path: Path) -> None:
    """AlexNet's errors on ImageNet-C-bar were not published."""
    folder = evaluation(tmp_path / "bar", classes=1000)
    assert only(report_on(folder), "c_bar").baseline == ""
    baseline = evaluation(tmp_path / "baseline", answers=[0, 0, 0, 0], classes=1000, model="worse")
    report = report_on(folder, baseline=[baseline])
    found = only(report, "c_bar")
    assert found.baseline == "worse"
    assert value(found, "mCE") == pytest.approx(2 / 3)
    assert cells(table(report, "corruption error (CE)"))["sparkles"][0].startswith("66.7 [")


def test_published_models_are_shown_beside_evaluated_ones(tmp_path: Path) -> None:
    report = report_on(evaluation(tmp_path / "bar", classes=1000), published=True)
    models = cells(table(report, "published models", "made-c-bar"))
    assert models["ResNet-50, AugMix (published)"] == ["52.4", "49.2", "3.2", "Mintun et al."]
    assert cells(table(report, f"{BY_CORRUPTION} of published models")).keys() == set(TEN)
    small = evaluation(tmp_path / "cifar", c_bar.PUBLISHED["cifar"], classes=10, profile="cifar")
    networks = {each.model.partition(",")[0] for each in report_on(small, published=True).published}
    assert networks == {"WideResNet-40-2"}
    assert not report_on(evaluation(tmp_path / "few"), published=True).published


def test_no_row_on_cifar_10_c_bar_says_that_errors_are_on_imagenet_c(tmp_path: Path) -> None:
    bars = evaluation(tmp_path / "bar", c_bar.PUBLISHED["cifar"], classes=10, profile="cifar")
    report = report_on(bars, on_imagenet_c(tmp_path / "c", classes=10, profile="cifar"), published=True)
    tables = [each for each in tables_of(report) if each.section == "made-c-bar"]
    names = [*cells(tables[0]), *(column.title for each in tables for column in each.columns)]
    assert {name for name in names if "ImageNet-C" in name} == {ON_C, DIFFERENCE}
