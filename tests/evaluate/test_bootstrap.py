"""Confidence intervals: coverage, draws, groups of images, and the intervals of each metric."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import bootstrap
from pipeline.evaluate.metrics.bootstrap import (
    Bootstrap,
    Estimate,
    bootstrap_means,
    estimate_of_groups,
    percentile_interval,
)
from tests.factories.metrics import FIGURES, FIGURES_OF_MEANS, mean


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


def test_draws_with_counts_that_are_used_again_are_random_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 64 draws have counts of their own; the others have these counts and other orders of images."""
    monkeypatch.setattr(bootstrap, "MAX_COUNTS", 1)
    values = np.random.default_rng(5).random((300, 2))
    draws = bootstrap_means(values, resamples=6400, seed=9)
    generator = np.random.default_rng(9)
    first = [values[generator.integers(300, size=300)].mean(axis=0) for _ in range(64)]
    np.testing.assert_allclose(draws[:64], first, rtol=1e-13)
    assert draws.std(axis=0) * 300**0.5 == pytest.approx(values.std(axis=0), rel=0.03)
    of_counts = draws[:, 0].reshape(100, 64)
    assert of_counts.mean(axis=0).std() == pytest.approx(of_counts.std() / 10, rel=0.3)  # as of independent draws


def test_errors_have_the_draws_of_other_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences between metrics are paired: errors are summed in float32, which is exact."""
    monkeypatch.setattr(bootstrap, "MAX_COUNTS", 1)
    errors = np.random.default_rng(5).random((300, 4)) < 0.3
    halves = bootstrap_means(errors / 2, resamples=200)
    np.testing.assert_array_equal(bootstrap_means(errors, resamples=200), 2 * halves)


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
