"""Tests of the metrics: definitions, published values, leading axes, confidence intervals, invalid arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import alexnet as baselines
from pipeline.evaluate.metrics import slices
from pipeline.evaluate.metrics.alexnet import ALEXNET_CLEAN_ERROR, ALEXNET_ERRORS, ALEXNET_FLIP_PROBABILITIES
from pipeline.evaluate.metrics.bootstrap import (
    Bootstrap,
    Estimate,
    bootstrap_means,
    estimate_of_groups,
    percentile_interval,
)
from tests.golden import names as expected_names

GOLDEN_TOLERANCE = 1e-9
GOLDEN_PAIRS = [(kind, difficulty) for kind in ("temporal", "noise") for difficulty in (1, 2, 3)]

RESNET_50_CLEAN_ERROR = 0.239
RESNET_50 = (80, 82, 83, 75, 89, 78, 80, 78, 75, 66, 57, 71, 85, 77, 77)
RESNET_50_RELATIVE = (104, 107, 107, 97, 126, 107, 110, 101, 97, 79, 62, 89, 146, 111, 132)
RESNET_18_CLEAN_ERROR = 0.302
RESNET_18 = (87, 88, 91, 84, 91, 87, 89, 86, 84, 78, 69, 78, 90, 80, 85)
"""Published CE in percent, in the order of the corruptions, rounded as in the paper's table."""


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, Any]:
    return json.loads((shared / "golden" / "metrics.json").read_text())


@pytest.fixture(scope="module")
def logits(shared: Path) -> np.ndarray:
    with np.load(shared / "golden" / "metrics.npz") as archive:
        return archive["logits"]


@pytest.fixture(scope="module")
def published(shared: Path) -> dict[str, Any]:
    return json.loads((shared / "spec" / "parameters.json").read_text())["alexnet"]


def ranks_by_sorting(logits: np.ndarray) -> np.ndarray:
    order = np.argsort(-logits, axis=-1, kind="stable")
    return np.argsort(order, axis=-1) + 1


def top5_by_sorting(logits: np.ndarray) -> np.ndarray:
    return np.argsort(-logits, axis=-1, kind="stable")[..., :5]


def random_logits(seed: int, *shape: int, levels: int = 7) -> np.ndarray:
    """Return random logits with few distinct values, so that many are equal."""
    return np.random.default_rng(seed).integers(-levels, levels, shape).astype(np.float32)


def pairs_by_loop(frames: int, ordered: bool, difficulty: int) -> list[tuple[int, int]]:
    if ordered:
        return [(later - difficulty, later) for later in range(difficulty, frames)]
    return [(0, later) for later in range(1, frames)]


def top5_distance_by_definition(earlier: np.ndarray, later: np.ndarray) -> int:
    """Return the paper's double sum for the ranks of two frames."""
    distance = 0
    for i in range(1, min(5, len(earlier)) + 1):
        sigma = int(later[earlier.tolist().index(i)])
        distance += sum(1 <= j - 1 <= 5 for j in range(min(i, sigma) + 1, max(i, sigma) + 1))
    return distance


def zipf_distance_by_definition(earlier: np.ndarray, later: np.ndarray) -> float:
    return sum(abs(1 / a - 1 / b) / a for a, b in zip(earlier.tolist(), later.tolist(), strict=True))


# ImageNet-P


@pytest.mark.parametrize(("kind", "difficulty"), GOLDEN_PAIRS)
def test_sequence_metrics_equal_the_golden_values(
    golden: dict[str, Any], logits: np.ndarray, kind: str, difficulty: int
) -> None:
    expected = golden["perturbation"][f"{kind}/difficulty{difficulty}"]
    how: Any = {"ordered": kind == "temporal", "difficulty": difficulty}
    ranks = metrics.ordinal_ranks(logits)
    result = {
        "flip_probability": metrics.flip_probability(logits.argmax(axis=-1), **how),
        "top5_distance": metrics.top5_distance(ranks, **how),
        "zipf_distance": metrics.zipf_distance(ranks, **how),
    }
    assert result == pytest.approx(expected, abs=GOLDEN_TOLERANCE, rel=0)
    of_lists = metrics.top5_distances_of_lists_by_sequence(top5_by_sorting(logits), **how)
    assert of_lists.mean() == result["top5_distance"]


sequences = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "count": st.integers(1, 4),
        "frames": st.integers(2, 7),
        "classes": st.integers(1, 12),
        "ordered": st.booleans(),
        "difficulty": st.integers(1, 6),
    }
)


