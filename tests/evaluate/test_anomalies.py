"""Anomaly scores, and the area under the curve of precision and recall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluate import metrics


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
