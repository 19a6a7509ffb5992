"""Data sets of other tools: indexed, then verified, previewed and exported. Also the files of an index."""

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from manifests import Row, write_part
from pipeline.datasets.export import export
from pipeline.datasets.index.manifest import index
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.verify import verify
from pipeline.errors import UserError
from tests.conftest import Run
from tests.factories.data_sets import exported, rows_of
from tests.factories.indexed_sets import found, index_of, pack, pixels_by_sample, write_folders


def indexed(robustshards: Run, data: Path, out: Path, *more: object, code: int = 0) -> dict[str, Any]:
    done = robustshards("index", data, "--out", out, "--json", *more)
    assert done.returncode == code, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


@pytest.mark.parametrize("layout", ["imagefolder", "imagefolder-tfds"])
def test_class_folders(built_once: Path, tmp_path: Path, robustshards: Run, layout: str) -> None:
    (tmp_path / "classes.txt").write_text("class0\nclass1\nempty\n")
    exported(robustshards, built_once, layout, tmp_path / "theirs", "--classes", tmp_path / "classes.txt")
    assert (tmp_path / "theirs" / "classes.txt").read_text().split() == ["class0", "class1", "empty"]
    facts = indexed(robustshards, tmp_path / "theirs", tmp_path / "index")
    assert facts["samples"] == 24
    assert facts["steps"] == ["gaussian_noise-1", "gaussian_noise-3", "contrast-1", "contrast-3"]
    assert (facts["layout"], facts["family"], facts["failed"]) == ("folders", "corruptions", 0)
    assert pixels_by_sample(tmp_path / "index") == pixels_by_sample(built_once)
    ours = {row.key: (row.label, row.class_name, row.payload_sha256, row.pixel_sha256) for row in rows_of(built_once)}
    theirs = rows_of(tmp_path / "index")
    assert ours == {row.key: (row.label, row.class_name, row.payload_sha256, row.pixel_sha256) for row in theirs}
    assert {row.encoder for row in theirs} == {"jpeg"}
    assert not verify(str(tmp_path / "index")).faults


def test_several_tars_in_one_folder(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    """ImageNet-C is distributed as one tar per group of corruptions."""
    exported(robustshards, built_once, "imagefolder", tmp_path / "folders")
    (tmp_path / "theirs").mkdir()
    pack(tmp_path / "folders" / "gaussian_noise", tmp_path / "theirs" / "noise.tar", "./gaussian_noise/")
    pack(tmp_path / "folders" / "contrast", tmp_path / "theirs" / "digital.tar", "contrast/")
    facts = indexed(robustshards, tmp_path / "theirs", tmp_path / "index")
    assert (facts["layout"], facts["samples"]) == ("tars", 24)
    assert pixels_by_sample(tmp_path / "index") == pixels_by_sample(built_once)
    done = robustshards("verify", tmp_path / "index")
    assert (done.returncode, "no faults" in done.stdout) == (0, True)
    one = indexed(robustshards, tmp_path / "theirs" / "noise.tar", tmp_path / "one")
    assert one["steps"] == ["gaussian_noise-1", "gaussian_noise-3"]


def test_cifar_arrays(cifar_c: Path, tmp_path: Path, robustshards: Run) -> None:
    exported(robustshards, cifar_c, "cifar-npy", tmp_path / "theirs")
    assert np.load(tmp_path / "theirs" / "labels.npy").dtype == np.uint8
    facts = indexed(robustshards, tmp_path / "theirs", tmp_path / "index", "--name", "cifar-10-c")
    assert (facts["layout"], facts["name"], facts["samples"]) == ("arrays", "cifar-10-c", 50)
    ours, theirs = rows_of(cifar_c), rows_of(tmp_path / "index")

    def content(rows: list[Row]) -> list[object]:
        return [(row.transform, row.level, row.label, row.pixel_sha256, row.height, row.profile) for row in rows]

    assert content(theirs) == content(ours)
    assert not verify(str(tmp_path / "index")).faults
    # export through the index
    exported(robustshards, tmp_path / "index", "cifar-npy", tmp_path / "again")
    for name in ("fog.npy", "contrast.npy", "labels.npy"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


def test_levels_of_arrays_can_be_given(tmp_path: Path, robustshards: Run) -> None:
    array = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3)).astype(np.uint8)
    (tmp_path / "theirs").mkdir()
    np.save(tmp_path / "theirs" / "fog.npy", array)
    np.save(tmp_path / "theirs" / "labels.npy", np.arange(3))
    classes = tmp_path / "classes.txt"
    classes.write_text("cat\ndog\nemu\n")
    more = ("--severities", "2,4", "--classes", classes)
    facts = indexed(robustshards, tmp_path / "theirs", tmp_path / "index", *more)
    assert facts["steps"] == ["fog-2", "fog-4"]
    rows = rows_of(tmp_path / "index")
    assert [(row.level, row.label, row.class_name) for row in rows][2:5] == [
        (2, 2, "emu"),
        (4, 0, "cat"),
        (4, 1, "dog"),
    ]
    data_set = open_data_set(str(tmp_path / "index"))
    np.testing.assert_array_equal([data_set.pick(row).pixels() for row in rows], array)
    command = ("index", tmp_path / "theirs", "--out", tmp_path / "other")
    message = "has 6 images, which cannot be divided equally among the severities [1, 2, 3, 4, 5]"
    assert message in robustshards.refuse(*command)
    assert "use 1 to 200 characters" in robustshards.refuse(*command, "--name", "n" * 201)