@given(sequences)
@settings(deadline=None, max_examples=200)
def test_sequence_metrics_equal_plain_loops(case: Mapping[str, Any]) -> None:
    logits = random_logits(case["seed"], case["count"], case["frames"], case["classes"], levels=3)
    ordered, difficulty = case["ordered"], min(case["difficulty"], case["frames"] - 1)
    ranks = metrics.ordinal_ranks(logits)
    np.testing.assert_array_equal(ranks, ranks_by_sorting(logits))
    pairs = pairs_by_loop(case["frames"], ordered, difficulty)
    how: Any = {"ordered": ordered, "difficulty": difficulty}

    flips = [[row[a].argmax() != row[b].argmax() for a, b in pairs] for row in logits]
    distances = [[top5_distance_by_definition(row[a], row[b]) for a, b in pairs] for row in ranks]
    zipf = [[zipf_distance_by_definition(row[a], row[b]) for a, b in pairs] for row in ranks]
    predictions = logits.argmax(axis=-1)
    for result, expected in (
        (metrics.flip_probabilities_by_sequence(predictions, **how), flips),
        (metrics.top5_distances_by_sequence(ranks, **how), distances),
        (metrics.zipf_distances_by_sequence(ranks, **how), zipf),
    ):
        np.testing.assert_allclose(result, np.mean(expected, axis=1), rtol=1e-12, atol=1e-12)
    assert metrics.flip_probability(predictions, **how) == pytest.approx(np.mean(flips), abs=1e-12)
    assert metrics.top5_distance(ranks, **how) == pytest.approx(np.mean(distances), abs=1e-12)
    assert metrics.zipf_distance(ranks, **how) == pytest.approx(np.mean(zipf), abs=1e-12)

    np.testing.assert_array_equal(
        metrics.top5_distances_of_lists_by_sequence(top5_by_sorting(logits).astype(np.int16), **how),
        metrics.top5_distances_by_sequence(ranks, **how),
    )


@pytest.mark.parametrize("ordered", [True, False])
def test_sequence_metrics_ignore_the_order_of_sequences_and_classes(ordered: bool) -> None:
    logits = random_logits(3, 6, 9, 30, levels=1000)
    order = np.random.default_rng(1).permutation(6)
    classes = np.random.default_rng(2).permutation(30)
    assert len(np.unique(logits[0, 0])) == 30  # no ties, which renaming classes would break differently
    ranks = metrics.ordinal_ranks(logits)
    for figure in (metrics.top5_distance, metrics.zipf_distance):
        expected = figure(ranks, ordered=ordered)
        assert figure(ranks[order], ordered=ordered) == pytest.approx(expected, abs=1e-12)
        assert figure(ranks[:, :, classes], ordered=ordered) == pytest.approx(expected, abs=1e-12)
        assert figure(np.repeat(ranks[:, :1], 4, axis=1), ordered=ordered) == 0
    predictions = logits.argmax(axis=-1)
    expected = metrics.flip_probability(predictions, ordered=ordered)
    assert metrics.flip_probability(predictions[order], ordered=ordered) == pytest.approx(expected, abs=1e-12)
    assert metrics.flip_probability(classes[predictions], ordered=ordered) == expected
    shuffled = np.concatenate([ranks[:, :1], ranks[:, :0:-1]], axis=1)
    # Only the first frame of a noise sequence has a fixed position.
    assert metrics.top5_distance(shuffled, ordered=False) == metrics.top5_distance(ranks, ordered=False)


