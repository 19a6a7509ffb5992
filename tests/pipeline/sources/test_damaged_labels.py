"""Errors for damaged label files, class lists and boxes name the file, the line and the expected content."""

from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.sources.kinds import open_source
from tests.factories.layouts import (
    ilsvrc_val,
    ilsvrc_val_tar,
    imagenet_boxes,
    png,
    tiny_imagenet,
    validation_names,
    write,
    write_tar,
)

KAGGLE = "LOC_val_solution.csv"
WNIDS = "imagenet_2012_validation_synset_labels.txt"
KIT = "ILSVRC2012_validation_ground_truth.txt"
FIRST = validation_names()[0]
HEAD = "ImageId,PredictionString\n"


def listing(kind: str, location: Path) -> list[str]:
    return [image.id for image in open_source(kind, str(location))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must have the columns ImageId and PredictionString"),
        (b"ImageId\n", "must have the columns ImageId and PredictionString"),
        (b"ImageId,ImageId,PredictionString\n", "must have the columns ImageId and PredictionString"),
        (HEAD.encode(), "contains no labels"),
        (f"{HEAD}{FIRST}\n".encode(), "line 2, has 1 fields; expected 2"),
        (f"{HEAD}{FIRST},a,b\n".encode(), "line 2, has 3 fields; expected 2"),
        (f"{HEAD}{FIRST},\n".encode(), "line 2, has no image name or no class"),
        (f"{HEAD},n01 1 2 3 4\n".encode(), "line 2, has no image name or no class"),
        (f"{HEAD}{FIRST},n01\n{FIRST},n02\n".encode(), f"line 3, repeats the image '{FIRST}'"),
        (f"{HEAD}{FIRST},../../x\n".encode(), r"line 2, has the invalid class name '\.\./\.\./x'"),
        (f"{HEAD}{FIRST},__x__\n".encode(), "'__x__': WebDataset skips .*rename"),
        (f"{HEAD}{FIRST},{'x' * 300}\n".encode(), "invalid class name 'xxx.*at most 200 characters"),
        (f"{HEAD}{FIRST},n\x01\n".encode(), r"control character U\+0001"),
        (f"{HEAD}{FIRST},n\0\n".encode(), "contains NUL bytes"),
        (f'{HEAD}{FIRST},"n01\n'.encode(), "line 2, cannot be read"),
        (f"{HEAD}{FIRST},{'n01 ' * 50_000}\n".encode(), "line 2, cannot be read: field larger"),
        (f"{HEAD}{FIRST},n01\n".encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
        (b"\x89PNG\xff\xfe", "is not UTF-8 text"),
        (f"{HEAD}{FIRST},n01\n".encode(), f"{validation_names()[1]}.JPEG has no label in the label file"),
    ],
)
def test_damaged_kaggle_solution_names_the_line(tmp_path: Path, content: bytes, message: str) -> None:
    write(ilsvrc_val(tmp_path) / KAGGLE, content)
    with pytest.raises(UserError, match=message):
        listing("ilsvrc2012-val", tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "contains no labels: it is empty"),
        ("\n\n", "contains no labels: it is empty"),
        ("n01\nn02\nn03\nn01\n", r"ILSVRC2012_val_00000005\.JPEG has no label"),
        ("n01\nn02 n03\n", "line 2, has the invalid class name 'n02 n03'"),
        ("n01\nn0/2\n", "line 2, has the invalid class name 'n0/2'"),
    ],
)
def test_damaged_wnid_list_names_the_line(tmp_path: Path, content: str, message: str) -> None:
    tar = ilsvrc_val_tar(tmp_path)
    write(tmp_path / WNIDS, content)
    with pytest.raises(UserError, match=message):
        listing("ilsvrc2012-val-tar", tar)


@pytest.mark.parametrize(
    ("numbers", "classes", "message"),
    [
        ("1\n2\n3\n4\n1\n", "a 1 x\nb 2 y\nc 3 z\n", "line 4, .*class number '4': map_clsloc.txt defines 3 classes"),
        ("1\n" * 5, "a 1 x\nb\n", "line 2, is invalid .*'b'; expected 'wnid number name'"),
        ("1\n" * 5, "a 1 x\nb 1 y\n", "line 2, is invalid or repeated: 'b 1 y'"),
        ("1\n" * 5, "a 1 x\na 2 y\n", "line 2, is invalid or repeated: 'a 2 y'"),
        ("1\n" * 5, "", "class number '1': map_clsloc.txt defines 0 classes"),
        ("1\n" * 3, "a 1 x\n", "has no label"),
    ],
)
def test_damaged_ground_truth_names_the_line(tmp_path: Path, numbers: str, classes: str, message: str) -> None:
    (ilsvrc_val(tmp_path) / KAGGLE).unlink()
    write(tmp_path / KIT, numbers)
    write(tmp_path / "map_clsloc.txt", classes)
    with pytest.raises(UserError, match=message):
        listing("ilsvrc2012-val", tmp_path)


def test_a_folder_in_place_of_the_label_file_raises(tmp_path: Path) -> None:
    (ilsvrc_val(tmp_path) / KAGGLE).unlink()
    (tmp_path / KAGGLE).mkdir()
    with pytest.raises(UserError, match=rf"cannot read .*{KAGGLE}: .*a folder"):
        listing("ilsvrc2012-val", tmp_path)


