"""Published figures of reference models beside evaluated ones."""

import csv
import json
from collections import Counter
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import corruptions
import perturbations
import robustshards as rs
from corruptions import c_bar
from pipeline.evaluate import metrics
from pipeline.evaluate.report.across import MARK, NATURAL_REPORT, PublishedFigure
from pipeline.evaluate.report.families import detection, reports
from pipeline.evaluate.report.families.adversarial import PUBLISHED_RECIPES
from pipeline.evaluate.report.families.imagenet_c_bar import PUBLISHED_SETS
from pipeline.evaluate.report.write import page
from pipeline.loaders.protocols import PROTOCOLS
from pipeline.tasks.library import load, shipped
from pipeline.transforms.adversarial import ATTACKS
from tests.conftest import Run
from tests.evaluate.test_metrics import RESNET_50
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import cells, lines, only, report_on, results_of, table, tables_of, value

pytestmark = pytest.mark.usefixtures("no_real_labels")

NAMES = ["ILSVRC2012_val_00000001", "ILSVRC2012_val_00000002"]
ALEXNET = "AlexNet (published)"
MEAN, DIFFERENCE = "mean corruption error (unnormalised)", "difference to ImageNet-C's corruptions"

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


@cache
def facts() -> list[dict[str, str]]:
    """Return the rows of the file of published figures."""
    text = resources.files("pipeline.evaluate.report").joinpath("published.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def percents(model: str, data_set: str) -> dict[tuple[str, str], float]:
    """Return the figures of a model on a data set by transform and name."""
    rows = [row for row in facts() if (row["model"], row["data_set"]) == (model, data_set)]
    return {(row["transform"], row["figure"]): float(row["printed"]) for row in rows}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return evaluations of one model on ImageNet-C, clean images, ImageNet-A and -O, and on another data set."""
    folder = tmp_path_factory.mktemp("evaluations")
    options: dict[str, Any] = {"names": NAMES, "profile": "imagenet"}
    logits = {(name, level): votes([1, 3], 1000) for name in corruptions.names("benchmark") for level in range(1, 6)}
    plain, other = {("none", 0): votes([1, 2], 1000)}, {("none", 0): votes([1, 2])}
    natural: dict[str, Any] = {"family": "none", "profile": ""}
    return [
        write_evaluation(folder / "c", logits, (1, 2), **options),
        write_evaluation(folder / "clean", plain, (1, 2), family="none", **options),
        write_evaluation(folder / "a", plain, (1, 2), **natural, task=load("imagenet-a").task),
        write_evaluation(folder / "o", plain, (-1, -1), **natural, task=load("imagenet-o").task),
        write_evaluation(folder / "other", other, (1, 2), **natural, model="small", data_set="other", names="ab"),
    ]


# The report


def test_published_models_are_marked_in_every_output(folders: list[str], robustshards: Run) -> None:
    report = report_on(*folders, published=True, resamples=20)
    whole = {(each.model, each.metric): each for each in report.published if not each.transform}
    assert whole["ResNet-50 (published)", "mCE"] == PublishedFigure(
        "ResNet-50 (published)", "made-corruptions", "corruptions", "", "mCE", pytest.approx(0.767), "ImageNet-C paper",
        ALEXNET,
    )  # fmt: skip
    assert whole["ResNet50 (published)", "accuracy"].section == "imagenet-a"
    assert all(each.model.endswith(MARK) for each in report.published)
    in_csv = [line for line in lines(report) if MARK in line["model"]]
    assert len(in_csv) == len(report.published) == len(report.facts()["published"])
    fog = {"model": "ResNet-18 (published)", "transform": "fog", "metric": "CE"}
    (line,) = [line for line in in_csv if fog.items() <= line.items()]
    assert (float(line["value"]), line["baseline"], line["low"]) == (0.78, ALEXNET, "")
    of_c, of_o = (table(report, "published models", section) for section in ("made-corruptions", "imagenet-o"))
    assert cells(of_c)["ResNet-50 (published)"][:3] == ["76.7", "105.0", "23.3"]
    assert cells(of_o)["ViT-B/16 optimal, vanilla (published)"] == ["20.9", "RobustART"]
    assert "ResNet-50 (published)" in page(report.document())
    done = robustshards("report", *folders, "--published")
    assert "ResNet-50 (published)" in " ".join(done.stdout.split())


def test_published_figures_change_nothing_else(folders: list[str]) -> None:
    with_published, without = (report_on(*folders, published=each, resamples=20) for each in (True, False))
    assert with_published.published
    assert without.published == []
    assert {**with_published.facts(), "published": []} == without.facts()
    assert rs.report(folders, published=True).data.published == with_published.published
    assert not any(MARK in str(cell) for each in tables_of(without) for row in each.rows for cell in row[:1])


def test_figures_are_shown_only_where_they_are_comparable(tmp_path: Path, folders: list[str]) -> None:
    """Not for other classes or images, and not if another model is the baseline."""
    sets = {each.section for each in report_on(*folders, published=True, resamples=20).published}
    assert sets == {"made-corruptions", "made-none", "imagenet-a", "imagenet-o"}
    own = report_on(folders[0], baseline=folders[:1], published=True, resamples=20)
    assert (value(only(own, "corruptions"), "mCE"), own.published) == (1, [])
    renamed = write_evaluation(tmp_path / "n", {("none", 0): votes([1, 2], 1000)}, (1, 2), family="none", names="ab")
    for folder in (folders[-1], renamed):
        assert report_on(folder, published=True, resamples=20).published == []


def test_evaluated_models_come_first_in_the_tables(folders: list[str]) -> None:
    report = report_on(*folders, published=True, resamples=20)
    found = table(report, "published models", "made-corruptions")
    assert (found.rows[0][0], found.rows[0][-1]) == ("made", "evaluated")
    assert cells(found).keys() >= {"AlexNet (published)", "ResNet-18 (published)"}
    assert all(str(row[0]).endswith(MARK) for row in found.rows[1:])
    errors = table(report, "CE of published models", "made-corruptions")
    assert [column.title for column in errors.columns] == [
        "transform", "made", "ResNet-18 (published)", "ResNet-50 (published)",
    ]  # fmt: skip
    assert [str(row[-1]) for row in errors.rows] == [f"{percent}.0" for percent in RESNET_50]


def test_style_transfer_is_compared_only_where_it_was_evaluated(tmp_path: Path, folders: list[str]) -> None:
    logits = {("style_transfer", level): votes([1, 3], 1000) for level in range(1, 6)}
    styled = write_evaluation(tmp_path / "s", logits, (1, 2), names=NAMES, profile="imagenet", data_set="styled")
    without, report = (report_on(*each, published=True, resamples=20) for each in (folders, [*folders, styled]))
    assert not any(each.transform == "style_transfer" for each in without.published)
    (found,) = [each for each in report.published if each.transform == "style_transfer"]
    assert (found.metric, found.value, found.baseline) == ("CE", 0.92, ALEXNET)
    (mine,) = [each for each in results_of(report, "corruptions") if each.data_set == "styled"]
    assert value(mine, "CE", "style_transfer") == pytest.approx(0.5 / 0.757)


# The facts


def test_every_figure_is_shown_in_a_section_and_given_once() -> None:
    rows = facts()
    families = {"imagenet", "imagenet-c", "imagenet-p", "low-pass", "natural-robustness", "imagenet-3dcc", "imagenet-w"}
    known = {*families, *PUBLISHED_SETS.values(), *shipped(), *PARTS, *PUBLISHED_RECIPES}
    known |= {f"stream {name}" for name in (*PROTOCOLS, *(f"ccc {baseline}" for baseline in (40, 20, 0)))}
    known |= set(detection.PUBLISHED.values())
    assert {row["data_set"] for row in rows} <= known
    metric_names = {metric.name for report in (*reports().values(), NATURAL_REPORT) for metric in report.metrics}
    assert {row["figure"] for row in rows} <= metric_names
    keys = Counter(tuple(row[key] for key in ("model", "data_set", "transform", "level", "figure")) for row in rows)
    assert max(keys.values()) == 1
    names = {
        "",
        "style_transfer",
        *(name for each in ("benchmark", "c-bar", "3dcc-noise") for name in corruptions.names(each)),
    }
    attacks = {row["transform"] for row in rows if row["data_set"] in PUBLISHED_RECIPES} - {""}
    assert {row["transform"] for row in rows} - attacks == names
    assert attacks <= {*ATTACKS}


def test_figures_of_alexnet_are_those_of_the_baseline() -> None:
    clean, corrupted = percents("AlexNet", "imagenet"), percents("AlexNet", "imagenet-c")
    assert clean["", "top-1 error"] == corrupted["", "clean error"]
    assert clean["", "top-1 error"] == pytest.approx(100 * metrics.ALEXNET_CLEAN_ERROR)
    mean = 100 * metrics.unnormalised_mean_error(list(metrics.ALEXNET_ERRORS.values()))
    assert corrupted["", MEAN] == round(mean, 2)
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
    (data_set,) = {name for (each, _), name in PUBLISHED_SETS.items() if each == profile}
    models = {row["model"] for row in facts() if row["data_set"] == data_set}
    assert (len(models), {model.partition(",")[0] for model in models}) == (trainings, {network})
    for model in models:
        found = percents(model, data_set)
        mean, difference = found["", MEAN], found["", DIFFERENCE]
        errors = [found[name, "mean error (unnormalised)"] for name in c_bar.PUBLISHED[profile]]
        assert mean == pytest.approx(sum(errors) / 10, abs=0.1)
        assert difference == pytest.approx(mean - found["", "mean error on ImageNet-C's corruptions"], abs=0.1)
    assert percents("WideResNet-40-2, AugMix", "cifar-10-c-bar")["", DIFFERENCE] == 4.9


def test_figures_of_ares_are_those_of_its_tables(shared: Path) -> None:
    """ARES-Bench's accuracies on ObjectNet are not compared with others: they probably use labels of other classes."""
    table = json.loads((shared / "spec" / "data" / "ares_tables.json").read_text())
    normal = [row for row in table["natural"] if row["method"] == "Normal"]
    rows = [row for row in facts() if row["source"] == "ARES-Bench"]
    natural = [row for row in rows if row["data_set"] not in {"low-pass", *PUBLISHED_RECIPES}]
    assert {row["architecture"] for row in normal} == {row["model"] for row in natural}
    for row in normal:
        figures = dict(zip(metrics.NATURAL_FIGURES, row["values"], strict=True))
        found = percents(row["architecture"], "natural-robustness")
        clean = percents(row["architecture"], "imagenet")
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
    natural = [row for row in facts() if row["data_set"] not in PUBLISHED_RECIPES]
    models = {row["model"] for row in natural if row["source"] == "RobustART"}
    assert models == {name for name in table["rows"] if name.endswith("vanilla")}
    for model in models:
        row = dict(zip(table["columns"], table["rows"][model], strict=True))
        assert percents(model, "imagenet")["", "top-1 error"] == pytest.approx(100 - row["clean accuracy"])
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