def test_sequence_metrics_equal_values_computed_by_hand() -> None:
    predictions = np.array([[1, 1, 2, 1], [4, 4, 4, 5]], np.int16)
    assert metrics.flip_probability(predictions, ordered=True) == pytest.approx(3 / 6)
    assert metrics.flip_probability(predictions, ordered=True, difficulty=2) == pytest.approx(2 / 4)
    assert metrics.flip_probability(predictions, ordered=True, difficulty=3) == pytest.approx(1 / 2)
    assert metrics.flip_probability(predictions, ordered=False) == pytest.approx(2 / 6)
    assert metrics.flip_probability(predictions, ordered=False, difficulty=9) == pytest.approx(2 / 6)
    np.testing.assert_allclose(metrics.flip_probabilities_by_sequence(predictions, ordered=True), [2 / 3, 1 / 3])

    lists = np.array([[[0, 1, 2, 3, 4], [1, 0, 2, 3, 9]]])
    assert metrics.top5_distances_of_lists_by_sequence(lists, ordered=True) == [
        1 + 1 + 1
    ]  # two classes swap ranks, the fifth leaves the list
    apart = np.array([[[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]])
    assert metrics.top5_distances_of_lists_by_sequence(apart, ordered=True) == [15]

    ranks = np.array([[[1, 2, 3], [2, 1, 3]]])
    assert metrics.zipf_distance(ranks, ordered=True) == pytest.approx(1 / 2 / 1 + 1 / 2 / 2)


def test_top5_distance_is_not_symmetric() -> None:
    ranks = np.array([[[1, 2, 3, 4, 5, 6, 7], [7, 1, 2, 3, 4, 5, 6]]])
    assert metrics.top5_distance(ranks, ordered=True) != metrics.top5_distance(ranks[:, ::-1], ordered=True)


def test_row_slices_do_not_change_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = random_logits(8, 7, 4, 11)
    ranks = metrics.ordinal_ranks(logits)
    figures: list[Callable[[], object]] = [
        lambda: metrics.ordinal_ranks(logits).tolist(),
        lambda: metrics.top5_distance(ranks, ordered=True),
        lambda: metrics.zipf_distance(ranks, ordered=False),
        lambda: bootstrap_means(ranks[:, 0], resamples=30).tolist(),
    ]
    before = [figure() for figure in figures]
    monkeypatch.setattr(slices, "SLICE_VALUES", 50)
    assert [figure() for figure in figures] == before


# Ranks


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@given(st.integers(0, 2**32), st.integers(1, 300))
@settings(deadline=None, max_examples=50)
def test_ranks_of_every_dtype_break_ties_by_index(dtype: type, seed: int, classes: int) -> None:
    logits: np.ndarray = random_logits(seed, 3, classes, levels=20).astype(dtype)
    logits[logits == 19] = np.inf
    logits[logits == -20] = -np.inf
    logits[logits == 1] = -0.0
    ranks = metrics.ordinal_ranks(logits)
    assert ranks.dtype == (np.uint8 if classes < 256 else np.uint16)
    np.testing.assert_array_equal(ranks, ranks_by_sorting(logits))


def test_ranks_distinguish_adjacent_floats() -> None:
    assert metrics.ordinal_ranks(np.array([1.0, np.nextafter(1.0, 2)])).tolist() == [2, 1]
    near = np.nextafter(np.float32(-1), np.float32(0))
    assert metrics.ordinal_ranks(np.array([-1, near, 1e-45, 0], np.float32)).tolist() == [4, 3, 1, 2]


def test_ranks_have_the_shape_of_the_logits_and_do_not_modify_them() -> None:
    logits = random_logits(1, 2, 3, 4, 5)
    before = logits.copy()
    assert metrics.ordinal_ranks(logits).shape == (2, 3, 4, 5)
    assert metrics.ordinal_ranks(logits[:0]).shape == (0, 3, 4, 5)
    np.testing.assert_array_equal(logits, before)


# ImageNet-C


def test_corruption_errors_equal_the_golden_values(golden: dict[str, Any]) -> None:
    given_rows = golden["corruption"]
    errors, clean = given_rows["errors"], given_rows["clean_error"]
    assert given_rows["alexnet_clean_error"] == ALEXNET_CLEAN_ERROR
    for name, row in errors.items():
        baseline = baselines.alexnet_errors(name)
        ratio = metrics.corruption_error(row, baseline)
        relative = metrics.relative_corruption_error(row, clean, baseline, ALEXNET_CLEAN_ERROR)
        assert ratio == pytest.approx(given_rows["ce"][name], abs=GOLDEN_TOLERANCE)
        assert relative == pytest.approx(given_rows["relative_ce"][name], abs=GOLDEN_TOLERANCE)
    mean = metrics.mean_corruption_error(errors, ALEXNET_ERRORS)
    relative_mean = metrics.relative_mean_corruption_error(errors, clean, ALEXNET_ERRORS, ALEXNET_CLEAN_ERROR)
    assert mean == pytest.approx(given_rows["mce"], abs=GOLDEN_TOLERANCE)
    assert relative_mean == pytest.approx(given_rows["relative_mce"], abs=GOLDEN_TOLERANCE)


def errors_of_published_row(row: Sequence[int]) -> dict[str, np.ndarray]:
    return {
        name: np.array(baseline) * percent / 100
        for (name, baseline), percent in zip(ALEXNET_ERRORS.items(), row, strict=True)
    }


@pytest.mark.parametrize(
    ("row", "clean", "mean", "relative_mean"),
    [(RESNET_50, RESNET_50_CLEAN_ERROR, 76.7, 105.0), (RESNET_18, RESNET_18_CLEAN_ERROR, 84.7, 103.9)],
    ids=["ResNet-50", "ResNet-18"],
)
def test_published_mce_and_relative_mce_are_reproduced(
    row: Sequence[int], clean: float, mean: float, relative_mean: float
) -> None:
    errors = errors_of_published_row(row)
    assert 100 * metrics.mean_corruption_error(errors, ALEXNET_ERRORS) == pytest.approx(mean, abs=0.3)
    relative = metrics.relative_mean_corruption_error(errors, clean, ALEXNET_ERRORS, ALEXNET_CLEAN_ERROR)
    assert 100 * relative == pytest.approx(relative_mean, abs=2)


def test_published_relative_ce_is_reproduced() -> None:
    errors = errors_of_published_row(RESNET_50)
    for (name, row), expected in zip(errors.items(), RESNET_50_RELATIVE, strict=True):
        relative = metrics.relative_corruption_error(
            row, RESNET_50_CLEAN_ERROR, ALEXNET_ERRORS[name], ALEXNET_CLEAN_ERROR
        )
        assert 100 * relative == pytest.approx(expected, abs=2), name


def test_metrics_equal_values_computed_by_hand() -> None:
    assert metrics.corruption_error([0.2, 0.4], [0.5, 0.7]) == pytest.approx(0.5)
    assert metrics.relative_corruption_error([0.2, 0.4], 0.1, [0.5, 0.7], 0.4) == pytest.approx(1.0)
    errors = {"fog": [0.2, 0.4], "snow": [0.6, 0.6]}
    assert metrics.mean_corruption_error(errors, {"snow": [0.6, 0.6], "fog": [0.5, 0.7]}) == pytest.approx(0.75)
    assert metrics.unnormalised_mean_error(errors) == pytest.approx(0.45)
    np.testing.assert_allclose(metrics.robustness_curve({"fog": [0.8, 0.6], "snow": [0.4, 0.4]}), [0.6, 0.5])
    assert metrics.residual_robustness(0.75, 0.5) == 0.25
    assert metrics.normalised_standard_deviation([0.7, 0.8]) == pytest.approx(-5)
    assert metrics.normalised_standard_deviation([0.7]) == 0
    own, baseline = {"tilt": 0.1, "snow": 0.3}, {"snow": 0.2, "tilt": 0.2, "scale": 0.1}
    assert metrics.mean_flip_rate(own, baseline) == pytest.approx(1.0)
    assert metrics.negative_mean_flip_probability(own) == pytest.approx(-0.2)
    assert metrics.mean_top5_distance({"tilt": 3.0}, {"tilt": 2.0}) == pytest.approx(1.5)
    assert metrics.mean_error([0.2, 0.4]) == pytest.approx(0.3)
    assert metrics.unnormalised_mean_error({"fog": [0.2], "own": [0.3, 0.5]}) == pytest.approx(0.3)
    assert metrics.corruption_robustness(errors, {"snow": [0.6, 0.6], "fog": [0.5, 0.7]}) == pytest.approx(0.25)
    assert metrics.flip_rate(0.1, 0.4) == pytest.approx(0.25)
    assert metrics.top5_ratio(3.0, 2.0) == pytest.approx(1.5)
    assert metrics.mean_over_transforms({"tilt": 3.0, "snow": 4.0}) == pytest.approx(3.5)


def test_ratios_of_the_baseline_to_itself_are_one() -> None:
    assert metrics.mean_corruption_error(ALEXNET_ERRORS, ALEXNET_ERRORS) == pytest.approx(1)
    assert metrics.relative_mean_corruption_error(
        ALEXNET_ERRORS, ALEXNET_CLEAN_ERROR, ALEXNET_ERRORS, ALEXNET_CLEAN_ERROR
    ) == pytest.approx(1)
    assert metrics.mean_flip_rate(ALEXNET_FLIP_PROBABILITIES, ALEXNET_FLIP_PROBABILITIES) == pytest.approx(1)


# Baselines


def test_alexnet_constants_are_the_published_values(published: dict[str, Any]) -> None:
    published["imagenet_c_mean_error_extra"] |= {"style_transfer": 0.757}  # of the paper's draft of 2018
    assert published == {
        "imagenet_c_error_by_severity": {name: list(row) for name, row in ALEXNET_ERRORS.items()},
        "imagenet_c_mean_error_extra": baselines.ALEXNET_MEAN_ERRORS,
        "imagenet_clean_error": ALEXNET_CLEAN_ERROR,
        "imagenet_p_flip_probability": ALEXNET_FLIP_PROBABILITIES,
    }


def test_alexnet_constants_cover_all_transforms() -> None:
    names = (*expected_names.published(expected_names.CORRUPTIONS), "style_transfer")
    assert (*ALEXNET_ERRORS, *baselines.ALEXNET_MEAN_ERRORS) == names
    assert set(ALEXNET_FLIP_PROBABILITIES) == set(expected_names.published(expected_names.PERTURBATIONS))


def test_alexnet_errors_rejects_unpublished_values() -> None:
    assert baselines.alexnet_errors("fog", (3, 1)) == (0.84378, 0.67474)
    assert sum(baselines.alexnet_errors("spatter")) == pytest.approx(5 * 0.7175)
    for corruption, severities, message in (
        ("rain", (1,), "'rain': use one of gaussian_noise, "),
        ("fog", (0, 1), "severities \\(0, 1\\): use .* of \\(1, 2, 3, 4, 5\\)"),
        ("fog", (1, 1), "severities \\(1, 1\\): use .* distinct"),
        ("fog", (), "severities \\(\\): use one or more"),
        ("spatter", (1, 2), "spatter at severities \\(1, 2\\) .* use all five"),
    ):
        with pytest.raises(ValueError, match=message):
            baselines.alexnet_errors(corruption, severities)


# Anomalies and correlations


def average_precision_by_definition(scores: Sequence[float], anomalous: Sequence[bool]) -> float:
    total, recall = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        passed = [flag for score, flag in zip(scores, anomalous, strict=True) if score >= threshold]
        gained = sum(passed) / sum(anomalous)
        total += (gained - recall) * sum(passed) / len(passed)
        recall = gained
    return total


@given(st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=40))
@settings(deadline=None)
def test_area_under_precision_recall_equals_its_definition(images: list[tuple[int, bool]]) -> None:
    scores, anomalous = zip(*images, strict=True)
    if not any(anomalous):
        return
    area = metrics.area_under_precision_recall(scores, np.array(anomalous))
    assert area == pytest.approx(average_precision_by_definition(scores, anomalous), abs=1e-12)
    again = metrics.area_under_precision_recall(scores[::-1], np.array(anomalous[::-1]))
    assert again == pytest.approx(area, abs=1e-12)


