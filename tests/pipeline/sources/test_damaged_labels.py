"""Label files, class lists and boxes that are damaged: the file, the line, and what belongs there."""

from __future__ import annotations

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
    ("content", "named"),
    [
        (b"", "has no columns ImageId and PredictionString"),
        (b"ImageId\n", "has no columns ImageId and PredictionString"),
        (b"ImageId,ImageId,PredictionString\n", "has no columns ImageId and PredictionString"),
        (HEAD.encode(), "holds no labels"),
        (f"{HEAD}{FIRST}\n".encode(), "line 2, has 1 fields, not 2"),
        (f"{HEAD}{FIRST},a,b\n".encode(), "line 2, has 3 fields, not 2"),
        (f"{HEAD}{FIRST},\n".encode(), "line 2, has no image, or no class for it"),
        (f"{HEAD},n01 1 2 3 4\n".encode(), "line 2, has no image, or no class for it"),
        (f"{HEAD}{FIRST},n01\n{FIRST},n02\n".encode(), f"line 3, has the image '{FIRST}' a second time"),
        (f"{HEAD}{FIRST},../../x\n".encode(), r"line 2, names the class '\.\./\.\./x'"),
        (f"{HEAD}{FIRST},__x__\n".encode(), "'__x__': readers of WebDataset skip"),
        (f"{HEAD}{FIRST},{'x' * 300}\n".encode(), "where one class name belongs"),
        (f"{HEAD}{FIRST},n\x01\n".encode(), r"control character U\+0001"),
        (f"{HEAD}{FIRST},n\0\n".encode(), "holds NUL bytes"),
        (f'{HEAD}{FIRST},"n01\n'.encode(), "line 2, cannot be read"),
        (f"{HEAD}{FIRST},{'n01 ' * 50_000}\n".encode(), "line 2, cannot be read: field larger"),
        (f"{HEAD}{FIRST},n01\n".encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
        (b"\x89PNG\xff\xfe", "is no text in UTF-8"),
        (f"{HEAD}{FIRST},n01\n".encode(), f"{validation_names()[1]}.JPEG has no label in the label file"),
    ],
)
def test_damaged_solutions_are_named(tmp_path: Path, content: bytes, named: str) -> None:
    write(ilsvrc_val(tmp_path) / KAGGLE, content)
    with pytest.raises(UserError, match=named):
        listing("ilsvrc2012-val", tmp_path)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "holds no labels: it is empty"),
        ("\n\n", "holds no labels: it is empty"),
        ("n01\nn02\nn03\nn01\n", r"ILSVRC2012_val_00000005\.JPEG has no label"),
        ("n01\nn02 n03\n", "line 2, has 'n02 n03' where one class name belongs"),
        ("n01\nn0/2\n", "line 2, names the class 'n0/2'"),
    ],
)
def test_damaged_lists_of_classes_are_named(tmp_path: Path, content: str, named: str) -> None:
    tar = ilsvrc_val_tar(tmp_path)
    write(tmp_path / WNIDS, content)
    with pytest.raises(UserError, match=named):
        listing("ilsvrc2012-val-tar", tar)


@pytest.mark.parametrize(
    ("numbers", "classes", "named"),
    [
        ("1\n2\n3\n4\n1\n", "a 1 x\nb 2 y\nc 3 z\n", "line 4, has the class '4'; map_clsloc.txt has 3 classes"),
        ("1\n" * 5, "a 1 x\nb\n", "line 2, is not 'wnid number name'"),
        ("1\n" * 5, "a 1 x\nb 1 y\n", "line 2, is not 'wnid number name', or comes a second time"),
        ("1\n" * 5, "a 1 x\na 2 y\n", "line 2, is not 'wnid number name', or comes a second time"),
        ("1\n" * 5, "", "has the class '1'; map_clsloc.txt has 0 classes"),
        ("1\n" * 3, "a 1 x\n", "has no label"),
    ],
)
def test_damaged_ground_truths_are_named(tmp_path: Path, numbers: str, classes: str, named: str) -> None:
    (ilsvrc_val(tmp_path) / KAGGLE).unlink()
    write(tmp_path / KIT, numbers)
    write(tmp_path / "map_clsloc.txt", classes)
    with pytest.raises(UserError, match=named):
        listing("ilsvrc2012-val", tmp_path)


def test_a_folder_where_the_labels_belong_is_named(tmp_path: Path) -> None:
    (ilsvrc_val(tmp_path) / KAGGLE).unlink()
    (tmp_path / KAGGLE).mkdir()
    with pytest.raises(UserError, match=rf"cannot read .*{KAGGLE}: it is a folder"):
        listing("ilsvrc2012-val", tmp_path)


