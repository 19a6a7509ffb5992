"""Metrics of ImageNet-C: golden and published values, AlexNet's figures; and leading axes, NaN and errors of all."""

import json
from collections.abc import Callable, Sequence
from inspect import isfunction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import (
    ALEXNET_CLEAN_ERROR,
    ALEXNET_ERRORS,
    ALEXNET_FLIP_PROBABILITIES,
    ALEXNET_MEAN_ERRORS,
    Bootstrap,
    alexnet_errors,
)
from tests.factories.metrics import FIGURES, FIGURES_OF_IMAGES, GOLDEN_TOLERANCE, mean, rates
from tests.golden import names as expected_names

ALEXNET = alexnet_errors(tuple(ALEXNET_ERRORS))

RESNET_50_CLEAN_ERROR = 0.239
RESNET_50 = (80, 82, 83, 75, 89, 78, 80, 78, 75, 66, 57, 71, 85, 77, 77)
RESNET_50_RELATIVE = (104, 107, 107, 97, 126, 107, 110, 101, 97, 79, 62, 89, 146, 111, 132)
RESNET_18_CLEAN_ERROR = 0.302
RESNET_18 = (87, 88, 91, 84, 91, 87, 89, 86, 84, 78, 69, 78, 90, 80, 85)
"""Published CE in percent, in the order of the corruptions, rounded as in the paper's table."""


@pytest.fixture(scope="module")
def published(shared: Path) -> dict[str, Any]:
    return json.loads((shared / "spec" / "parameters.json").read_text())["alexnet"]


# ImageNet-C


def test_corruption_errors_equal_the_golden_values(golden: dict[str, Any]) -> None:
    expected = golden["corruption"]
    errors, baseline = np.array(list(expected["errors"].values())), alexnet_errors(tuple(expected["errors"]))
    clean = expected["clean_error"], baseline, expected["alexnet_clean_error"]
    assert expected["alexnet_clean_error"] == ALEXNET_CLEAN_ERROR
    for found, name in (
        (metrics.corruption_error(errors, baseline), "ce"),
        (metrics.relative_corruption_error(errors, *clean), "relative_ce"),
    ):
        by_name = dict(zip(expected["errors"], found, strict=True))
        assert by_name == pytest.approx(expected[name], abs=GOLDEN_TOLERANCE, rel=0)
    means = [metrics.mean_corruption_error(errors, baseline), metrics.relative_mean_corruption_error(errors, *clean)]
    assert means == pytest.approx([expected["mce"], expected["relative_mce"]], abs=GOLDEN_TOLERANCE, rel=0)


@pytest.mark.parametrize(
    ("row", "clean", "mean", "relative_mean"),
    [(RESNET_50, RESNET_50_CLEAN_ERROR, 76.7, 105.0), (RESNET_18, RESNET_18_CLEAN_ERROR, 84.7, 103.9)],
    ids=["ResNet-50", "ResNet-18"],
)
def test_published_figures_are_reproduced(row: Sequence[int], clean: float, mean: float, relative_mean: float) -> None:
    errors = ALEXNET * np.array(row)[:, None] / 100
    relative = 100 * metrics.relative_corruption_error(errors, clean, ALEXNET, ALEXNET_CLEAN_ERROR)
    assert 100 * metrics.mean_corruption_error(errors, ALEXNET) == pytest.approx(mean, abs=0.3)
    assert relative.mean() == pytest.approx(relative_mean, abs=2)
    if row is RESNET_50:
        assert relative == pytest.approx(RESNET_50_RELATIVE, abs=2)


