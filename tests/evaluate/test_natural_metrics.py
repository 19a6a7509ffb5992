"""Accuracy (ReaL) and natural robustness as functions, and the published tables that they reproduce."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.evaluate import metrics
from pipeline.tasks.library import load

RESNET50_CE = (80, 82, 83, 75, 89, 78, 80, 78, 75, 66, 57, 71, 85, 77, 77)
"""CE in percent of a ResNet-50, in the order of the corruptions, from the paper on ImageNet-C."""


@pytest.fixture(scope="module")
def ares(shared: Path) -> Any:
    """Return tables 4 and 5 of ARES-Bench."""
    return json.loads((shared / "spec" / "data" / "ares_tables.json").read_text())


@pytest.fixture(scope="module")
def robustart(shared: Path) -> Any:
    """Return tables 5 and 6 of RobustART."""
    return json.loads((shared / "spec" / "data" / "robustart_tables.json").read_text())


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


# Natural robustness


def test_natural_robustness_is_the_plain_mean_of_all_ten() -> None:
    figures = {name: 0.1 * number for number, name in enumerate(metrics.NATURAL_FIGURES)}
    assert metrics.natural_robustness(figures) == pytest.approx(0.45)
    assert metrics.natural_robustness({**figures, "1 - mCE": -0.3}) == pytest.approx(0.35)
    two = {name: np.array([value, value + 0.1]) for name, value in figures.items()}
    np.testing.assert_allclose(metrics.natural_robustness(two), [0.45, 0.55])
    for wrong in ({**figures, "imagenet-c": 0.1}, dict.fromkeys(metrics.NATURAL_FIGURES[1:], 0.1)):
        with pytest.raises(ValueError, match=r"missing or unknown figures imagenet(-c)?: pass exactly imagenet, "):
            metrics.natural_robustness(wrong)


def test_natural_robustness_reproduces_the_averages_of_ares(ares: Any) -> None:
    """The ten figures and the average are rounded to 0.1, so they may differ by 0.1; five differ by more than 0.05."""
    rows = ares["natural"]
    differences = {f"{row['architecture']} {row['method']}": _average(row) - row["average"] for row in rows}
    assert len(rows) == len(differences) == 55
    assert max(map(abs, differences.values())) < 0.1
    assert {name for name, difference in differences.items() if abs(difference) > 0.05 + 1e-9} == {
        "ResNet50 AT", "ResNet152 FD", "ViTL Normal", "XciTL RB", "SwinS Normal",
    }  # fmt: skip


def _average(row: Mapping[str, Any]) -> float:
    figures = dict(zip(metrics.NATURAL_FIGURES, np.array(row["values"]) / 100, strict=True))
    return 100 * float(metrics.natural_robustness(figures))


# ImageNet-C by other names


def test_one_minus_mce_of_a_published_resnet50(ares: Any) -> None:
    (normal,) = [row for row in ares["natural"] if (row["architecture"], row["method"]) == ("ResNet50", "Normal")]
    assert normal["values"][metrics.NATURAL_FIGURES.index("1 - mCE")] == 23.3 == round(100 - 76.7, 1)


def test_mean_corruption_accuracy_of_a_published_resnet50() -> None:
    """The printed CEs are rounded, so 1 - mCE is within 0.3 of the printed 23.3."""
    errors = {
        name: np.array(alexnet) * ce / 100
        for (name, alexnet), ce in zip(metrics.ALEXNET_ERRORS.items(), RESNET50_CE, strict=True)
    }
    assert 100 * metrics.corruption_robustness(errors, metrics.ALEXNET_ERRORS) == pytest.approx(23.3, abs=0.3)
    assert round(100 * (1 - metrics.unnormalised_mean_error(errors)), 1) == 39.0


# RobustART


COUNTS = {3.866: 290, 5.04: 378, 2.706: 203, 3.853: 289, 6.573: 493}
"""Printed accuracy on ImageNet-A in percent -> number of correct images."""


def test_accuracies_on_imagenet_a_of_robustart_are_counts_of_its_images(robustart: Any) -> None:
    """The accuracies are printed with three digits, some cut off instead of rounded."""
    images, column = load("imagenet-a").task.images, robustart["columns"].index("ImageNet-A accuracy")
    assert images == 7500
    assert COUNTS.keys() < {row[column] for row in robustart["rows"].values()}
    for percent, count in COUNTS.items():
        assert 100 * count / images == pytest.approx(percent, abs=0.001)
        assert round(percent / 100 * images) == count
