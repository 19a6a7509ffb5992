"""The comparison of several models: ranks, differences, scatter plots, means by category, notes and sizes."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
from pipeline.evaluate.metrics.bootstrap import Bootstrap, intervals
from pipeline.evaluate.report.across import PublishedFigure, ranking
from pipeline.evaluate.report.report import ReportData
from pipeline.evaluate.report.text import to_markdown
from pipeline.evaluate.report.views import Axis, Number, Panel
from pipeline.evaluate.report.write import page
from pipeline.tasks.schema import Task
from tests.conftest import Run
from tests.evaluate.test_tables import made, results
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import cells, lines, measure, only, report_on, table, tables_of, value, values

IMAGES = 40
LABELS = [0] * IMAGES
SHIFT = Task(name="v2", outputs=7, outputs_are="made", role="shift")
MEAN = "mean corruption error (unnormalised)"
SCATTER, SIZES = "clean accuracy and robustness", "model size"


def wrong(*images: int) -> np.ndarray:
    """Return logits that are wrong for these images."""
    return votes([6 if image in images else 0 for image in range(IMAGES)])


def fog(folder: Path, name: str, logits: np.ndarray, **options: Any) -> str:
    return write_evaluation(folder / f"{name}-fog", {("fog", 1): logits}, LABELS, model=name, **options)


def clean(folder: Path, name: str, logits: np.ndarray, **options: Any) -> str:
    options = {"family": "none", "model": name, **options}
    return write_evaluation(folder / f"{name}-{len(options)}", {("none", 0): logits}, LABELS, **options)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return evaluations of three models on fog, clean and natural images. "a" and "b" have the same error on fog."""
    folder = tmp_path_factory.mktemp("three")
    on_fog = {"a": range(10), "b": range(30, 40), "c": range(30)}
    on_clean = {"a": 10, "b": 30, "c": 0}
    on_shift = {"a": 30, "b": 10, "c": 20}
    return [
        evaluation
        for name in "abc"
        for evaluation in (
            fog(folder, name, wrong(*on_fog[name])),
            clean(folder, name, wrong(*range(on_clean[name]))),
            clean(folder, name, wrong(*range(on_shift[name])), task=SHIFT),
        )
    ]


def panels(report: ReportData, title: str = SCATTER) -> Sequence[Panel]:
    plot = table(report, title).plot
    assert plot is not None
    assert plot.kind == "scatter"
    return plot.panels


def points(panel: Panel) -> dict[str, Any]:
    return {each.name: (each.x, each.y) for each in panel.points}


# Ranks and differences


def test_models_are_ranked_on_each_data_set(three: list[str], robustshards: Run) -> None:
    report = report_on(*three)
    found = {each.section.title: (each.metric.name, each.ranks) for each in report.rankings}
    assert found == {
        "made-corruptions": (MEAN, {"a": (1, 2), "b": (1, 2), "c": (3, 3)}),
        "v2": ("accuracy", {"a": (3, 3), "b": (1, 1), "c": (2, 2)}),
        "made-none": ("top-1 error", {"a": (2, 2), "b": (3, 3), "c": (1, 1)}),
    }
    means = {"a": 6.5 / 3, "b": 5.5 / 3, "c": 2.0}
    assert report.mean_ranks == pytest.approx(means)
    rows = {str(row[0]): row[1:] for row in table(report, "ranking").rows}
    assert list(rows) == ["b", "c", "a"]
    assert [(cell.value, cell.rank) for cell in rows["a"] if isinstance(cell, Number)] == [
        (pytest.approx(means["a"]), ""), (0.25, "1-2"), (0.25, "3"), (0.25, "2"),
    ]  # fmt: skip
    assert [column.title for column in table(report, "ranking").columns] == [
        "model", "mean rank", f"{MEAN} ↓", "accuracy ↑", "top-1 error ↓",
    ]  # fmt: skip
    ranks = {(line["model"], line["data_set"], line["metric"]): line for line in lines(report)}
    line = ranks["a", "made-corruptions", f"rank by {MEAN}"]
    assert [line[each] for each in ("value", "low", "high", "unit")] == ["1.5", "1.0", "2.0", "rank"]
    assert float(ranks["b", "", "mean rank"]["value"]) == pytest.approx(means["b"])
    facts = json.loads(robustshards("report", *three, "--json").stdout)
    assert facts["mean_ranks"] == pytest.approx(means)
    assert (
        facts["rankings"][1] | {"higher_is_better": True, "ranks": {"a": [3, 3], "b": [1, 1], "c": [2, 2]}}
        == (facts["rankings"][1])
    )