ERRORS, REFERENCE = [[0.2, 0.4], [0.6, 0.6]], [[0.5, 0.7], [0.6, 0.6]]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: metrics.corruption_error(ERRORS, REFERENCE), [0.5, 1]),
        (lambda: metrics.mean_corruption_error(ERRORS, REFERENCE), 0.75),
        (lambda: metrics.relative_corruption_error(ERRORS, 0.1, REFERENCE, 0.4), [1, 2.5]),
        (lambda: metrics.relative_mean_corruption_error(ERRORS, 0.1, REFERENCE, 0.4), 1.75),
        (lambda: metrics.relative_corruption_error([ERRORS, ERRORS], [0.1, 0.3], REFERENCE, 0.4), [[1, 2.5], [0, 1.5]]),
        (lambda: metrics.mean_error([0.2, 0.4]), 0.3),
        (lambda: metrics.unnormalised_mean_error(ERRORS), 0.45),
        (lambda: metrics.robustness_curve([[0.8, 0.6], [0.4, 0.4]]), [0.6, 0.5]),
        (lambda: metrics.residual_robustness(0.75, 0.5), 0.25),
        (lambda: metrics.normalised_standard_deviation([0.7, 0.8]), -5),
        (lambda: metrics.normalised_standard_deviation([0.7]), 0),
        (lambda: metrics.flip_rate([0.1, 0.3], [0.4, 0.2]), [0.25, 1.5]),
        (lambda: metrics.mean_flip_rate([0.1, 0.3], [0.4, 0.2]), 0.875),
        (lambda: metrics.negative_mean_flip_probability([0.1, 0.3]), -0.2),
        (lambda: metrics.top5_ratio(3.0, 2.0), 1.5),
        (lambda: metrics.mean_top5_distance([3.0, 1.0], [2.0, 2.0]), 1.0),
        (lambda: metrics.mean_over([3.0, 4.0]), 3.5),
        (lambda: metrics.corruption_error(ALEXNET, ALEXNET), [1] * 15),
        (lambda: metrics.relative_mean_corruption_error(ALEXNET, ALEXNET_CLEAN_ERROR, ALEXNET, ALEXNET_CLEAN_ERROR), 1),
    ],
)
def test_metrics_equal_values_computed_by_hand(call: Callable[[], Any], expected: Any) -> None:
    assert call() == pytest.approx(np.array(expected), abs=1e-12)


# Missing values


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: metrics.mean_over([[np.nan, 0.2], [np.nan, np.nan]]), [0.2, np.nan]),
        (lambda: metrics.mean_over([[np.nan, 0.2], [0.6, np.nan]], axis=(0, 1)), 0.4),
        (lambda: metrics.mean_over([]), np.nan),
        (lambda: metrics.mean_error([0.2, np.nan, 0.4]), 0.3),
        (lambda: metrics.unnormalised_mean_error([[0.2, np.nan], [0.3, 0.5], [np.nan, np.nan]]), 0.3),
        (lambda: metrics.robustness_curve([[0.2, np.nan], [0.4, 0.6]]), [0.3, 0.6]),
        (lambda: metrics.corruption_error([[0.2, np.nan], [np.nan, np.nan]], REFERENCE), [0.4, np.nan]),
        (lambda: metrics.corruption_error(ERRORS, [[0.5, np.nan], [0.0, 0.0]]), [np.nan, np.nan]),
        (lambda: metrics.corruption_error([[0.2, np.nan]], [[0.5, np.nan]]), [0.4]),
        (lambda: metrics.mean_corruption_error([[0.2, 0.4], [np.nan, np.nan]], REFERENCE), np.nan),
        (lambda: metrics.relative_corruption_error(ERRORS, 0.1, REFERENCE, 0.6), [np.nan, np.nan]),
        (lambda: metrics.relative_corruption_error(ERRORS, np.nan, REFERENCE, 0.4), [np.nan, np.nan]),
        (lambda: metrics.relative_mean_corruption_error(ERRORS, 0.1, REFERENCE, np.nan), np.nan),
        (lambda: metrics.flip_rate([0.1, 0.1, np.nan], [0.0, np.nan, 0.1]), [np.nan] * 3),
        (lambda: metrics.mean_flip_rate([0.1, 0.1], [0.1, np.nan]), np.nan),
        (lambda: metrics.top5_ratio(3.0, np.nan), np.nan),
        (lambda: metrics.mean_top5_distance([3.0, 1.0], [0.0, 2.0]), np.nan),
        (lambda: metrics.negative_mean_flip_probability([0.1, np.nan]), -0.1),
        (lambda: metrics.residual_robustness(0.5, [0.25, np.nan]), [0.25, np.nan]),
    ],
)
def test_nan_marks_values_that_are_missing(call: Callable[[], Any], expected: Any) -> None:
    np.testing.assert_allclose(call(), expected, rtol=1e-12)


