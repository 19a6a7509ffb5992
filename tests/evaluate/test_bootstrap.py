"""Confidence intervals: coverage, draws, groups of images, and the intervals of each metric."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import bootstrap
from pipeline.evaluate.metrics.bootstrap import (
    Bootstrap,
    Estimate,
    bootstrap_means,
    draws_of_groups,
    estimate_of_groups,
    intervals,
    wilson,
)
from tests.factories.metrics import FIGURES, mean


def interval(values: np.ndarray, confidence: float = 0.95, **how: int) -> tuple[float, float]:
    result = Bootstrap.of(values, **how).estimate(mean, confidence)
    return result.low, result.high


def test_intervals_cover_the_true_value_at_the_stated_rate() -> None:
    generator = np.random.default_rng(6)
    result = [interval(generator.random(200) < 0.3, resamples=300) for _ in range(300)]
    covered = np.mean([low <= 0.3 <= high for low, high in result])
    assert 0.90 <= covered <= 0.98


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
    """Differences between metrics are paired: errors are summed in float32, two columns at a time, which is exact."""
    monkeypatch.setattr(bootstrap, "MAX_COUNTS", 1)
    errors = np.random.default_rng(5).random((1200, 5)) < 0.3
    halves = bootstrap_means(errors / 2, resamples=200)
    np.testing.assert_array_equal(bootstrap_means(errors, resamples=200), 2 * halves)


@given(st.integers(1, 40), st.integers(0, 2**32))
@settings(max_examples=50)
def test_bootstrap_means_of_fractions_do_not_exceed_one(images: int, seed: int) -> None:
    """Metrics reject fractions above 1, even by a rounding error."""
    values = 1 - np.random.default_rng(seed).random((images, 3)) * 1e-16
    values[:, 1] = 29 / 30
    result = Bootstrap.of(values, resamples=20, seed=seed)
    assert result.draws.max() <= 1
    assert result.estimate(metrics.mean_error).high <= 1


@pytest.mark.parametrize("doubles", [bootstrap.MAX_DOUBLES, 0])
def test_means_do_not_depend_on_the_order_of_additions(doubles: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports have equal bytes on any CPU: products of a matrix and one or many columns add in different orders."""
    monkeypatch.setattr(bootstrap, "MAX_DOUBLES", doubles)
    values = np.random.default_rng(5).gamma(1, 2, size=(3000, 40))
    draws = bootstrap_means(values, resamples=200)
    for column in (0, 39):
        np.testing.assert_array_equal(bootstrap_means(values[:, column], resamples=200), draws[:, column])
    counts = bootstrap._draws(3000, 200, 0)[0]
    np.testing.assert_allclose(draws, counts @ values / 3000, rtol=1e-4 if doubles == 0 else 1e-12)


def test_draws_equal_those_of_numpys_default_generator() -> None:
    """Keep the intervals of reports the same across releases, whatever the state of the global generator."""
    values = np.random.default_rng(5).random((60, 2))
    before = values.copy()
    generator = np.random.default_rng(9)
    expected = np.array([values[generator.integers(60, size=60)].mean(axis=0) for _ in range(50)])
    np.testing.assert_allclose(bootstrap_means(values, resamples=50, seed=9), expected, rtol=1e-13)
    np.testing.assert_allclose(bootstrap_means(values[:, 0], resamples=50, seed=9), expected[:, 0], rtol=1e-13)
    np.testing.assert_array_equal(values, before)


def test_groups_are_resampled_independently() -> None:
    groups = [np.random.default_rng(5).random(30), np.random.default_rng(6).random(20)]
    generator = np.random.default_rng(2)
    draws = [[generator.choice(group, len(group)).mean() for group in groups] for _ in range(40)]

    def means(drawn: list[np.ndarray]) -> np.ndarray:
        return np.array([group.mean() for group in drawn])

    np.testing.assert_array_equal(draws_of_groups(means, groups, resamples=40, seed=2), draws)
    result = estimate_of_groups(lambda drawn: float(means(drawn)[1]), groups, resamples=40, seed=2)
    low, high = intervals(np.array(draws)[:, 1])
    assert result == Estimate(groups[1].mean(), float(low), float(high))
    alone = draws_of_groups(lambda drawn: drawn[0].mean(), groups[:1], resamples=40, seed=2)
    np.testing.assert_allclose(alone, bootstrap_means(groups[0], resamples=40, seed=2), rtol=1e-13)


@pytest.mark.parametrize("name", FIGURES)
def test_estimate_returns_the_metric_and_its_interval(name: str) -> None:
    def figure(means: np.ndarray) -> Any:
        return FIGURES[name](means.reshape(*means.shape[:-1], 4, 5))

    values = np.random.default_rng(7).random((90, 20)) < 0.6
    result = Bootstrap.of(values, resamples=80, seed=4).estimate(figure, confidence=0.9)
    generator = np.random.default_rng(4)
    draws = [figure(values[generator.integers(90, size=90)].mean(axis=0)) for _ in range(80)]
    assert result.value == pytest.approx(figure(values.mean(axis=0)), abs=1e-13)
    assert (result.low, result.high) == pytest.approx(np.quantile(draws, [0.05, 0.95]).tolist(), abs=1e-12)
    assert result.low < result.high
    identical = Bootstrap.of(np.tile(np.arange(1, 21) / 20, (8, 1)), resamples=40).estimate(figure)
    assert (identical.low, identical.high) == pytest.approx((identical.value,) * 2, abs=1e-13)


@pytest.mark.filterwarnings("error")
def test_intervals_keep_axes_and_are_nan_where_a_draw_is() -> None:
    draws = np.random.default_rng(1).random((200, 2, 3))
    draws[7, 0, 1] = np.nan
    low, high = intervals(draws, confidence=0.9)
    np.testing.assert_allclose([low, high], np.quantile(draws, [0.05, 0.95], axis=0), rtol=1e-13)
    assert np.argwhere(np.isnan(low)).tolist() == np.argwhere(np.isnan(high)).tolist() == [[0, 1]]


@pytest.mark.parametrize(("successes", "n", "confidence"), [(0, 30, 0.95), (30, 30, 0.95), (3, 10, 0.5), (0, 1, 0.9)])
def test_wilson_intervals_equal_those_of_scipy(successes: int, n: int, confidence: float) -> None:
    expected = binomtest(successes, n).proportion_ci(confidence, method="wilson")
    assert wilson(successes, n, confidence) == pytest.approx((expected.low, expected.high), abs=1e-12)
    low, high = wilson([successes, n], n, confidence)
    assert (low[0], high[1]) == (wilson(successes, n, confidence)[0], 1)
