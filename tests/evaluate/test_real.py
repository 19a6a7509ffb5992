"""Accuracy by reassessed labels (ReaL) in reports, from the file of a user and from an installed package."""

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
from pipeline.evaluate.report.real_labels import MAX_LABELS, PACKAGE_FILE, read_real_labels, validation_rows
from pipeline.storage import SMALL_FILE
from pipeline.tasks.library import load
from tests.conftest import Run
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import has, measure, only, report_on, results_of, table, tables_of, value, values

pytestmark = pytest.mark.usefixtures("no_real_labels", "small_set")

VALIDATION_IMAGES = real_labels.VALIDATION_IMAGES
SMALL = 1000
"""Number of validation images in these tests."""

ACCURACY, TOP5_ACCURACY, COUNTED = "accuracy (ReaL)", "top-5 accuracy (ReaL)", "images (ReaL)"
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
def small_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check lists of 1,000 images, because 50,000 take a third of a second."""
    monkeypatch.setattr(real_labels, "VALIDATION_IMAGES", SMALL)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of labels: those of the first 50 images as above, the others' empty."""
    lists: list[list[int]] = [[label] for label in LABELS] + [[]] * (SMALL - IMAGES)
    for number, labels in {**EMPTY, **OTHER, **TWO}.items():
        lists[number] = labels
    path = tmp_path / "real.json"
    path.write_text(json.dumps(lists))
    return path


def clean(folder: Path, classes: Sequence[int] = LABELS, names: Sequence[str] = NAMES, **options: Any) -> str:
    """Write the evaluation of a model that predicts these classes of validation images."""
    logits = {("none", 0): votes(classes, options.pop("outputs", CLASSES))}
    labels = options.pop("labels", LABELS)
    return write_evaluation(folder, logits, labels, family="none", names=names, data_set="val", **options)


def of_a_thousand(folder: Path, **options: Any) -> str:
    """Write the evaluation of a model of 1,000 outputs."""
    return clean(folder, outputs=1000, **options)


# Figures


def test_images_with_labels_are_counted_by_hand(tmp_path: Path, file: Path, robustshards: Run) -> None:
    """The model predicts the original label: of 45 images with labels, the five with another one are wrong."""
    folder = clean(tmp_path / "clean")
    found = only(report_on(folder, real=str(file)), "clean")
    accuracy = measure(found, ACCURACY)
    assert (value(found, "top-1 error"), accuracy.value, value(found, COUNTED)) == (0, 40 / 45, 45)
    assert accuracy.low < 40 / 45 < accuracy.high
    assert rs.report(folder, real=file).table(ACCURACY)["value"].to_pylist() == [40 / 45]
    done = robustshards.succeed("report", folder, "--real", file)
    assert "accuracy (ReaL) 88.9 [" in " ".join(done.stdout.split())


def test_top5_accuracy_counts_any_of_the_five(tmp_path: Path, file: Path) -> None:
    """The logits fall from class 9 to class 0, so the first five are 9 to 5 for every image."""
    logits = {("none", 0): np.tile(np.arange(CLASSES), (IMAGES, 1))}
    folder = write_evaluation(tmp_path / "clean", logits, LABELS, family="none", names=NAMES)
    truth = [labels for labels in json.loads(file.read_text())[:IMAGES] if labels]
    found = only(report_on(folder, real=str(file)), "clean")
    assert value(found, ACCURACY) == sum(9 in labels for labels in truth) / 45
    assert value(found, TOP5_ACCURACY) == sum(bool({5, 6, 7, 8, 9} & set(labels)) for labels in truth) / 45


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [([41, 2, 1, 10], (1 / 3, 3)), (sorted(EMPTY), None)],
    ids=["another label, two labels, another label, no label", "no labels"],
)
def test_a_subset_is_found_by_name_in_any_order(
    tmp_path: Path, file: Path, chosen: list[int], expected: tuple[float, int] | None
) -> None:
    labels = [LABELS[number] for number in chosen]
    folder = clean(tmp_path / "clean", labels, [NAMES[number] for number in chosen], labels=labels)
    report = report_on(folder, real=str(file))
    found = only(report, "clean")
    assert ((value(found, ACCURACY), value(found, COUNTED)) if has(found, ACCURACY) else None) == expected
    warned = any("none of its 5 images has a reassessed label" in text for text in report.warnings)
    assert warned == (expected is None)