def test_a_truncated_validation_tar_raises(tmp_path: Path) -> None:
    tar = ilsvrc_val_tar(tmp_path)
    content = tar.read_bytes()
    tar.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="is truncated"):
        listing("ilsvrc2012-val-tar", tar)


def test_hidden_members_of_a_validation_tar_are_skipped(tmp_path: Path) -> None:
    tar = ilsvrc_val_tar(tmp_path)
    write_tar(tar, {f"{FIRST}.JPEG": png(0), f"._{FIRST}.JPEG": b"mac", f"__MACOSX/._{FIRST}.JPEG": b"mac"})
    source = open_source("auto", str(tar))
    assert len(list(source)) == 1
    assert source.ignored == {".jpeg": 2}


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("val/val_annotations.txt", "", "has no label in the label file"),
        ("val/val_annotations.txt", "val_0.JPEG\n", "line 1, has the invalid class name ''"),
        (
            "val/val_annotations.txt",
            "val_0.JPEG\tn01000000\nval_0.JPEG\tn02000000\n",
            "line 2, has a missing or repeated image name: 'val_0.JPEG",
        ),
        ("val/val_annotations.txt", "val_0\tn01000000\n", "line 1, has a missing or repeated image name"),
        ("val/val_annotations.txt", "val_0.JPEG\tn09\n", "has the class 'n09', but wnids.txt does not list it"),
        ("wnids.txt", "", "wnids.txt contains no classes"),
        ("wnids.txt", "n01000000\nn01000000\n", "repeats the class 'n01000000'"),
        ("wnids.txt", "n01000000 extra\n", "invalid class name 'n01000000 extra'"),
    ],
)
def test_damaged_lists_of_tiny_imagenet_name_the_line(tmp_path: Path, file: str, content: str, message: str) -> None:
    folder = tiny_imagenet(tmp_path)
    write(folder / file, content)
    with pytest.raises(UserError, match=message):
        listing("tiny-imagenet", folder)


def test_images_in_subfolders_of_a_flat_folder_raise(tmp_path: Path) -> None:
    """A script that moves images into class folders leaves such a mixture if it is interrupted."""
    folder = ilsvrc_val(tmp_path)
    write(folder / "Annotation" / "a.xml", "x")
    assert len(list(open_source("auto", str(folder)))) == 5
    (folder / "n01000000").mkdir()
    (folder / "ILSVRC2012_val_00000002.JPEG").rename(folder / "n01000000" / "ILSVRC2012_val_00000002.JPEG")
    with pytest.raises(UserError, match=r"in subfolders \(n01000000/ILSVRC2012_val_00000002.JPEG, .*move all"):
        list(open_source("auto", str(folder)))


def test_other_files_of_tiny_imagenet_are_skipped(tmp_path: Path) -> None:
    folder = tiny_imagenet(tmp_path)
    write(folder / "val/images/Thumbs.db", b"x")
    (folder / "val/images/@eaDir").mkdir()
    source = open_source("auto", str(folder))
    assert len(list(source)) == 5
    assert source.ignored == {".db": 1, "@eaDir/": 1}
    write(folder / "val/images/val_0.png", png(0))
    with pytest.raises(UserError, match="same id 'val_0'"):
        list(source)


BOX = "<annotation><object><bndbox>{}</bndbox></object></annotation>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no bounding box"),
        (b"<a>" * 100_000, "has no bounding box"),
        (BOX.format("<xmin>1</xmin>").encode(), "has no bounding box with integer coordinates"),
        (BOX.format("".join(f"<{s}>1.5</{s}>" for s in ("xmin", "ymin", "xmax", "ymax"))).encode(), "integer"),
        (BOX.format("".join(f"<{s}>{'9' * 5000}</{s}>" for s in ("xmin", "ymin", "xmax", "ymax"))).encode(), "integer"),
        (
            BOX.format("".join(f"<{s}>{10**9}</{s}>" for s in ("xmin", "ymin", "xmax", "ymax"))).encode(),
            "beyond 1048576",
        ),
        ('<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a [<!ENTITY b "b">]><a/>'.encode("utf-16"), "is not UTF-8"),
        (b'<?xml version="1.0" encoding="cp037"?><a/>', "has no bounding box"),
        (b" " * (2**20 + 1), "larger than 1048576 bytes"),
    ],
)
def test_damaged_boxes_raise(tmp_path: Path, content: bytes, message: str) -> None:
    folder = imagenet_boxes(tmp_path)
    write(tmp_path / "Annotation" / "CLS-LOC" / "val" / f"{FIRST}.xml", content)
    with pytest.raises(UserError, match=message):
        listing("imagenet-boxes", folder)


def test_a_listed_class_without_images_raises(tmp_path: Path) -> None:
    folder = imagenet_boxes(tmp_path)
    write(tmp_path / "wnids.txt", "n02000000\nn09999999\n")
    with pytest.raises(UserError, match="has the class 'n09999999', but the label file has no image"):
        listing("imagenet-boxes", folder)


def test_labels_without_images_are_ignored(tmp_path: Path) -> None:
    folder = ilsvrc_val(tmp_path)
    (folder / f"{FIRST}.JPEG").unlink()
    assert len(listing("ilsvrc2012-val", folder)) == 4
