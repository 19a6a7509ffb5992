"""Metrics of arrays with leading axes, which equal a loop over them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluate import metrics
from tests.factories.metrics import BASELINE_ABOVE, FIGURES, rates


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