# Leading axes


def test_every_metric_is_tested_with_leading_axes() -> None:
    of_samples = {
        *("alexnet_errors", "draws_of_groups", "estimate_of_groups", "intervals", "wilson", "ordinal_ranks", "mpc"),
        *("flip_probability", "top5_distance", "zipf_distance"),
        *("real_accuracy", "real_hits"),
        *("cutoff_bandwidths", "frequency_bias"),
        *("adversarial_robustness", "worst_case_adversarial_robustness", "robust_accuracy", "attack_success_rate"),
        *("smallest_budgets", "median_budget", "area_under_accuracy", "robust_by_image", "survived_by_image"),
        *("reliability", "adaptive_reliability", "negative_log_likelihoods", "brier_scores"),
        *(name for name in vars(metrics) if name.endswith("_by_sequence")),
    }
    functions = {name for name, value in vars(metrics).items() if isfunction(value)}
    assert functions - of_samples == FIGURES.keys() | FIGURES_OF_IMAGES


@pytest.mark.parametrize("name", [*FIGURES, *FIGURES_OF_IMAGES])
@given(st.lists(st.integers(1, 3), max_size=3), st.integers(0, 2**32))
@settings(max_examples=25)
def test_metrics_with_leading_axes_equal_a_loop(name: str, leading: list[int], seed: int) -> None:
    figure, means = (FIGURES | FIGURES_OF_IMAGES)[name], rates((*leading, 4, 5), seed)
    before = means.copy()
    result = figure(means)
    assert isinstance(result, np.ndarray if leading else float)
    assert np.shape(result) == tuple(leading)
    for index in np.ndindex(*leading):
        one = figure(means[index])
        assert isinstance(one, float)
        assert (result[index] if leading else result) == pytest.approx(one, abs=1e-14, rel=1e-14)
    np.testing.assert_array_equal(means, before)


# Baselines


def test_alexnet_constants_are_the_published_values(published: dict[str, Any]) -> None:
    published["imagenet_c_mean_error_extra"] |= {"style_transfer": 0.757}  # of the paper's draft of 2018
    assert published == {
        "imagenet_c_error_by_severity": {name: list(row) for name, row in ALEXNET_ERRORS.items()},
        "imagenet_c_mean_error_extra": ALEXNET_MEAN_ERRORS,
        "imagenet_clean_error": ALEXNET_CLEAN_ERROR,
        "imagenet_p_flip_probability": ALEXNET_FLIP_PROBABILITIES,
    }
    names = (*expected_names.published(expected_names.CORRUPTIONS), "style_transfer")
    assert (*ALEXNET_ERRORS, *ALEXNET_MEAN_ERRORS) == names
    assert set(ALEXNET_FLIP_PROBABILITIES) == set(expected_names.published(expected_names.PERTURBATIONS))


