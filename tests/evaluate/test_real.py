"""Accuracy by reassessed labels (ReaL) in reports, from the file of a user and from an installed package."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
import robustshards as rs
from pipeline.errors import UserError
from pipeline.evaluate.report import real_labels
from pipeline.evaluate.report.real_labels import MAX_LABELS, PACKAGE_FILE, read_real_labels
from pipeline.evaluate.report.sections import tables
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.text import to_markdown
from pipeline.storage import SMALL_FILE
from pipeline.tasks.library import load
from tests.conftest import Run
from tests.factories.evaluations import votes, write_evaluation

CLASSES = 10
IMAGES = 50
LABELS = [number % CLASSES for number in range(IMAGES)]
NAMES = [f"n{label:08}/ILSVRC2012_val_{number + 1:08}" for number, label in enumerate(LABELS)]

EMPTY: Mapping[int, list[int]] = {number: [] for number in range(0, IMAGES, 10)}
"""Five images without labels."""

OTHER = {number: [(LABELS[number] + 1) % CLASSES] for number in range(1, IMAGES, 10)}
"""Five images whose only label is another one than the original."""

TWO = {number: [(LABELS[number] + 1) % CLASSES, LABELS[number]] for number in range(2, IMAGES, 10)}
"""Five images with two labels."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of labels: those of the first 50 images as above, the others' empty."""
    lists: list[list[int]] = [[label] for label in LABELS] + [[]] * (50_000 - IMAGES)
    for number, labels in {**EMPTY, **OTHER, **TWO}.items():
        lists[number] = labels
    path = tmp_path / "real.json"
    path.write_text(json.dumps(lists))
    return path


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide an installed timm."""
    monkeypatch.setattr(real_labels, "PACKAGE", "no_such_package")


def clean(folder: Path, classes: Sequence[int] = LABELS, names: Sequence[str] = NAMES, **options: Any) -> str:
    """Write the evaluation of a model that predicts these classes of validation images."""
    logits = {("none", 0): votes(classes, options.pop("outputs", CLASSES))}
    labels = options.pop("labels", LABELS)
    return write_evaluation(folder, logits, labels, family="none", names=names, data_set="val", **options)


# Figures


def test_report_counts_by_hand_the_images_with_labels(tmp_path: Path, file: Path, robustshards: Run) -> None:
    """The model predicts the original label: of 45 images with labels, the five with another one are wrong."""
    done = robustshards("report", clean(tmp_path / "clean"), "--real", file, "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["clean"]
    assert (found["error"]["value"], found["real_accuracy"]["value"]) == (0, 40 / 45)
    assert found["real_accuracy"]["low"] < 40 / 45 < found["real_accuracy"]["high"]
    assert found["real_images"] == 45
    lines = {line["figure"]: line for line in csv.DictReader((tmp_path / "out" / "report.csv").open())}
    assert float(lines["accuracy (ReaL)"]["value"]) == 40 / 45
    assert "| accuracy (ReaL) | 88.9 [" in (tmp_path / "out" / "report.md").read_text().replace("\\", "")
    assert "accuracy (ReaL)" in (tmp_path / "out" / "report.html").read_text()


def test_top5_accuracy_counts_any_of_the_five(tmp_path: Path, file: Path) -> None:
    """The logits fall from class 9 to class 0, so the first five are 9 to 5 for every image."""
    logits = {("none", 0): np.tile(np.arange(CLASSES), (IMAGES, 1))}
    folder = write_evaluation(tmp_path / "clean", logits, LABELS, family="none", names=NAMES)
    truth = [labels for labels in json.loads(file.read_text())[:IMAGES] if labels]
    (found,) = rs.report(folder, real=file).facts()["clean"]
    assert found["real_accuracy"]["value"] == sum(9 in labels for labels in truth) / 45
    assert found["real_top5_accuracy"]["value"] == sum(bool({5, 6, 7, 8, 9} & set(labels)) for labels in truth) / 45


def test_a_subset_is_found_by_name_in_any_order(tmp_path: Path, file: Path) -> None:
    chosen = [41, 2, 1, 10]  # another label, two labels, another label, no label
    labels = [LABELS[number] for number in chosen]
    folder = clean(tmp_path / "clean", labels, [NAMES[number] for number in chosen], labels=labels)
    (found,) = rs.report(folder, real=str(file)).facts()["clean"]
    assert (found["real_accuracy"]["value"], found["real_images"]) == (1 / 3, 3)


def test_images_without_any_label_have_no_accuracy(tmp_path: Path, file: Path) -> None:
    numbers = sorted(EMPTY)
    labels = [LABELS[number] for number in numbers]
    folder = clean(tmp_path / "clean", labels, [NAMES[number] for number in numbers], labels=labels)
    summary = summarise([folder], real=str(file))
    assert summary.families["clean"][0].real_accuracy is None
    assert any("none of its 5 images has a reassessed label" in text for text in summary.warnings)


def test_corruptions_have_an_accuracy_by_reassessed_labels(tmp_path: Path, file: Path) -> None:
    """Severity 1 is all right by the original labels, severity 2 has the labels of ``OTHER`` and ``TWO`` as well."""
    shifted = [(label + 1) % CLASSES for label in LABELS]
    logits = {
        ("fog", 1): votes(LABELS, CLASSES),
        ("fog", 2): votes(shifted, CLASSES),
        ("snow", 1): votes(LABELS, CLASSES),
    }
    folder = write_evaluation(tmp_path / "c", logits, LABELS, names=NAMES)
    summary = summarise([folder], real=str(file))
    (found,) = summary.families["corruptions"]
    fog, snow = found.rows
    assert {level: each.value for level, each in fog.real_accuracies.items()} == {1: 40 / 45, 2: 10 / 45}
    assert fog.real_accuracy.value == pytest.approx(25 / 45)
    assert snow.real_accuracy.value == 40 / 45
    assert found.real_accuracy.value == pytest.approx((25 / 45 + 40 / 45) / 2)
    assert (found.real_images, found.mean_accuracy.value) == (45, pytest.approx(0.75))
    markdown = to_markdown(tables(summary)).replace("\\", "")
    assert "accuracy by reassessed labels (ReaL)" in markdown
    assert "| mean corruption accuracy (unnormalised) | 75.0" in markdown
    without = summarise([folder])
    assert without.families["corruptions"][0].rows[0].real_accuracies == {}
    assert "ReaL" not in to_markdown(tables(without))


def test_a_task_with_groups_has_no_reassessed_labels(tmp_path: Path, file: Path) -> None:
    task = load("imagenet-a").with_role("clean").task
    labels = [number % 200 for number in range(IMAGES)]
    outputs = [task.groups[label][0] for label in labels]
    groups = clean(tmp_path / "groups", outputs, task=task, outputs=1000, labels=labels)
    plain = of_a_thousand(tmp_path / "plain")
    found = summarise([groups, plain], real=str(file)).families["clean"]
    assert [each.real_accuracy is None for each in found] == [True, False]


# Names


@pytest.mark.parametrize(
    "name",
    ["n00000000/ILSVRC2012_val_x", "ILSVRC2012_val_0000001", "ILSVRC2012_val_000000001", "ILSVRC2012_val_00050001",
     "ILSVRC2012_val_00000000", "ILSVRC2012_val_00000001/a", "ILSVRC2012_test_00000001",
     "ILSVRC2012_val_" + "\u0660" * 8],
)  # fmt: skip
def test_other_names_than_of_validation_images_are_refused(
    tmp_path: Path, file: Path, robustshards: Run, name: str
) -> None:
    folder = clean(tmp_path / "clean", names=[*NAMES[:-1], name])
    done = robustshards("report", folder, "--real", file)
    assert done.returncode == 2
    assert ascii(name) in done.stderr
    assert "eight digits" in done.stderr
    assert summarise([folder]).warnings == []


# The file

VALID = [[0]] * 50_000


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([[0]] * 49_999, "a list of 49,999 entries"),
        ({"0": [0]}, "of type dict"),
        ([*VALID[1:], 7], "entry 49999 is of type int"),
        ([[0], [1, "a"], *VALID[2:]], "entry 1 contains str"),
        ([[0], [1, -1], *VALID[2:]], "entry 1 contains -1"),
        ([[0], [1.0], *VALID[2:]], "entry 1 contains 1.0"),
        ([[True], *VALID[1:]], "entry 0 contains true"),
        ([[None], *VALID[1:]], "entry 0 contains NoneType"),
        ([[[0]], *VALID[1:]], "entry 0 contains list"),
        ([list(range(MAX_LABELS + 1)), *VALID[1:]], f"entry 0 has {MAX_LABELS + 1} labels"),
        ([[10**10], *VALID[1:]], "entry 0 contains 10000000000"),
        ([[10**40], *VALID[1:]], "entry 0 contains 1000"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: Any, reason: str) -> None:
    path = tmp_path / "real.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"real.json.*{reason}"):
        read_real_labels(str(path))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[" * 10**6, "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[[" + b"9" * 5000 + b"]]", "not valid JSON"),
        (b" " * (SMALL_FILE + 1), "cannot read .* larger than"),
    ],
    ids=["deep", "no text", "long number", "large"],
)
def test_a_hostile_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "real.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=reason):
        read_real_labels(str(path))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read the labels .*nothing.json: No such file"):
        read_real_labels(str(tmp_path / "nothing.json"))


def test_a_label_that_is_no_output_of_the_model_names_the_entry(tmp_path: Path, file: Path) -> None:
    lists = json.loads(file.read_text())
    lists[49_000] = [3, CLASSES]
    file.write_text(json.dumps(lists))
    with pytest.raises(UserError, match="entry 49000 has the label 10, but 'made' has 10 outputs"):
        summarise([clean(tmp_path / "clean")], real=str(file))


def test_a_file_without_use_is_an_error(tmp_path: Path, file: Path) -> None:
    folder = write_evaluation(tmp_path / "a", {("none", 0): votes([1], 1000)}, [1], family="none",
                              task=load("imagenet-sketch").task)  # fmt: skip
    with pytest.raises(UserError, match="has no effect"):
        summarise([folder], real=str(file))


# The package


def of_a_thousand(folder: Path, **options: Any) -> str:
    """Write the evaluation of a model of 1,000 outputs."""
    return clean(folder, outputs=1000, **options)


def install(folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with the file of labels, which fails when it is imported."""
    path = folder / "with_labels" / PACKAGE_FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    (folder / "with_labels" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(real_labels, "PACKAGE", "with_labels")


def test_labels_of_an_installed_package_are_used(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = file.read_bytes()
    install(tmp_path / "site", content, monkeypatch)
    monkeypatch.setattr(real_labels, "SHA256", hashlib.sha256(content).hexdigest())
    (found,) = summarise([of_a_thousand(tmp_path / "clean")]).families["clean"]
    assert (found.real_accuracy.value, found.complete_images) == (40 / 45, 50_000)
    for name, folder in (
        ("ten outputs", clean(tmp_path / "ten")),
        ("other names", of_a_thousand(tmp_path / "other", names=[f"image{number}" for number in range(IMAGES)])),
    ):
        summary = summarise([folder])
        assert (summary.families["clean"][0].real_accuracy, summary.warnings) == (None, []), name


def test_another_file_in_the_package_is_not_used(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", file.read_bytes(), monkeypatch)
    summary = summarise([of_a_thousand(tmp_path / "clean")])
    assert summary.families["clean"][0].real_accuracy is None
    (warning,) = summary.warnings
    assert "differs from the published file" in warning
    assert "--real" in warning


def test_without_the_package_the_report_says_what_is_missing(tmp_path: Path) -> None:
    """Nothing is said about images with other names."""
    folder = of_a_thousand(tmp_path / "clean")
    (warning,) = summarise([folder]).warnings
    assert "no accuracy (ReaL)" in warning
    assert "is not installed" in warning
    assert "--real" in warning
    other = of_a_thousand(tmp_path / "other", names=[f"image{number}" for number in range(IMAGES)])
    assert summarise([other]).warnings == []


def test_the_number_of_validation_images_is_stated(tmp_path: Path, file: Path) -> None:
    levels = {(name, level): votes(LABELS, 1000) for name in corruptions.names("benchmark") for level in (1, 5)}
    corrupted = write_evaluation(tmp_path / "c", levels, LABELS, names=NAMES, profile="imagenet")
    summary = summarise([of_a_thousand(tmp_path / "clean", profile="imagenet"), corrupted], real=str(file))
    assert to_markdown(tables(summary)).count("| images | 50 of 50,000 |") == 2