def test_corruptions_have_an_accuracy_by_reassessed_labels(tmp_path: Path, file: Path) -> None:
    """Severity 1 is all right by the original labels, severity 2 has the labels of ``OTHER`` and ``TWO`` as well."""
    right = votes(LABELS, CLASSES)
    shifted = votes([(label + 1) % CLASSES for label in LABELS], CLASSES)
    logits = {("fog", 1): right, ("fog", 2): shifted, ("snow", 1): right}
    folder = write_evaluation(tmp_path / "c", logits, LABELS, names=NAMES)
    report = report_on(folder, real=str(file))
    found = only(report, "corruptions")
    by_condition = {("fog", 1): 40 / 45, ("fog", 2): 10 / 45, ("snow", 1): 40 / 45}
    means = {"fog": 25 / 45, "snow": 40 / 45, "": (25 / 45 + 40 / 45) / 2}
    assert values(found, ACCURACY) == pytest.approx(by_condition | means)
    assert value(found, COUNTED) == 45
    assert value(found, "mean corruption accuracy (unnormalised)") == pytest.approx(0.75)
    title = "accuracy by reassessed labels (ReaL)"
    assert len(table(report, title).rows) == 2
    without = report_on(folder)
    assert not has(only(without, "corruptions"), ACCURACY)
    assert title not in [each.title for each in tables_of(without)]


def test_a_task_with_groups_has_no_reassessed_labels(tmp_path: Path, file: Path) -> None:
    task = load("imagenet-a").with_role("clean").task
    labels = [number % 200 for number in range(IMAGES)]
    outputs = [task.groups[label][0] for label in labels]
    groups = clean(tmp_path / "groups", outputs, task=task, outputs=1000, labels=labels)
    report = report_on(groups, of_a_thousand(tmp_path / "plain"), real=str(file))
    assert [has(each, ACCURACY) for each in results_of(report, "clean")] == [False, True]


def test_the_number_of_validation_images_is_stated(tmp_path: Path, file: Path) -> None:
    levels = {(name, level): votes(LABELS, 1000) for name in corruptions.names("benchmark") for level in (1, 5)}
    corrupted = write_evaluation(tmp_path / "c", levels, LABELS, names=NAMES, profile="imagenet")
    report = report_on(of_a_thousand(tmp_path / "clean", profile="imagenet"), corrupted, real=str(file))
    assert [each.counts["images"] for each in report.results] == [(50, SMALL)] * 2
    assert VALIDATION_IMAGES == 50_000


# Names


@pytest.mark.parametrize(
    "name",
    ["n00000000/ILSVRC2012_val_x", "ILSVRC2012_val_0000001", "ILSVRC2012_val_000000001", "ILSVRC2012_val_00001001",
     "ILSVRC2012_val_00000000", "ILSVRC2012_val_00000001/a", "ILSVRC2012_test_00000001",
     "ILSVRC2012_val_" + "\u0660" * 8],
)  # fmt: skip
def test_other_names_than_of_validation_images_have_no_entry(name: str) -> None:
    assert validation_rows((name,)).tolist() == [-1]
    assert validation_rows(("n00000000/ILSVRC2012_val_00001000",)).tolist() == [999]


@pytest.mark.parametrize("name", ["n00000000/ILSVRC2012_val_x", "ILSVRC2012_val_" + "\u0660" * 8])
def test_other_names_than_of_validation_images_are_refused(tmp_path: Path, file: Path, name: str) -> None:
    folder = clean(tmp_path / "clean", names=[*NAMES[:-1], name])
    with pytest.raises(UserError, match="eight digits") as raised:
        report_on(folder, real=str(file))
    assert ascii(name) in str(raised.value)
    assert report_on(folder, resamples=20).warnings == []


