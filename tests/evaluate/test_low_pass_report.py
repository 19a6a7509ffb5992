"""The report on low-pass filtered images: frequency bias, the curve ACC-LPB, and what cannot be compared."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.report.figures import described
from pipeline.evaluate.report.text import to_markdown_page
from pipeline.evaluate.report.write import page
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import cells, has, lines, measure, only, report_on, results_of, table, tables_of, value

LEVELS = (4, 8, 16, 159)
MATRIX = ("TTTT", "FTTT", "FTFT", "FFFF")
"""Images as rows: T where the model is right at a level."""

GRID = "bandwidths 4, 8, 16, 159"
BIAS, SETTLED, AREA, CURVE = "f_bias", "f_bias (settled)", "area above the curve", "normalised accuracy (ACC-LPB)"


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


# Measures


def test_the_hand_made_matrix(tmp_path: Path) -> None:
    report = report_on(evaluation(tmp_path / "a"), evaluation(tmp_path / "b", MATRIX[:2]))
    found, two = results_of(report, "low_pass")
    assert found.counts == {"images": (4, 0), "images that are correct unfiltered": (3, 0), "failed": (0, 0)}
    assert (found.clean_accuracy, value(found, "accuracy on unfiltered images")) == (0.75, 0.75)
    bias, area = measure(found, BIAS), measure(found, AREA)
    assert [bias.value, bias.low, bias.high] == pytest.approx([20 / 3, 4, 8])
    assert [value(found, SETTLED), area.value] == pytest.approx([57, 54.3333], abs=1e-4)
    assert area.low < 54 < area.high
    curve = [value(found, CURVE, level=level) for level in LEVELS]
    assert curve == pytest.approx([1 / 3, 1, 2 / 3, 1])
    assert [value(two, name) for name in (BIAS, SETTLED, AREA)] == [6, 6, 6]
    assert {
        "model": "a",
        "level": "8",
        "metric": "accuracy",
        "value": "0.75",
        "low": "0.25",
        "high": "1.0",
    }.items() <= (next(line for line in lines(report) if (line["metric"], line["level"]) == ("accuracy", "8")).items())


def test_the_order_of_levels_does_not_matter(tmp_path: Path) -> None:
    order = (3, 0, 2, 1)
    mixed = ["".join(row[place] for place in order) for row in MATRIX]
    one = report_on(evaluation(tmp_path / "a"))
    other = report_on(evaluation(tmp_path / "b", mixed, [LEVELS[place] for place in order], model="a"))
    assert only(one, "low_pass") == only(other, "low_pass")


def test_images_that_failed_at_one_level_leave_all(tmp_path: Path) -> None:
    found = only(report_on(evaluation(tmp_path / "a", only={("low_pass", 8): [0, 1, 3]}, failed=1)), "low_pass")
    assert [number for number, _ in found.counts.values()] == [3, 2, 1]
    assert value(found, SETTLED) == 6


def test_without_a_correct_image_there_is_no_bias(tmp_path: Path) -> None:
    report = report_on(evaluation(tmp_path / "a", ["TTTF", "FFFF"]))
    found = only(report, "low_pass")
    assert not any(has(found, name) for name in (BIAS, SETTLED, AREA, CURVE))
    assert value(found, "accuracy", level=4) == 0.5
    (warning,) = report.warnings
    assert warning.endswith("a: no frequency bias, because no image is classified correctly without a filter")
    assert [each.title for each in tables_of(report)] == ["key figures"]
    assert page(report.document("Title"))


def test_one_correct_image_of_many_has_intervals(tmp_path: Path) -> None:
    """In a third of the bootstrap draws, no image is correct unfiltered."""
    found = only(report_on(evaluation(tmp_path / "a", ["FFTT", *["FFFF"] * 30])), "low_pass")
    assert [(measure(found, name).low, measure(found, name).high) for name in (BIAS, AREA)] == [(16, 16)] * 2


# What is refused


def test_data_without_unfiltered_images_is_refused(tmp_path: Path) -> None:
    folder = evaluation(tmp_path / "a", [row[:3] for row in MATRIX], LEVELS[:3])
    with pytest.raises(UserError, match=r"no unfiltered images.*its bandwidths are 4, 8, 16.*\(112 or more\)"):
        report_on(folder)
    small = report_on(evaluation(tmp_path / "b", ["TT"], (4, 46), profile="tiny"))
    assert only(small, "low_pass").details["bandwidths"] == [4, 46]


def test_unlabelled_images_are_refused(tmp_path: Path) -> None:
    logits = {("low_pass", level): votes([1], 4) for level in LEVELS}
    folder = write_evaluation(tmp_path / "a", logits, [-1], family="low-pass", profile="imagenet")
    with pytest.raises(UserError, match=r"contains unlabelled images, .*: put the images in one folder per class"):
        report_on(folder)


# Tables and plots


def test_models_with_other_grids_are_in_other_sections(tmp_path: Path) -> None:
    other = evaluation(tmp_path / "c", ["TT", "FT"], (8, 159))
    report = report_on(evaluation(tmp_path / "a"), evaluation(tmp_path / "b"), other)
    assert {each.title: list(each.models) for each in report.sections} == {
        f"low-pass, {GRID}": ["a", "b"],
        "low-pass, bandwidths 8, 159": ["c"],
    }


def test_tables_name_the_grid_and_show_intervals(tmp_path: Path) -> None:
    key, curve = tables_of(report_on(evaluation(tmp_path / "a")))
    assert [row[0] for row in cells(key).values()] == [
        *("6.7 [4.0, 8.0]", "57.0 [4.0, 159.0]", "54.3 [4.0, 151.0]", "75.0 [25.0, 100.0]", "4", "3", "0")
    ]
    assert curve.section == key.section == f"low-pass, {GRID}"
    assert "Bandwidths are in cycles per image" in curve.note
    assert list(cells(curve)) == ["4", "8", "16", "159"]
    assert cells(curve)["159"] == ["100.0 [100.0, 100.0]"]


def test_the_plot_has_the_curves_of_all_models_and_names_the_unit(tmp_path: Path) -> None:
    levels = (*range(1, 65), *range(68, 113, 4), 159)
    matrices = {"a": ["F" * 9 + "T" * 68, "T" * 77], "b": ["F" * 30 + "T" * 47, "F" * 5 + "T" * 71 + "F"]}
    clean = [write_evaluation(tmp_path / f"{name}-clean", {("none", 0): votes([1, 1], 4)}, [1, 1], family="none",
             profile="imagenet", model=name) for name in matrices]  # fmt: skip
    report = report_on(*(evaluation(tmp_path / name, rows, levels) for name, rows in matrices.items()), *clean)
    curve = table(report, CURVE.replace("accuracy", "accuracy by bandwidth"), "bandwidths 1-64, 68, 72 ... 112, 159")
    assert curve.plot
    label = described(curve.plot, curve.plot.panels[0])
    assert label.startswith("Line plot, ")
    assert "in percent by bandwidth: a: 1 50.0" in label
    assert "31 200.0" in label  # more images are correct with the filter than without it
    text = page(report.document("Title"))
    assert text.count('<span class="small">cycles per image</span>') == 2
    scatter = table(report, "clean accuracy and robustness")  # the page says that values without a unit are in percent
    assert "f_bias (cycles per image)" in [each.title for each in scatter.columns]


def test_published_biases_are_for_models_of_imagenet(tmp_path: Path) -> None:
    thousand = evaluation(tmp_path / "a", classes=1000)
    report = report_on(thousand, evaluation(tmp_path / "b", classes=1000), published=True)
    biases = {each.model: each.value for each in report.published}
    assert len(biases) == 28
    assert biases["ResNet50 (published)"] == 32.1
    assert biases["ResNet50, adversarially trained (published)"] == 22.8
    markdown = to_markdown_page(report.document("t")).replace("\\", "")
    assert "| ResNet50 (published) | 32.1 | ARES-Bench |" in markdown
    assert not report_on(evaluation(tmp_path / "c"), published=True).published