def test_a_validation_tar_that_is_cut_short_is_named(tmp_path: Path) -> None:
    tar = ilsvrc_val_tar(tmp_path)
    content = tar.read_bytes()
    tar.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="is truncated"):
        listing("ilsvrc2012-val-tar", tar)


def test_hidden_members_of_a_validation_tar_are_passed_over(tmp_path: Path) -> None:
    tar = ilsvrc_val_tar(tmp_path)
    write_tar(tar, {f"{FIRST}.JPEG": png(0), f"._{FIRST}.JPEG": b"mac", f"__MACOSX/._{FIRST}.JPEG": b"mac"})
    source = open_source("auto", str(tar))
    assert len(list(source)) == 1
    assert source.ignored == {".jpeg": 2}


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("val/val_annotations.txt", "", "has no label in the label file"),
        ("val/val_annotations.txt", "val_0.JPEG\n", "line 1, names the class ''"),
        (
            "val/val_annotations.txt",
            "val_0.JPEG\tn01000000\nval_0.JPEG\tn02000000\n",
            "line 2, names no image, or one a",
        ),
        ("val/val_annotations.txt", "val_0\tn01000000\n", "line 1, names no image"),
        ("val/val_annotations.txt", "val_0.JPEG\tn09\n", "has the class 'n09', which is not in wnids.txt"),
        ("wnids.txt", "", "wnids.txt holds no classes"),
        ("wnids.txt", "n01000000\nn01000000\n", "has the class 'n01000000' more than once"),
        ("wnids.txt", "n01000000 extra\n", "where one class name belongs"),
    ],
)
def test_damaged_lists_of_tiny_imagenet_are_named(tmp_path: Path, file: str, content: str, named: str) -> None:
    folder = tiny_imagenet(tmp_path)
    write(folder / file, content)
    with pytest.raises(UserError, match=named):
        listing("tiny-imagenet", folder)


def test_images_below_the_flat_ones_are_refused(tmp_path: Path) -> None:
    """As after a script that moves them into class folders, and was interrupted: they would be left out."""
    folder = ilsvrc_val(tmp_path)
    write(folder / "Annotation" / "a.xml", "x")
    assert len(list(open_source("auto", str(folder)))) == 5
    (folder / "n01000000").mkdir()
    (folder / "ILSVRC2012_val_00000002.JPEG").rename(folder / "n01000000" / "ILSVRC2012_val_00000002.JPEG")
    with pytest.raises(UserError, match=r"images in folders \(n01000000/ILSVRC2012_val_00000002.JPEG, .*move all"):
        list(open_source("auto", str(folder)))


def test_what_is_no_image_of_tiny_imagenet_is_passed_over(tmp_path: Path) -> None:
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
    ("content", "named"),
    [
        (b"", "has no bounding box"),
        (b"<a>" * 100_000, "has no bounding box"),
        (BOX.format("<xmin>1</xmin>").encode(), "has no bounding box with whole numbers"),
        (BOX.format("".join(f"<{s}>1.5</{s}>" for s in ("xmin", "ymin", "xmax", "ymax"))).encode(), "whole numbers"),
        (BOX.format("".join(f"<{s}>{'9' * 5000}</{s}>" for s in ("xmin", "ymin", "xmax", "ymax"))).encode(), "whole"),
        (
            BOX.format("".join(f"<{s}>{10**9}</{s}>" for s in ("xmin", "ymin", "xmax", "ymax"))).encode(),
            "beyond 1048576",
        ),
        ('<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a [<!ENTITY b "b">]><a/>'.encode("utf-16"), "is no UTF-8"),
        (b'<?xml version="1.0" encoding="cp037"?><a/>', "has no bounding box"),
        (b" " * (2**20 + 1), "larger than 1048576 bytes"),
    ],
)
def test_damaged_boxes_are_named(tmp_path: Path, content: bytes, named: str) -> None:
    folder = imagenet_boxes(tmp_path)
    write(tmp_path / "Annotation" / "CLS-LOC" / "val" / f"{FIRST}.xml", content)
    with pytest.raises(UserError, match=named):
        listing("imagenet-boxes", folder)


def test_a_class_without_images_in_the_list_of_boxes_is_named(tmp_path: Path) -> None:
    folder = imagenet_boxes(tmp_path)
    write(tmp_path / "wnids.txt", "n02000000\nn09999999\n")
    with pytest.raises(UserError, match="has the class 'n09999999', of which the label file has no image"):
        listing("imagenet-boxes", folder)


def test_more_labels_than_images_are_no_trouble(tmp_path: Path) -> None:
    folder = ilsvrc_val(tmp_path)
    (folder / f"{FIRST}.JPEG").unlink()
    assert len(listing("ilsvrc2012-val", folder)) == 4
