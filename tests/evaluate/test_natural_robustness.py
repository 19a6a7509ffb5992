"""The natural robustness (average of ten) of a report, from evaluations of the shipped tasks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
from pipeline.evaluate.metrics import ALEXNET_ERRORS, NATURAL_FIGURES
from pipeline.tasks.library import load
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import cells, has, lines, measure, only, report_on, results_of, table, value

OUTPUTS = 1000
IMAGES = 4
NAMES = [f"ILSVRC2012_val_{number + 1:08}" for number in range(IMAGES)]
TASKS = tuple(name for name in NATURAL_FIGURES if name.startswith(("imagenet-", "objectnet", "stylized")))
pytestmark = pytest.mark.usefixtures("no_real_labels")

KEY, AVERAGE = "natural_robustness", "natural robustness (average of ten)"


def shift(folder: Path, name: str, right: int, model: str = "made", **options: Any) -> str:
    """Write the evaluation of a shipped task, of whose four images the model classifies this number correctly."""
    task = load(name).task
    groups = task.groups or [(output,) for output in range(OUTPUTS)]
    logits = {("none", 0): votes([groups[7][0]] * right + [groups[8][0]] * (IMAGES - right), OUTPUTS)}
    labels = [7] * IMAGES
    return write_evaluation(folder, logits, labels, family="none", profile="", task=task, model=model, **options)


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return evaluations of one model: 3 of 4 clean images are right, 1 of ImageNet-C, and 0 to 3 of the others."""
    folder = tmp_path_factory.mktemp("ten")
    options: dict[str, Any] = {"names": NAMES, "profile": "imagenet"}
    clean = {("none", 0): votes([7, 7, 1, 7], OUTPUTS)}
    wrong = {
        (name, level): votes([7, 1, 1, 1], OUTPUTS) for name in corruptions.names("benchmark") for level in range(1, 6)
    }
    return {
        "clean": write_evaluation(folder / "clean", clean, [7] * IMAGES, family="none", **options),
        "c": write_evaluation(folder / "c", wrong, [7] * IMAGES, **options),
        **{name: shift(folder / name, name, number % 4) for number, name in enumerate(TASKS)},
    }


def test_a_model_with_all_ten_has_the_average(tmp_path: Path, ten: Mapping[str, str]) -> None:
    """1 - mCE is computed from AlexNet's errors here. The others are counted by hand; the fourth image has no label."""
    assert len(TASKS) == 7
    real = tmp_path / "real.json"
    real.write_text(json.dumps([[7]] * 3 + [[]] * 49_997))
    report = report_on(*ten.values(), real=str(real))
    found = only(report, KEY)
    expected = {
        "imagenet": 0.75,
        "accuracy (ReaL)": 2 / 3,
        "1 - mCE": 1 - np.mean([0.75 * len(errors) / sum(errors) for errors in ALEXNET_ERRORS.values()]),
        **{name: number % 4 / 4 for number, name in enumerate(TASKS)},
    }
    assert {name: value(found, name) for name in NATURAL_FIGURES} == pytest.approx(expected)
    average = measure(found, AVERAGE)
    assert average.value == pytest.approx(np.mean(list(expected.values())))
    assert average.low < average.value < average.high
    assert average.high - average.low < max(each.high - each.low for each in found.measures if each != average)
    (line,) = [line for line in lines(report) if line["metric"] == AVERAGE]
    assert (float(line["value"]), line["baseline"]) == (average.value, "AlexNet (published)")
    assert cells(table(report, "key figures", "natural"))[AVERAGE][0].startswith(f"{100 * average.value:.1f} [")
    missing, incomplete = cells(table(report, "missing and incomplete figures"))["made"]
    assert missing == ""
    assert "imagenet-a: 4 of 7,500 images" in incomplete


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        ({"objectnet", "stylized-imagenet"}, "accuracy (ReaL), objectnet, stylized-imagenet"),
        ({"clean", "c"}, "imagenet, accuracy (ReaL), 1 - mCE"),
        ({"c", "imagenet-sketch"}, "accuracy (ReaL), 1 - mCE, imagenet-sketch (2 evaluations)"),
        ({*TASKS[2:]}, None),
    ],
    ids=["two", "of ImageNet", "part and twice", "too many"],
)
def test_missing_figures_are_named_instead_of_an_average(
    tmp_path: Path, ten: Mapping[str, str], left_out: set[str], missing: str | None
) -> None:
    """Part of the corruptions gives no mCE; a report on few of the ten does not mention natural robustness."""
    folders = [folder for name, folder in ten.items() if name not in left_out]
    if missing and "2 evaluations" in missing:
        fog = {("fog", level): votes([1] * IMAGES, OUTPUTS) for level in range(1, 6)}
        folders += [
            write_evaluation(tmp_path / "fog", fog, [7] * IMAGES, names=NAMES, profile="imagenet"),
            *(shift(tmp_path / each, "imagenet-sketch", 1, manifest=each * 64) for each in "12"),
        ]
    report = report_on(*folders, resamples=20)
    if missing is None:
        assert results_of(report, KEY) == []
    else:
        found = only(report, KEY)
        assert not has(found, AVERAGE)
        assert cells(table(report, "missing and incomplete figures"))["made"][0] == missing
        assert AVERAGE not in cells(table(report, "key figures", "natural"))


def test_models_are_listed_separately(tmp_path: Path) -> None:
    folders = [
        shift(tmp_path / f"{model}-{name}", name, right, model)
        for model, right in (("one", 1), ("two", 2))
        for name in TASKS
    ]
    found = results_of(report_on(*folders, resamples=20), KEY)
    assert [each.model for each in found] == ["one", "two"]
    for each, accuracy in zip(found, (0.25, 0.5), strict=True):
        assert {name: value(each, name) for name in TASKS} == dict.fromkeys(TASKS, accuracy)