def test_sequences_as_mp4_and_as_arrays(sequences: Path, tmp_path: Path, robustshards: Run) -> None:
    exported(robustshards, sequences, "mp4", tmp_path / "mp4")
    facts = indexed(robustshards, tmp_path / "mp4", tmp_path / "mp4-index")
    conditions = ["gaussian_noise-1", "gaussian_noise-2", "rotate-1"]
    assert (facts["family"], facts["steps"]) == ("perturbations", conditions)
    assert {row.frames for row in rows_of(tmp_path / "mp4-index")} == {31}
    exported(robustshards, sequences, "cifar-npy", tmp_path / "npy")
    facts = indexed(robustshards, tmp_path / "npy", tmp_path / "npy-index")
    assert (facts["family"], facts["steps"]) == ("perturbations", conditions)
    assert [row.pixel_sha256 for row in rows_of(tmp_path / "npy-index")] == [
        row.pixel_sha256 for row in rows_of(sequences)
    ]
    assert not verify(str(tmp_path / "mp4-index")).faults
    assert not verify(str(tmp_path / "npy-index")).faults


def test_clean_images_with_a_subset_of_the_classes(small_source: Path, tmp_path: Path, robustshards: Run) -> None:
    """ImageNet-A has 200 of 1,000 classes: labels are indices in the given list."""
    classes = tmp_path / "classes.txt"
    classes.write_text("aardvark\nclass0\nbadger\nclass1\n")
    facts = indexed(robustshards, small_source, tmp_path / "index", "--classes", classes)
    assert (facts["family"], facts["steps"]) == ("none", ["none-0"])
    assert {(row.class_name, row.label) for row in rows_of(tmp_path / "index")} == {("class0", 1), ("class1", 3)}
    classes.write_text("class1\n")
    assert "class 'class0' is not one of the 1 given classes" in robustshards.refuse(
        "index", small_source, "--out", tmp_path / "other", "--classes", classes
    )
    assert not (tmp_path / "other" / "manifest.parquet").exists()


def test_damaged_samples_are_recorded_and_later_damage_is_found(
    built_once: Path, tmp_path: Path, robustshards: Run
) -> None:
    exported(robustshards, built_once, "imagefolder", tmp_path / "theirs")
    first, second, third, *_ = sorted((tmp_path / "theirs" / "contrast" / "1" / "class0").iterdir())
    first.write_bytes(first.read_bytes()[:200])
    facts = indexed(robustshards, tmp_path / "theirs", tmp_path / "index", code=1)
    assert facts["failed"] == 1
    (failed,) = (row for row in rows_of(tmp_path / "index") if row.status == "failed")
    assert failed.error is not None
    assert failed.error.startswith(f"contrast/1/class0/{first.name}: ")
    assert not verify(str(tmp_path / "index")).faults
    content = bytearray(second.read_bytes())
    content[300] ^= 1
    second.write_bytes(content)
    third.unlink()
    found = sorted(str(fault) for fault in verify(str(tmp_path / "index")).faults)
    key = f"class0/{second.stem}-contrast-1"
    assert f"{key}: has a payload that was changed: its sha256 differs from the manifest" in found
    assert f"contrast/1/class0/{third.name}: is missing" in found


