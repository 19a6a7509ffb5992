"""Indexes of ObjectNet, and their evaluation."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.datasets.verify import verify
from pipeline.errors import UserError
from tests.conftest import Run
from tests.factories.indexed_sets import pack
from tests.factories.natural_sets import OBJECTNET_FOLDERS, display_name, outputs_of, write_mappings, write_tree
from tests.tasks.test_index import accuracies, indexed, labels_of, table_of


@pytest.fixture(scope="module")
def objectnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a made-up ObjectNet: 313 folders of grey images with a red border of 2 pixels, and its mappings."""
    root, outputs = tmp_path_factory.mktemp("objectnet") / "objectnet-1.0", outputs_of("objectnet")
    write_tree(root / "images", {folder: outputs.get(folder, 0) for folder in OBJECTNET_FOLDERS}, border=2)
    write_mappings(root / "mappings")
    return root


def test_objectnet_counts_113_classes_without_the_border(objectnet: Path, tmp_path: Path, robustshards: Run) -> None:
    mappings = ("--mappings", objectnet / "mappings")
    command = ("index", objectnet / "images", "--task", "objectnet", *mappings, "--out", tmp_path / "index", "--json")
    facts = json.loads(robustshards(*command).stdout)
    assert (facts["samples"], facts["task"]["left_out_folders"], facts["task"]["missing_folders"]) == (113, 200, [])
    assert accuracies(robustshards, tmp_path / "index", tmp_path / "out") == (1, 1)
    with pytest.raises(AssertionError, match="the model sees red"):
        accuracies(robustshards, tmp_path / "index", tmp_path / "red", "--steps", "square=224")


def test_mappings_that_differ_are_refused(objectnet: Path, tmp_path: Path, robustshards: Run) -> None:
    mappings = shutil.copytree(objectnet / "mappings", tmp_path / "mappings")
    path = mappings / "objectnet_to_imagenet_1k.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, display_name("banana"): content[display_name("bench")]}))
    assert "the folder 'banana' has n03891251 of ImageNet, but n07753592 in the task objectnet" in robustshards.refuse(
        "index", objectnet / "images", "--task", "objectnet", "--mappings", mappings, "--out", tmp_path / "index"
    )
    assert not (tmp_path / "index").exists()


def test_folders_above_the_class_folders_are_found(objectnet: Path, tmp_path: Path) -> None:
    direct = indexed(objectnet / "images", "objectnet", out=tmp_path / "direct")
    above = indexed(objectnet, "objectnet", out=tmp_path / "above")
    assert labels_of(above) == labels_of(direct)
    assert table_of(above)["name"] == "objectnet"
    tar = pack(objectnet, tmp_path / "all.tar", "objectnet-1.0/")
    assert labels_of(indexed(tar, "objectnet", out=tmp_path / "tar")) == labels_of(direct)
    assert not verify(str(tmp_path / "tar")).faults


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            {"cat": 0, "dog": 1},
            "it has 'cat', but the task names 113 folders, such as 'alarm_clock', 'backpack', 'bana",
        ),
        ({}, "contains no folders with images: give the folder that contains the class folders of the task objectnet"),
    ],
)
def test_data_of_another_task_is_refused(tmp_path: Path, outputs: Mapping[str, int], message: str) -> None:
    (tmp_path / "data").mkdir()
    write_tree(tmp_path / "data", outputs)
    with pytest.raises(UserError, match=message):
        indexed(tmp_path / "data", "objectnet")
    assert not (tmp_path / "data-objectnet-None").exists()
