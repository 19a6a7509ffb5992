"""The report on low-pass filtered images: frequency bias, the curve ACC-LPB, and what cannot be compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robustshards as rs
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.report.html import page
from pipeline.evaluate.report.low_pass import LowPassSummary
from pipeline.evaluate.report.sections import sections, tables
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.text import to_csv
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.summaries import made_summary

LEVELS = (4, 8, 16, 159)
MATRIX = ("TTTT", "FTTT", "FTFT", "FFFF")
"""Images as rows: T where the model is right at a level."""

GRID = "bandwidths 4, 8, 16, 159"


def correct(matrix: Sequence[str]) -> np.ndarray:
    return np.array([[answer == "T" for answer in row] for row in matrix])


def evaluation(
    folder: Path, matrix: Sequence[str] = MATRIX, levels: Sequence[int] = LEVELS, classes: int = 4, **options: Any
) -> str:
    """Write an evaluation whose images of class 1 are classified correctly where the matrix says so."""
    columns = dict(zip(levels, correct(matrix).T, strict=True))
    logits = {("low_pass", level): votes(column.astype(int), classes) for level, column in columns.items()}
    options = {"profile": "imagenet", "data_set": "low-pass", "model": folder.name, **options}
    return write_evaluation(folder, logits, [1] * len(matrix), family="low-pass", **options)


def summarised(*folders: str) -> list[LowPassSummary]:
    summaries = summarise(folders).families["low_pass"]
    assert all(isinstance(each, LowPassSummary) for each in summaries)
    return list(summaries)


# Metrics


def test_frequency_bias_is_the_mean_of_the_first_correct_bandwidths() -> None:
    hits = correct(MATRIX)
    assert metrics.cutoff_bandwidths(hits, LEVELS).tolist() == [4, 8, 8]
    assert metrics.cutoff_bandwidths(hits, LEVELS, settled=True).tolist() == [4, 8, 159]
    assert metrics.frequency_bias(hits, LEVELS) == pytest.approx(20 / 3)
    assert metrics.frequency_bias(hits, LEVELS, settled=True) == 57


def test_the_area_above_the_curve_counts_from_zero() -> None:
    accuracies = correct(MATRIX).mean(axis=0)
    np.testing.assert_allclose(metrics.normalised_accuracies(accuracies), [1 / 3, 1, 2 / 3, 1])
    assert metrics.area_above_curve(accuracies, LEVELS) == pytest.approx(4 + 8 / 3 + 0 + 143 / 3)
    assert metrics.area_above_curve(correct(MATRIX[:2]).mean(axis=0), LEVELS) == 6


def test_all_three_are_equal_if_no_image_is_lost_again() -> None:
    generator, levels = np.random.default_rng(3), (0, 1, 5, 6, 30, 46)
    first = generator.integers(0, 6, 200)
    hits = np.arange(6) >= first[:, None]
    expected = np.mean(np.array(levels)[first])
    assert metrics.frequency_bias(hits, levels) == metrics.frequency_bias(hits, levels, settled=True) == expected
    assert metrics.area_above_curve(hits.mean(axis=0), levels) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("hits", "levels", "message"),
    [
        (np.ones((2, 2), bool), (4, 4), "invalid bandwidths"),
        (np.ones((2, 2), bool), (8, 4), "invalid bandwidths"),
        (np.ones((2, 2), bool), (-1, 4), "invalid bandwidths"),
        (np.ones((2, 3), bool), (4, 8), r"shape \(2, 3\).*pass bool of shape \(images, 2\)"),
        (np.ones((2, 2)), (4, 8), "type float64"),
        (np.zeros((2, 2), bool), (4, 8), "no image is classified correctly unfiltered"),
    ],
)
def test_invalid_arrays_are_refused(hits: np.ndarray, levels: Sequence[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metrics.frequency_bias(hits, levels)


def test_curves_need_an_accuracy_on_unfiltered_images() -> None:
    with pytest.raises(ValueError, match="accuracy on unfiltered images is 0"):
        metrics.normalised_accuracies([0.5, 0])
    with pytest.raises(ValueError, match="2 accuracies for 3 bandwidths"):
        metrics.area_above_curve([0.5, 1], (1, 2, 3))


# The summary


def test_the_hand_made_matrix(tmp_path: Path) -> None:
    summary, two = summarised(evaluation(tmp_path / "a"), evaluation(tmp_path / "b", MATRIX[:2]))
    assert (summary.images, summary.correct_images, summary.clean_accuracy) == (4, 3, 0.75)
    assert summary.frequency_bias
    assert summary.settled_frequency_bias
    assert summary.area_above_curve
    assert summary.frequency_bias.value == pytest.approx(6.6667, abs=1e-4)
    assert summary.settled_frequency_bias.value == 57
    assert summary.area_above_curve.value == pytest.approx(54.3333, abs=1e-4)
    curve = {level: round(each.value, 4) for level, each in summary.normalised_accuracies.items()}
    assert curve == {4: 0.3333, 8: 1, 16: 0.6667, 159: 1}
    assert (summary.frequency_bias.low, summary.frequency_bias.high) == (4, 8)
    assert summary.area_above_curve.low < 54 < summary.area_above_curve.high
    values = [two.frequency_bias, two.settled_frequency_bias, two.area_above_curve]
    assert [each.value for each in values if each] == [6, 6, 6]


def test_the_order_of_levels_does_not_matter(tmp_path: Path) -> None:
    order = (3, 0, 2, 1)
    mixed = ["".join(row[place] for place in order) for row in MATRIX]
    one = evaluation(tmp_path / "a")
    other = evaluation(tmp_path / "b", mixed, [LEVELS[place] for place in order], model="a")
    assert summarised(one) == summarised(other)


def test_images_that_failed_at_one_level_leave_all(tmp_path: Path) -> None:
    (summary,) = summarised(evaluation(tmp_path / "a", only={("low_pass", 8): [0, 1, 3]}, failed=1))
    assert (summary.images, summary.correct_images, summary.failed) == (3, 2, 1)
    assert summary.settled_frequency_bias
    assert summary.settled_frequency_bias.value == 6


def test_without_a_correct_image_there_is_no_bias(tmp_path: Path) -> None:
    found = summarise([evaluation(tmp_path / "a", ["TTTF", "FFFF"])])
    (summary,) = found.families["low_pass"]
    assert (summary.frequency_bias, summary.settled_frequency_bias, summary.area_above_curve) == (None, None, None)
    assert summary.accuracies[4].value == 0.5
    (warning,) = found.warnings
    assert warning.endswith("a: no frequency bias, because no image is classified correctly without a filter")
    assert [table.title for table in tables(found)] == ["key figures"]
    assert page(found, "Title")


def test_one_correct_image_of_many_has_intervals(tmp_path: Path) -> None:
    """In a third of the bootstrap draws, no image is correct unfiltered."""
    (summary,) = summarised(evaluation(tmp_path / "a", ["FFTT", *["FFFF"] * 30]))
    assert summary.frequency_bias
    assert summary.area_above_curve
    assert (summary.frequency_bias.low, summary.frequency_bias.high) == (16, 16)
    assert (summary.area_above_curve.low, summary.area_above_curve.high) == (16, 16)


# What is refused


def test_data_without_unfiltered_images_is_refused(tmp_path: Path) -> None:
    folder = evaluation(tmp_path / "a", [row[:3] for row in MATRIX], LEVELS[:3])
    with pytest.raises(UserError, match=r"no unfiltered images.*its bandwidths are 4, 8, 16.*\(112 or more\)"):
        summarise([folder])
    small = evaluation(tmp_path / "b", ["TT"], (4, 46), profile="tiny")
    assert summarised(small)[0].bandwidths == [4, 46]


def test_unlabelled_images_are_refused(tmp_path: Path) -> None:
    logits = {("low_pass", level): votes([1], 4) for level in LEVELS}
    folder = write_evaluation(tmp_path / "a", logits, [-1], family="low-pass", profile="imagenet")
    with pytest.raises(UserError, match=r"contains unlabelled images, .*: put the images in one folder per class"):
        summarise([folder])


# Tables and the page


def test_models_with_other_grids_are_in_other_sections(tmp_path: Path) -> None:
    other = evaluation(tmp_path / "c", ["TT", "FT"], (8, 159))
    found = summarise([evaluation(tmp_path / "a"), evaluation(tmp_path / "b"), other])
    assert {each.title: list(each.models) for each in sections(found)} == {
        f"low-pass, {GRID}": ["a", "b"],
        "low-pass, bandwidths 8, 159": ["c"],
    }


def test_tables_name_the_grid_and_show_intervals(tmp_path: Path) -> None:
    key, curve = tables(summarise([evaluation(tmp_path / "a")]))
    assert [str(row[1]) for row in key.rows] == [
        *("6.7 [4.0, 8.0]", "57.0 [4.0, 159.0]", "54.3 [4.0, 151.0]", "75.0", "4", "3", "0"),
    ]
    assert curve.section == key.section == f"low-pass, {GRID}"
    assert "Bandwidths are 4, 8, 16, 159 cycles per image" in curve.note
    assert [str(row[0]) for row in curve.rows] == ["4", "8", "16", "159"]
    assert str(curve.rows[-1][1]) == "100.0 [100.0, 100.0]"


def test_the_page_plots_the_curves_of_all_models(tmp_path: Path) -> None:
    levels = (*range(1, 65), *range(68, 113, 4), 159)
    matrices = {"a": ["F" * 9 + "T" * 68, "T" * 77], "b": ["F" * 30 + "T" * 47, "F" * 5 + "T" * 71 + "F"]}
    found = summarise([evaluation(tmp_path / name, rows, levels) for name, rows in matrices.items()])
    text = page(found, "Title")
    (label,) = re.findall(r'aria-label="(Line plot, accuracy in percent by bandwidth[^"]*)"', text)
    assert "a 50.0 at 1" in label
    assert "200.0 at 31" in label  # more images are correct with the filter than without it
    ticks = re.findall(r'<text class="tick" x="([\d.]+)%"[^>]*>(\d+)</text>', text)
    assert [int(number) for _, number in ticks] == [0, 20, 40, 60, 80, 100, 120, 140]
    assert float(ticks[-1][0]) == pytest.approx(4 + 92 * 140 / 159)
    assert not re.search(r'points="[^"]*-', text)  # nothing above the plot
    assert "bandwidths 1-64, 68, 72 ... 112, 159" in text


def test_cards_and_scatter_plots_name_the_unit() -> None:
    """The head of the page says that values without a unit are in percent."""
    found = made_summary(("ResNet-50", "ResNet-18"))
    text = page(found, "Title")
    assert text.count('<span class="small">cycles per image</span>') == 2
    assert ": f_bias (cycles per image)</h4>" in text
    (scatter,) = (each for each in tables(found) if each.title == "clean accuracy and robustness")
    assert "f_bias (cycles per image)" in [each.title for each in scatter.columns]


def test_csv_has_both_curves(tmp_path: Path) -> None:
    lines = to_csv(summarise([evaluation(tmp_path / "a")])).splitlines()
    assert "a,low-pass,low_pass,,8,accuracy,0.75,0.25,1.0,," in lines
    assert any(line.startswith("a,low-pass,low_pass,,16,normalised accuracy (ACC-LPB),0.66") for line in lines)


def test_published_biases_are_for_models_of_imagenet(tmp_path: Path) -> None:
    thousand = evaluation(tmp_path / "a", classes=1000)
    report = rs.report([thousand, evaluation(tmp_path / "b", classes=1000)], published=True)
    biases = {each["model"]: each["value"] for each in report.facts()["published"]}
    assert len(biases) == 28
    assert biases["ResNet50 (published)"] == 32.1
    assert biases["ResNet50, adversarially trained (published)"] == 22.8
    assert "| ResNet50 (published) | 32.1 | ARES-Bench |" in report.markdown().replace("\\", "")
    assert not rs.report([evaluation(tmp_path / "c")], published=True).facts()["published"]
