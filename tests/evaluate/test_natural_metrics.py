"""Accuracy (ReaL), AUPR and natural robustness as functions, and the published tables that they reproduce."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluate import metrics


@pytest.fixture(scope="module")
def ares(shared: Path) -> Any:
    """Return tables 4 and 5 of ARES-Bench."""
    return json.loads((shared / "spec" / "data" / "ares_tables.json").read_text())


# Accuracy (ReaL)


def test_images_without_labels_are_not_counted() -> None:
    assert metrics.real_accuracy([1, 795, 5], [[], [970, 795], [230, 231]]) == 0.5


def test_top5_counts_any_of_the_five() -> None:
    five = [[9, 8, 7, 6, 5], [9, 8, 7, 6, 5], [0, 1, 2, 3, 4]]
    assert metrics.real_accuracy(five, [[5, 1], [4], []]) == 0.5
    hits = metrics.real_hits(five, [[5, 1], [4, -1], [-1, -1]])
    assert hits.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("predicted", "lists", "reason"),
    [
        ([1], [[]], "none of 1 images"),
        ([], [], "none of 0 images"),
        ([1, 2], [[1]], "of the same images"),
        ([-1], [[1]], "invalid predicted class -1"),
        ([[[1]]], [[1]], "invalid shapes"),
    ],
)
def test_real_accuracy_refuses_invalid_values(predicted: Any, lists: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        metrics.real_accuracy(predicted, lists)


# Anomaly detection


def average_precision_by_definition(scores: Sequence[float], anomalous: Sequence[bool]) -> float:
    total, recall = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        passed = [flag for score, flag in zip(scores, anomalous, strict=True) if score >= threshold]
        gained = sum(passed) / sum(anomalous)
        total += (gained - recall) * sum(passed) / len(passed)
        recall = gained
    return total


@given(st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=40))
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


# Natural robustness


def test_natural_robustness_is_the_plain_mean_of_all_ten() -> None:
    figures = np.arange(10) / 10
    assert metrics.natural_robustness(figures) == pytest.approx(0.45)
    assert metrics.natural_robustness([*figures[:9], -0.1]) == pytest.approx(0.35)
    assert np.isnan(metrics.natural_robustness([*figures[:9], np.nan]))


def test_natural_robustness_reproduces_the_averages_of_ares(ares: Any) -> None:
    """The ten figures and the average are rounded to 0.1, so they may differ by 0.1; five differ by more than 0.05."""
    rows = {f"{row['architecture']} {row['method']}": row for row in ares["natural"]}
    found = 100 * metrics.natural_robustness(np.array([row["values"] for row in rows.values()]) / 100)
    differences = found - np.array([row["average"] for row in rows.values()])
    assert len(rows) == len(ares["natural"]) == 55
    assert np.abs(differences).max() < 0.1
    assert {name for name, each in zip(rows, differences, strict=True) if abs(each) > 0.05 + 1e-9} == {
        "ResNet50 AT", "ResNet152 FD", "ViTL Normal", "XciTL RB", "SwinS Normal",
    }  # fmt: skip
    normal = rows["ResNet50 Normal"]["values"][metrics.NATURAL_FIGURES.index("1 - mCE")]
    assert normal == 23.3 == round(100 - 76.7, 1)