def test_alexnet_errors_are_nan_where_unpublished() -> None:
    found = alexnet_errors(["fog", "spatter", "rain"], (3, 1))
    np.testing.assert_array_equal(found, [[0.84378, 0.67474], [np.nan, np.nan], [np.nan, np.nan]])
    assert alexnet_errors(["spatter"]).tolist() == [[0.7175] * 5]
    assert alexnet_errors([]).shape == (0, 5)


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
        (lambda: metrics.corruption_error([[0.1]], [[0.1, 0.2]]), "\\(1, 1\\), but the baseline has shape \\(1, 2\\)"),
        (lambda: metrics.corruption_error([0.1], [[0.1]]), "errors of shape \\(1,\\): pass rows"),
        (lambda: metrics.corruption_error([[10.0]], [[20.0]]), "errors 10.0..10.0: use fractions 0..1, not percent"),
        (lambda: metrics.corruption_error([[0.1]], [[-1.0]]), "baseline's errors -1.0..-1.0"),
        (lambda: metrics.relative_corruption_error([[0.1]], 2.0, [[0.2]], 0.1), "clean error 2.0..2.0: use fractions"),
        (lambda: metrics.mean_corruption_error([[]], [[]]), "shape \\(1, 0\\): pass rows of at least one number"),
        (lambda: metrics.unnormalised_mean_error([[50.0, np.nan]]), "errors 50.0..50.0: use fractions"),
        (lambda: metrics.mean_flip_rate([3.0], [0.1]), "flip probabilities 3.0..3.0: use fractions"),
        (lambda: metrics.mean_flip_rate([0.3], [0.1, 0.2]), "shape \\(1,\\), but the baseline has shape \\(2,\\)"),
        (lambda: metrics.flip_rate(0.3, -0.1), "finite numbers, 0 or larger"),
        (lambda: metrics.top5_ratio(np.inf, 0.1), "finite numbers, 0 or larger"),
        (lambda: metrics.mean_top5_distance([], []), "shape \\(0,\\)"),
        (lambda: metrics.negative_mean_flip_probability([]), "at least one number"),
        (lambda: metrics.normalised_standard_deviation([71.0, 72.0]), "not percent"),
        (lambda: metrics.normalised_standard_deviation([0.7, np.nan]), "accuracies nan..nan"),
        (lambda: metrics.residual_robustness(0.5, 2), "corrupted accuracies 2.0..2.0: use fractions"),
        (lambda: metrics.robustness_curve([0.1]), "accuracies of shape \\(1,\\)"),
        (lambda: alexnet_errors("fog"), "'fog': pass a sequence of names, for example \\['fog'\\]"),
        (lambda: alexnet_errors(["fog"], (0, 1)), "severities \\(0, 1\\): use .* of \\(1, 2, 3, 4, 5\\)"),
        (lambda: alexnet_errors(["fog"], (1, 1)), "severities \\(1, 1\\): use .* distinct"),
        (lambda: alexnet_errors(["fog"], ()), "severities \\(\\): use one or more"),
        (lambda: metrics.anomaly_score([1, 2]), "type int64: pass floats"),
        (lambda: metrics.anomaly_score([1.0, 2.0]), "probabilities 1.0..2.0: use 0..1"),
        (
            lambda: metrics.area_under_precision_recall([1.0], [1]),
            "type int64: pass scores of shape .* one bool for each image",
        ),
        (lambda: metrics.area_under_precision_recall([1.0, 2.0], [True]), "shape \\(1,\\)"),
        (lambda: metrics.area_under_precision_recall([1.0], [False]), "no image is anomalous: .* at least one"),
        (lambda: metrics.area_under_precision_recall([np.nan, 1.0], np.array([True, False])), "some are NaN"),
        (lambda: metrics.mean_over([np.inf]), "some are infinite"),
        (lambda: metrics.natural_robustness([0.1] * 9), "shape \\(9,\\): pass finite values of exactly imagenet, "),
        (lambda: metrics.mean_error(0.5), "shape \\(\\): pass a row"),
        (lambda: Bootstrap.of(np.ones((2, 2, 2))), "shape \\(2, 2, 2\\)"),
        (lambda: Bootstrap.of([]), "shape \\(0,\\)"),
        (lambda: Bootstrap.of(["a"]), "pass numbers"),
        (lambda: Bootstrap.of([1.0, np.nan]), "not finite"),
        (lambda: Bootstrap.of([1.0], resamples=0), "number of resamples 0: use an integer from 1 to 1000000"),
        (lambda: Bootstrap.of([1.0]).estimate(mean, confidence=95), "confidence 95"),
        (lambda: metrics.intervals([]), "shape \\(0,\\): pass .* \\(draws, ...\\)"),
        (lambda: metrics.intervals([np.inf, 1.0]), "pass finite numbers"),
        (lambda: metrics.wilson(3, 2), "0..n successes"),
        (lambda: metrics.wilson(0, 0), "n 1 or more"),
        (
            lambda: Bootstrap.of(np.ones((9, 3))).estimate(lambda means: means.mean(axis=0)),
            "one value for each of 10000 draws",
        ),
        (lambda: metrics.estimate_of_groups(lambda groups: 0.0, [[1.0], []]), "shape \\(0,\\)"),
    ],
)
def test_invalid_arguments_are_named_with_the_remedy(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