def test_folders_without_a_transform_are_refused(tmp_path: Path, robustshards: Run) -> None:
    (tmp_path / "theirs" / "val" / "cat").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "theirs" / "val" / "cat" / "a.png")
    message = robustshards.refuse("index", tmp_path / "theirs", "--out", tmp_path / "index")
    assert "does not match a transform and a level" in message
    assert "<corruption>/<severity>/<class>/<file>" in message
    (tmp_path / "empty").mkdir()
    assert "contains no images" in robustshards.refuse("index", tmp_path / "empty", "--out", tmp_path / "index")


def test_commands_that_need_a_recipe_refuse_an_index(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    exported(robustshards, built_once, "imagefolder", tmp_path / "theirs")
    assert "that robustshards built: choose another folder" in robustshards.refuse(
        "index", tmp_path / "theirs", "--out", built_once
    )
    assert "needs no index: it has a recipe.toml" in robustshards.refuse(
        "index", built_once, "--out", tmp_path / "index"
    )
    indexed(robustshards, tmp_path / "theirs", tmp_path / "index")
    assert "which has no recipe" in robustshards.refuse("verify", tmp_path / "index", "--deep", "--source", tmp_path)


def test_the_index_records_the_location_of_the_data(tmp_path: Path) -> None:
    data = write_folders(tmp_path / "set" / "data", ["cat"], ["fog/1"])
    for out, location in ((data, "."), (data.parent, "data"), (tmp_path / "else", str(data))):
        found(data, out)
        assert tomllib.loads((out / "index.toml").read_text())["location"] == location
        assert len(pixels_by_sample(out)) == 2
    assert found(data, data)["samples"] == 2  # the files of the index are not indexed
    shutil.copytree(tmp_path / "set", tmp_path / "moved")
    shutil.rmtree(tmp_path / "set")
    assert len(pixels_by_sample(tmp_path / "moved")) == 2
    for out in (tmp_path / "moved/data/index", tmp_path / "moved/data/fog/1/new"):
        with pytest.raises(UserError, match=r"is inside the data .*choose a folder outside"):
            found(tmp_path / "moved/data", out)


def test_other_manifests_are_not_overwritten(tmp_path: Path) -> None:
    data = write_folders(tmp_path / "data", ["cat"], ["fog/1"])
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "manifest.parquet").write_text("mine")
    with pytest.raises(UserError, match=r"contains a manifest\.parquet without an index\.toml"):
        found(data, tmp_path / "index")
    assert (tmp_path / "index" / "manifest.parquet").read_text() == "mine"
    with pytest.raises(UserError, match="a path is empty"):
        index(str(data), "")
    with pytest.raises(UserError, match="a path is empty"):
        index("", str(tmp_path / "index"))


def test_a_failed_index_keeps_the_previous_one(tmp_path: Path) -> None:
    data = write_folders(tmp_path / "data", ["cat"], ["fog/1"])
    found(data, tmp_path / "index")
    before = (tmp_path / "index" / "manifest.parquet").read_bytes()
    write_folders(tmp_path / "data", ["cat"], ["none"])
    with pytest.raises(UserError, match="corruptions, none: index each separately"):
        found(data, tmp_path / "index")
    assert (tmp_path / "index" / "manifest.parquet").read_bytes() == before


def test_changed_labels_of_an_index_are_refused(tmp_path: Path) -> None:
    """Only the manifest has the labels of indexed files."""
    data = index_of(write_folders(tmp_path / "data", ["cat", "dog"]))
    rows = rows_of(data)
    write_part([row._replace(label=1 - row.label) for row in rows], {}, data / "manifest.parquet")
    for read in (verify, lambda folder: export(folder, "imagefolder", str(tmp_path / "out"))):
        with pytest.raises(UserError, match=r"manifest\.parquet was changed: its sha256 differs.*run index again"):
            read(str(data))
