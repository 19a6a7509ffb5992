"""Calibration: metrics against plain references, and values computed by hand in metrics and in reports."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluate import metrics
from pipeline.tasks.schema import Task
from tests.factories.evaluations import write_evaluation
from tests.factories.reports import measure, only, report_on, table, tables_of, value, values

# References


def error_by_definition(confidences: np.ndarray, correct: np.ndarray, bins: int) -> float:
    total = 0.0
    for number in range(bins):
        inside = (confidences > number / bins) & (confidences <= (number + 1) / bins)
        inside |= (confidences == 0) & (number == 0)
        if inside.any():
            total += inside.sum() * abs(confidences[inside].mean() - correct[inside].mean())
    return total / len(confidences)


def adaptive_error_by_definition(confidences: np.ndarray, correct: np.ndarray, bins: int) -> float:
    members: dict[int, list[int]] = {}
    for image, confidence in enumerate(confidences):
        members.setdefault(sum(other < confidence for other in confidences) * bins // len(confidences), []).append(
            image
        )
    gaps = (abs(sum(confidences[i] - correct[i] for i in images)) for images in members.values())
    return sum(gaps) / len(confidences)


images = st.integers(1, 40).flatmap(
    lambda count: st.tuples(
        st.lists(st.integers(0, 30).map(lambda value: value / 30), min_size=count, max_size=count),
        st.lists(st.booleans(), min_size=count, max_size=count),
    )
)
"""Confidences, many of them equal or on the edge of a bin, and whether predictions are correct."""


@given(images, st.integers(1, 16))
def test_errors_equal_their_definition(made: tuple[list[float], list[bool]], bins: int) -> None:
    confidences, correct = map(np.array, made)
    expected = metrics.expected_calibration_error(confidences, correct, bins)
    adaptive = metrics.adaptive_calibration_error(confidences, correct, bins)
    assert expected == pytest.approx(error_by_definition(confidences, correct, bins), abs=1e-12)
    assert adaptive == pytest.approx(adaptive_error_by_definition(confidences, correct, bins), abs=1e-12)


@given(st.integers(1, 6), st.integers(1, 30), st.integers(0, 2**32))
def test_likelihood_and_brier_score_equal_their_definition(classes: int, count: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(classes), count)
    labels = generator.integers(classes, size=count)
    one_hot = np.eye(classes)[labels]
    of_labels, squares = (probabilities * one_hot).sum(axis=1), np.square(probabilities).sum(axis=1).clip(max=1)
    likelihood = -sum(math.log(row[label]) for row, label in zip(probabilities, labels, strict=True)) / count
    assert metrics.negative_log_likelihood(of_labels.clip(max=1)) == pytest.approx(likelihood, abs=1e-12)
    distance = np.square(probabilities - one_hot).sum(axis=1).mean()
    assert metrics.brier_score(of_labels.clip(max=1), squares) == pytest.approx(distance, abs=1e-12)


# By hand


def test_calibrated_and_always_certain_models() -> None:
    """Of the images with confidence k/10, k of 10 are correct."""
    confidences = np.repeat(np.arange(1, 11) / 10, 10)
    correct = np.concatenate([np.arange(10) < hits for hits in range(1, 11)])
    half = np.array([True, False] * 50)
    for metric in (metrics.expected_calibration_error, metrics.adaptive_calibration_error):
        assert metric(confidences, correct, 10) == pytest.approx(0, abs=1e-15)
        assert metric(np.ones(100), half) == metric(np.ones(100), ~half) == 0.5
        assert metric(np.full(100, 0.2), np.ones(100, bool)) == pytest.approx(0.8)


def test_bins_of_equal_width_include_their_upper_edge() -> None:
    """Opposite errors cancel within a bin, and add up across bins."""
    correct = np.array([True, False])
    apart = metrics.expected_calibration_error([0.5, 0.50001], correct, bins=2)
    together = metrics.expected_calibration_error([0.49999, 0.5], correct, bins=2)
    assert apart == pytest.approx(0.5, abs=1e-4)
    assert together == pytest.approx(0.0, abs=1e-4)
    found = metrics.reliability([0.0, 1 / 15, 2 / 15, 1.0], np.array([True, False, True, True]))
    assert found.images.tolist() == [2, 1, *[0] * 12, 1]
    assert found.accuracy[[0, 1, 14]].tolist() == [0.5, 1.0, 1.0]
    assert np.isnan(found.accuracy[2:14]).all()
    several = metrics.reliability(np.ones((2, 3, 20)), np.ones((2, 3, 20), bool), 4)
    assert several.images.shape == several.accuracy.shape == several.confidence.shape == (2, 3, 4)


def test_adaptive_bins_have_equally_many_images() -> None:
    confidences = np.linspace(0.9, 1, 45)
    found = metrics.adaptive_reliability(confidences, np.ones(45, bool))
    assert found.images.tolist() == [3] * 15
    assert metrics.reliability(confidences, np.ones(45, bool)).images.tolist() == [0] * 13 + [15, 30]
    tied = metrics.adaptive_reliability([0.3, 0.3, 0.3, 0.9], np.ones(4, bool), bins=4)
    assert tied.images.tolist() == [3, 0, 0, 1]


def test_likelihood_and_brier_score_of_known_probabilities() -> None:
    assert metrics.negative_log_likelihood([1.0, 0.5]) == pytest.approx(math.log(2) / 2)
    assert metrics.negative_log_likelihood([0.001] * 3) == pytest.approx(math.log(1000))
    assert metrics.brier_score([1.0, 0.0, 0.5], [1.0, 1.0, 0.5]) == pytest.approx((0 + 2 + 0.5) / 3)
    assert metrics.brier_score([np.float32(1)], [np.float32(0.99999994)]) == 0


def test_a_stored_probability_of_zero_is_the_smallest_float32() -> None:
    """Probabilities below it are stored as 0. Those above it are exact."""
    smallest = np.float32(2**-149)
    zero, one = metrics.negative_log_likelihoods([0.0, smallest]), 149 * math.log(2)
    assert zero.tolist() == pytest.approx([one, one])
    assert metrics.negative_log_likelihoods([np.float32(2**-148)])[0] == pytest.approx(148 * math.log(2))
    assert metrics.negative_log_likelihood([0.0, 1.0]) == pytest.approx(one / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.expected_calibration_error([70.0], [True]), "confidences 70.0..70.0: use fractions"),
        (lambda: metrics.expected_calibration_error([0.5], [1]), "type int64: pass one bool for each"),
        (lambda: metrics.adaptive_calibration_error([0.5, 0.5], [True]), r"shape \(2,\) with correct of shape \(1,\)"),
        (lambda: metrics.adaptive_calibration_error([0.5], [True], bins=0), "bins 0: use an integer from 1 to 10000"),
        (lambda: metrics.expected_calibration_error([0.5], [True], bins=10**9), "bins 1000000000: use an integer"),
        (lambda: metrics.reliability([0.5], [True], bins=True), "bins True: use an integer"),
        (lambda: metrics.reliability(np.ma.ones(1), [True]), r"confidences: a masked array; pass .*compressed\(\)"),
        (lambda: metrics.reliability([], np.array([], bool)), "at least one number"),
        (lambda: metrics.negative_log_likelihood([np.nan]), "probabilities nan..nan"),
        (lambda: metrics.brier_score([0.5], [1.5]), "squared probabilities 1.5..1.5"),
        (lambda: metrics.brier_score([0.5], [0.5, 0.5]), r"shape \(1,\), but their squares have shape \(2,\)"),
    ],
)
def test_invalid_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# Reports


def sure(classes: Sequence[int], confidences: Sequence[float], count: int = 4) -> np.ndarray:
    """Return logits (S, K) of a model that predicts these classes with these probabilities."""
    others = (1 - np.array(confidences)) / (count - 1)
    probabilities = np.repeat(others[:, None], count, axis=1)
    probabilities[np.arange(len(classes)), list(classes)] = confidences
    return np.log(np.maximum(probabilities, 1e-300))


LABELS = (0, 1, 2, 3)
FOG = {
    ("fog", 1): sure([0, 1, 2, 3], [0.9, 0.9, 0.8, 0.8]),
    ("fog", 3): sure([0, 1, 2, 0], [0.9, 0.9, 0.7, 0.7]),
    ("snow", 1): sure([1, 0, 0, 0], [0.7, 0.7, 0.7, 0.7]),
}
FOG_1, FOG_3, SNOW_1 = 0.15, (2 * 0.1 + 2 * 0.2) / 4, 0.7
"""ECE by hand: in "fog" at level 3, two images of confidence 0.7 are half right."""


def test_corrupted_images_have_a_calibration_by_corruption_and_severity(tmp_path: Path) -> None:
    report = report_on(write_evaluation(tmp_path / "c", FOG, LABELS), resamples=20)
    found = only(report, "corruptions")
    fog, overall = (FOG_1 + FOG_3) / 2, ((FOG_1 + FOG_3) / 2 + SNOW_1) / 2
    by_condition = {("fog", 1): FOG_1, ("fog", 3): FOG_3, ("snow", 1): SNOW_1}
    by_level = {("", 1): (FOG_1 + SNOW_1) / 2, ("", 3): FOG_3}
    assert values(found, "ECE") == pytest.approx(by_condition | by_level | {"fog": fog, "snow": SNOW_1, "": overall})
    assert value(found, "NLL", "fog", 1) == pytest.approx(-math.log(0.9 * 0.8) / 2)
    assert value(found, "NLL", "snow", 1) == pytest.approx(-math.log(0.1))
    assert value(found, "Brier score", "snow", 1) == pytest.approx(0.7**2 + 0.9**2 + 2 * 0.1**2, abs=1e-6)
    assert value(found, "adaptive ECE", "fog", 1) == pytest.approx(FOG_1)
    assert math.isnan(measure(found, "ECE").low)
    likelihood = measure(found, "NLL")
    assert likelihood.low < likelihood.value < likelihood.high
    shown = table(report, "calibration")
    rows = {(str(row[0]), str(row[1])): [str(cell) for cell in row[2:6]] for row in shown.rows}
    assert rows == {
        ("mean", "made"): ["42.5 *", "15.0 *", "42.5 *", "42.5 *"],
        ("fog", "made"): ["15.0"] * 4,
        ("snow", "made"): ["70.0", "—", "70.0", "70.0"],
    }
    assert "averaged over 2 of 15 corruptions" in shown.note


def test_reliability_diagrams_have_points_at_the_means_of_bins(tmp_path: Path) -> None:
    """Bins are those of all transforms at a level; areas of points are numbers of images."""
    report = report_on(write_evaluation(tmp_path / "c", FOG, LABELS), resamples=20)
    bins = only(report, "corruptions").details["reliability"]
    assert [(each["images"], round(each["confidence"], 6), each["accuracy"]) for each in bins["1"]] == [
        (4, 0.7, 0.0), (2, 0.8, 1.0), (2, 0.9, 1.0),
    ]  # fmt: skip
    plot = table(report, "calibration").plot
    assert plot is not None
    (panel,) = plot.panels
    found: list[Any] = [
        (name, *([getattr(each, field) for each in line] for field in ("x", "y", "size")))
        for name, line in panel.lines.items()
    ]
    assert (plot.kind, panel.title, panel.x.name, panel.y.name) == ("reliability", "made", "confidence", "accuracy")
    assert found == [
        ("severity 1", pytest.approx([0.7, 0.8, 0.9]), [0, 1, 1], [1, 0.5, 0.5]),
        ("severity 3", pytest.approx([0.7, 0.9]), [0.5, 1], [1, 1]),
    ]


def test_natural_images_have_a_calibration(tmp_path: Path) -> None:
    logits = {("none", 0): sure([0, 1, 2, 0], [1.0, 1.0, 1.0, 1.0])}
    task = Task(name="v2", outputs=4, outputs_are="made", role="shift")
    temporary = write_evaluation(tmp_path / "a", logits, LABELS, family="none")
    shift = write_evaluation(tmp_path / "shift", logits, LABELS, family="none", task=task)
    report = report_on(temporary, shift, resamples=20, temporary=[str((tmp_path / "a").resolve())])
    for key in ("clean", "shifts"):
        found = only(report, key)
        assert values(found, "ECE") == {"": pytest.approx(0.25)}
        assert values(found, "Brier score") == {"": pytest.approx(0.5)}
        assert values(found, "NLL") == {"": pytest.approx(149 * math.log(2) / 4)}
    assert [each.section for each in tables_of(report) if each.title == "calibration"] == ["v2", "made-none"]
    (warning,) = (text for text in report.warnings if "stored as 0 for 1 of 4 predictions" in text)
    assert warning.startswith(f"made on made-none, {shift}: the probability")


def test_other_families_have_a_calibration(tmp_path: Path) -> None:
    pair = {("pillow_pillow-bilinear", 0): sure([0, 1, 2, 0], [0.5] * 4)}
    noise = report_on(write_evaluation(tmp_path / "s", pair, LABELS, family="system-noise"), resamples=20)
    assert value(only(noise, "system_noise"), "ECE", "pillow_pillow-bilinear", 0) == pytest.approx(0.25)
    columns = [column.title for column in table(noise, "calibration").columns]
    assert columns == ["pair", "model", "ECE", "adaptive ECE", "NLL", "Brier score"]
