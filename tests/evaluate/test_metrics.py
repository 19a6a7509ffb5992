"""Metrics of ImageNet-C: golden and published values, AlexNet's figures, and invalid arguments of all metrics."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import alexnet as baselines
from pipeline.evaluate.metrics.alexnet import ALEXNET_CLEAN_ERROR, ALEXNET_ERRORS, ALEXNET_FLIP_PROBABILITIES
from pipeline.evaluate.metrics.bootstrap import Bootstrap, estimate_of_groups, percentile_interval
from tests.factories.metrics import GOLDEN_TOLERANCE, mean
from tests.golden import names as expected_names

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
        (lambda: Bootstrap.of([1.0], resamples=0), "number of resamples 0: use an integer from 1 to 1000000"),
        (lambda: Bootstrap.of([1.0]).estimate(mean, confidence=95), "confidence 95"),
        (lambda: percentile_interval(np.ones((2, 2))), "shape \\(2, 2\\): pass .* \\(draws,\\)"),
        (
            lambda: Bootstrap.of(np.ones((9, 3))).estimate(lambda means: means.mean(axis=0)),
            "one value for each of 10000 draws",
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
