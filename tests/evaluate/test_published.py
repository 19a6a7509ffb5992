"""Published figures of reference models beside evaluated ones."""

from __future__ import annotations

import csv
import json
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from pipeline.evaluate.report.published import (
    ATTACK_RECIPES,
    BENCHMARKS,
    MARK,
    NATURAL_ROBUSTNESS,
    UNNORMALISED,
    VALIDATION,
)
from pipeline.evaluate.report.summarise import summarise

import corruptions
import perturbations
import robustshards as rs
from corruptions import c_bar
from pipeline.evaluate import metrics
from pipeline.evaluate.report import real_labels
from pipeline.evaluate.report.families import layouts
from pipeline.evaluate.report.sections import tables
from pipeline.evaluate.report.text import to_markdown, to_terminal
from pipeline.tasks.library import load, shipped
from pipeline.transforms.adversarial import ATTACKS
from tests.conftest import Run
from tests.evaluate.test_natural_metrics import RESNET50_CE
from tests.factories.evaluations import votes, write_evaluation

NAMES = ["ILSVRC2012_val_00000001", "ILSVRC2012_val_00000002"]
ALEXNET = "AlexNet (published)"

PARTS = {
    "cifar-100-subclass-1-held-out": 40.9,
    "cifar-100-subclass-2-held-out": 26.78,
    "cifar-100-subclass-3-held-out": 25.3,
    "icons-50-style-apple-held-out": 93,
    "icons-50-style-microsoft-held-out": 57,
    "icons-50-subclass-held-out": 60.4,
    "icons-50-style-apple-substring-held-out": 93,
    "icons-50-style-microsoft-substring-held-out": 57,
    "icons-50-subclass-substring-held-out": 60.4,
}
"""Task of a held-out part -> published accuracy in percent. The program's rule gives parts with names of their own."""


