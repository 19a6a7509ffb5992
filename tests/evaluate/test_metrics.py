from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corruptions import names as corruption_names
from perturbations import names as perturbation_names
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import alexnet as baselines
from pipeline.evaluate.metrics import bootstrap as intervals
from pipeline.evaluate.metrics import checks
from pipeline.evaluate.metrics.alexnet import ALEXNET_CLEAN_ERROR, ALEXNET_ERRORS, ALEXNET_FLIP_PROBABILITIES

GOLDEN_TOLERANCE = 1e-9
GOLDEN_PAIRS = [(kind, difficulty) for kind in ("temporal", "noise") for difficulty in (1, 2, 3)]

RESNET_50_CLEAN_ERROR = 0.239
RESNET_50 = (80, 82, 83, 75, 89, 78, 80, 78, 75, 66, 57, 71, 85, 77, 77)
RESNET_50_RELATIVE = (104, 107, 107, 97, 126, 107, 110, 101, 97, 79, 62, 89, 146, 111, 132)
RESNET_18_CLEAN_ERROR = 0.302
RESNET_18 = (87, 88, 91, 84, 91, 87, 89, 86, 84, 78, 69, 78, 90, 80, 85)
"""Percent of AlexNet's, in the order of the corruptions, rounded in the paper's table."""


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


def made_logits(seed: int, *shape: int, levels: int = 7) -> np.ndarray:
    """Logits of few different values, so that many are equal."""
    return np.random.default_rng(seed).integers(-levels, levels, shape).astype(np.float32)


def pairs_by_loop(frames: int, ordered: bool, difficulty: int) -> list[tuple[int, int]]:
    if ordered:
        return [(later - difficulty, later) for later in range(difficulty, frames)]
    return [(0, later) for later in range(1, frames)]


def top5_distance_by_definition(earlier: np.ndarray, later: np.ndarray) -> int:
    """The paper's double sum, of two frames' ranks."""
    distance = 0
    for i in range(1, min(5, len(earlier)) + 1):
        sigma = int(later[earlier.tolist().index(i)])
        distance += sum(1 <= j - 1 <= 5 for j in range(min(i, sigma) + 1, max(i, sigma) + 1))
    return distance


def zipf_distance_by_definition(earlier: np.ndarray, later: np.ndarray) -> float:
    return sum(abs(1 / a - 1 / b) / a for a, b in zip(earlier.tolist(), later.tolist(), strict=True))


# ImageNet-P


