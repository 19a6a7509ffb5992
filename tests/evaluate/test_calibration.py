"""Calibration: metrics against plain references and values computed by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluate import metrics

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
@settings(deadline=None)
def test_errors_equal_their_definition(made: tuple[list[float], list[bool]], bins: int) -> None:
    confidences, correct = map(np.array, made)
    expected = metrics.expected_calibration_error(confidences, correct, bins)
    adaptive = metrics.adaptive_calibration_error(confidences, correct, bins)
    assert expected == pytest.approx(error_by_definition(confidences, correct, bins), abs=1e-12)
    assert adaptive == pytest.approx(adaptive_error_by_definition(confidences, correct, bins), abs=1e-12)


@given(images, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_images_does_not_matter(made: tuple[list[float], list[bool]], random: Any) -> None:
    pairs = list(zip(*made, strict=True))
    random.shuffle(pairs)
    shuffled = [np.array(values) for values in zip(*pairs, strict=True)]
    for metric in (metrics.expected_calibration_error, metrics.adaptive_calibration_error):
        assert metric(*shuffled) == pytest.approx(metric(*map(np.array, made)), abs=1e-12)


@given(st.integers(1, 6), st.integers(1, 30), st.integers(0, 2**32))
@settings(deadline=None)
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


def test_a_calibrated_model_has_no_error() -> None:
    """Of the images with confidence k/10, k of 10 are correct."""
    confidences = np.repeat(np.arange(1, 11) / 10, 10)
    correct = np.concatenate([np.arange(10) < hits for hits in range(1, 11)])
    assert metrics.expected_calibration_error(confidences, correct) == pytest.approx(0, abs=1e-15)
    assert metrics.adaptive_calibration_error(confidences, correct, bins=10) == pytest.approx(0, abs=1e-15)
    found = metrics.reliability(confidences, correct, bins=10)
    assert found.images.tolist() == [10] * 10
    assert found.accuracy == pytest.approx(found.confidence)


def test_always_certain_and_half_wrong_is_an_error_of_a_half() -> None:
    correct = np.array([True, False] * 50)
    for metric in (metrics.expected_calibration_error, metrics.adaptive_calibration_error):
        assert metric(np.ones(100), correct) == 0.5
        assert metric(np.ones(100), ~correct) == 0.5
        assert metric(np.full(100, 0.5), correct) == 0
        assert metric(np.full(100, 0.2), np.ones(100, bool)) == pytest.approx(0.8)


def test_bins_of_equal_width_include_their_upper_edge() -> None:
    """Opposite errors cancel within a bin, and add up across bins."""
    correct = np.array([True, False])
    apart = metrics.expected_calibration_error([0.5, 0.50001], correct, bins=2)
    together = metrics.expected_calibration_error([0.49999, 0.5], correct, bins=2)
    assert (apart, together) == (pytest.approx(0.5, abs=1e-4), pytest.approx(0.0, abs=1e-4))
    found = metrics.reliability([0.0, 1 / 15, 2 / 15, 1.0], np.array([True, False, True, True]))
    assert found.images.tolist() == [2, 1, *[0] * 12, 1]
    assert found.accuracy[[0, 1, 14]].tolist() == [0.5, 1.0, 1.0]
    assert np.isnan(found.accuracy[2:14]).all()


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


def test_metrics_accept_leading_axes() -> None:
    generator = np.random.default_rng(3)
    values, correct = generator.random((2, 3, 20)), generator.random((2, 3, 20)) < 0.5
    rows = list(zip(values.reshape(6, 20), correct.reshape(6, 20), strict=True))
    for metric in (metrics.expected_calibration_error, metrics.adaptive_calibration_error):
        found = np.asarray(metric(values, correct))
        assert found.shape == (2, 3)
        assert found.ravel().tolist() == [metric(*row) for row in rows]
    assert np.shape(metrics.negative_log_likelihood(values)) == (2, 3)
    assert np.shape(metrics.brier_score(values, values)) == (2, 3)
    binned = metrics.reliability(values, correct, 4)
    assert binned.images.shape == binned.accuracy.shape == binned.confidence.shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.expected_calibration_error([70.0], [True]), "confidences 70.0..70.0: use fractions"),
        (lambda: metrics.expected_calibration_error([0.5], [1]), "type int64: pass one bool for each"),
        (lambda: metrics.adaptive_calibration_error([0.5, 0.5], [True]), r"shape \(2,\) with correct of shape \(1,\)"),
        (lambda: metrics.adaptive_calibration_error([0.5], [True], bins=0), "bins 0: use at least 1"),
        (lambda: metrics.reliability([], np.array([], bool)), "at least one number"),
        (lambda: metrics.negative_log_likelihood([np.nan]), "probabilities nan..nan"),
        (lambda: metrics.brier_score([0.5], [1.5]), "squared probabilities 1.5..1.5"),
        (lambda: metrics.brier_score([0.5], [0.5, 0.5]), r"shape \(1,\), but their squares have shape \(2,\)"),
    ],
)
def test_invalid_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