def test_differences_are_first_minus_second(three: list[str]) -> None:
    rows = {str(row[0]): row[1:] for row in table(report_on(*three), "differences").rows}
    found = {pair: [round(cell.value, 9) for cell in row if isinstance(cell, Number)] for pair, row in rows.items()}
    assert found == {"b - c": [-0.5, 0.25, 0.75], "b - a": [0, 0.5, 0.5], "c - a": [0.5, 0.25, -0.25]}
    chance, certain = rows["b - a"][:2]
    assert isinstance(chance, Number)
    assert isinstance(certain, Number)
    assert chance.low < 0 < chance.high
    assert 0 < certain.low < 0.5 < certain.high


@pytest.mark.parametrize(("apart", "tied"), [(1, True), (3, True), (4, False)])
def test_models_that_differ_by_few_images_are_a_tie(tmp_path: Path, apart: int, tied: bool) -> None:
    """The images are wrong under both corruptions, so the second model is worse in every draw that has one of them.

    A draw of 40 images has none of 3 of them by chance in 4.4 %, none of 4 in 1.5 %.
    """
    folders = [
        write_evaluation(tmp_path / name, dict.fromkeys((("fog", 1), ("snow", 1)), logits), LABELS, model=name)
        for name, logits in (("a", wrong(*range(10))), ("b", wrong(*range(10 + apart))))
    ]
    report = report_on(*folders)
    assert report.rankings[0].ranks == ({"a": (1, 2), "b": (1, 2)} if tied else {"a": (1, 1), "b": (2, 2)})
    best = [cell.best for row in table(report, "key figures").rows for cell in row if isinstance(cell, Number)]
    assert any(best) != tied


def test_paired_intervals_are_narrower_than_unpaired_ones(tmp_path: Path) -> None:
    """Images that are hard for both models are in the same draws of both."""
    report = report_on(fog(tmp_path, "a", wrong(*range(10))), fog(tmp_path, "b", wrong(*range(12))))
    (found,) = report.rankings
    paired = found.difference("b", "a")
    assert paired is not None
    one, other = (np.arange(IMAGES) < count for count in (12, 10))
    low, high = intervals(Bootstrap.of(one).draws - Bootstrap.of(other, seed=1).draws)
    assert paired.value == pytest.approx(0.05)
    assert paired.high - paired.low < 0.5 * (high - low)


def test_images_in_another_order_are_not_paired(tmp_path: Path) -> None:
    """Draws of images in another order have other images, so the models share ranks and have no difference."""
    names = [f"image{number}" for number in range(IMAGES)]
    one = fog(tmp_path, "a", wrong(*range(10)), names=names)
    other = fog(tmp_path, "b", wrong(*range(30)), names=names[::-1], manifest="1" * 64)
    (found,) = report_on(one, other, resamples=20).rankings
    assert (found.ranks, found.difference("a", "b")) == ({"a": (1, 2), "b": (1, 2)}, None)


def test_of_many_models_neighbours_are_compared(tmp_path: Path) -> None:
    folders = [fog(tmp_path, f"m{number}", wrong(*range(4 * number))) for number in range(7)]
    pairs = {count: list(cells(table(report_on(*folders[:count], resamples=20), "differences"))) for count in (6, 7)}
    assert len(pairs[6]) == 15
    assert pairs[7] == [f"m{number} - m{number + 1}" for number in range(6)]


@pytest.mark.parametrize(
    ("metric", "other"),
    [
        ("mCE", {"source_ids_sha256": "1"}),
        ("mCE", {"counts": {"images": (39, 50)}}),
        ("mCE", {"covers": "2 of 15 corruptions"}),
        ("mCE", {"baseline": "other"}),
        ("clean error", {"clean_images": "jpeg (lossy)"}),
    ],
    ids=lambda each: "".join(each) if isinstance(each, dict) else each,
)
def test_only_comparable_values_are_ranked(metric: str, other: dict[str, Any]) -> None:
    accuracy = {"clean_accuracy": 0.9}
    report = made(*(results(name, **accuracy) for name in "ab"), results("c", **accuracy, **other))
    (section,) = report.sections
    found = ranking(section, section.report.metric(metric))
    assert found is not None
    assert (list(found.values), found.ranks) == (["a", "b", "c"], {"a": (1, 2), "b": (1, 2)})
    assert found.difference("a", "c") is None
    assert list(points(panels(report)[0])) == (["a", "b"] if metric == "mCE" else ["a", "b", "c"])
    assert ranking(replace(section, models={name: section.models[name] for name in "ac"}), found.metric) is None