def facts() -> list[dict[str, str]]:
    """Return the rows of the file of published figures."""
    text = resources.files("pipeline.evaluate.report").joinpath("published.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def percents(model: str, data_set: str) -> dict[tuple[str, str], float]:
    """Return the figures of a model on a data set by transform and name."""
    rows = [row for row in facts() if (row["model"], row["data_set"]) == (model, data_set)]
    return {(row["transform"], row["figure"]): float(row["printed"]) for row in rows}


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide an installed timm."""
    monkeypatch.setattr(real_labels, "PACKAGE", "no_such_package")


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Return evaluations of one model on ImageNet-C, clean images, ImageNet-A and -O, and on another data set."""
    options: dict[str, Any] = {"names": NAMES, "profile": "imagenet"}
    logits = {(name, level): votes([1, 3], 1000) for name in corruptions.names("benchmark") for level in range(1, 6)}
    plain, other = {("none", 0): votes([1, 2], 1000)}, {("none", 0): votes([1, 2])}
    natural: dict[str, Any] = {"family": "none", "profile": ""}
    return [
        write_evaluation(tmp_path / "c", logits, (1, 2), **options),
        write_evaluation(tmp_path / "clean", plain, (1, 2), family="none", **options),
        write_evaluation(tmp_path / "a", plain, (1, 2), **natural, task=load("imagenet-a").task),
        write_evaluation(tmp_path / "o", plain, (-1, -1), **natural, task=load("imagenet-o").task),
        write_evaluation(tmp_path / "other", other, (1, 2), **natural, model="small", data_set="other", names="ab"),
    ]


# The report


def test_published_models_are_marked_in_every_output(tmp_path: Path, folders: list[str], robustshards: Run) -> None:
    done = robustshards("report", *folders, "--published", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    published = {(each["model"], each["figure"]): each for each in report["published"] if not each["transform"]}
    mce = published["ResNet-50 (published)", "mCE"]
    assert (mce["value"], mce["data_set"], mce["family"]) == (pytest.approx(0.767), "made-corruptions", "corruptions")
    assert (mce["source"], mce["baseline"]) == ("ImageNet-C paper", ALEXNET)
    assert published["ResNet50 (published)", "accuracy"]["data_set"] == "imagenet-a"
    assert all(each["model"].endswith(MARK) for each in report["published"])

    lines = [line for line in csv.DictReader((tmp_path / "out" / "report.csv").open()) if MARK in line["model"]]
    assert len(lines) == len(report["published"])
    (fog,) = [
        line
        for line in lines
        if (line["model"], line["transform"], line["figure"]) == ("ResNet-18 (published)", "fog", "CE")
    ]
    assert (float(fog["value"]), fog["baseline"], fog["low"]) == (0.78, ALEXNET, "")
    markdown = (tmp_path / "out" / "report.md").read_text().replace("\\", "")
    assert "| ResNet-50 (published) | 76.7 | 105.0 | 23.3 |" in markdown
    assert "| ViT-B/16 optimal, vanilla (published) | 20.9 | RobustART |" in markdown
    for text in ((tmp_path / "out" / "report.html").read_text(), done.stdout):
        assert "ResNet-50 (published)" in " ".join(text.split())


def test_without_the_option_nothing_is_published(folders: list[str]) -> None:
    summary = summarise(folders)
    assert summary.published == ()
    assert "ResNet-50" not in to_markdown(tables(summary))
    assert not rs.report(folders).facts()["published"]
    assert rs.report(folders, published=True).facts()["published"]


def test_published_figures_change_nothing_else(folders: list[str]) -> None:
    with_published, without = (summarise(folders, published=each).facts() for each in (True, False))
    assert with_published.pop("published")
    assert not without.pop("published")
    assert with_published == without


def test_figures_are_shown_only_where_they_are_comparable(tmp_path: Path, folders: list[str]) -> None:
    """Not for other classes or images, and not if another model is the baseline."""
    sets = {each.data_set for each in summarise(folders, published=True).published}
    assert sets == {"made-corruptions", "made-none", "imagenet-a", "imagenet-o"}
    assert {each.data_set for each in summarise(folders[-1:], published=True).published} == set()
    own = summarise(folders[:1], folders[:1], published=True)
    assert own.families["corruptions"][0].mean_corruption_error.value == 1
    assert own.published == []
    renamed = write_evaluation(tmp_path / "n", {("none", 0): votes([1, 2], 1000)}, (1, 2), family="none", names="ab")
    assert summarise([renamed], published=True).published == []


def test_evaluated_models_come_first_in_the_tables(folders: list[str]) -> None:
    found = {(each.section, each.title): each for each in tables(summarise(folders, published=True))}
    table = found["made-corruptions", "published models"]
    assert (table.rows[0][0], table.rows[0][-1]) == ("made", "evaluated")
    assert {str(row[0]) for row in table.rows[1:]} >= {"AlexNet (published)", "ResNet-18 (published)"}
    assert all(str(row[0]).endswith(MARK) for row in table.rows[1:])
    ce = found["made-corruptions", "CE of published models"]
    assert [column.title for column in ce.columns] == [
        "transform", "made", "ResNet-18 (published)", "ResNet-50 (published)",
    ]  # fmt: skip
    assert [str(row[-1]) for row in ce.rows] == [f"{percent}.0" for percent in RESNET50_CE]
    assert to_terminal([table, ce])


# The facts


def test_every_figure_is_shown_in_a_section_and_given_once() -> None:
    rows = facts()
    known = {*BENCHMARKS.values(), *UNNORMALISED.values(), VALIDATION, NATURAL_ROBUSTNESS, *shipped(), *PARTS}
    assert {row["data_set"] for row in rows} <= known | {*ATTACK_RECIPES}
    names = {figure.name for layout in layouts().values() for figure in (*layout.figures, *layout.row_figures)}
    assert {row["figure"] for row in rows} <= names
    keys = Counter((row["model"], row["data_set"], row["transform"], row["figure"]) for row in rows)
    assert max(keys.values()) == 1
    names = {"", "style_transfer", *corruptions.names("benchmark"), *corruptions.names("c-bar")}
    attacks = {row["transform"] for row in rows if row["data_set"] in ATTACK_RECIPES} - {""}
    assert {row["transform"] for row in rows} - attacks == names
    assert attacks <= {*ATTACKS}


def test_figures_of_alexnet_are_those_of_the_baseline() -> None:
    clean, corrupted = percents("AlexNet", "imagenet"), percents("AlexNet", "imagenet-c")
    assert clean["", "top-1 error"] == corrupted["", "clean error"]
    assert clean["", "top-1 error"] == pytest.approx(100 * metrics.ALEXNET_CLEAN_ERROR)
    mean = 100 * metrics.unnormalised_mean_error(list(metrics.ALEXNET_ERRORS.values()))
    assert corrupted["", "mean corruption error (unnormalised)"] == round(mean, 2)
    assert corrupted["", "mean corruption accuracy (unnormalised)"] == round(100 - mean, 2)
    assert (corrupted["", "mCE"], corrupted["", "relative mCE"], corrupted["", "1 - mCE"]) == (100, 100, 0)
    flips = [metrics.ALEXNET_FLIP_PROBABILITIES[name] for name in perturbations.names("benchmark")]
    found = percents("AlexNet", "imagenet-p")
    assert found["", "NmFP"] == round(100 * metrics.negative_mean_flip_probability(flips), 2)
    assert found["", "mean flip probability (unnormalised)"] == -found["", "NmFP"]
    assert found["", "mFR"] == 100


@pytest.mark.parametrize(("model", "clean"), [("ResNet-18", 30.2), ("ResNet-50", 23.9)])
def test_printed_ce_agree_with_the_printed_mce(model: str, clean: float) -> None:
    """CE is printed without decimals, so means differ by up to 0.3, and relative CE computed from it by up to 2."""
    found = percents(model, "imagenet-c")
    names = corruptions.names("benchmark")
    assert sum(found[name, "CE"] for name in names) / 15 == pytest.approx(found["", "mCE"], abs=0.3)
    assert found["", "1 - mCE"] == pytest.approx(100 - found["", "mCE"])
    assert found["", "clean error"] == percents(model, "imagenet")["", "top-1 error"] == clean
    for name in names:
        if (name, "relative CE") in found:
            alexnet = metrics.alexnet_errors([name])
            errors = alexnet * found[name, "CE"] / 100
            relative = metrics.relative_corruption_error(errors, clean / 100, alexnet, metrics.ALEXNET_CLEAN_ERROR)
            assert 100 * relative[0] == pytest.approx(found[name, "relative CE"], abs=2.1)


@pytest.mark.parametrize(
    ("network", "profile", "trainings"), [("ResNet-50", "imagenet", 6), ("WideResNet-40-2", "cifar", 4)]
)
def test_printed_errors_on_c_bar_agree_with_their_means(network: str, profile: str, trainings: int) -> None:
    """The difference of AugMix on CIFAR-10-C-bar is printed as 5.9 instead of 4.9, that of its two errors."""
    (data_set,) = {name for (family, each, _), name in UNNORMALISED.items() if (family, each) == ("c-bar", profile)}
    models = {row["model"] for row in facts() if row["data_set"] == data_set}
    assert (len(models), {model.partition(",")[0] for model in models}) == (trainings, {network})
    for model in models:
        found = percents(model, data_set)
        mean, difference = (
            found["", "mean corruption error (unnormalised)"],
            found["", "difference to ImageNet-C's corruptions"],
        )
        errors = [found[name, "mean error (unnormalised)"] for name in c_bar.PUBLISHED[profile]]
        assert mean == pytest.approx(sum(errors) / 10, abs=0.1)
        assert difference == pytest.approx(mean - found["", "mean error on ImageNet-C's corruptions"], abs=0.1)
    assert percents("WideResNet-40-2, AugMix", "cifar-10-c-bar")["", "difference to ImageNet-C's corruptions"] == 4.9


def test_figures_of_ares_are_those_of_its_tables(shared: Path) -> None:
    """ARES-Bench's accuracies on ObjectNet are not compared with others: they probably use labels of other classes."""
    table = json.loads((shared / "spec" / "data" / "ares_tables.json").read_text())
    normal = [row for row in table["natural"] if row["method"] == "Normal"]
    rows = [row for row in facts() if row["source"] == "ARES-Bench"]
    natural = [row for row in rows if row["data_set"] not in {"low-pass", *ATTACK_RECIPES}]
    assert {row["architecture"] for row in normal} == {row["model"] for row in natural}
    for row in normal:
        figures = dict(zip(metrics.NATURAL_FIGURES, row["values"], strict=True))
        found = percents(row["architecture"], NATURAL_ROBUSTNESS)
        clean = percents(row["architecture"], VALIDATION)
        average = {("", "natural robustness (average of ten)"): row["average"]}
        assert found == {("", name): value for name, value in figures.items() if name != "objectnet"} | average
        assert 100 - clean["", "top-1 error"] == pytest.approx(figures["imagenet"])
        assert clean["", "accuracy (ReaL)"] == figures["accuracy (ReaL)"]
        assert percents(row["architecture"], "imagenet-c") == {("", "1 - mCE"): figures["1 - mCE"]}
        for name in set(metrics.NATURAL_FIGURES) & set(shipped()) - {"imagenet", "objectnet"}:
            assert percents(row["architecture"], name) == {("", "accuracy"): figures[name]}
        assert percents(row["architecture"], "objectnet") == {}


def test_frequency_biases_of_ares_are_those_of_its_table(shared: Path) -> None:
    table = json.loads((shared / "spec" / "data" / "ares_tables.json").read_text())["frequency_bias"]
    found = {row["model"]: float(row["printed"]) for row in facts() if row["data_set"] == "low-pass"}
    assert len(found) == 2 * len(table)
    for model, (normal, trained) in table.items():
        assert (found[model], found[f"{model}, adversarially trained"]) == (normal, trained)
        assert 2.9 <= round(normal - trained, 1) <= 9.3


def test_figures_of_robustart_are_those_of_its_tables(shared: Path) -> None:
    table = json.loads((shared / "spec" / "data" / "robustart_tables.json").read_text())
    natural = [row for row in facts() if row["data_set"] not in ATTACK_RECIPES]
    models = {row["model"] for row in natural if row["source"] == "RobustART"}
    assert models == {name for name in table["rows"] if name.endswith("vanilla")}
    for model in models:
        row = dict(zip(table["columns"], table["rows"][model], strict=True))
        assert percents(model, VALIDATION)["", "top-1 error"] == pytest.approx(100 - row["clean accuracy"])
        assert percents(model, "imagenet-a") == {("", "accuracy"): row["ImageNet-A accuracy"]}
        assert percents(model, "imagenet-o") == {("", "AUPR"): row["ImageNet-O AUPR"]}
        mean = percents(model, "imagenet-c")
        assert mean["", "mean corruption accuracy (unnormalised)"] == row["ImageNet-C robustness"]
        assert sum(mean.values()) == pytest.approx(100)
        assert percents(model, "imagenet-p")["", "NmFP"] == pytest.approx(100 * row["NmFP"])


def test_figures_of_held_out_parts_are_those_of_the_draft() -> None:
    rows = [row for row in facts() if row["source"] == "2018 draft" and not row["transform"]]
    assert {row["data_set"]: float(row["printed"]) for row in rows} == PARTS
    assert {row["figure"] for row in rows} == {"accuracy"}


def test_style_transfer_is_compared_only_where_it_was_evaluated(tmp_path: Path, folders: list[str]) -> None:
    logits = {("style_transfer", level): votes([1, 3], 1000) for level in range(1, 6)}
    styled = write_evaluation(tmp_path / "s", logits, (1, 2), names=NAMES, profile="imagenet", data_set="styled")
    assert not any(each.transform == "style_transfer" for each in summarise(folders, published=True).published)
    summary = summarise([*folders, styled], published=True)
    (found,) = [each for each in summary.published if each.transform == "style_transfer"]
    assert (found.figure, found.value, found.baseline) == ("CE", 0.92, ALEXNET)
    (row,) = next(each for each in summary.families["corruptions"] if each.model == "made" and len(each.rows) == 1).rows
    assert row.corruption_error.value == pytest.approx(0.5 / 0.757)