def test_area_under_precision_recall_equals_values_computed_by_hand() -> None:
    anomalous = np.array([True, False, True, False])
    assert metrics.area_under_precision_recall([0.9, 0.8, 0.7, 0.1], anomalous) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert metrics.area_under_precision_recall([4, 1, 3, 0], anomalous) == 1
    assert metrics.area_under_precision_recall([1, 1, 1, 1], anomalous) == 0.5
    assert metrics.area_under_precision_recall([np.inf, 0, np.inf, -np.inf], anomalous) == 1


@pytest.mark.parametrize(("others", "constant"), [(10_000, 0.166667), (50_000, 0.038462)])
def test_area_of_imagenet_o(others: int, constant: float) -> None:
    """ImageNet-O has 2,000 images. Equal scores of anomalous and other images pass together."""
    anomalous = np.arange(2000 + others) < 2000
    assert metrics.area_under_precision_recall(np.zeros(2000 + others), anomalous) == pytest.approx(constant, abs=1e-6)
    assert metrics.area_under_precision_recall(-np.arange(2000 + others), anomalous) == pytest.approx(1)
    if others == 10_000:
        wrong = metrics.area_under_precision_recall(np.arange(2000 + others), anomalous)
        assert wrong == pytest.approx(0.088434, abs=1e-6)


