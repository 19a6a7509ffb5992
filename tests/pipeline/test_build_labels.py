"""Labels from source to predictions: builds of numbers, of a part of ImageNet's classes, and of a list of classes."""

import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch import nn

import manifests
import robustshards as rs
from pipeline.datasets.verify import verify
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.tasks.labels import LabelSpace, Numbering
from pipeline.tasks.lists import IMAGENET
from tests.conftest import Run

pytestmark = pytest.mark.usefixtures("workers_here", "own_cache")

RECIPE = "cifar-10-c-clean"
"""A recipe with lossless payloads that keeps images of 32 x 32 pixels as they are."""

PART = (IMAGENET[11], IMAGENET[400], IMAGENET[999])
"""Three classes of ImageNet, which other tools number 0, 1, 2."""


class Reader(nn.Module):
    """A classifier that reads the true output off the pixels: red * 256 + green."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        high, low, _ = images[:, :, 16, 16].mul(255).round().long().unbind(1)
        found = (256 * high + low).clamp(0, self.outputs - 1)  # batches are measured with random pixels
        return nn.functional.one_hot(found, self.outputs).float()


def write_classes(root: Path, outputs: dict[str, int]) -> Path:
    """Write two images for each class folder, whose colour is the output that is right."""
    for name, output in outputs.items():
        for number in range(2):
            path = root / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (32, 32), (*divmod(output, 256), number)).save(path)
    return root


def build(source: Path, out: Path, **options: Any) -> rs.BuildResult:
    return rs.build(RECIPE, source, out, source_kind="imagefolder", workers=1, shard_size=4, **options)


def accuracy(data: Path, out: Path, outputs: int) -> float:
    """Evaluate a model that reads the truth off the pixels."""
    plain = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
    assert rs.evaluate(Reader(outputs), data, out, batch_size=8, input_size=0, **plain).complete
    table = pq.read_table(out / "predictions.parquet", columns=["label", "top1"])
    return float(np.mean(table["label"].to_numpy() == table["top1"].to_numpy()))


def labels(data: Path) -> dict[str, int]:
    return {row.class_name: row.label for row in manifests.read_rows(data / "manifest.parquet")}


def space_of(data: Path) -> LabelSpace | None:
    return library.parse((data / "recipe.toml").read_text(), "recipe.toml").labels


def make_numbered(data: Path, source: Path) -> Path:
    """Build a data set whose class folders are numbered in sorted order, without a table of labels."""
    sorted_names = sorted(path.name for path in source.iterdir())
    built = build(source, data, classes=sorted_names)
    assert built.complete
    text = (data / "recipe.toml").read_text().partition("[labels]")[0]
    start, end = text.index("classes = ["), text.index("]", text.index("classes = [")) + 1
    (data / "recipe.toml").write_text(text[:start] + text[end:])
    assert space_of(data) is None
    return data


# Builds


def test_numbers_are_labels_of_the_shards_and_of_the_manifest(tmp_path: Path) -> None:
    source = write_classes(tmp_path / "source", {str(number): number for number in range(12)})
    result = build(source, tmp_path / "data")
    assert result.plan.labels == "the names of the 12 class folders, which are numbers"
    assert labels(tmp_path / "data") == {str(number): number for number in range(12)}
    assert space_of(tmp_path / "data") == LabelSpace(numbering=Numbering.NUMBERS, classes=0, present=12)
    for row in manifests.read_rows(tmp_path / "data" / "manifest.parquet"):
        with tarfile.open(tmp_path / "data" / row.shard) as tar:
            cls, description = tar.extractfile(f"{row.key}.cls"), tar.extractfile(f"{row.key}.json")
            assert cls is not None
            assert description is not None
            assert (int(cls.read()), json.loads(description.read())["label"]) == (row.label, row.label)
    assert not verify(str(tmp_path / "data")).faults
    assert accuracy(tmp_path / "data", tmp_path / "out", 12) == 1


def test_a_part_of_imagenet_is_scored_by_its_indices(tmp_path: Path) -> None:
    source = write_classes(tmp_path / "source", {wnid: IMAGENET.index(wnid) for wnid in PART})
    result = build(source, tmp_path / "data")
    assert result.plan.labels == "3 of the 1,000 classes of ImageNet, by WordNet id"
    assert labels(tmp_path / "data") == {wnid: IMAGENET.index(wnid) for wnid in PART}
    assert not verify(str(tmp_path / "data")).faults
    assert accuracy(tmp_path / "data", tmp_path / "out", 1000) == 1
    with pytest.raises(rs.UserError, match="the model has 3 outputs, but the labels are 3 of the 1,000 classes"):
        rs.evaluate(Reader(3), tmp_path / "data", tmp_path / "refused")
    assert not (tmp_path / "refused" / "evaluation.toml").exists()


def test_other_folders_fit_only_a_model_of_these_classes(tmp_path: Path) -> None:
    source = write_classes(tmp_path / "source", {"10": 0, "9": 1, PART[0]: 2})
    result = build(source, tmp_path / "data")
    expected = "3 class folders, numbered from 0 in sorted order; a model must have 3 outputs, in this order"
    assert result.plan.labels == expected
    assert accuracy(tmp_path / "data", tmp_path / "out", 3) == 1
    with pytest.raises(rs.UserError, match="the model has 1,000 outputs, but the labels are 3 class folders"):
        rs.evaluate(Reader(1000), tmp_path / "data", tmp_path / "refused")


@pytest.mark.parametrize("as_file", [True, False])
def test_a_list_of_classes_serves_a_model_with_an_order_of_its_own(tmp_path: Path, as_file: bool) -> None:
    own_order = [PART[2], "other", PART[0], PART[1]]
    (tmp_path / "classes.txt").write_text("\n".join(own_order))
    source = write_classes(tmp_path / "source", {wnid: own_order.index(wnid) for wnid in PART})
    build(source, tmp_path / "data", classes=tmp_path / "classes.txt" if as_file else own_order)
    recipe = library.parse((tmp_path / "data" / "recipe.toml").read_text(), "recipe.toml")
    assert recipe.source.classes == tuple(own_order)
    assert recipe.labels == LabelSpace(numbering=Numbering.LISTED, classes=4, present=3)
    assert accuracy(tmp_path / "data", tmp_path / "out", 4) == 1


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([], "use class names in label order"),
        ([1, 2], "use class names in label order"),
        (["ant", "bee", "ant"], r"source\.classes: the class 'ant' is listed more than once"),
        (["ant", ""], r"source\.classes"),
        (["ant"], "class 'bee' .bee/0.png.*: add it"),
        (Path("nowhere.txt"), r"nowhere\.txt does not exist"),
    ],
)
def test_invalid_lists_of_classes_are_refused(tmp_path: Path, classes: Any, message: str) -> None:
    with pytest.raises(rs.UserError, match=message):
        build(write_classes(tmp_path / "source", {"ant": 0, "bee": 1}), tmp_path / "data", classes=classes)
    assert not (tmp_path / "data").exists()


# The command


def test_commands_say_what_the_labels_count(tmp_path: Path, robustshards: Run) -> None:
    source = write_classes(tmp_path / "source", dict.fromkeys(PART, 0))
    line = "3 of the 1,000 classes of ImageNet, by WordNet id"
    arguments = (RECIPE, "--source", source, "--source-kind", "imagefolder")
    facts = json.loads(robustshards("plan", *arguments, "--json").stdout)["labels"]
    assert facts == {"numbering": "imagenet", "classes": 1000, "present": 3, "description": line}
    assert line in robustshards("plan", *arguments).stdout
    out = ("--out", tmp_path / "data", "--workers", "1")
    assert f"labels: {line}" in robustshards("build", *arguments, *out, "--dry-run").stdout
    assert f"labels: {line}" in robustshards("build", *arguments, *out).stdout
    assert json.loads(robustshards("build", *arguments, *out, "--json").stdout)["labels"] == facts
    (tmp_path / "classes.txt").write_text("\n".join(sorted(PART)))
    listed = ("--classes", tmp_path / "classes.txt")
    planned = " ".join(robustshards("plan", *arguments, *listed).stdout.split())
    assert "labels 3 classes, in the order of a list; a model must have 3 outputs, in this order" in planned
    assert "source.classes is [], but ['n0" in robustshards.refuse("build", *arguments, *out, *listed)


def test_the_classes_of_the_images_are_counted_and_all_of_imagenet_need_no_words(
    tmp_path: Path, robustshards: Run
) -> None:
    for wnid in IMAGENET:
        (tmp_path / "source" / wnid).mkdir(parents=True)
    write_classes(tmp_path / "source", {PART[0]: 11})
    arguments = (RECIPE, "--source", tmp_path / "source", "--out", tmp_path / "data", "--workers", "1")
    notice = "labels: 1 of the 1,000 classes of ImageNet, by WordNet id"
    assert notice in robustshards("build", *arguments, "--source-kind", "imagefolder").stdout
    space = space_of(tmp_path / "data")
    assert space == LabelSpace(numbering=Numbering.IMAGENET, classes=1000, present=1000)
    assert (space.notice, f"labels: {space.among(1).notice}") == ("", notice)


def test_unlabelled_images_are_warned_of_before_the_work(tmp_path: Path, robustshards: Run) -> None:
    source = write_classes(tmp_path / "source", {"": 0})
    arguments = ("--source", source, "--source-kind", "imagefolder")
    warning = "labels are missing for 2 of 2 images, so no error rate can be computed"
    for command in (("plan", RECIPE), ("build", RECIPE, "--out", tmp_path / "data", "--dry-run")):
        facts = json.loads(robustshards(*command, *arguments, "--json").stdout)
        assert [text.partition(" on")[0] for text in facts["warnings"]] == [warning]
        done = robustshards(*command, *arguments)
        assert (done.returncode, done.stderr.count(f"warning: {warning}")) == (0, 1)
    done = robustshards("build", RECIPE, "--out", tmp_path / "data", *arguments)
    assert f"warning: {warning}" in done.stderr.partition("2/2 images")[0]
    assert f"warning: {warning}" in done.stdout
    assert f"warning: {warning}" in robustshards("render", RECIPE, "--out", tmp_path / "rendered", *arguments).stdout
    sequences = rs.build("cifar-10-p", source, tmp_path / "p", source_kind="imagefolder", only="tilt", workers=1)
    assert sequences.facts()["warnings"] == []
    with pytest.raises(UserError, match=f"{RECIPE} has 2 unlabelled images, .*: make it again from images with labels"):
        rs.evaluate(Reader(10), tmp_path / "data", tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    assert rs.evaluate(Reader(10), tmp_path / "p").figures()["mean flip probability (unnormalised)"] >= 0


# Data sets with other labels


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("folders", [PART, ("0", "1", "2", "10")])
def test_a_data_set_with_other_labels_is_not_continued(tmp_path: Path, folders: Sequence[str], finished: bool) -> None:
    source = write_classes(tmp_path / "source", dict.fromkeys(folders, 0))
    data = make_numbered(tmp_path / "data", source)
    if not finished:
        (data / "manifest.parquet").unlink()
        next((data / "manifest").glob("*-000000.parquet")).unlink()
    recipe = (data / "recipe.toml").read_text()
    with pytest.raises(rs.UserError, match=r"was built with other labels: .*Use another folder, or .*--retry-failed"):
        build(source, data)
    assert (data / "recipe.toml").read_text() == recipe
    assert build(source, data, retry_failed=True).complete
    expected = {name: int(name) if name.isdigit() else IMAGENET.index(name) for name in folders}
    assert labels(data) == expected
    assert not verify(str(data)).faults


def test_a_model_is_not_scored_by_labels_that_contradict_names(tmp_path: Path) -> None:
    source = write_classes(tmp_path / "source", {wnid: number for number, wnid in enumerate(PART)})
    data = make_numbered(tmp_path / "data", source)
    with pytest.raises(rs.UserError, match=rf"class '{PART[0]}' has the label 0, but 11 .*build or index it again"):
        rs.evaluate(Reader(1000), data, tmp_path / "refused")
    assert accuracy(data, tmp_path / "out", 3) == 1


def test_a_folder_that_changes_all_labels_is_not_added(tmp_path: Path) -> None:
    source = write_classes(tmp_path / "source", dict.fromkeys(PART, 0))
    build(source, tmp_path / "data")
    shutil.copytree(source / PART[0], source / "zebra")
    with pytest.raises(rs.UserError, match=rf"other labels: {PART[0]}/0\.png .* has the label 11 there, but now 0 \(4"):
        build(source, tmp_path / "data")
