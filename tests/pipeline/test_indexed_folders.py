"""Folders and tars, indexed: names, links, other files, and labels."""

import errno
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.datasets.export import export
from pipeline.datasets.index.manifest import index
from pipeline.errors import UserError
from pipeline.transforms import imagenet_3dcc_noise, imagenet_w
from tests.factories.data_sets import rows_of
from tests.factories.indexed_sets import (
    found,
    index_of,
    labels_by_pixels,
    pack,
    write_arrays,
    write_folders,
    write_image,
)


@pytest.mark.parametrize("condition", ["spatter/101", "spatter/" + "9" * 200, "spatter_" + "9" * 200])
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


def test_more_conditions_than_a_manifest_holds_are_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_folders(tmp_path / "data", ["cat"], ["fog/1", "fog/2", "frost/1"])
    monkeypatch.setattr("pipeline.datasets.index.manifest.MAX_ROW_GROUPS", 2)
    with pytest.raises(UserError, match="3 combinations of transform and level, more than the 2 of a manifest"):
        index(str(data), str(tmp_path / "index"))
    assert not (tmp_path / "index").exists()


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
    for name in (
        "fog/1/cat/a.jxl",
        "fog/1/cat/notes.txt",
        "fog/1/dog/Thumbs.db",
        ".DS_Store",
        "README",
        "__MACOSX/fog/1/cat/._a.png",
    ):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text("x")
    (data / "fog/1/@eaDir").mkdir()
    facts = found(data, tmp_path / "index")
    assert (facts["samples"], facts["passed_over"]) == (4, 4)
    assert facts["warnings"] == ["1 image skipped in formats that are not read: 1 .jxl; convert them to PNG"]
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


@pytest.mark.parametrize(
    ("family", "transforms", "levels"),
    [
        ("imagenet-3dcc-noise", (*imagenet_3dcc_noise.FAMILY.names, *imagenet_3dcc_noise.OTHERS), range(1, 6)),
        ("imagenet-w", imagenet_w.FAMILY.names, (0,)),
    ],
)
def test_published_folders_are_indexed(
    family: str, transforms: Sequence[str], levels: Sequence[int], tmp_path: Path
) -> None:
    wanted = {(name, level) for name in transforms for level in levels}
    for name, level in wanted:
        folder = tmp_path / "data" / name / (str(level) if level else "") / "n02971356"
        folder.mkdir(parents=True)
        Image.new("RGB", (8, 8), "red").save(folder / "ILSVRC2012_val_00000001.JPEG")
    assert index(str(tmp_path / "data"), str(tmp_path / "index")).family == family
    rows = rows_of(tmp_path / "index")
    assert {(row.transform, row.level) for row in rows} == wanted
    assert {(row.source_id, row.label) for row in rows} == {("n02971356/ILSVRC2012_val_00000001", 478)}