def test_anomaly_score_is_the_negated_maximum() -> None:
    scores = metrics.anomaly_score(np.array([[0.25, 0.75], [0.5, 0.5]], np.float32))
    np.testing.assert_array_equal(scores, [-0.75, -0.5])


# Leading axes


def rates(shape: Sequence[int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.05, 0.95, shape)


def by_name(values: np.ndarray) -> dict[str, np.ndarray]:
    """Split the axis before the severities into a mapping from corruption to errors."""
    return {f"c{index}": values[..., index, :] for index in range(values.shape[-2])}


def columns(values: np.ndarray) -> dict[str, np.ndarray]:
    return {f"c{index}": values[..., index] for index in range(values.shape[-1])}


BASELINE = rates((4, 5), 1)
BASELINE_ABOVE = 0.5 + 0.4 * rates((4, 5), 2)
NUMBERS = {name: float(row[0]) for name, row in by_name(BASELINE).items()}

FIGURES: dict[str, Callable[[np.ndarray], Any]] = {
    "mean_error": lambda means: metrics.mean_error(means[..., 0, :]),
    "unnormalised_mean_error": lambda means: metrics.unnormalised_mean_error(by_name(means)),
    "corruption_error": lambda means: metrics.corruption_error(means[..., 0, :], BASELINE[0]),
    "mean_corruption_error": lambda means: metrics.mean_corruption_error(by_name(means), by_name(BASELINE)),
    "corruption_robustness": lambda means: metrics.corruption_robustness(by_name(means), by_name(BASELINE)),
    "relative_corruption_error": lambda means: metrics.relative_corruption_error(
        means[..., 0, :], means[..., 1, 0], BASELINE_ABOVE[0], 0.4
    ),
    "relative_mean_corruption_error": lambda means: metrics.relative_mean_corruption_error(
        by_name(means), means[..., 1, 0], by_name(BASELINE_ABOVE), 0.4
    ),
    "flip_rate": lambda means: metrics.flip_rate(means[..., 0, 0], 0.3),
    "mean_flip_rate": lambda means: metrics.mean_flip_rate(columns(means[..., 0]), NUMBERS),
    "negative_mean_flip_probability": lambda means: metrics.negative_mean_flip_probability(columns(means[..., 0])),
    "top5_ratio": lambda means: metrics.top5_ratio(15 * means[..., 0, 0], 3.0),
    "mean_top5_distance": lambda means: metrics.mean_top5_distance(columns(15 * means[..., 0]), NUMBERS),
    "mean_over_transforms": lambda means: metrics.mean_over_transforms(columns(means[..., 0])),
    "natural_robustness": lambda means: metrics.natural_robustness(
        {name: means[..., index % 4, index // 4] for index, name in enumerate(metrics.NATURAL_FIGURES)}
    ),
    "normalised_standard_deviation": lambda means: metrics.normalised_standard_deviation(means[..., 0, :]),
    "residual_robustness": lambda means: metrics.residual_robustness(means[..., 0, 0], means[..., 0, 1]),
    "robustness_curve": lambda means: metrics.robustness_curve(by_name(means))[..., 2][()],
    "normalised_accuracies": lambda means: metrics.normalised_accuracies(means[..., 0, :])[..., 2][()],
    "area_above_curve": lambda means: metrics.area_above_curve(means[..., 0, :], (1, 2, 4, 8, 46)),
    "anomaly_score": lambda means: metrics.anomaly_score(means[..., 0, :]),
    "area_under_precision_recall": lambda means: metrics.area_under_precision_recall(
        means[..., 0, :].round(1), np.array([True, False, True, False, False])
    ),
    "expected_calibration_error": lambda means: metrics.expected_calibration_error(
        means[..., 0, :], means[..., 1, :] < 0.5
    ),
    "adaptive_calibration_error": lambda means: metrics.adaptive_calibration_error(
        means[..., 0, :], means[..., 1, :] < 0.5, bins=2
    ),
    "negative_log_likelihood": lambda means: metrics.negative_log_likelihood(means[..., 0, :]),
    "brier_score": lambda means: metrics.brier_score(means[..., 0, :], means[..., 1, :]),
}
"""Metrics with leading axes, as functions of means of shape (..., 4 corruptions, 5 severities)."""

OF_IMAGES = {"area_under_precision_recall", "expected_calibration_error", "adaptive_calibration_error"}
FIGURES_OF_MEANS = [name for name in FIGURES if name not in OF_IMAGES]


def test_every_metric_is_tested_with_leading_axes() -> None:
    of_samples = {
        *("alexnet_errors", "estimate_of_groups", "ordinal_ranks"),
        *("flip_probability", "top5_distance", "zipf_distance"),
        *("real_accuracy", "real_hits"),
        *("cutoff_bandwidths", "frequency_bias"),
        *("adversarial_robustness", "worst_case_adversarial_robustness", "robust_accuracy", "attack_success_rate"),
        *("smallest_budgets", "accuracy_at_budgets", "median_budget", "area_under_accuracy"),
        *("robust_by_image", "survived_by_image"),
        *("reliability", "adaptive_reliability", "negative_log_likelihoods", "brier_scores"),
        *(name for name in metrics.__all__ if name.endswith("_by_sequence")),
    }
    functions = {name for name in metrics.__all__ if name.islower()}
    assert functions - of_samples == set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
@given(st.lists(st.integers(1, 3), max_size=3), st.integers(0, 2**32))
@settings(deadline=None, max_examples=25)
def test_metrics_with_leading_axes_equal_a_loop(name: str, leading: list[int], seed: int) -> None:
    figure, means = FIGURES[name], rates((*leading, 4, 5), seed)
    before = means.copy()
    result = figure(means)
    assert isinstance(result, np.ndarray if leading else float)
    assert np.shape(result) == tuple(leading)
    for index in np.ndindex(*leading):
        one = figure(means[index])
        assert isinstance(one, float)
        assert (result[index] if leading else result) == pytest.approx(one, abs=1e-14, rel=1e-14)
    np.testing.assert_array_equal(means, before)


def test_area_under_precision_recall_accepts_shared_or_per_row_labels() -> None:
    scores, anomalous = rates((6, 20), 3).round(1), rates((6, 20), 4) < 0.4
    each = [metrics.area_under_precision_recall(*pair) for pair in zip(scores, anomalous, strict=True)]
    np.testing.assert_allclose(metrics.area_under_precision_recall(scores, anomalous), each, rtol=1e-14)
    alike = [metrics.area_under_precision_recall(row, anomalous[0]) for row in scores]
    np.testing.assert_allclose(metrics.area_under_precision_recall(scores, anomalous[0]), alike, rtol=1e-14)


def test_relative_ce_accepts_one_clean_error_or_one_per_draw() -> None:
    errors, clean = rates((7, 5), 5), rates((7,), 6)
    each = [
        metrics.relative_corruption_error(row, one, BASELINE_ABOVE[0], 0.4)
        for row, one in zip(errors, clean, strict=True)
    ]
    result = metrics.relative_corruption_error(errors, clean, BASELINE_ABOVE[0], 0.4)
    np.testing.assert_allclose(result, each, rtol=1e-14)
    alike = metrics.relative_corruption_error(errors, clean[0], BASELINE_ABOVE[0], 0.4)
    assert alike[0] == result[0]
    assert alike[1] != result[1]


# Confidence intervals


def mean(means: np.ndarray) -> np.ndarray:
    return means


def interval(values: np.ndarray, confidence: float = 0.95, **how: int) -> tuple[float, float]:
    result = Bootstrap.of(values, **how).estimate(mean, confidence)
    return result.low, result.high


def test_intervals_cover_the_true_value_at_the_stated_rate() -> None:
    generator = np.random.default_rng(6)
    result = [interval(generator.random(200) < 0.3, resamples=300) for _ in range(300)]
    covered = np.mean([low <= 0.3 <= high for low, high in result])
    assert 0.90 <= covered <= 0.98


def test_intervals_approximate_the_normal_distribution() -> None:
    values = np.random.default_rng(5).random(5000)
    low, high = interval(values, confidence=0.9, resamples=4000)
    half = 1.6449 * values.std() / np.sqrt(len(values))
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.1 * half)


def test_intervals_depend_only_on_the_arguments() -> None:
    values = np.random.default_rng(5).random(100)
    before = values.copy()
    np.random.seed(1)
    first = interval(values, seed=3)
    np.random.seed(2)
    assert interval(values, seed=3) == first
    assert interval(values, seed=4) != first
    wider = interval(values, seed=3, confidence=0.99)
    assert wider[0] < first[0] < values.mean() < first[1] < wider[1]
    np.testing.assert_array_equal(values, before)


def test_draws_equal_those_of_numpys_default_generator() -> None:
    """Keep the intervals of reports the same across releases."""
    values = np.random.default_rng(5).random((60, 2))
    generator = np.random.default_rng(9)
    expected = [values[generator.integers(60, size=60)].mean(axis=0) for _ in range(50)]
    np.testing.assert_allclose(bootstrap_means(values, resamples=50, seed=9), expected, rtol=1e-13)
    np.testing.assert_allclose(
        bootstrap_means(values[:, 0], resamples=50, seed=9), np.array(expected)[:, 0], rtol=1e-13
    )


def test_groups_are_resampled_independently() -> None:
    groups = [np.random.default_rng(5).random(30), np.random.default_rng(6).random(20)]
    generator = np.random.default_rng(0)
    draws = [np.subtract(*(generator.choice(group, len(group)).mean() for group in groups)) for _ in range(40)]

    def difference(drawn: list[np.ndarray]) -> float:
        return drawn[0].mean() - drawn[1].mean()

    result = estimate_of_groups(difference, groups, resamples=40)
    assert result == Estimate(difference(groups), *percentile_interval(draws))
    assert result.low < result.value < result.high


def test_a_single_group_gets_the_draws_of_bootstrap_means() -> None:
    values = np.random.default_rng(5).random(60)
    by_groups = estimate_of_groups(lambda groups: groups[0].mean(), [values], resamples=50, seed=2)
    by_means = Bootstrap.of(values, resamples=50, seed=2).estimate(mean)
    assert astuple(by_groups) == pytest.approx(astuple(by_means), abs=1e-13)


@pytest.mark.parametrize("name", FIGURES_OF_MEANS)
def test_identical_images_give_an_interval_of_width_zero(name: str) -> None:
    """Only differences between images widen an interval."""
    figure = FIGURES[name]
    row = np.array([0.25, 0.5, 0.75, 0.5, 1, 0.5, 0.25, 0.5, 0.5, 0.75] * 2)
    result = Bootstrap.of(np.tile(row, (8, 1)), resamples=40)
    estimate = result.estimate(lambda means: figure(means.reshape(*means.shape[:-1], 4, 5)))
    assert estimate.low == pytest.approx(estimate.value, abs=1e-14)
    assert estimate.high == pytest.approx(estimate.value, abs=1e-14)


@pytest.mark.parametrize("name", FIGURES_OF_MEANS)
def test_estimate_returns_the_metric_and_its_interval(name: str) -> None:
    values = np.random.default_rng(7).random((90, 20)) < 0.6

    def figure(means: np.ndarray) -> Any:
        return FIGURES[name](means.reshape(*means.shape[:-1], 4, 5))

    result = Bootstrap.of(values, resamples=80, seed=4).estimate(figure, confidence=0.9)
    generator = np.random.default_rng(4)
    draws = [figure(values[generator.integers(90, size=90)].mean(axis=0)) for _ in range(80)]
    assert result.value == pytest.approx(figure(values.mean(axis=0)), abs=1e-13)
    assert (result.low, result.high) == pytest.approx(np.quantile(draws, [0.05, 0.95]).tolist(), abs=1e-12)
    assert result.low < result.high


@given(st.integers(1, 40), st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_bootstrap_means_of_fractions_do_not_exceed_one(images: int, seed: int) -> None:
    """Metrics reject fractions above 1, even by a rounding error."""
    values = 1 - np.random.default_rng(seed).random((images, 3)) * 1e-16
    values[:, 1] = 29 / 30
    result = Bootstrap.of(values, resamples=20, seed=seed)
    assert result.draws.max() <= 1
    assert result.estimate(metrics.mean_error).high <= 1


# Invalid arguments


SOME = np.ones((2, 3, 6), np.int64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.ordinal_ranks(np.ones((2, 3), int)), "type int64: pass floats of"),
        (lambda: metrics.ordinal_ranks(np.ones((2, 0))), "shape \\(2, 0\\)"),
        (lambda: metrics.ordinal_ranks(np.float32(1)), "shape \\(\\)"),
        (lambda: metrics.ordinal_ranks([1.0, np.nan]), "NaN"),
        (lambda: metrics.ordinal_ranks(np.array([1, np.nan], np.float32)), "NaN"),
        (lambda: metrics.flip_probability(np.ones((2, 3)), ordered=True), "type float64: pass integers of"),
        (lambda: metrics.flip_probability(SOME, ordered=True), "shape \\(2, 3, 6\\).*\\(sequences, frames\\)"),
        (lambda: metrics.flip_probability(SOME[:0, :, 0], ordered=True), "shape \\(0, 3\\)"),
        (lambda: metrics.flip_probability(SOME[:, :1, 0], ordered=False), "sequences have 1 frame"),
        (lambda: metrics.flip_probability(SOME[:, :, 0], ordered=True, difficulty=3), "difficulty 3: use 1..2"),
        (lambda: metrics.flip_probability(SOME[:, :, 0], ordered=False, difficulty=0), "difficulty 0"),
        (lambda: metrics.top5_distance(SOME[0], ordered=True), "pass integers of shape \\(sequences, frames, classes"),
        (lambda: metrics.top5_distance(SOME, ordered=True), "ties or gaps: use ordinal ranks"),
        (lambda: metrics.top5_distance(SOME * 0, ordered=True), "ranks 0..0: use 1..6 for 6 classes"),
        (lambda: metrics.zipf_distance(SOME * 7, ordered=True), "ranks 7..7: use 1..6 for 6 classes"),
        (
            lambda: metrics.top5_distances_of_lists_by_sequence(SOME, ordered=True),
            "top-5 lists of 6 classes: pass at most 5",
        ),
        (lambda: metrics.top5_distances_of_lists_by_sequence(SOME[..., :5], ordered=True), "a class twice"),
        (
            lambda: metrics.top5_distances_of_lists_by_sequence(-SOME[..., :5], ordered=True),
            "class indices -1..-1 in top-5 lists: use 0 or more",
        ),
        (
            lambda: metrics.top5_distances_of_lists_by_sequence(3 * SOME[..., :2], ordered=True),
            "3..3 in top-5 lists: use 0..1 in lists of 2",
        ),
        (
            lambda: metrics.corruption_error([0.1], [0.1, 0.2]),
            "1 severities, but the baseline has shape \\(2,\\)",
        ),
        (
            lambda: metrics.corruption_error([10.0], [20.0]),
            "errors 10.0..10.0: use fractions 0..1, not percent",
        ),
        (lambda: metrics.corruption_error([0.1], [0.0]), "baseline of 0.0 for the errors"),
        (lambda: metrics.corruption_error([], []), "at least one number"),
        (lambda: metrics.relative_corruption_error([0.1], 0.0, [0.2], 0.3), "a baseline of -0.0"),
        (lambda: metrics.relative_corruption_error([0.1], 2.0, [0.2], 0.1), "the clean error 2.0: use fractions"),
        (
            lambda: metrics.mean_corruption_error({"fog": [0.1]}, {"snow": [0.1]}),
            "baseline lacks fog; it has snow: use",
        ),
        (lambda: metrics.mean_corruption_error({}, {}), "at least one"),
        (lambda: metrics.unnormalised_mean_error({}), "pass one or more"),
        (lambda: metrics.unnormalised_mean_error({"fog": [50.0]}), "fog 50.0..50.0: use fractions"),
        (lambda: metrics.mean_flip_rate({"tilt": 3.0}, {"tilt": 0.1}), "flip probabilities of tilt 3.0: use fractions"),
        (lambda: metrics.mean_flip_rate({"tilt": 0.3}, {"tilt": 0.0}), "a baseline of 0.0 for tilt"),
        (lambda: metrics.mean_top5_distance({"tilt": np.nan}, {"tilt": 1.0}), "nan by a baseline of 1.0 for tilt"),
        (lambda: metrics.negative_mean_flip_probability({}), "pass one or more"),
        (lambda: metrics.normalised_standard_deviation([71.0, 72.0]), "not percent"),
        (lambda: metrics.residual_robustness(0.5, np.nan), "corrupted accuracies nan: use fractions"),
        (lambda: metrics.robustness_curve({"fog": [0.1], "snow": [0.1, 0.2]}), "severities"),
        (lambda: metrics.robustness_curve({}), "0 corruptions"),
        (lambda: metrics.anomaly_score([1, 2]), "type int64: pass floats"),
        (lambda: metrics.anomaly_score([1.0, 2.0]), "probabilities 1.0..2.0: use 0..1"),
        (
            lambda: metrics.area_under_precision_recall([1.0], [1]),
            "type int64: pass scores of shape .* one bool for each image",
        ),
        (lambda: metrics.area_under_precision_recall([1.0, 2.0], [True]), "shape \\(1,\\)"),
        (lambda: metrics.area_under_precision_recall([1.0], [False]), "no image is anomalous: .* at least one"),
        (lambda: metrics.area_under_precision_recall([np.nan, 1.0], np.array([True, False])), "some are NaN"),
        (
            lambda: metrics.mean_over_transforms({"fog": [0.1], "snow": [0.1, 0.2]}),
            "shapes .*pass one or more of the same",
        ),
        (lambda: metrics.mean_over_transforms({"fog": np.nan}), "not finite"),
        (lambda: metrics.flip_rate(3.0, 0.1), "flip probabilities 3.0: use fractions"),
        (lambda: metrics.flip_rate(0.3, 0.0), "baseline of 0.0 for the flip probability: .* above 0"),
        (lambda: metrics.top5_ratio(3.0, np.nan), "baseline of nan for the top-5 distance"),
        (lambda: metrics.mean_error(0.5), "shape \\(\\): pass a row"),
        (lambda: Bootstrap.of(np.ones((2, 2, 2))), "shape \\(2, 2, 2\\)"),
        (lambda: Bootstrap.of([]), "shape \\(0,\\)"),
        (lambda: Bootstrap.of(["a"]), "pass numbers"),
        (lambda: Bootstrap.of([1.0, np.nan]), "not finite"),
        (lambda: Bootstrap.of([1.0], resamples=0), "number of resamples 0: use at least 1"),
        (lambda: Bootstrap.of([1.0]).estimate(mean, confidence=95), "confidence 95"),
        (lambda: percentile_interval(np.ones((2, 2))), "shape \\(2, 2\\): pass .* \\(draws,\\)"),
        (
            lambda: Bootstrap.of(np.ones((9, 3))).estimate(lambda means: means.mean(axis=0)),
            "one value for each of 1000 draws",
        ),
        (lambda: estimate_of_groups(lambda groups: 0.0, [[1.0], []]), "shape \\(0,\\)"),
    ],
)
def test_invalid_arguments_are_named_with_the_remedy(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_metrics_import_only_numpy() -> None:
    loaded = "import sys; import pipeline.evaluate.metrics, pipeline.evaluate.metrics.alexnet; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert not {"torch", "ray", "pandas", "pyarrow", "sklearn", "scipy"} & set(done.stdout.split())
