"""Data sets of other tools: indexed, then verified, previewed and exported."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from manifests import Row, write_part
from pipeline.datasets.export import export
from pipeline.datasets.index import index
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.verify import verify
from pipeline.errors import UserError
from tests.conftest import Run
from tests.factories.exports import exported, rows_of
from tests.factories.indexed_sets import index_of, labels_by_pixels, write_folders, write_image


def indexed(robustshards: Run, data: Path, out: Path, *more: object, code: int = 0) -> dict[str, Any]:
    done = robustshards("index", data, "--out", out, "--json", *more)
    assert done.returncode == code, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def pixels_by_sample(folder: Path) -> dict[tuple[str, int, int, str], bytes]:
    """Return (transform, level, label, last part of the id) -> decoded pixels."""
    data_set = open_data_set(str(folder))
    return {
        (row.transform, row.level, row.label, row.source_id.rpartition("/")[2]): data_set.pick(row).pixels().tobytes()
        for row in data_set.rows()
    }


def pack(folder: Path, tar: Path, prefix: str = "") -> None:
    with tarfile.open(tar, "w") as file:
        for path in sorted(folder.rglob("*"), key=lambda each: each.name):  # unsorted
            if path.is_file():
                file.add(path, f"{prefix}{path.relative_to(folder)}")


@pytest.mark.parametrize("layout", ["imagefolder", "imagefolder-tfds"])
def test_class_folders(built_once: Path, tmp_path: Path, robustshards: Run, layout: str) -> None:
    exported(robustshards, built_once, layout, tmp_path / "theirs")
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
    done = robustshards("index", tmp_path / "theirs", "--out", tmp_path / "other")
    assert done.returncode == 2
    assert "has 6 images, which cannot be divided equally among the severities [1, 2, 3, 4, 5]" in done.stderr


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
    done = robustshards("index", small_source, "--out", tmp_path / "other", "--classes", classes)
    assert done.returncode == 2
    assert "class 'class0' is not one of the 1 given classes" in done.stderr
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
    done = robustshards("index", tmp_path / "theirs", "--out", tmp_path / "index")
    assert done.returncode == 2
    assert "does not match a transform and a level" in done.stderr
    assert "<corruption>/<severity>/<class>/<file>" in done.stderr
    (tmp_path / "empty").mkdir()
    done = robustshards("index", tmp_path / "empty", "--out", tmp_path / "index")
    assert (done.returncode, "contains no images" in done.stderr) == (2, True)


def test_hostile_files_are_refused(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    (tmp_path / "tars").mkdir()
    with tarfile.open(tmp_path / "tars" / "noise.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("../../fog/1/cat/a.jpg"), io.BytesIO())
    done = robustshards("index", tmp_path / "tars", "--out", tmp_path / "index")
    assert (done.returncode, "is refused" in done.stderr) == (2, True)
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "fog.npy", np.array([{"a": 1}] * 5, dtype=object), allow_pickle=True)
    done = robustshards("index", tmp_path / "arrays", "--out", tmp_path / "index")
    assert (done.returncode, "cannot read the array" in done.stderr) == (2, True)
    done = robustshards("index", tmp_path / "arrays", "--out", built_once)
    assert done.returncode == 2


def test_commands_that_need_a_recipe_refuse_an_index(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    exported(robustshards, built_once, "imagefolder", tmp_path / "theirs")
    done = robustshards("index", tmp_path / "theirs", "--out", built_once)
    assert (done.returncode, "that robustshards built: choose another folder" in done.stderr) == (2, True)
    indexed(robustshards, tmp_path / "theirs", tmp_path / "index")
    done = robustshards("verify", tmp_path / "index", "--deep", "--source", tmp_path)
    assert (done.returncode, "which has no recipe" in done.stderr) == (2, True)


def found(data: Path, out: Path, **options: Any) -> dict[str, Any]:
    return index(str(data), str(out), **options).facts()


def write_arrays(folder: Path, labels: Any = None, **arrays: np.ndarray) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    if labels is not None:
        np.save(folder / "labels.npy", labels)
    return folder


FIVE = np.zeros((5, 4, 4, 3), np.uint8)


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (np.array([0.0]), r"float64 .*use integers"),
        (np.array([np.nan]), "use integers"),
        (np.array(["cat"]), "use integers"),
        (np.array([True]), "bool"),
        (np.array([[0]]), r"int64 of shape \(1, 1\): use integers"),
        (np.array(0), r"\(\): use integers"),
        (np.array([0, 1, 2]), "3 labels, but fog.npy has 5 images"),
        (np.array([], np.int64), "0 labels"),
        (np.array([-2]), "label -2: use 0 to 1000000"),
        (np.array([2**63], np.uint64), "label 9223372036854775808"),
        (np.array([10**7]), "label 10000000"),
    ],
)
def test_invalid_labels_of_arrays_are_refused(tmp_path: Path, labels: np.ndarray, named: str) -> None:
    data = write_arrays(tmp_path / "data", labels, fog=FIVE)
    with pytest.raises(UserError, match=named) as told:
        found(data, tmp_path / "index")
    assert "labels.npy" in str(told.value)


def npy(header: bytes, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    length = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + header + data


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "cannot read the array"),
        (b"\x93NUMPY", "cannot read the array"),
        (b"PK\x03\x04" + bytes(100), "cannot read the array"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (10000000000, 32, 32, 3), }\n"), "truncated"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (-5, 2, 2, 3), }\n", bytes(60)), "-5"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 2, 2, True), }\n", bytes(60)), "True"),
        (npy(b"{'descr': '|u1', 'fortran_order': True, 'shape': (5, 2, 2, 3), }\n", bytes(60)), "Fortran order"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 2, 2, 3), }\n", bytes(59)), "truncated"),
        (
            npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 2, 2, 3), }\n", bytes(61)),
            "truncated or damaged",
        ),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 0, 2, 3), }\n"), "at least 1 pixel"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (0, 2, 2, 3), }\n"), "at least 1 pixel"),
        (npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (5, 2, 2, 3), }\n", bytes(480)), "objects"),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2, 2, 3), }\n", bytes(240)), "float32 .*uint8"),
        (
            npy(b"{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (5, 2, 2, 3), }\n", bytes(60)),
            "cannot read",
        ),
        (npy(b"(" * 400 + b")" * 400), "cannot read the array"),
        (npy(b"[" * 60000), "cannot read the array"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': " + b"-" * 900 + b"1}\n"), "cannot read the array"),
        (npy(b"\xff" * 64), "cannot read the array"),
        (npy(b"{}", version=b"\x03\x00"), r"version \(3, 0\)"),
        (npy(b"{}", version=b"\x09\x09"), "cannot read the array"),
    ],
)
def test_invalid_arrays_are_refused(tmp_path: Path, content: bytes, named: str) -> None:
    data = write_arrays(tmp_path / "data")
    (data / "fog.npy").write_bytes(content)
    with pytest.raises(UserError, match=named) as told:
        found(data, tmp_path / "index")
    assert "fog.npy" in str(told.value)
    assert not (tmp_path / "index").exists()


def test_arrays_of_version_2_are_read(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "data", np.arange(5).astype(">i4"))
    with open(data / "fog.npy", "wb") as file:
        np.lib.format.write_array(file, FIVE, version=(2, 0))
    assert found(data, tmp_path / "index")["samples"] == 5
    assert [row.label for row in rows_of(tmp_path / "index")] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("levels", [(), (1, 1), (-1,), (101,), (1, 10**30)])
def test_invalid_levels_are_refused(tmp_path: Path, levels: tuple[int, ...]) -> None:
    data = write_arrays(tmp_path / "data", fog=FIVE)
    with pytest.raises(UserError, match=r"invalid severities \[.*: give each once, from 0 to 100"):
        found(data, tmp_path / "index", levels=levels)


def test_labels_beyond_the_list_of_classes_are_refused(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "data", np.array([7]), fog=FIVE)
    with pytest.raises(UserError, match="the label 7, but --classes has 2 names"):
        found(data, tmp_path / "index", classes=["a", "b"])
    with pytest.raises(UserError, match="lists 'a' 2 times"):
        found(data, tmp_path / "index", classes=["a", "b", "a"])


@pytest.mark.parametrize("condition", ["fog/101", "fog/" + "9" * 200, "fog_" + "9" * 200])
def test_levels_in_names_have_a_maximum(tmp_path: Path, condition: str) -> None:
    with pytest.raises(UserError, match=r"has the invalid level '\d+': 0 to 100 are allowed"):
        found(write_folders(tmp_path / "data", ["cat"], [condition]), tmp_path / "index")


@pytest.mark.parametrize("condition", ["fog/\u00b2", "fog/x", "fog"])
def test_names_with_invalid_levels_are_refused(tmp_path: Path, condition: str) -> None:
    with pytest.raises(UserError, match="does not match a transform"):
        found(write_folders(tmp_path / "data", ["cat"], [condition]), tmp_path / "index")


def test_links_to_outside_of_the_data_are_refused(tmp_path: Path) -> None:
    data, secret = write_folders(tmp_path / "data", ["cat"], ["fog/1"]), write_image(tmp_path / "secret" / "x.png")
    (data / "fog/1/cat/link.png").symlink_to(secret)
    with pytest.raises(UserError, match="is outside of"):
        found(data, tmp_path / "index")
    (data / "fog/1/cat/link.png").unlink()
    (data / "fog/1/dog").symlink_to(secret.parent)
    with pytest.raises(UserError, match="is outside of"):
        found(data, tmp_path / "index")
    (data / "fog/1/dog").unlink()
    (data / "fog/1/dog").symlink_to(data / "fog/1/cat")
    with pytest.raises(UserError, match="are the same folder; remove the link"):
        found(data, tmp_path / "index")


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    data = write_folders(tmp_path / "data", ["cat"], ["fog/1"])
    os.mkfifo(data / "fog/1/cat/pipe.png")
    with pytest.raises(UserError, match=r"pipe\.png is a pipe"):
        found(data, tmp_path / "index")
    arrays = write_arrays(tmp_path / "arrays")
    os.mkfifo(arrays / "fog.npy")
    with pytest.raises(UserError, match=r"fog\.npy is a pipe"):
        found(arrays, tmp_path / "index")
    with pytest.raises(UserError, match=r"null is a device"):
        found(Path("/dev/null"), tmp_path / "index")


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_folders(tmp_path / "data", ["cat", "dog"], ["fog/1"])
    scandir = os.scandir

    def refusing(place: Any) -> Any:
        if str(place).endswith("dog"):
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(UserError, match=r"cannot list the folder .*dog: Permission denied"):
        found(data, tmp_path / "index")


def test_other_files_are_counted_or_refused(tmp_path: Path) -> None:
    data = write_folders(tmp_path / "data", ["cat", "dog"], ["fog/1"])
    for name in ("fog/1/cat/notes.txt", "fog/1/dog/Thumbs.db", ".DS_Store", "README", "__MACOSX/fog/1/cat/._a.png"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text("x")
    (data / "fog/1/@eaDir").mkdir()
    facts = found(data, tmp_path / "index")
    assert (facts["samples"], facts["passed_over"]) == (4, 3)
    assert [row.label for row in rows_of(tmp_path / "index")] == [0, 0, 1, 1]
    (data / "scripts").mkdir()
    with pytest.raises(UserError, match=r"scripts is empty, .* none-0: remove it"):
        found(data, tmp_path / "index")
    (data / "scripts" / "run.sh").write_text("x")
    with pytest.raises(UserError, match=r"scripts contains files but no images, and would count as a class"):
        found(data, tmp_path / "index")
    shutil.rmtree(data / "scripts")
    write_image(data / "fog/1/cat/new.bmp")
    with pytest.raises(UserError, match=r"new\.bmp is an image in an unsupported format: convert it to one of \.jpg, "):
        found(data, tmp_path / "index")


@pytest.mark.parametrize("beside", ["noise.tar", "fog.npy"])
def test_mixed_layouts_are_refused(tmp_path: Path, beside: str) -> None:
    data = write_folders(tmp_path / "data", ["cat"], ["fog/1"])
    (data / beside).write_bytes(b"")
    with pytest.raises(UserError, match=r"and 'fog': index tars, arrays and folders separately"):
        found(data, tmp_path / "index")


def test_members_of_tars_outside_class_folders_are_refused(tmp_path: Path) -> None:
    write_image(tmp_path / "data" / "x.png")
    pack(tmp_path / "data", tmp_path / "x.tar")
    with pytest.raises(UserError, match=r"x\.png is not in a class folder"):
        found(tmp_path / "x.tar", tmp_path / "index")


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


def test_damaged_sequences_do_not_change_the_family(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "data" / "rotate" / "cat")
    np.save(data / "a.npy", np.zeros((3, 4, 4, 3), np.uint8))
    (data / "b.npy").write_bytes(b"damaged")
    facts = found(tmp_path / "data", tmp_path / "index")
    assert (facts["family"], facts["samples"], facts["failed"]) == ("perturbations", 2, 1)


def test_empty_classes_of_tars_get_labels(tmp_path: Path) -> None:
    data = write_folders(tmp_path / "data", ["bee", "dog"])
    for condition in ("fog/1", "fog/2"):
        (data / condition / "cat").mkdir()
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        tar.add(data, ".")
    found(tmp_path / "all.tar", tmp_path / "index")
    found(data, tmp_path / "folders")
    labels = {(row.class_name, row.label) for row in rows_of(tmp_path / "index")}
    assert labels == {(row.class_name, row.label) for row in rows_of(tmp_path / "folders")} == {("bee", 0), ("dog", 2)}
    (data / "fog/1/cat/notes.txt").write_text("x")
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        tar.add(data, ".")
    with pytest.raises(UserError, match="fog/1/cat contains files but no images, and would count as a class"):
        found(tmp_path / "all.tar", tmp_path / "index")


def test_changed_labels_of_an_index_are_refused(tmp_path: Path) -> None:
    """Only the manifest has the labels of indexed files."""
    data = index_of(write_folders(tmp_path / "data", ["cat", "dog"]))
    rows = rows_of(data)
    write_part([row._replace(label=1 - row.label) for row in rows], {}, data / "manifest.parquet")
    for read in (verify, lambda folder: export(folder, "imagefolder", str(tmp_path / "out"))):
        with pytest.raises(UserError, match=r"manifest\.parquet was changed: its sha256 differs.*run index again"):
            read(str(data))


def test_exports_of_unlabelled_images_stay_unlabelled(tmp_path: Path) -> None:
    np.save(tmp_path / "fog.npy", np.zeros((4, 8, 8, 3), np.uint8))
    index(str(tmp_path), str(tmp_path), levels=(1, 2))
    done = export(str(tmp_path), "imagefolder", str(tmp_path.with_name("out")))
    assert done.warnings == ["unlabelled images are in the folder 'unlabelled', which readers count as a class"]
    assert {(row.label, row.class_name) for row in rows_of(index_of(tmp_path.with_name("out")))} == {(-1, "")}


def test_exports_of_frames_are_refused(tmp_path: Path) -> None:
    """A class named 1 would be read as a severity, and each frame as an image."""
    write_folders(tmp_path / "data", ["00012", "00013"], ["tilt/1"])
    assert len(rows_of(index_of(tmp_path / "data"))) == 4
    (tmp_path / "data" / "export.toml").write_text('layout = "frames"\nstate = "finished"\n')
    with pytest.raises(UserError, match=r"export of frames.*export as mp4 or cifar-npy"):
        index_of(tmp_path / "data")


@pytest.mark.parametrize(("condition", "listed"), [("fog/1", "cat/image0.png 2\n"), ("none", "image0.png 3\n")])
def test_label_files_must_match_the_folders(tmp_path: Path, condition: str, listed: str) -> None:
    """ImageNet-S has such lists. Labels from folders would be wrong if a class has no images."""
    data = tmp_path / "data"
    if condition == "none":
        write_image(data / "none" / "image0.png")
    else:
        write_folders(data, ["ant", "cat"], [condition])
    (data / f"{condition}.txt").write_text(listed)
    with pytest.raises(UserError, match=rf"image0.png has label [01] from its folder, but {listed[-2]} in the list"):
        index_of(data)
    if condition != "none":
        assert set(labels_by_pixels(index_of(data, ["ant", "bee", "cat"])).values()) == {0, 2}


@pytest.mark.parametrize("label", ["1", "7"])
def test_label_members_must_match_the_folders(tmp_path: Path, label: str) -> None:
    write_folders(tmp_path / "data", ["cat", "dog"], ["fog/1"])
    (tmp_path / "data" / "fog" / "1" / "dog" / "image1.cls").write_text(label)
    (tmp_path / "tars").mkdir()
    pack(tmp_path / "data", tmp_path / "tars" / "fog.tar")
    if label == "1":
        assert len(rows_of(index_of(tmp_path / "tars"))) == 4
        return
    with pytest.raises(UserError, match=r"has label 1 from its folder, but '7' in its \.cls .*--classes"):
        index_of(tmp_path / "tars")