def test_one_model_has_no_comparison(three: list[str]) -> None:
    report = report_on(*three[:3], resamples=20)
    assert (report.rankings, report.mean_ranks) == ([], {})
    assert not any(each.section == "Comparison" for each in tables_of(report))
    assert not any("rank" in line["metric"] for line in lines(report))


# Scatter plots


def test_points_are_clean_accuracy_and_the_leading_metric(three: list[str]) -> None:
    report = report_on(*three, resamples=20)
    assert {panel.title: points(panel) for panel in panels(report)} == {
        "made-corruptions": {"a": (0.75, 0.25), "b": (0.25, 0.25), "c": (1.0, 0.75)},
        "v2": {"a": (0.75, 0.25), "b": (0.25, 0.75), "c": (1.0, 0.5)},
    }
    assert [column.title for column in table(report, SCATTER).columns] == ["model", "clean accuracy", MEAN, "accuracy"]
    assert cells(table(report, SCATTER))["c"] == ["100.0", "75.0", "50.0"]


def test_sequences_are_compared_with_the_clean_data_set(tmp_path: Path) -> None:
    frames = np.stack([votes([0, 1, 1])] * IMAGES)
    options: dict[str, Any] = {"family": "perturbations", "names": [f"sequence{number}" for number in range(IMAGES)]}
    walks = [
        write_evaluation(tmp_path / f"{name}-p", {("tilt", 1): frames}, LABELS, model=name, **options) for name in "ab"
    ]
    report = report_on(*walks, *(clean(tmp_path, name, wrong(1)) for name in "ab"), resamples=20)
    (panel,) = panels(report)
    assert (panel.x.name, panel.y.name) == ("clean accuracy", "mean flip probability (unnormalised)")
    assert points(panel) == {name: (0.975, pytest.approx(0.5)) for name in "ab"}
    without = report_on(*walks, resamples=20)
    assert [each.title for each in tables_of(without) if each.section == "Comparison"] == ["ranking", "differences"]


def test_published_figures_are_drawn_but_not_ranked(three: list[str]) -> None:
    about = {"section": "made-corruptions", "family": "corruptions", "transform": "", "source": "paper", "baseline": ""}
    published = [
        PublishedFigure(model="VGG-19 (published)", metric=MEAN, value=0.889, **about),
        PublishedFigure(model="VGG-19 (published)", metric="clean error", value=0.276, **about),
        PublishedFigure(model="no clean error (published)", metric=MEAN, value=0.5, **about),
    ]
    report = replace(report_on(*three, resamples=20), published=published)
    assert list(cells(table(report, "ranking"))) == ["b", "c", "a"]
    assert cells(table(report, SCATTER))["VGG-19 (published)"] == ["72.4", "88.9", "—"]
    assert [each.name for each in panels(report)[0].points if each.published] == ["VGG-19 (published)"]


# Categories


def test_category_means_are_means_of_corruption_errors(tmp_path: Path) -> None:
    generator, names = np.random.default_rng(1), corruptions.names("benchmark")
    conditions = [(name, severity) for name in names for severity in range(1, 6)]
    logits = {each: votes(np.where(generator.random(IMAGES) < 0.5, 0, 6)) for each in conditions}
    mine = write_evaluation(tmp_path / "r", logits, LABELS, model="mine")
    half = dict.fromkeys(conditions, wrong(*range(0, IMAGES, 2)))
    report = report_on(mine, baseline=[write_evaluation(tmp_path / "b", half, LABELS, model="base")])
    found = only(report, "corruptions")
    errors = values(found, "CE")
    for category, count in {"noise": 3, "blur": 4, "weather": 4, "digital": 4}.items():
        members = [errors[name] for name in names if corruptions.get(name).group == category]
        mean = measure(found, f"mean CE ({category})")
        assert len(members) == count
        assert mean.value == pytest.approx(np.mean(members), abs=1e-12)
        assert mean.low < mean.value < mean.high
    assert value(found, "mCE") == pytest.approx(np.mean(list(errors.values())), abs=1e-12)
    (line,) = [line for line in lines(report) if line["metric"] == "mean CE (blur)"]
    assert (float(line["value"]), line["baseline"]) == (value(found, "mean CE (blur)"), "base")


