"""The comparison of several models: ranks, scatter plots, means by category, notes and sizes."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corruptions
import robustshards as rs
from pipeline.evaluate import metrics
from pipeline.evaluate.report.family import Table
from pipeline.evaluate.report.formats import NumberFormat
from pipeline.evaluate.report.html import page
from pipeline.evaluate.report.plots import Axis, Point, Scatter, Scatters
from pipeline.evaluate.report.ranking import ranks
from pipeline.evaluate.report.scatter_plots import HEIGHT, scatter_plots
from pipeline.evaluate.report.sections import tables
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.summary import PublishedFigure, Summary
from pipeline.evaluate.report.text import to_csv, to_markdown_page
from pipeline.tasks.schema import Task
from tests.conftest import Run
from tests.evaluate.test_page import of, parsed
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.summaries import (
    MODELS,
    made_clean,
    made_corruptions,
    made_perturbations,
    made_summary,
    summary_of,
    ten_models,
)

LABELS = (0, 1, 2, 3)
SHIFT = Task(name="v2", outputs=7, outputs_are="made", role="shift")


def model(folder: Path, name: str, *, fog: Sequence[int], clean: Sequence[int], shift: Sequence[int]) -> list[str]:
    """Write the evaluations of a model that predicts these classes on three data sets."""
    one: Any = {"model": name}
    return [
        write_evaluation(folder / f"{name}-fog", {("fog", 1): votes(fog)}, LABELS, **one),
        write_evaluation(folder / f"{name}-clean", {("none", 0): votes(clean)}, LABELS, family="none", **one),
        write_evaluation(folder / f"{name}-v2", {("none", 0): votes(shift)}, LABELS, family="none", task=SHIFT, **one),
    ]


@pytest.fixture
def three(tmp_path: Path) -> list[str]:
    """Return evaluations of three models. "a" and "b" have the same error on fog."""
    return [
        *model(tmp_path, "a", fog=[0, 1, 2, 6], clean=[0, 1, 2, 6], shift=[0, 6, 6, 6]),
        *model(tmp_path, "b", fog=[0, 1, 6, 3], clean=[0, 6, 6, 6], shift=[0, 1, 2, 6]),
        *model(tmp_path, "c", fog=[0, 6, 6, 6], clean=[0, 1, 2, 3], shift=[0, 1, 6, 6]),
    ]


def cells(summary: Summary, title: str) -> dict[str, list[str]]:
    """Return the cells of a table of the comparison, by its first cell."""
    (table,) = [each for each in tables(summary) if (each.section, each.title) == ("Comparison", title)]
    return {str(row[0]): [str(cell) for cell in row[1:]] for row in table.rows}


def plots_of(table: Table) -> Sequence[Scatter]:
    assert table.plot is not None
    assert isinstance(table.plot.figures, Scatters)
    return table.plot.figures.plots


# Ranks


@pytest.mark.parametrize(
    ("values", "higher", "expected"),
    [
        ({"a": 0.3, "b": 0.1, "c": 0.2}, False, {"a": 3, "b": 1, "c": 2}),
        ({"a": 0.3, "b": 0.1, "c": 0.2}, True, {"a": 1, "b": 3, "c": 2}),
        ({"a": 0.2, "b": 0.1, "c": 0.2, "d": 0.3}, False, {"a": 2, "b": 1, "c": 2, "d": 4}),
        ({"a": 0.2, "b": 0.2}, True, {"a": 1, "b": 1}),
    ],
)
def test_equal_values_share_a_rank(values: dict[str, float], higher: bool, expected: dict[str, int]) -> None:
    assert ranks(values, higher) == expected


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 5).map(float), min_size=1), st.booleans())
def test_ranks_are_positions_in_the_sorted_order(values: dict[str, float], higher: bool) -> None:
    order = sorted(values.values(), reverse=higher)
    assert ranks(values, higher) == {name: order.index(value) + 1 for name, value in values.items()}


def test_models_are_ranked_by_each_headline(three: list[str]) -> None:
    summary = summarise(three, resamples=20)
    assert summary.comparison is not None
    found = {each.data_set: (each.figure, each.values, each.ranks) for each in summary.comparison.rankings}
    assert found == {
        "made-corruptions": (
            "mean corruption error (unnormalised)", {"a": 0.25, "b": 0.25, "c": 0.75}, {"a": 1, "b": 1, "c": 3},
        ),
        "v2": ("accuracy", {"a": 0.25, "b": 0.75, "c": 0.5}, {"a": 3, "b": 1, "c": 2}),
        "made-none": ("top-1 error", {"a": 0.25, "b": 0.75, "c": 0.0}, {"a": 2, "b": 3, "c": 1}),
    }  # fmt: skip
    assert summary.comparison.mean_ranks == {"a": 2.0, "b": pytest.approx(5 / 3), "c": 2.0}
    assert list(cells(summary, "ranking")) == ["b", "a", "c"]
    assert cells(summary, "ranking")["a"] == ["2.0", "25.0 #1", "25.0 #3", "25.0 #2"]
    assert cells(summary, "models by rank") == {"1": ["a, b", "b", "c"], "2": ["—", "c", "a"], "3": ["c", "a", "b"]}


def test_ranks_are_in_csv_and_json(three: list[str], robustshards: Run) -> None:
    summary = summarise(three, resamples=20)
    rows = {
        (row["model"], row["data_set"], row["figure"]): row["value"]
        for row in csv.DictReader(to_csv(summary).splitlines())
    }
    assert rows["c", "made-corruptions", "rank by mean corruption error (unnormalised)"] == "3"
    assert rows["b", "v2", "rank by accuracy"] == "1"
    assert rows["c", "", "mean rank"] == "2.0"
    facts = json.loads(robustshards("report", *three, "--json").stdout)
    assert facts["comparison"]["mean_ranks"]["c"] == 2.0
    assert facts["comparison"]["rankings"][1]["ranks"] == {"a": 3, "b": 1, "c": 2}
    assert facts["comparison"]["rankings"][1]["higher_is_better"] is True


def test_only_comparable_values_are_ranked() -> None:
    """The third model has other images, the fourth only part of the corruptions."""
    found = [made_corruptions(name=name) for name in ("a", "b", "c")]
    part = made_corruptions(name="d", only=("fog",))
    other = replace(found[2], source_ids_sha256="1")
    comparison = summary_of(corruptions=[found[0], found[1], other, part]).comparison
    assert comparison is not None
    (ranking,) = comparison.rankings
    assert (list(ranking.values), ranking.ranks) == (["a", "b", "c", "d"], {"a": 1, "b": 1})
    assert comparison.mean_ranks == {}
    shown = tables(summary_of(corruptions=[found[0], found[1], other, part]))
    (plot,) = next(plots_of(each) for each in shown if each.title == "clean accuracy and robustness")
    assert [point.model for point in plot.points] == ["a", "b"]
    assert summary_of(corruptions=[found[0], other]).comparison is None


def test_one_model_has_no_comparison() -> None:
    summary = made_summary()
    assert summary.comparison is None
    assert not any(each.section == "Comparison" for each in tables(summary))
    assert "rank" not in to_csv(summary)
    assert "Comparison" not in [each.text for each in of(parsed(page(summary, "Title")), "h2")]
    assert summary.facts()["comparison"] is None


# Scatter plots


def test_points_are_clean_accuracy_and_each_headline(three: list[str]) -> None:
    summary = summarise(three, resamples=20)
    (table,) = [each for each in tables(summary) if each.title == "clean accuracy and robustness"]
    points = {plot.title: {p.model: (p.x, p.y) for p in plot.points} for plot in plots_of(table)}
    assert points == {
        "made-corruptions": {"a": (0.75, 0.25), "b": (0.25, 0.25), "c": (1.0, 0.75)},
        "v2": {"a": (0.75, 0.25), "b": (0.25, 0.75), "c": (1.0, 0.5)},
    }
    assert [column.title for column in table.columns] == [
        "model", "clean accuracy", "mean corruption error (unnormalised)", "accuracy",
    ]  # fmt: skip
    assert [str(cell) for cell in table.rows[2]] == ["c", "100.0", "75.0", "50.0"]


def test_perturbations_are_compared_with_the_clean_data_set() -> None:
    summary = summary_of(
        perturbations=[made_perturbations(each) for each in MODELS], clean=[made_clean(each) for each in MODELS]
    )
    (table,) = [each for each in tables(summary) if each.title == "clean accuracy and robustness"]
    (plot,) = plots_of(table)
    assert (plot.x.name, plot.y.name) == ("clean accuracy", "mFR")
    assert [point.x for point in plot.points] == [1 - error for error, _ in MODELS.values()]
    without = summary_of(perturbations=[made_perturbations(each) for each in MODELS])
    assert [each.title for each in tables(without) if each.section == "Comparison"] == ["ranking", "models by rank"]


def test_published_figures_are_hollow_marks_and_not_ranked() -> None:
    about = {"data_set": "ImageNet-C", "family": "corruptions", "transform": "", "source": "paper", "baseline": ""}
    published = [
        PublishedFigure(model="VGG-19 (published)", figure="mCE", value=0.889, **about),
        PublishedFigure(model="VGG-19 (published)", figure="clean error", value=0.276, **about),
        PublishedFigure(model="no clean error (published)", figure="mCE", value=0.5, **about),
    ]
    summary = replace(summary_of(corruptions=[made_corruptions(each) for each in MODELS]), published=published)
    assert "VGG-19 (published)" not in cells(summary, "ranking")
    assert cells(summary, "clean accuracy and robustness")["VGG-19 (published)"] == ["72.4", "88.9"]
    elements = parsed(page(summary, "Title"))
    assert len(of(elements, "circle", "hollow")) == 2  # one in the legend
    assert "VGG-19" in [each.text for each in of(elements, "text", "name")]


def scatter(points: Sequence[Point], **axis: Any) -> Scatters:
    return Scatters([Scatter("data", Axis("size", **axis), Axis("error"), points)])


def test_points_are_at_their_values() -> None:
    points = [Point("a", 0.5, 0.2), Point("b", 0.7, 0.4), Point("c", 0.6, 0.3)]
    (plot,) = scatter_plots(scatter(points), {"a": 0, "b": 1, "c": 2})
    a, b, c = plot.dots
    assert c.x == pytest.approx(50)
    assert c.y == pytest.approx(plot.height / 2)
    assert a.x == pytest.approx(100 - b.x)
    assert a.y == pytest.approx(plot.height - b.y)
    at = {tick.text: tick.position for tick in plot.x_ticks}
    assert at["50"] == pytest.approx(a.x)
    assert at["70"] == pytest.approx(b.x)
    assert {tick.text: tick.position for tick in plot.y_ticks}["30"] == pytest.approx(c.y)
    assert "c 30.0 at 60.0" in plot.description


def test_logarithmic_axes_have_powers_of_ten() -> None:
    points = [Point("a", 1e6, 0.2), Point("b", 1e8, 0.4), Point("c", 1e7, 0.3)]
    millions = NumberFormat(1e-6, 1)
    (plot,) = scatter_plots(scatter(points, format=millions, logarithmic=True), {"a": 0, "b": 1, "c": 2})
    assert [dot.x for dot in plot.dots][2] == pytest.approx(50)
    assert {"1", "10", "100"} <= {tick.text for tick in plot.x_ticks}


@given(st.integers(2, 16), st.integers(0, 2**32))
def test_labels_do_not_overlap(count: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    points = [Point(f"a model {index}", *(0.5 + 0.05 * generator.random(2))) for index in range(count)]
    (plot,) = scatter_plots(scatter(points), {point.model: slot for slot, point in enumerate(points)})
    assert plot.height > HEIGHT
    for width in (250, 400):
        boxes = []
        for dot in plot.dots:
            if dot.label:
                size = 6.0 * len(dot.label)
                left = width * dot.x / 100 + dot.label_x - {"start": 0, "middle": size / 2, "end": size}[dot.anchor]
                assert left >= 0
                assert left + size <= width
                boxes.append((left, left + size, dot.y + dot.label_y - 6, dot.y + dot.label_y + 6))
        for index, one in enumerate(boxes):
            for other in boxes[index + 1 :]:
                apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
                assert apart, (one, other)
    assert sum(bool(dot.label) for dot in plot.dots) >= min(count, 10)


def test_a_page_of_ten_models_names_all_points() -> None:
    elements = parsed(page(ten_models(), "Title"))
    plots = of(elements, "svg", "scatter")
    assert len(plots) == 9 + 10 + 10
    for plot in plots[:9]:
        assert sum(name in plot.text for name in ("ResNet-18", "DeiT-S", "Swin-T", "ConvNeXt-B")) == 4
    summaries = [each.text for each in of(elements, "summary")]
    assert summaries[0] == "Show key figures by model"


# Categories


def test_category_means_are_means_of_corruption_errors(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    names = corruptions.names("benchmark")
    logits = {
        (name, severity): votes(np.where(generator.random(40) < 0.5, 0, 6))
        for name in names
        for severity in range(1, 6)
    }
    base = {key: votes([0, 6] * 20) for key in logits}
    mine = write_evaluation(tmp_path / "r", logits, [0] * 40, model="mine")
    baseline = write_evaluation(tmp_path / "b", base, [0] * 40, model="base")
    summary = summarise([mine], [baseline], resamples=20)
    (found,) = summary.families["corruptions"]
    errors = {row.name: row.corruption_error.value for row in found.rows}
    assert list(found.category_errors) == ["noise", "blur", "weather", "digital"]
    assert [sum(corruptions.get(name).group == each for name in names) for each in found.category_errors] == [
        3,
        4,
        4,
        4,
    ]
    for category, value in found.category_errors.items():
        members = [errors[name] for name in names if corruptions.get(name).group == category]
        assert value.value == pytest.approx(np.mean(members), abs=1e-12)
        assert value.low < value.value < value.high
    everything = metrics.mean_over_transforms(errors)
    assert found.mean_corruption_error.value == pytest.approx(everything, abs=1e-12)
    rows = {row["figure"]: row for row in csv.DictReader(to_csv(summary).splitlines())}
    assert float(rows["mean CE (blur)"]["value"]) == found.category_errors["blur"].value
    assert rows["mean CE (blur)"]["baseline"] == "base"


def test_a_category_with_missing_corruptions_is_marked(tmp_path: Path) -> None:
    logits = {("fog", 1): votes([0, 6]), ("snow", 1): votes([6, 6])}
    mine = write_evaluation(tmp_path / "r", logits, (0, 1), model="mine")
    base = write_evaluation(tmp_path / "b", logits, (0, 1), model="base")
    (table, *_) = tables(summarise([mine], [base], resamples=20))
    row = {str(row[0]): str(row[1]) for row in table.rows}
    assert row["mean CE (weather)"].startswith("100.0 [")
    assert row["mean CE (weather)"].endswith("] *")
    assert "mean CE (noise)" not in row
    assert "mean CE (weather) averaged over 2 of 4 weather corruptions" in table.note


# Notes and sizes


@pytest.fixture
def noted(tmp_path: Path) -> list[str]:
    """Return two evaluations of a model with different notes, and one of a model without any."""
    made: Any = {"model": "augmented", "parameters": 25_557_032}
    return [
        write_evaluation(tmp_path / "fog", {("fog", 1): votes([0])}, (0,), note="trained on | fog", **made),
        write_evaluation(tmp_path / "clean", {("none", 0): votes([0])}, (0,), family="none", note="from X", **made),
        write_evaluation(
            tmp_path / "other", {("fog", 1): votes([6])}, (0,), model="plain", multiply_adds=4_100_000_000
        ),
    ]


def test_notes_are_in_all_formats(noted: list[str], robustshards: Run) -> None:
    note = "trained on | fog; from X"
    summary = summarise(noted, resamples=20)
    assert [(each.name, each.note, each.parameters, each.multiply_adds) for each in summary.models] == [
        ("augmented", note, 25_557_032, None),
        ("plain", "", None, 4_100_000_000),
    ]
    elements = parsed(page(summary, "Title"))
    assert note in of(elements, "article", "card")[0].text
    assert "| augmented | trained on \\| fog; from X | 25.6 | — |" in to_markdown_page(summary, "t", tables(summary))
    done = robustshards("report", *noted)
    assert all(part in done.stdout for part in ("trained on | fog;", "from X"))  # the terminal wraps
    facts = rs.report(noted).facts()
    assert facts["models"][0] == {"name": "augmented", "note": note, "parameters": 25_557_032, "multiply_adds": None}
    rows = [row for row in csv.DictReader(to_csv(summary).splitlines()) if row["family"] == "models"]
    assert [(row["model"], row["figure"], row["value"]) for row in rows] == [
        ("augmented", "parameters", "25557032"),
        ("plain", "multiply-adds", "4100000000"),
    ]


def test_one_model_has_its_note_without_a_comparison(noted: list[str]) -> None:
    found = tables(summarise(noted[:1], resamples=20))
    assert (found[0].section, found[0].title) == ("Models", "notes and sizes")
    assert [str(cell) for cell in found[0].rows[0]] == ["augmented", "trained on | fog", "25.6"]
    assert not any(each.section == "Comparison" for each in found)


def test_models_without_notes_and_sizes_have_no_table() -> None:
    assert not any(each.section == "Models" for each in tables(made_summary(tuple(MODELS))))


def test_sizes_that_differ_between_evaluations_are_omitted(tmp_path: Path) -> None:
    folders = [
        write_evaluation(tmp_path / "c", {("fog", 1): votes([0])}, (0,), multiply_adds=5),
        write_evaluation(tmp_path / "k", {("none", 0): votes([0])}, (0,), family="none", multiply_adds=7),
    ]
    (found,) = summarise(folders, resamples=20).models
    assert found.multiply_adds is None