@pytest.mark.parametrize(("kind", "difficulty"), GOLDEN_PAIRS)
def test_equals_the_golden_figures_of_sequences(
    golden: dict[str, Any], logits: np.ndarray, kind: str, difficulty: int
) -> None:
    expected = golden["perturbation"][f"{kind}/difficulty{difficulty}"]
    how: Any = {"ordered": kind == "temporal", "difficulty": difficulty}
    ranks = metrics.ordinal_ranks(logits)
    found = {
        "flip_probability": metrics.flip_probability(logits.argmax(axis=-1), **how),
        "top5_distance": metrics.top5_distance(ranks, **how),
        "zipf_distance": metrics.zipf_distance(ranks, **how),
    }
    assert found == pytest.approx(expected, abs=GOLDEN_TOLERANCE, rel=0)
    assert metrics.top5_distance_of_lists(metrics.top5_lists(logits), **how) == found["top5_distance"]


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
def test_figures_of_sequences_equal_plain_loops(case: Mapping[str, Any]) -> None:
    logits = made_logits(case["seed"], case["count"], case["frames"], case["classes"], levels=3)
    ordered, difficulty = case["ordered"], min(case["difficulty"], case["frames"] - 1)
    ranks = metrics.ordinal_ranks(logits)
    np.testing.assert_array_equal(ranks, ranks_by_sorting(logits))
    pairs = pairs_by_loop(case["frames"], ordered, difficulty)
    how: Any = {"ordered": ordered, "difficulty": difficulty}

    flips = [[row[a].argmax() != row[b].argmax() for a, b in pairs] for row in logits]
    distances = [[top5_distance_by_definition(row[a], row[b]) for a, b in pairs] for row in ranks]
    zipf = [[zipf_distance_by_definition(row[a], row[b]) for a, b in pairs] for row in ranks]
    predictions = logits.argmax(axis=-1)
    for found, expected in (
        (metrics.flip_probabilities_by_sequence(predictions, **how), flips),
        (metrics.top5_distances_by_sequence(ranks, **how), distances),
        (metrics.zipf_distances_by_sequence(ranks, **how), zipf),
    ):
        np.testing.assert_allclose(found, np.mean(expected, axis=1), rtol=1e-12, atol=1e-12)
    assert metrics.flip_probability(predictions, **how) == pytest.approx(np.mean(flips), abs=1e-12)
    assert metrics.top5_distance(ranks, **how) == pytest.approx(np.mean(distances), abs=1e-12)
    assert metrics.zipf_distance(ranks, **how) == pytest.approx(np.mean(zipf), abs=1e-12)

    lists = metrics.top5_lists(logits)
    assert lists.shape == (*logits.shape[:2], min(5, case["classes"]))
    np.testing.assert_array_equal(
        metrics.top5_distances_of_lists_by_sequence(lists.astype(np.int64), **how),
        metrics.top5_distances_by_sequence(ranks, **how),
    )


@pytest.mark.parametrize("ordered", [True, False])
def test_figures_of_sequences_stay_the_same(ordered: bool) -> None:
    logits = made_logits(3, 6, 9, 30, levels=1000)
    order = np.random.default_rng(1).permutation(6)
    classes = np.random.default_rng(2).permutation(30)
    assert len(np.unique(logits[0, 0])) == 30  # renaming classes must not decide ties
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
    same = metrics.top5_distance(shuffled, ordered=False) == metrics.top5_distance(ranks, ordered=False)
    assert same  # frames of noise have no order but for the first


