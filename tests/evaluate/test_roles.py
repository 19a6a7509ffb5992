"""Roles of evaluations: clean images, shift sets and anomalous images of one report."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robustshards as rs
from pipeline.errors import UserError
from pipeline.tasks.library import load
from pipeline.tasks.schema import Role, Task
from tests.conftest import Run
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import cells, has, lines, measure, only, report_on, results_of, table, tables_of, value

DROP, ALL_OUTPUTS, LOWEST = "drop (percentage points)", "accuracy (all outputs)", "lowest accuracy of a folder"
GROUPS = ((1,), (3,), (5,))
CLEAN = {("none", 0): votes([0, 1, 2, 6])}
"""Predictions of four images with the labels ``LABELS``, one of them wrong."""

LABELS = (0, 1, 2, 3)


def task(name: str, role: Role, groups: Sequence[tuple[int, ...]] = GROUPS, images: int = 0, outputs: int = 6) -> Task:
    return Task(name=name, outputs=outputs, outputs_are="made", groups=tuple(groups), role=role, images=images)


def natural(folder: Path, made: Task | None, classes: Sequence[int], labels: Sequence[int], **options: Any) -> str:
    """Write the evaluation of a model of six outputs that predicts these classes."""
    logits = {("none", 0): votes(classes, 6)}
    return write_evaluation(folder, logits, labels, family="none", task=made, **options)


def unsure(folder: Path, made: Task, strengths: Sequence[float], labels: Sequence[int], **options: Any) -> str:
    """Write the evaluation of images, of which the model predicts the first group with these logits."""
    logits = np.zeros((len(strengths), 6))
    logits[:, GROUPS[0][0]] = strengths
    return write_evaluation(folder, {("none", 0): logits}, labels, family="none", task=made, **options)


# Roles


def orders(*folders: str) -> list[tuple[str, ...]]:
    """Return folders in orders where each is the first and the last of one."""
    return [folders[start:] + folders[:start] for start in range(len(folders))] + [folders[::-1]]


def test_the_clean_error_is_that_of_the_clean_evaluation_in_any_order(tmp_path: Path) -> None:
    """All images have the same names, so only the role tells which evaluation is clean."""
    clean = natural(tmp_path / "clean", None, [0, 1, 2, 0], (0, 1, 2, 3))
    fog = write_evaluation(tmp_path / "fog", {("fog", 1): votes([0, 0, 0, 0], 6)}, LABELS)
    first = natural(tmp_path / "v2", task("v2", "shift", ()), [0, 0, 0, 0], LABELS, data_set="a")
    second = natural(tmp_path / "sketch", task("sketch", "shift", ()), [0, 1, 0, 0], LABELS, data_set="b")
    for folders in orders(clean, fog, first, second):
        report = report_on(*folders, resamples=20)
        assert value(only(report, "clean"), "top-1 error") == 0.25
        assert value(only(report, "corruptions"), "clean error") == 0.25
        shifts = {each.data_set: (value(each, "accuracy"), value(each, DROP)) for each in results_of(report, "shifts")}
        assert shifts == {"v2": (0.25, 0.5), "sketch": (0.5, 0.25)}
    shown = [each.title for each in report_on(clean, second, fog, first, resamples=20).sections]
    assert shown == ["made-corruptions", "sketch", "v2", "made-none"]


def test_two_clean_evaluations_of_the_same_images_need_a_choice(tmp_path: Path, robustshards: Run) -> None:
    one = write_evaluation(tmp_path / "one", CLEAN, LABELS, family="none", data_set="one")
    two = write_evaluation(tmp_path / "two", {("none", 0): votes([0, 6, 6, 6])}, LABELS, family="none", data_set="two")
    fog = write_evaluation(tmp_path / "fog", {("fog", 1): votes([0, 6, 6, 6])}, LABELS)
    for folders in orders(one, two, fog):
        with pytest.raises(UserError, match="--clean") as raised:
            report_on(*folders)
        assert {one, two} <= {word.strip(",:") for word in str(raised.value).split()}
    for clean, error in ((one, 0.25), (two, 0.75)):
        for folders in ((one, two, fog), (fog,)):
            report = report_on(*folders, clean=[clean], resamples=20)
            assert value(only(report, "corruptions"), "clean error") == error
            assert len(results_of(report, "clean")) == max(len(folders) - 1, 1)
        assert rs.report(fog, clean=clean).table("clean error")["value"].to_pylist() == [error]
    with pytest.raises(UserError, match=r"one and .*two both have clean"):
        report_on(one, two, clean=[one, two])
    with pytest.raises(UserError, match="fog has images with a transform: choose"):
        report_on(one, two, clean=[fog])
    done = robustshards("report", fog, one, two, "--clean", two, "--json")
    (found,) = [each for each in json.loads(done.stdout)["results"] if each["family"] == "corruptions"]
    assert [each["value"] for each in found["measures"] if each["metric"] == "clean error"] == [0.75]


def test_clean_evaluations_of_other_images_need_a_choice_only_for_shift_sets(tmp_path: Path) -> None:
    """Corrupted images find their clean versions by name. Shift sets have other images."""
    options: dict[str, Any] = {"family": "none", "profile": ""}
    one = write_evaluation(tmp_path / "one", CLEAN, LABELS, data_set="one", **options)
    two = write_evaluation(tmp_path / "two", CLEAN, LABELS, data_set="two", names="abcd", **options)
    fog = write_evaluation(tmp_path / "fog", {("fog", 1): votes([0, 6, 6, 6])}, LABELS, names="abcd")
    shift = write_evaluation(
        tmp_path / "shift", CLEAN, LABELS, names="wxyz", task=task("v2", "shift", (), outputs=7), **options
    )
    assert value(only(report_on(one, two, fog), "corruptions"), "clean error") == 0.25
    with pytest.raises(UserError, match=r"one and .*two both have clean images to compare .*shift with: .*--clean"):
        report_on(one, two, shift)
    found = only(report_on(one, two, shift, clean=[two]), "shifts")
    assert (found.clean_accuracy, value(found, "clean accuracy"), value(found, DROP)) == (0.75, 0.75, 0.0)


def test_clean_images_of_other_groups_are_no_counterpart(tmp_path: Path) -> None:
    """The clean images of a task are its counterpart, whatever their data set is called."""
    everything = natural(tmp_path / "val", None, [0, 0, 0, 0], LABELS, data_set="val")
    mine = natural(tmp_path / "mine", task("a", "clean"), [1, 3, 5, 1], (0, 1, 2, 2), data_set="val")
    other = natural(tmp_path / "other", task("r", "clean", ((0,), (1,))), [0, 0], (0, 1), data_set="val")
    shift = natural(tmp_path / "a", task("a", "shift"), [1, 1, 1], (0, 1, 2), data_set="imagenet-a")
    for folders in orders(everything, mine, other, shift):
        report = report_on(*folders, resamples=20)
        found = only(report, "shifts")
        assert (value(found, "clean accuracy"), value(found, "accuracy")) == pytest.approx((0.75, 1 / 3))
        assert {each.data_set for each in results_of(report, "clean")} == {"val", "val (a)", "val (r)"}
    report = report_on(shift, everything, other)
    assert not has(only(report, "shifts"), DROP)
    assert any("a: no drop" in text and "--task a --role clean" in text for text in report.warnings)
    assert report_on(shift).warnings == []


def test_one_data_set_with_two_tasks_is_no_duplicate(tmp_path: Path) -> None:
    first = natural(tmp_path / "a", task("a", "shift"), [1, 3, 5], (0, 1, 2), data_set="mixed")
    second = natural(tmp_path / "r", task("r", "shift", ((1, 2), (3,), (5,))), [1, 3, 1], (0, 1, 2), data_set="mixed")
    assert [each.data_set for each in results_of(report_on(first, second), "shifts")] == ["a", "r"]
    again = natural(tmp_path / "a2", task("a", "shift"), [1, 3, 5], (0, 1, 2), data_set="mixed")
    with pytest.raises(UserError, match="evaluate the same data set"):
        report_on(first, again)


def test_models_on_one_shift_set_share_a_section(tmp_path: Path) -> None:
    folders = [
        natural(tmp_path / name, task("a", "shift"), classes, (0, 1, 2), model=name, data_set=f"copy of {name}")
        for name, classes in (("one", [1, 3, 5]), ("two", [1, 1, 1]))
    ]
    (section,) = report_on(*folders).sections
    assert (section.title, list(section.models)) == ("a", ["one", "two"])


# Shift sets


def test_a_shift_set_has_both_conventions_and_the_drop(tmp_path: Path) -> None:
    """The logits are those of the specification: among the groups, class 1 wins; among all outputs, class 0 does."""
    logits = np.array([[9, 2, 8, 3, 7, 1], [0, 1, 0, 9, 0, 0], [9, 8, 0, 0, 0, 0], [0, 0, 0, 0, 0, 9]])
    shift = write_evaluation(
        tmp_path / "a", {("none", 0): logits}, (1, 1, 0, 0), family="none", task=task("a", "shift", images=5)
    )
    clean = natural(tmp_path / "c", task("a", "clean"), [1, 3, 5, 5], (0, 1, 2, 2))
    report = report_on(shift, clean)
    found, drop = only(report, "shifts"), measure(only(report, "shifts"), DROP)
    assert [value(found, each) for each in ("accuracy", ALL_OUTPUTS, "top-5 accuracy")] == [0.75, 0.25, 1.0]
    assert (value(found, "clean accuracy"), drop.value) == (1.0, 0.25)
    assert drop.low < 0.25 < drop.high
    assert not has(found, LOWEST)
    shown = cells(tables_of(report)[0])
    assert shown["images"] == ["4 of 5"]
    assert shown[ALL_OUTPUTS][0].startswith("25.0 [")


def test_without_groups_there_is_one_accuracy(tmp_path: Path) -> None:
    report = report_on(natural(tmp_path / "v2", task("v2", "shift", (), images=4), [0, 1, 2, 0], LABELS))
    assert value(only(report, "shifts"), "accuracy") == 0.75
    shown = cells(table(report, "key figures"))
    assert shown["images"] == ["4"]
    assert not {ALL_OUTPUTS, DROP} & shown.keys()


def test_objects_of_one_class_have_a_lowest_accuracy(tmp_path: Path) -> None:
    """Two objects have label 1. One of them is recognised in one of two images."""
    names = ("hotdog/1", "hotdog/2", "sofa/1", "sofa/2", "sofa_2/1", "sofa_2/2")
    shift = natural(tmp_path / "v", task("v", "shift", ()), [0, 0, 1, 1, 1, 2], (0, 0, 1, 1, 1, 1), names=names)
    found = only(report_on(shift), "shifts")
    assert (found.details["lowest_folder"], value(found, LOWEST)) == ("sofa_2", 0.5)
    for labels, ids in (((0, 0, 1, 1, 2, 2), names), ((0, 0, 1, 1, 1, 1), None)):
        other = natural(tmp_path / f"{labels}{ids is None}", task("v", "shift", ()), [0] * 6, labels, names=ids)
        assert not has(only(report_on(other), "shifts"), LOWEST)


def test_a_drop_between_different_classes_is_a_warning(tmp_path: Path) -> None:
    shift = natural(tmp_path / "v2", task("v2", "shift", ()), [0, 1, 2, 3], LABELS)
    clean = natural(tmp_path / "val", None, [0, 1], (0, 1), names=("a", "b"))
    report = report_on(shift, clean)
    assert has(only(report, "shifts"), DROP)
    assert any("lack 2 of its 4 classes" in text for text in report.warnings)


def test_images_of_a_known_set_without_its_task_are_not_taken_for_clean(tmp_path: Path) -> None:
    """ImageNet-O without its task has the 200 classes that its images were mistaken for as labels."""
    labels = [output for group in load("imagenet-o").task.groups for output in group]
    options: dict[str, Any] = {"family": "none", "profile": ""}
    odd = write_evaluation(tmp_path / "o", {("none", 0): votes(labels, 1000)}, labels, data_set="imagenet-o", **options)
    v2 = load("imagenet-v2-matched-frequency").task
    shift = write_evaluation(tmp_path / "v2", {("none", 0): votes([1, 2], 1000)}, (1, 2), task=v2, **options)
    report = report_on(odd, shift, resamples=20)
    assert not has(only(report, "shifts"), DROP)
    for found in (report, report_on(odd, resamples=20)):
        (warning, *_) = found.warnings
        assert "exactly the classes of imagenet-o:" in warning
        assert "index it again with --task" in warning
    assert has(only(report_on(shift, clean=[odd], resamples=20), "shifts"), DROP)


# Anomalies

ANOMALIES, OTHERS = 2000, 10_000


@pytest.mark.parametrize(
    ("anomalous", "other", "area", "shown"),
    [(1.0, 1.0, 0.166667, "16.7"), (0.0, 1.0, 1.0, "100.0"), (1.0, 0.0, 0.088434, "8.8")],
    ids=["constant", "perfect", "wrong"],
)
def test_aupr_of_known_scores(tmp_path: Path, anomalous: float, other: float, area: float, shown: str) -> None:
    """For the constant score, all images pass together; else, the groups are apart and have different scores."""
    spread = 0 if anomalous == other else 1e-4
    odd = unsure(
        tmp_path / "o", task("imagenet-o", "anomalous", images=ANOMALIES),
        anomalous + spread * np.arange(ANOMALIES), [-1] * ANOMALIES,
    )  # fmt: skip
    usual = unsure(
        tmp_path / "k", task("imagenet-o-clean", "clean"), other + spread * np.arange(OTHERS) / OTHERS, [0] * OTHERS
    )
    report = report_on(odd, usual, resamples=200)
    found = only(report, "anomalies")
    aupr = measure(found, "AUPR")
    assert aupr.value == pytest.approx(area, abs=1e-6)
    assert area - 0.01 < aupr.low <= aupr.high < area + 0.01
    assert [number for number, _ in found.counts.values()][:2] == [ANOMALIES, OTHERS]
    (line,) = [line for line in lines(report) if line["metric"] == "AUPR"]
    assert (line["family"], line["data_set"], float(line["value"])) == ("anomalies", "imagenet-o", aupr.value)
    assert cells(tables_of(report)[0])["AUPR"][0].startswith(f"{shown} [")


def test_anomalies_need_clean_images_of_the_same_groups(tmp_path: Path) -> None:
    odd = unsure(tmp_path / "o", task("imagenet-o", "anomalous"), [0, 0], [-1, -1])
    plain = natural(tmp_path / "val", None, [0, 1], (0, 1))
    other = natural(tmp_path / "r", task("r", "clean", ((0,), (1,))), [0, 1], (0, 1))
    for folders in ([odd], [odd, plain], [other, odd, plain]):
        report = report_on(*folders, resamples=20)
        found = only(report, "anomalies")
        assert (has(found, "AUPR"), found.images) == (False, 2)
        assert any("no AUPR" in text and "--task imagenet-o --role clean" in text for text in report.warnings)
    usual = unsure(tmp_path / "k", task("imagenet-o-clean", "clean"), [9, 9], [0, 0])
    report = report_on(usual, other, odd, plain, resamples=20)
    assert (value(only(report, "anomalies"), "AUPR"), report.warnings) == (1.0, [])
    again = unsure(tmp_path / "k2", task("imagenet-o-clean", "clean"), [9, 9], [0, 0], names="ab", data_set="again")
    with pytest.raises(UserError, match=r"k and .*k2 both have clean images to compare .*o with"):
        report_on(usual, again, odd)
