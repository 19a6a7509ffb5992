"""AR, WCAR, robust accuracy, transfer and smallest budgets as functions, and the published tables they reproduce."""

import csv
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.evaluate import metrics

BEFORE = np.arange(1, 9) <= 6
AFTER = np.array([[image in (1, 2, 3, 4), image in (1, 2, 5)] for image in range(1, 9)])
"""Eight images, of which 1 to 6 are right; after two attacks 1, 2, 3, 4 and 1, 2, 5."""

SMALLEST = np.array([0, 0, 1, 2, 3, 5, 8, np.inf])

VALIDATION, ARES_IMAGES = 50_000, 1_000
DIGITS = 0.001
"""Last printed digit of WCAR in percentage points. The papers truncate some values instead of rounding them."""

WCAR = ("WCAR small", "WCAR middle", "WCAR large")
ATTACKS = ("fgsm", "pgd_linf", "autoattack_linf")


def published(recipe: str) -> dict[str, dict[tuple[str, str], float]]:
    """Return the published percentages of a recipe by model, attack and figure."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    text = resources.files("pipeline.evaluate.report").joinpath("published.csv").read_text("utf-8")
    for row in csv.DictReader(text.splitlines()):
        if row["data_set"] == recipe:
            found.setdefault(row["model"], {})[row["transform"], row["figure"]] = float(row["printed"])
    return found


def first(count: int, images: int) -> np.ndarray:
    """Return flags of which the first are true."""
    return np.arange(images) < count


# By hand


@pytest.mark.parametrize("after", [AFTER, AFTER | ~BEFORE[:, None]], ids=["as it is", "wrong images become right"])
def test_figures_of_eight_images(after: np.ndarray) -> None:
    """A model that gets an image right only after an attack is not more robust."""
    assert metrics.adversarial_robustness(BEFORE, after) == pytest.approx([4 / 6, 3 / 6])
    assert metrics.adversarial_robustness(BEFORE, after[:, 0]) == pytest.approx(4 / 6)
    assert metrics.worst_case_adversarial_robustness(BEFORE, after) == pytest.approx(2 / 6)
    assert metrics.robust_accuracy(BEFORE, after) == pytest.approx([0.5, 0.375])
    assert metrics.robust_accuracy(BEFORE, after[:, 1]) == 0.375
    assert metrics.robust_accuracy(~BEFORE & BEFORE, after[:, 1]) == 0


def test_transfer_is_over_images_that_both_get_right() -> None:
    target = np.isin(np.arange(1, 9), (1, 2, 3, 5, 6, 8))
    after = ~np.isin(np.arange(1, 9), (2, 3, 6, 8))
    assert metrics.attack_success_rate(BEFORE, target, after) == pytest.approx(3 / 5)
    assert metrics.attack_success_rate(BEFORE, target, after[:, None]) == pytest.approx([3 / 5])


def test_figures_of_smallest_budgets() -> None:
    """The area is that of the step function, integrated here on a fine grid."""
    assert metrics.smallest_budgets([False, True, True], [False, True, False], [0, 0.5, np.inf]).tolist() == [
        0,
        0.5,
        np.inf,
    ]
    assert metrics.survived_by_image(SMALLEST, [0, 2, 4, 8]).mean(axis=0).tolist() == [0.75, 0.5, 0.375, 0.125]
    assert metrics.median_budget(SMALLEST[SMALLEST > 0]) == 4
    assert metrics.median_budget([1, np.inf, np.inf]) == np.inf
    assert metrics.area_under_accuracy(SMALLEST, 16) == pytest.approx(35 / 8)
    grid = (np.arange(16_000) + 0.5) / 1000
    assert metrics.survived_by_image(SMALLEST, grid).mean() * 16 == pytest.approx(35 / 8)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: metrics.adversarial_robustness([False, False], [True, True]), "none of 2 images is right"),
        (lambda: metrics.adversarial_robustness([True], [True, False]), "1 and 2 images"),
        (lambda: metrics.adversarial_robustness([1, 0], [1, 0]), "pass bool"),
        (lambda: metrics.robust_accuracy([], []), r"shape \(0,\)"),
        (lambda: metrics.worst_case_adversarial_robustness(BEFORE, AFTER[:, 0]), r"pass \(images, attacks\)"),
        (lambda: metrics.worst_case_adversarial_robustness(BEFORE, AFTER[:, :0]), r"pass \(images, attacks\)"),
        (lambda: metrics.attack_success_rate(~BEFORE, BEFORE, AFTER), "none of 8 images is right"),
        (lambda: metrics.survived_by_image([np.nan], [0]), "0 or larger"),
        (lambda: metrics.smallest_budgets([True], [True], [np.inf]), "finite numbers"),
        (lambda: metrics.area_under_accuracy(SMALLEST, 0), "above 0"),
        (lambda: metrics.median_budget([]), "a row of numbers"),
    ],
)
def test_invalid_values_are_refused(call: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        call()


# The published tables


def test_all_printed_wcars_are_fractions_of_the_images_that_are_right() -> None:
    """Each printed WCAR is k of R for a whole k. As a fraction of all images, only seven are."""
    rows = published("robustart")
    assert len(rows) == 6
    of_all = 0
    for row in rows.values():
        right = first(round(row["", "clean accuracy"] / 100 * VALIDATION), VALIDATION)
        for name in WCAR:
            percent = row["", name]
            still = round(percent / 100 * right.sum())
            after = np.stack(
                [first(still + 7, VALIDATION), first(still, VALIDATION), ~right | first(still, VALIDATION)], 1
            )
            value = 100 * metrics.worst_case_adversarial_robustness(right, after)
            assert value == pytest.approx(percent, abs=DIGITS)
            of_all += abs(percent * VALIDATION / 100 - round(percent * VALIDATION / 100)) < 1e-6
        assert row["", WCAR[2]] <= row["", WCAR[1]] <= row["", WCAR[0]]
    assert of_all == 7


def test_printed_robust_accuracies_are_counts_of_1000_images() -> None:
    """A stronger attack leaves fewer images, except where table 6 contradicts itself (XciTL)."""
    rows = published("ares-white-box")
    assert len(rows) == 19
    ordered = 0
    for row in rows.values():
        percents = [row["", "clean accuracy"], *(row[attack, "robust accuracy"] for attack in ATTACKS)]
        counts = [round(10 * percent) for percent in percents]
        right, *after = (first(count, ARES_IMAGES) for count in counts)
        found = metrics.robust_accuracy(right, np.stack(after, axis=1))
        assert np.round(100 * np.asarray(found), 1).tolist() == percents[1:]
        ratios = metrics.adversarial_robustness(right, np.stack(after, axis=1))
        assert np.asarray(ratios) * counts[0] / ARES_IMAGES == pytest.approx(np.asarray(found))
        ordered += counts == sorted(counts, reverse=True)
    assert ordered == 18


def test_published_rows_are_those_of_the_tables(shared: Path) -> None:
    folder = shared / "spec" / "data"
    robustart = json.loads((folder / "robustart_tables.json").read_text())
    rows = published("robustart")
    assert rows.keys() == robustart["rows"].keys()
    for model, values in robustart["rows"].items():
        row = dict(zip(robustart["columns"], values, strict=True))
        assert rows[model] == {("", name): row[name] for name in ("clean accuracy", *WCAR)}
    ares = json.loads((folder / "ares_tables.json").read_text())["white_box"]
    assert published("ares-white-box") == {
        model: {
            ("", "clean accuracy"): clean,
            **{(name, "robust accuracy"): value for name, value in zip(ATTACKS, after, strict=True)},
        }
        for model, (clean, *after) in ares.items()
    }