# The file

VALID = [[0]] * SMALL


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (VALID[1:], "a list of 999 entries"),
        ({"0": [0]}, "of type dict"),
        ([*VALID[1:], 7], "entry 999 is of type int"),
        ([[0], [1, "a"], *VALID[2:]], "entry 1 contains str"),
        ([[0], [1, -1], *VALID[2:]], "entry 1 contains -1"),
        ([[0], [1.0], *VALID[2:]], "entry 1 contains 1.0"),
        ([[True], *VALID[1:]], "entry 0 contains true"),
        ([[None], *VALID[1:]], "entry 0 contains NoneType"),
        ([[[0]], *VALID[1:]], "entry 0 contains list"),
        ([list(range(MAX_LABELS + 1)), *VALID[1:]], f"entry 0 has {MAX_LABELS + 1} labels"),
        ([[10**10], *VALID[1:]], "entry 0 contains 10000000000"),
        ([[10**40], *VALID[1:]], "entry 0 contains 1000"),
        (b"[" * 10**6, "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[[" + b"9" * 5000 + b"]]", "not valid JSON"),
        (b" " * (SMALL_FILE + 1), "larger than"),
        (None, "No such file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: Any, reason: str) -> None:
    path = tmp_path / "real.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(UserError, match=f"real.json.*{reason}"):
        read_real_labels(str(path))


def test_a_label_that_is_no_output_of_the_model_names_the_entry(tmp_path: Path, file: Path) -> None:
    lists = json.loads(file.read_text())
    lists[900] = [3, CLASSES]
    file.write_text(json.dumps(lists))
    with pytest.raises(UserError, match="entry 900 has the label 10, but 'made' has 10 outputs"):
        report_on(clean(tmp_path / "clean"), real=str(file))


def test_a_file_without_use_is_an_error(tmp_path: Path, file: Path) -> None:
    folder = write_evaluation(tmp_path / "a", {("none", 0): votes([1], 1000)}, [1], family="none",
                              task=load("imagenet-sketch").task)  # fmt: skip
    with pytest.raises(UserError, match="has no effect"):
        report_on(folder, real=str(file))


# The package


def install(folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with the file of labels, which fails when it is imported."""
    path = folder / "with_labels" / PACKAGE_FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    (folder / "with_labels" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(real_labels, "PACKAGE", "with_labels")


OTHER_NAMES = [f"image{number}" for number in range(IMAGES)]


def test_labels_of_an_installed_package_are_used(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = file.read_bytes()
    install(tmp_path / "site", content, monkeypatch)
    monkeypatch.setattr(real_labels, "SHA256", hashlib.sha256(content).hexdigest())
    found = only(report_on(of_a_thousand(tmp_path / "clean")), "clean")
    assert (value(found, ACCURACY), found.counts["images"]) == (40 / 45, (50, SMALL))
    for folder in (clean(tmp_path / "ten outputs"), of_a_thousand(tmp_path / "other names", names=OTHER_NAMES)):
        report = report_on(folder)
        assert (has(only(report, "clean"), ACCURACY), report.warnings) == (False, []), folder


@pytest.mark.parametrize(("another", "words"), [(True, "differs from the published file"), (False, "is not installed")])
def test_without_the_published_file_the_report_says_what_is_missing(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, another: bool, words: str
) -> None:
    """Nothing is said about images with other names."""
    if another:
        install(tmp_path / "site", file.read_bytes(), monkeypatch)
    report = report_on(of_a_thousand(tmp_path / "clean"))
    assert not has(only(report, "clean"), ACCURACY)
    (warning,) = report.warnings
    for text in ("no accuracy (ReaL)", words, "--real"):
        assert text in warning
    assert report_on(of_a_thousand(tmp_path / "other", names=OTHER_NAMES)).warnings == []
