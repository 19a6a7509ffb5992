"""Roles of evaluations: clean images, shift sets and anomalous images of one report."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robustshards as rs
from pipeline.errors import UserError
from pipeline.evaluate.report.sections import sections, tables
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.text import to_markdown
from pipeline.tasks.library import load
from pipeline.tasks.schema import Role, Task
from tests.conftest import Run
from tests.factories.evaluations import votes, write_evaluation

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


def test_the_clean_error_is_that_of_the_clean_evaluation_in_any_order(tmp_path: Path, robustshards: Run) -> None:
    """All images have the same names, so only the role tells which evaluation is clean."""
    clean = natural(tmp_path / "clean", None, [0, 1, 2, 0], (0, 1, 2, 3))
    fog = write_evaluation(tmp_path / "fog", {("fog", 1): votes([0, 0, 0, 0], 6)}, LABELS)
    first = natural(tmp_path / "v2", task("v2", "shift", ()), [0, 0, 0, 0], LABELS, data_set="a")
    second = natural(tmp_path / "sketch", task("sketch", "shift", ()), [0, 1, 0, 0], LABELS, data_set="b")
    for folders in permutations([clean, fog, first, second]):
        facts = summarise(folders, resamples=20).facts()
        assert facts["clean"][0]["error"]["value"] == facts["corruptions"][0]["clean_error"] == 0.25
        found = {each["data_set"]: (each["accuracy"]["value"], each["drop"]["value"]) for each in facts["shifts"]}
        assert found == {"v2": (0.25, 0.5), "sketch": (0.5, 0.25)}
        assert len(facts["clean"]) == 1
    done = robustshards("report", second, clean, first, "--json")
    facts = json.loads(done.stdout)
    assert [len(facts[key]) for key in ("shifts", "anomalies", "clean")] == [2, 0, 1]
    shown = [each.title for each in sections(summarise([clean, second, fog, first]))]
    assert shown == ["made-corruptions", "sketch", "v2", "made-none"]


def test_two_clean_evaluations_of_the_same_images_need_a_choice(tmp_path: Path, robustshards: Run) -> None:
    one = write_evaluation(tmp_path / "one", CLEAN, LABELS, family="none", data_set="one")
    two = write_evaluation(tmp_path / "two", {("none", 0): votes([0, 6, 6, 6])}, LABELS, family="none", data_set="two")
    fog = write_evaluation(tmp_path / "fog", {("fog", 1): votes([0, 6, 6, 6])}, LABELS)
    for folders in ((one, two), (two, fog, one), (fog, one, two)):
        done = robustshards("report", *folders)
        assert done.returncode == 2
        assert one in done.stderr
        assert two in done.stderr
        assert "--clean" in done.stderr
    for clean, error in ((one, 0.25), (two, 0.75)):
        done = robustshards("report", one, two, fog, "--clean", clean, "--json")
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout)
        assert facts["corruptions"][0]["clean_error"] == error
        assert len(facts["clean"]) == 2
        assert rs.report([fog, two, one], clean=clean).facts()["corruptions"][0]["clean_error"] == error
        assert rs.report(fog, clean=[clean]).facts()["corruptions"][0]["clean_error"] == error
    with pytest.raises(UserError, match=r"one and .*two both have clean"):
        summarise([one, two], clean=[one, two])
    with pytest.raises(UserError, match="fog has images with a transform: choose"):
        summarise([one, two], clean=[fog])


def test_clean_evaluations_of_other_images_need_a_choice_only_for_shift_sets(tmp_path: Path) -> None:
    """Corrupted images find their clean versions by name. Shift sets have other images."""
    options: dict[str, Any] = {"family": "none", "profile": ""}
    one = write_evaluation(tmp_path / "one", CLEAN, LABELS, data_set="one", **options)
    two = write_evaluation(tmp_path / "two", CLEAN, LABELS, data_set="two", names="abcd", **options)
    fog = write_evaluation(tmp_path / "fog", {("fog", 1): votes([0, 6, 6, 6])}, LABELS, names="abcd")
    shift = write_evaluation(
        tmp_path / "shift", CLEAN, LABELS, names="wxyz", task=task("v2", "shift", (), outputs=7), **options
    )
    assert summarise([one, two, fog]).families["corruptions"][0].clean_error == 0.25
    with pytest.raises(UserError, match=r"one and .*two both have clean images to compare .*shift with: .*--clean"):
        summarise([one, two, shift])
    (found,) = summarise([one, two, shift], clean=[two]).families["shifts"]
    assert (found.clean_accuracy, found.drop.value) == (0.75, 0.0)


def test_clean_images_of_other_groups_are_no_counterpart(tmp_path: Path) -> None:
    """The clean images of a task are its counterpart, whatever their data set is called."""
    everything = natural(tmp_path / "val", None, [0, 0, 0, 0], LABELS, data_set="val")
    mine = natural(tmp_path / "mine", task("a", "clean"), [1, 3, 5, 1], (0, 1, 2, 2), data_set="val")
    other = natural(tmp_path / "other", task("r", "clean", ((0,), (1,))), [0, 0], (0, 1), data_set="val")
    shift = natural(tmp_path / "a", task("a", "shift"), [1, 1, 1], (0, 1, 2), data_set="imagenet-a")
    for folders in permutations([everything, mine, other, shift]):
        summary = summarise(folders, resamples=20)
        (found,) = summary.families["shifts"]
        assert (found.clean_accuracy, found.accuracy.value) == (0.75, pytest.approx(1 / 3))
        assert {each.data_set for each in summary.families["clean"]} == {"val", "val (a)", "val (r)"}
    summary = summarise([shift, everything, other])
    assert summary.families["shifts"][0].drop is None
    assert any("a: no drop" in text and "--task a --role clean" in text for text in summary.warnings)
    assert summarise([shift]).warnings == []


def test_one_data_set_with_two_tasks_is_no_duplicate(tmp_path: Path) -> None:
    first = natural(tmp_path / "a", task("a", "shift"), [1, 3, 5], (0, 1, 2), data_set="mixed")
    second = natural(tmp_path / "r", task("r", "shift", ((1, 2), (3,), (5,))), [1, 3, 1], (0, 1, 2), data_set="mixed")
    assert [each.data_set for each in summarise([first, second]).families["shifts"]] == ["a", "r"]
    again = natural(tmp_path / "a2", task("a", "shift"), [1, 3, 5], (0, 1, 2), data_set="mixed")
    with pytest.raises(UserError, match="evaluate the same data set"):
        summarise([first, again])


def test_models_on_one_shift_set_share_a_section(tmp_path: Path) -> None:
    folders = [
        natural(tmp_path / name, task("a", "shift"), classes, (0, 1, 2), model=name, data_set=f"copy of {name}")
        for name, classes in (("one", [1, 3, 5]), ("two", [1, 1, 1]))
    ]
    (section,) = sections(summarise(folders))
    assert (section.title, list(section.models)) == ("a", ["one", "two"])


# Shift sets


def test_a_shift_set_has_both_conventions_and_the_drop(tmp_path: Path) -> None:
    """The logits are those of the specification: among the groups, class 1 wins; among all outputs, class 0 does."""
    logits = np.array([[9, 2, 8, 3, 7, 1], [0, 1, 0, 9, 0, 0], [9, 8, 0, 0, 0, 0], [0, 0, 0, 0, 0, 9]])
    shift = write_evaluation(
        tmp_path / "a", {("none", 0): logits}, (1, 1, 0, 0), family="none", task=task("a", "shift", images=5)
    )
    clean = natural(tmp_path / "c", task("a", "clean"), [1, 3, 5, 5], (0, 1, 2, 2))
    summary = summarise([shift, clean])
    (found,) = summary.families["shifts"]
    assert (found.accuracy.value, found.free_accuracy.value, found.top5_accuracy.value) == (0.75, 0.25, 1.0)
    assert (found.clean_accuracy, found.drop.value) == (1.0, 0.25)
    assert found.drop.low < 0.25 < found.drop.high
    assert found.lowest_folder is None
    markdown = to_markdown(tables(summary))
    assert "| images | 4 of 5 |" in markdown
    assert "| accuracy \\(all outputs\\) | 25.0" in markdown.replace("(all outputs)", "\\(all outputs\\)")


def test_without_groups_there_is_one_accuracy(tmp_path: Path) -> None:
    shift = natural(tmp_path / "v2", task("v2", "shift", (), images=4), [0, 1, 2, 0], LABELS)
    summary = summarise([shift])
    (found,) = summary.families["shifts"]
    assert (found.accuracy.value, found.free_accuracy, found.drop) == (0.75, None, None)
    markdown = to_markdown(tables(summary))
    assert "all outputs" not in markdown
    assert "| images | 4 |" in markdown


def test_objects_of_one_class_have_a_lowest_accuracy(tmp_path: Path) -> None:
    """Two objects have label 1. One of them is recognised in one of two images."""
    names = ("hotdog/1", "hotdog/2", "sofa/1", "sofa/2", "sofa_2/1", "sofa_2/2")
    shift = natural(tmp_path / "v", task("v", "shift", ()), [0, 0, 1, 1, 1, 2], (0, 0, 1, 1, 1, 1), names=names)
    (found,) = summarise([shift]).families["shifts"]
    assert (found.lowest_folder, found.lowest_folder_accuracy) == ("sofa_2", 0.5)
    for labels, ids in (((0, 0, 1, 1, 2, 2), names), ((0, 0, 1, 1, 1, 1), None)):
        other = natural(tmp_path / f"{labels}{ids is None}", task("v", "shift", ()), [0] * 6, labels, names=ids)
        assert summarise([other]).families["shifts"][0].lowest_folder is None


def test_a_drop_between_different_classes_is_a_warning(tmp_path: Path) -> None:
    shift = natural(tmp_path / "v2", task("v2", "shift", ()), [0, 1, 2, 3], LABELS)
    clean = natural(tmp_path / "val", None, [0, 1], (0, 1), names=("a", "b"))
    summary = summarise([shift, clean])
    assert summary.families["shifts"][0].drop is not None
    assert any("lack 2 of its 4 classes" in text for text in summary.warnings)


def test_images_of_a_known_set_without_its_task_are_not_taken_for_clean(tmp_path: Path) -> None:
    """ImageNet-O without its task has the 200 classes that its images were mistaken for as labels."""
    labels = [output for group in load("imagenet-o").task.groups for output in group]
    odd = write_evaluation(
        tmp_path / "o", {("none", 0): votes(labels, 1000)}, labels, family="none", profile="", data_set="imagenet-o"
    )
    shift = write_evaluation(
        tmp_path / "v2", {("none", 0): votes([1, 2], 1000)}, (1, 2), family="none", profile="",
        task=load("imagenet-v2-matched-frequency").task,
    )  # fmt: skip
    summary = summarise([odd, shift])
    assert summary.families["shifts"][0].drop is None
    for found in (summary, summarise([odd])):
        (warning, *_) = found.warnings
        assert "exactly the classes of imagenet-o:" in warning
        assert "index it again with --task" in warning
    assert summarise([shift], clean=[odd]).families["shifts"][0].drop is not None


# Anomalies

ANOMALIES, OTHERS = 2000, 10_000


@pytest.mark.parametrize(
    ("anomalous", "other", "area", "shown"),
    [(1.0, 1.0, 0.166667, "16.7"), (0.0, 1.0, 1.0, "100.0"), (1.0, 0.0, 0.088434, "8.8")],
    ids=["constant", "perfect", "wrong"],
)
def test_aupr_of_known_scores(
    tmp_path: Path, robustshards: Run, anomalous: float, other: float, area: float, shown: str
) -> None:
    """For the constant score, all images pass together; else, the groups are apart and have different scores."""
    spread = 0 if anomalous == other else 1e-4
    odd = unsure(
        tmp_path / "o", task("imagenet-o", "anomalous", images=ANOMALIES),
        anomalous + spread * np.arange(ANOMALIES), [-1] * ANOMALIES,
    )  # fmt: skip
    usual = unsure(
        tmp_path / "k", task("imagenet-o-clean", "clean"), other + spread * np.arange(OTHERS) / OTHERS, [0] * OTHERS
    )
    done = robustshards("report", odd, usual, "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["anomalies"]
    assert found["aupr"]["value"] == pytest.approx(area, abs=1e-6)
    assert area - 0.01 < found["aupr"]["low"] <= found["aupr"]["high"] < area + 0.01
    assert (found["images"], found["clean_images"]) == (ANOMALIES, OTHERS)
    lines = [line for line in csv.DictReader((tmp_path / "out" / "report.csv").open()) if line["figure"] == "AUPR"]
    assert [(line["family"], line["data_set"], float(line["value"])) for line in lines] == [
        ("anomalies", "imagenet-o", found["aupr"]["value"])
    ]
    assert f"| AUPR | {shown} [" in (tmp_path / "out" / "report.md").read_text()


def test_anomalies_need_clean_images_of_the_same_groups(tmp_path: Path) -> None:
    odd = unsure(tmp_path / "o", task("imagenet-o", "anomalous"), [0, 0], [-1, -1])
    plain = natural(tmp_path / "val", None, [0, 1], (0, 1))
    other = natural(tmp_path / "r", task("r", "clean", ((0,), (1,))), [0, 1], (0, 1))
    for folders in ([odd], [odd, plain], [other, odd, plain]):
        summary = summarise(folders)
        assert [(each.aupr, each.images) for each in summary.families["anomalies"]] == [(None, 2)]
        assert any("no AUPR" in text and "--task imagenet-o --role clean" in text for text in summary.warnings)
    usual = unsure(tmp_path / "k", task("imagenet-o-clean", "clean"), [9, 9], [0, 0])
    summary = summarise([usual, other, odd, plain], resamples=20)
    assert (summary.families["anomalies"][0].aupr.value, summary.warnings) == (1.0, [])
    again = unsure(tmp_path / "k2", task("imagenet-o-clean", "clean"), [9, 9], [0, 0], names="ab", data_set="again")
    with pytest.raises(UserError, match=r"k and .*k2 both have clean images to compare .*o with"):
        summarise([usual, again, odd])