def test_a_category_with_missing_corruptions_is_marked_with_one_note(tmp_path: Path) -> None:
    logits = dict.fromkeys((("fog", 1), ("snow", 1)), wrong(1))
    folders = [write_evaluation(tmp_path / name, logits, LABELS, model=name) for name in ("a", "b", "base")]
    found = table(report_on(*folders[:2], baseline=folders[2:], resamples=20), "key figures")
    assert [each.startswith("100.0 [") and each.endswith("] *") for each in cells(found)["mean CE (weather)"]] == [
        True,
        True,
    ]
    assert "mean CE (noise)" not in cells(found)
    assert found.note.count("a, b: mean CE (weather) averaged over 2 of 4 weather corruptions.") == 1
    assert found.note.count("*") == 2  # one for the benchmark, one for the category


# Notes and sizes


@pytest.fixture
def noted(tmp_path: Path) -> list[str]:
    """Return two evaluations of a model with different notes, and one of a model without any."""
    made: Any = {"model": "augmented", "parameters": 25_557_032}
    clean_images: Any = {"family": "none", "note": "from X", "multiply_adds": 7}
    return [
        write_evaluation(tmp_path / "fog", {("fog", 1): votes([0])}, (0,), note="trained on | fog", **made),
        write_evaluation(tmp_path / "clean", {("none", 0): votes([0])}, (0,), **made, **clean_images),
        write_evaluation(
            tmp_path / "other", {("fog", 1): votes([6])}, (0,), model="plain", multiply_adds=4_100_000_000
        ),
    ]


def test_notes_and_sizes_are_in_all_formats(noted: list[str], robustshards: Run) -> None:
    note = "trained on | fog; from X"
    report = report_on(*noted, resamples=20)
    augmented = {"name": "augmented", "note": note, "parameters": 25_557_032, "multiply_adds": 7}
    plain = {"name": "plain", "note": "", "parameters": None, "multiply_adds": 4_100_000_000}
    assert report.facts()["models"] == [augmented, plain]
    assert note in page(report.document())
    assert "| augmented | trained on \\| fog; from X | 25.6 | 0.00 |" in to_markdown(tables_of(report))
    done = robustshards("report", *noted)
    assert all(part in done.stdout for part in ("trained on | fog;", "from X"))  # the terminal wraps
    sizes = [(line["model"], line["metric"], float(line["value"])) for line in lines(report) if line["unit"] == "count"]
    assert [each for each in sizes if each[1] in {"parameters", "multiply-adds"}] == [
        ("augmented", "parameters", 25_557_032),
        ("augmented", "multiply-adds", 7),
        ("plain", "multiply-adds", 4_100_000_000),
    ]


def test_one_model_has_its_note_without_a_comparison(noted: list[str], three: list[str]) -> None:
    found = tables_of(report_on(noted[0], resamples=20))
    assert (found[0].section, found[0].title) == ("Models", "notes and sizes")
    assert cells(found[0]) == {"augmented": ["trained on | fog", "25.6"]}
    assert not any(each.section == "Comparison" for each in found)
    assert not any(each.section == "Models" for each in tables_of(report_on(*three, resamples=20)))


def test_models_are_drawn_by_size(tmp_path: Path) -> None:
    """A size that differs between the evaluations of a model is left out."""
    sizes = {"a": 1_000_000, "b": 20_000_000}
    folders = [fog(tmp_path, name, wrong(1), parameters=size, multiply_adds=size) for name, size in sizes.items()]
    report = report_on(*folders, clean(tmp_path, "b", wrong(1), parameters=20_000_000, multiply_adds=5), resamples=20)
    assert [(each.parameters, each.multiply_adds) for each in report.models] == [(10**6, 10**6), (2 * 10**7, None)]
    (panel,) = panels(report, SIZES)
    assert points(panel) == {name: (size, 0.025) for name, size in sizes.items()}
    assert panel.x == Axis("parameters (millions)", panel.x.format, logarithmic=True)
