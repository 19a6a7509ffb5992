"""The natural robustness (average of ten) of a report, from evaluations of the shipped tasks."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import corruptions
from pipeline.evaluate.metrics import ALEXNET_ERRORS, NATURAL_FIGURES
from pipeline.evaluate.report.sections import sections, tables
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.text import to_markdown
from pipeline.tasks.library import load
from tests.conftest import Run
from tests.factories.evaluations import votes, write_evaluation

OUTPUTS = 1000
IMAGES = 4
NAMES = [f"ILSVRC2012_val_{number + 1:08}" for number in range(IMAGES)]
TASKS = tuple(name for name in NATURAL_FIGURES if name.startswith(("imagenet-", "objectnet", "stylized")))


def shift(folder: Path, name: str, right: int, model: str = "made") -> str:
    """Write the evaluation of a shipped task, of whose four images the model classifies this number correctly."""
    task = load(name).task
    groups = task.groups or [(output,) for output in range(OUTPUTS)]
    classes = [groups[7][0]] * right + [groups[8][0]] * (IMAGES - right)
    logits = {("none", 0): votes(classes, OUTPUTS)}
    return write_evaluation(folder, logits, [7] * IMAGES, family="none", profile="", task=task, model=model)


def real_file(folder: Path) -> str:
    """Write labels: the first three images have label 7, the fourth has none."""
    path = folder / "real.json"
    path.write_text(json.dumps([[7]] * 3 + [[]] * 49_997))
    return str(path)


@pytest.fixture
def ten(tmp_path: Path) -> Mapping[str, str]:
    """Return evaluations of one model: 3 of 4 clean images are right, none of ImageNet-C, and 0 to 3 of the others."""
    options: dict[str, Any] = {"names": NAMES, "profile": "imagenet"}
    clean = {("none", 0): votes([7, 7, 1, 7], OUTPUTS)}
    wrong = {
        (name, level): votes([7, 1, 1, 1], OUTPUTS) for name in corruptions.names("benchmark") for level in range(1, 6)
    }
    return {
        "clean": write_evaluation(tmp_path / "clean", clean, [7] * IMAGES, family="none", **options),
        "c": write_evaluation(tmp_path / "c", wrong, [7] * IMAGES, **options),
        **{name: shift(tmp_path / name, name, number % 4) for number, name in enumerate(TASKS)},
    }


def test_a_model_with_all_ten_has_the_average(tmp_path: Path, ten: Mapping[str, str], robustshards: Run) -> None:
    """1 - mCE is computed from AlexNet's errors here. The other figures are counted by hand."""
    assert len(TASKS) == 7
    done = robustshards("report", *ten.values(), "--real", real_file(tmp_path), "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    (found,) = facts["natural_robustness"]
    ratios = [0.75 * len(errors) / sum(errors) for errors in ALEXNET_ERRORS.values()]
    expected = {
        "imagenet": 0.75,
        "accuracy (ReaL)": 2 / 3,
        "1 - mCE": 1 - sum(ratios) / len(ratios),
        **{name: number % 4 / 4 for number, name in enumerate(TASKS)},
    }
    assert found["figures"] == {name: pytest.approx(expected[name]) for name in NATURAL_FIGURES}
    assert found["average"] == pytest.approx(sum(expected.values()) / 10)
    assert found["missing"] == []
    assert "imagenet-a: 4 of 7,500 images" in found["incomplete"]
    lines = [
        line
        for line in csv.DictReader((tmp_path / "out" / "report.csv").open())
        if line["figure"] == "natural robustness (average of ten)"
    ]
    assert [(float(line["value"]), line["baseline"]) for line in lines] == [(found["average"], "AlexNet (published)")]
    markdown = (tmp_path / "out" / "report.md").read_text().replace("\\", "")
    assert f"| natural robustness (average of ten) | {100 * found['average']:.1f} |" in markdown


def test_missing_figures_are_named_instead_of_an_average(ten: Mapping[str, str]) -> None:
    folders = [folder for name, folder in ten.items() if name not in {"objectnet", "stylized-imagenet"}]
    summary = summarise(folders)
    (found,) = summary.families["natural_robustness"]
    assert found.average is None
    assert found.missing == ["accuracy (ReaL)", "objectnet", "stylized-imagenet"]
    markdown = to_markdown(tables(summary)).replace("\\", "")
    assert "| made | accuracy (ReaL), objectnet, stylized-imagenet |" in markdown
    assert "average of ten" not in "".join(line for line in markdown.splitlines() if line.startswith("|"))


def test_reports_on_few_of_the_ten_do_not_mention_it(ten: Mapping[str, str]) -> None:
    summary = summarise([ten["clean"], ten["c"], ten["imagenet-a"], ten["imagenet-r"]])
    assert summary.families["natural_robustness"] == []
    assert "natural robustness" not in [section.title for section in sections(summary)]


def test_part_of_the_corruptions_is_no_mce(tmp_path: Path, ten: Mapping[str, str]) -> None:
    fog = {("fog", level): votes([1] * IMAGES, OUTPUTS) for level in range(1, 6)}
    part = write_evaluation(tmp_path / "fog", fog, [7] * IMAGES, names=NAMES, profile="imagenet")
    (found,) = summarise([part, ten["clean"], *(ten[name] for name in TASKS)]).families["natural_robustness"]
    assert found.missing == ["accuracy (ReaL)", "1 - mCE"]


def test_two_evaluations_for_one_figure_are_named(tmp_path: Path, ten: Mapping[str, str]) -> None:
    logits = {("none", 0): votes([7], OUTPUTS)}
    again = write_evaluation(
        tmp_path / "again", logits, [7], family="none", profile="", manifest="1" * 64, task=load("imagenet-sketch").task
    )
    (found,) = summarise([*(ten[name] for name in TASKS), again]).families["natural_robustness"]
    assert found.missing == ["imagenet", "accuracy (ReaL)", "1 - mCE", "imagenet-sketch (2 evaluations)"]


def test_models_are_listed_separately(tmp_path: Path) -> None:
    folders = [
        shift(tmp_path / f"{model}-{name}", name, right, model)
        for model, right in (("one", 1), ("two", 2))
        for name in TASKS
    ]
    (section,) = [each for each in sections(summarise(folders)) if each.title == "natural robustness"]
    assert list(section.models) == ["one", "two"]
    rows = {row[0]: [str(cell) for cell in row[1:]] for row in section.tables[0].rows}
    assert rows == {name: ["25.0", "50.0"] for name in TASKS}