def test_figures_of_sequences_by_hand() -> None:
    predictions = np.array([[1, 1, 2, 1], [4, 4, 4, 5]], np.int16)
    assert metrics.flip_probability(predictions, ordered=True) == pytest.approx(3 / 6)
    assert metrics.flip_probability(predictions, ordered=True, difficulty=2) == pytest.approx(2 / 4)
    assert metrics.flip_probability(predictions, ordered=True, difficulty=3) == pytest.approx(1 / 2)
    assert metrics.flip_probability(predictions, ordered=False) == pytest.approx(2 / 6)
    assert metrics.flip_probability(predictions, ordered=False, difficulty=9) == pytest.approx(2 / 6)
    np.testing.assert_allclose(metrics.flip_probabilities_by_sequence(predictions, ordered=True), [2 / 3, 1 / 3])

    lists = np.array([[[0, 1, 2, 3, 4], [1, 0, 2, 3, 9]]])
    assert metrics.top5_distance_of_lists(lists, ordered=True) == 1 + 1 + 1  # two change places, the fifth leaves
    apart = np.array([[[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]])
    assert metrics.top5_distance_of_lists(apart, ordered=True) == 15

    ranks = np.array([[[1, 2, 3], [2, 1, 3]]])
    assert metrics.zipf_distance(ranks, ordered=True) == pytest.approx(1 / 2 / 1 + 1 / 2 / 2)


def test_top5_distance_is_not_symmetric() -> None:
    there = np.array([[[1, 2, 3, 4, 5, 6, 7], [7, 1, 2, 3, 4, 5, 6]]])
    assert metrics.top5_distance(there, ordered=True) != metrics.top5_distance(there[:, ::-1], ordered=True)


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = made_logits(8, 7, 4, 11)
    ranks = metrics.ordinal_ranks(logits)
    figures: list[Callable[[], object]] = [
        lambda: metrics.ordinal_ranks(logits).tolist(),
        lambda: metrics.top5_lists(logits).tolist(),
        lambda: metrics.top5_distance(ranks, ordered=True),
        lambda: metrics.zipf_distance(ranks, ordered=False),
        lambda: intervals.bootstrap_interval(ranks[:, 0, 0], resamples=30),
    ]
    before = [figure() for figure in figures]
    monkeypatch.setattr(checks, "CHUNK_VALUES", 50)
    assert [figure() for figure in figures] == before


# Ranks


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@given(st.integers(0, 2**32), st.integers(1, 300))
@settings(deadline=None, max_examples=50)
def test_ranks_of_every_type_break_ties_by_index(dtype: type, seed: int, classes: int) -> None:
    logits: np.ndarray = made_logits(seed, 3, classes, levels=20).astype(dtype)
    logits[logits == 19] = np.inf
    logits[logits == -20] = -np.inf
    logits[logits == 1] = -0.0
    ranks = metrics.ordinal_ranks(logits)
    assert ranks.dtype == (np.uint8 if classes < 256 else np.uint16)
    np.testing.assert_array_equal(ranks, ranks_by_sorting(logits))
    np.testing.assert_array_equal(metrics.top5_lists(logits), np.argsort(ranks, axis=-1)[:, :5])


def test_ranks_tell_close_logits_apart() -> None:
    assert metrics.ordinal_ranks(np.array([1.0, np.nextafter(1.0, 2)])).tolist() == [2, 1]
    near = np.nextafter(np.float32(-1), np.float32(0))
    assert metrics.ordinal_ranks(np.array([-1, near, 1e-45, 0], np.float32)).tolist() == [4, 3, 1, 2]


def test_ranks_keep_the_shape_and_the_logits() -> None:
    logits = made_logits(1, 2, 3, 4, 5)
    before = logits.copy()
    assert metrics.ordinal_ranks(logits).shape == (2, 3, 4, 5)
    assert metrics.top5_lists(logits[0, 0, 0]).shape == (5,)
    assert metrics.ordinal_ranks(logits[:0]).shape == (0, 3, 4, 5)
    assert metrics.top5_lists(logits[:0]).shape == (0, 3, 4, 5)
    np.testing.assert_array_equal(logits, before)


# ImageNet-C


def test_equals_the_golden_figures_of_corruptions(golden: dict[str, Any]) -> None:
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
def test_published_means(row: Sequence[int], clean: float, mean: float, relative_mean: float) -> None:
    errors = errors_of_published_row(row)
    assert 100 * metrics.mean_corruption_error(errors, ALEXNET_ERRORS) == pytest.approx(mean, abs=0.3)
    relative = metrics.relative_mean_corruption_error(errors, clean, ALEXNET_ERRORS, ALEXNET_CLEAN_ERROR)
    assert 100 * relative == pytest.approx(relative_mean, abs=2)


def test_published_relative_row() -> None:
    errors = errors_of_published_row(RESNET_50)
    for (name, row), expected in zip(errors.items(), RESNET_50_RELATIVE, strict=True):
        relative = metrics.relative_corruption_error(
            row, RESNET_50_CLEAN_ERROR, ALEXNET_ERRORS[name], ALEXNET_CLEAN_ERROR
        )
        assert 100 * relative == pytest.approx(expected, abs=2), name


def test_figures_of_corruptions_by_hand() -> None:
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
    assert metrics.noise_mean_flip(own) == pytest.approx(-0.2)
    assert metrics.mean_top5_distance({"tilt": 3.0}, {"tilt": 2.0}) == pytest.approx(1.5)


def test_a_model_is_its_own_baseline() -> None:
    assert metrics.mean_corruption_error(ALEXNET_ERRORS, ALEXNET_ERRORS) == pytest.approx(1)
    assert metrics.relative_mean_corruption_error(
        ALEXNET_ERRORS, ALEXNET_CLEAN_ERROR, ALEXNET_ERRORS, ALEXNET_CLEAN_ERROR
    ) == pytest.approx(1)
    assert metrics.mean_flip_rate(ALEXNET_FLIP_PROBABILITIES, ALEXNET_FLIP_PROBABILITIES) == pytest.approx(1)


# Baselines


def test_baselines_are_the_published_numbers(published: dict[str, Any]) -> None:
    assert published == {
        "imagenet_c_error_by_severity": {name: list(row) for name, row in ALEXNET_ERRORS.items()},
        "imagenet_c_mean_error_extra": baselines.ALEXNET_MEAN_ERRORS,
        "imagenet_clean_error": ALEXNET_CLEAN_ERROR,
        "imagenet_p_flip_probability": ALEXNET_FLIP_PROBABILITIES,
    }


def test_baselines_cover_the_benchmarks() -> None:
    assert tuple(ALEXNET_ERRORS) == corruption_names("benchmark")
    assert set(baselines.ALEXNET_MEAN_ERRORS) == set(corruption_names("extra"))
    assert set(ALEXNET_FLIP_PROBABILITIES) == set(perturbation_names("all"))


def test_alexnet_errors() -> None:
    assert baselines.alexnet_errors("fog", (3, 1)) == (0.84378, 0.67474)
    assert sum(baselines.alexnet_errors("spatter")) == pytest.approx(5 * 0.7175)
    for corruption, severities, message in (
        ("rain", (1,), "no AlexNet error is known for 'rain'; known are gaussian_noise, "),
        ("fog", (0, 1), "severities \\(0, 1\\); allowed are different ones of \\(1, 2, 3, 4, 5\\)"),
        ("fog", (1, 1), "different ones"),
        ("fog", (), "at least one"),
        ("spatter", (1, 2), "only AlexNet's mean over the severities"),
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
def test_area_equals_its_definition(images: list[tuple[int, bool]]) -> None:
    scores, anomalous = zip(*images, strict=True)
    if not any(anomalous):
        return
    area = metrics.area_under_precision_recall(scores, np.array(anomalous))
    assert area == pytest.approx(average_precision_by_definition(scores, anomalous), abs=1e-12)
    again = metrics.area_under_precision_recall(scores[::-1], np.array(anomalous[::-1]))
    assert again == pytest.approx(area, abs=1e-12)


def test_area_by_hand() -> None:
    anomalous = np.array([True, False, True, False])
    assert metrics.area_under_precision_recall([0.9, 0.8, 0.7, 0.1], anomalous) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert metrics.area_under_precision_recall([4, 1, 3, 0], anomalous) == 1
    assert metrics.area_under_precision_recall([1, 1, 1, 1], anomalous) == 0.5
    assert metrics.area_under_precision_recall([np.inf, 0, np.inf, -np.inf], anomalous) == 1


def test_anomaly_scores_and_correlations() -> None:
    scores = metrics.anomaly_score(np.array([[0.25, 0.75], [0.5, 0.5]], np.float32))
    np.testing.assert_array_equal(scores, [-0.75, -0.5])
    first, second = np.random.default_rng(4).normal(size=(2, 9))
    assert metrics.correlation_of_benchmarks(first, second) == pytest.approx(np.corrcoef(first, second)[0, 1])
    assert metrics.correlation_of_benchmarks(first, 2 - 3 * first) == pytest.approx(-1)


# Confidence intervals


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(6)
    found = [intervals.bootstrap_interval(generator.random(200) < 0.3, resamples=300) for _ in range(300)]
    covered = np.mean([low <= 0.3 <= high for low, high in found])
    assert 0.90 <= covered <= 0.98


def test_intervals_are_those_of_the_normal_distribution() -> None:
    values = np.random.default_rng(5).random(5000)
    low, high = intervals.bootstrap_interval(values, confidence=0.9, resamples=4000)
    half = 1.6449 * values.std() / np.sqrt(len(values))
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.1 * half)


def test_intervals_depend_on_their_arguments_alone() -> None:
    values = np.random.default_rng(5).random(100)
    before = values.copy()
    np.random.seed(1)
    first = intervals.bootstrap_interval(values, seed=3)
    np.random.seed(2)
    assert intervals.bootstrap_interval(values, seed=3) == first
    assert intervals.bootstrap_interval(values, seed=4) != first
    wider = intervals.bootstrap_interval(values, seed=3, confidence=0.99)
    assert wider.low < first.low < values.mean() < first.high < wider.high
    np.testing.assert_array_equal(values, before)


def test_every_statistic_sees_the_same_draws() -> None:
    values = np.random.default_rng(5).random((60, 2))
    quick = intervals.bootstrap_interval(values[:, 0], resamples=50)
    slow = intervals.bootstrap_interval(values, statistic=lambda rows: float(rows[:, 0].mean()), resamples=50)
    assert slow == pytest.approx(quick, abs=1e-12)
    means = intervals.bootstrap_means(values, resamples=50)
    assert intervals.percentile_interval(means[:, 0]) == pytest.approx(quick, abs=1e-12)
    assert means.shape == (50, 2)
    assert intervals.bootstrap_interval(np.ones(7), statistic=np.median) == (1, 1)


# What comes at the border


SOME = np.ones((2, 3, 6), np.int64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.ordinal_ranks(np.ones((2, 3), int)), "type int64; allowed are floats of"),
        (lambda: metrics.ordinal_ranks(np.ones((2, 0))), "shape \\(2, 0\\)"),
        (lambda: metrics.ordinal_ranks(np.float32(1)), "shape \\(\\)"),
        (lambda: metrics.ordinal_ranks([1.0, np.nan]), "NaN"),
        (lambda: metrics.top5_lists(np.array([1, np.nan], np.float32)), "NaN"),
        (lambda: metrics.flip_probability(np.ones((2, 3)), ordered=True), "type float64; allowed are integers of"),
        (lambda: metrics.flip_probability(SOME, ordered=True), "shape \\(2, 3, 6\\).*\\(sequences, frames\\)"),
        (lambda: metrics.flip_probability(SOME[:0, :, 0], ordered=True), "shape \\(0, 3\\)"),
        (lambda: metrics.flip_probability(SOME[:, :1, 0], ordered=False), "sequences of 1 frame"),
        (lambda: metrics.flip_probability(SOME[:, :, 0], ordered=True, difficulty=3), "difficulty 3; .* allow 1..2"),
        (lambda: metrics.flip_probability(SOME[:, :, 0], ordered=False, difficulty=0), "difficulty 0"),
        (lambda: metrics.top5_distance(SOME[0], ordered=True), "allowed are integers of \\(sequences, frames, classes"),
        (lambda: metrics.top5_distance(SOME, ordered=True), "ranks with ties or gaps"),
        (lambda: metrics.top5_distance(SOME * 0, ordered=True), "ranks 0..0; of 6 classes 1..6 are allowed"),
        (lambda: metrics.zipf_distance(SOME * 7, ordered=True), "ranks 7..7; of 6 classes 1..6 are allowed"),
        (lambda: metrics.top5_distance_of_lists(SOME, ordered=True), "top-5 lists of 6 classes; at most 5"),
        (lambda: metrics.top5_distance_of_lists(SOME[..., :5], ordered=True), "a class twice"),
        (lambda: metrics.top5_distance_of_lists(-SOME[..., :5], ordered=True), "indices -1..-1; allowed are 0 and"),
        (lambda: metrics.top5_distance_of_lists(3 * SOME[..., :2], ordered=True), "3..3; allowed are 0..1 in lists"),
        (lambda: metrics.corruption_error([0.1], [0.1, 0.2]), "errors at 1 severities, the baseline's at 2"),
        (
            lambda: metrics.corruption_error([10.0], [20.0]),
            "errors 10.0..10.0; fractions 0..1 are allowed, not percent",
        ),
        (lambda: metrics.corruption_error([0.1], [0.0]), "baseline of 0.0 for the errors"),
        (lambda: metrics.corruption_error([], []), "at least one number"),
        (lambda: metrics.relative_corruption_error([0.1], 0.0, [0.2], 0.3), "a baseline of -0.0"),
        (lambda: metrics.relative_corruption_error([0.1], 2.0, [0.2], 0.1), "the clean error 2.0..2.0"),
        (lambda: metrics.mean_corruption_error({"fog": [0.1]}, {"snow": [0.1]}), "baseline lacks fog; it has snow"),
        (lambda: metrics.mean_corruption_error({}, {}), "at least one"),
        (lambda: metrics.unnormalised_mean_error({}), "at least one number"),
        (lambda: metrics.unnormalised_mean_error({"fog": [50.0]}), "fog 50.0..50.0"),
        (lambda: metrics.mean_flip_rate({"tilt": 3.0}, {"tilt": 0.1}), "flip probabilities 3.0..3.0"),
        (lambda: metrics.mean_flip_rate({"tilt": 0.3}, {"tilt": 0.0}), "a baseline of 0.0 for tilt"),
        (lambda: metrics.mean_top5_distance({"tilt": np.nan}, {"tilt": 1.0}), "nan over a baseline of 1.0 for tilt"),
        (lambda: metrics.noise_mean_flip({}), "at least one number"),
        (lambda: metrics.normalised_standard_deviation([71.0, 72.0]), "not percent"),
        (lambda: metrics.residual_robustness(0.5, np.nan), "accuracies nan..nan"),
        (lambda: metrics.robustness_curve({"fog": [0.1], "snow": [0.1, 0.2]}), "severities"),
        (lambda: metrics.robustness_curve({}), "0 corruptions"),
        (lambda: metrics.anomaly_score([1, 2]), "type int64; allowed are floats"),
        (lambda: metrics.anomaly_score([1.0, 2.0]), "probabilities 1.0..2.0; 0..1 are allowed"),
        (lambda: metrics.area_under_precision_recall([1.0], [1]), "type int64; allowed are \\(images,\\) and bool"),
        (lambda: metrics.area_under_precision_recall([1.0, 2.0], [True]), "shape \\(1,\\)"),
        (lambda: metrics.area_under_precision_recall([1.0], [False]), "no image that is anomalous"),
        (lambda: metrics.correlation_of_benchmarks([1.0, 2.0], [1.0]), "shapes \\(2,\\) and \\(1,\\)"),
        (lambda: metrics.correlation_of_benchmarks([1.0, 2.0], [1.0, 1.0]), "one figure for all models"),
        (lambda: intervals.bootstrap_interval(np.ones((2, 2, 2))), "shape \\(2, 2, 2\\)"),
        (lambda: intervals.bootstrap_interval([]), "shape \\(0,\\)"),
        (lambda: intervals.bootstrap_interval(["a"]), "allowed are numbers"),
        (lambda: intervals.bootstrap_interval([1.0, np.nan]), "not finite"),
        (lambda: intervals.bootstrap_interval([1.0], resamples=0), "0 resamples"),
        (lambda: intervals.bootstrap_interval([1.0], confidence=95), "confidence 95"),
        (lambda: intervals.percentile_interval(np.ones((2, 2))), "allowed is \\(resamples,\\)"),
    ],
)
def test_bad_arguments_say_what_came_and_what_is_allowed(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_figures_load_neither_torch_nor_ray() -> None:
    loaded = "import sys; import pipeline.evaluate.metrics, pipeline.evaluate.metrics.alexnet; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert not {"torch", "ray", "pandas", "pyarrow", "sklearn", "scipy"} & set(done.stdout.split())
