"""Labels of sources: numbers, WordNet ids, other names, lists of classes, and what the labels count."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import strategies as st

from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED, Source
from pipeline.sources.kinds import open_source
from pipeline.tasks.labels import LabelSpace, Numbering
from pipeline.tasks.lists import IMAGENET
from tests.factories import layouts
from tests.factories.image_folders import make

SOME_WNIDS = (IMAGENET[999], IMAGENET[7], IMAGENET[388])
"""Three classes of ImageNet, not sorted."""

WNIDS_OF_TESTS = sorted(layouts.WNIDS)
"""Names like WordNet ids that are no classes of ImageNet."""

names = st.one_of(
    st.integers(0, 10**6).map(str),
    st.integers(0, 99).map("{:04d}".format),
    st.sampled_from(IMAGENET),
    st.text("abcxyz_-0123456789", min_size=1, max_size=6).filter(lambda name: not name.startswith("_")),
)


def of_class(folders: Sequence[str]) -> list[str]:
    """Return one path per class folder."""
    return [f"{name}/image.png" for name in folders]


def labels(source: Source) -> dict[str, int]:
    return {image.class_name: image.label for image in source}


def space(numbering: Numbering, classes: int, present: int) -> LabelSpace:
    return LabelSpace(numbering=numbering, classes=classes, present=present)


def write_validation(root: Path, wnids: Sequence[str], label_file: str) -> Path:
    """Write a validation folder with one image for each wnid, and its label file."""
    for index, name in enumerate(layouts.validation_names(len(wnids))):
        layouts.write(root / f"{name}.JPEG", layouts.png(index))
    if label_file.endswith(".csv"):
        rows = (
            f"{name},{wnid} 1 2 3 4" for name, wnid in zip(layouts.validation_names(len(wnids)), wnids, strict=True)
        )
        layouts.write(root / label_file, "\n".join(["ImageId,PredictionString", *rows]))
    else:
        layouts.write(root / label_file, "\n".join(wnids))
    return root


# Folders


@pytest.mark.parametrize(
    ("folders", "expected", "counted"),
    [
        (["0007", "12", "000"], {"0007": 7, "12": 12, "000": 0}, space(Numbering.NUMBERS, 0, 3)),
        (SOME_WNIDS, {wnid: IMAGENET.index(wnid) for wnid in SOME_WNIDS}, space(Numbering.IMAGENET, 1000, 3)),
        (IMAGENET, {wnid: index for index, wnid in enumerate(IMAGENET)}, space(Numbering.IMAGENET, 1000, 1000)),
        (
            ["10", "9", IMAGENET[500], "cat"],
            {"10": 0, "9": 1, "cat": 2, IMAGENET[500]: 3},
            space(Numbering.SORTED, 4, 4),
        ),
    ],
    ids=["numbers", "a part of ImageNet", "ImageNet", "other names"],
)
def test_what_names_of_folders_count(
    tmp_path: Path, folders: Sequence[str], expected: dict[str, int], counted: LabelSpace
) -> None:
    source = open_source("imagefolder", str(make(tmp_path, *of_class(folders))))
    assert (labels(source), source.labels) == (expected, counted)
    assert (counted.notice == "") == (folders is IMAGENET)


@pytest.mark.parametrize(
    ("folders", "classes", "message"),
    [
        (["7", "007"], [], r"'007' and '7' are the same number.*rename or merge"),
        (["ant", "bee"], ["bee", "cow"], r"class 'ant' .ant/image\.png.*not one of the 2 classes of --classes: add it"),
    ],
)
def test_folders_without_one_label_are_refused(
    tmp_path: Path, folders: list[str], classes: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        list(open_source("imagefolder", str(make(tmp_path, *of_class(folders))), classes=classes))


@pytest.mark.parametrize(("empty", "label"), [("11", 3), ("cat", 0), (IMAGENET[0], 0)])
def test_empty_folders_count(tmp_path: Path, empty: str, label: int) -> None:
    (tmp_path / empty).mkdir()
    source = open_source("imagefolder", str(make(tmp_path, "3/image.png")))
    assert labels(source) == {"3": label}
    assert source.labels is not None
    assert source.labels.present == 2


def test_system_folders_do_not_count(tmp_path: Path) -> None:
    make(tmp_path, *of_class(["3", "11"]), "__MACOSX/image.png", "lost+found/image.png")
    assert labels(open_source("imagefolder", str(tmp_path))) == {"11": 11, "3": 3}


# Other layouts


@pytest.mark.parametrize("label_file", ["LOC_val_solution.csv", "imagenet_2012_validation_synset_labels.txt"])
def test_validation_images_of_a_part_of_the_classes_have_the_indices_of_imagenet(
    tmp_path: Path, label_file: str
) -> None:
    source = open_source("auto", str(write_validation(tmp_path, SOME_WNIDS, label_file)))
    assert [image.label for image in source] == [999, 7, 388]
    assert source.labels == space(Numbering.IMAGENET, 1000, 3)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("imagefolder", space(Numbering.SORTED, 3, 3)),
        ("ilsvrc2012-val", space(Numbering.SORTED, 3, 3)),
        ("ilsvrc2012-val-tar", space(Numbering.SORTED, 3, 3)),
        ("hf-parquet", space(Numbering.LISTED, 3, 0)),
        ("cifar-10", space(Numbering.LISTED, 3, 3)),
        ("cifar-100", space(Numbering.LISTED, 3, 3)),
        ("tiny-imagenet", space(Numbering.SORTED, 3, 3)),
        ("imagenet64", space(Numbering.LISTED, 1000, 3)),
        ("webdataset", None),
    ],
)
def test_each_layout_says_what_its_labels_count(tmp_path: Path, kind: str, expected: LabelSpace | None) -> None:
    source = open_source(kind, str(layouts.LAYOUTS[kind](tmp_path)))
    assert max(image.label for image in source) == 2
    assert source.labels == expected


def test_boxes_number_the_classes_of_their_list(tmp_path: Path) -> None:
    """Models of Tiny ImageNet have one output for each of its classes, also if these are classes of ImageNet."""
    folder = layouts.imagenet_boxes(tmp_path)
    for name in ("map_clsloc.txt", "wnids.txt"):
        text = (tmp_path / name).read_text()
        for made_up, wnid in zip(WNIDS_OF_TESTS, sorted(SOME_WNIDS), strict=True):
            text = text.replace(made_up, wnid)
        (tmp_path / name).write_text(text)
    source = open_source("imagenet-boxes", str(folder))
    assert set(labels(source).values()) == {0, 1}
    assert source.labels == space(Numbering.SORTED, 2, 2)


def test_class_names_of_parquet_files_can_be_those_of_imagenet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.tasks.labels.IMAGENET", ("ant", "bee", "cow"))
    source = open_source("hf-parquet", str(layouts.hf_parquet(tmp_path)))
    assert source.labels == space(Numbering.IMAGENET, 3, 0)
    assert source.labels.notice == ""


# Lists of classes


def test_a_list_of_classes_decides_labels(tmp_path: Path) -> None:
    root = make(tmp_path, *of_class(["10", "9", IMAGENET[500]]))
    source = open_source("imagefolder", str(root), classes=["cat", IMAGENET[500], "9", "10"])
    assert labels(source) == {"10": 3, "9": 2, IMAGENET[500]: 1}
    assert source.labels == space(Numbering.LISTED, 4, 3)
    assert [source.read(image) for image in source] == [image.origin.encode() for image in source]


@pytest.mark.parametrize("kind", ["ilsvrc2012-val", "tiny-imagenet", "hf-parquet", "cifar-10"])
def test_a_list_numbers_the_classes_of_every_layout_that_names_them(tmp_path: Path, kind: str) -> None:
    location = str(layouts.LAYOUTS[kind](tmp_path))
    before = labels(open_source(kind, location))
    reversed_names = sorted(before, key=lambda name: -before[name])
    assert labels(open_source(kind, location, classes=reversed_names)) == {name: 2 - before[name] for name in before}


def test_unlabelled_images_remain_unlabelled_with_a_list(tmp_path: Path) -> None:
    source = open_source("imagefolder", str(make(tmp_path, "1.png")), classes=["bee"])
    assert [image.label for image in source] == [UNLABELLED]


def test_a_list_and_ids_can_be_combined(tmp_path: Path) -> None:
    root = make(tmp_path / "data", *of_class(["ant", "bee"]))
    (tmp_path / "ids.txt").write_text("bee/image.png\n")
    source = open_source("imagefolder", str(root), str(tmp_path / "ids.txt"), ["bee", "ant"])
    assert labels(source) == {"bee": 0}
    assert source.labels == space(Numbering.LISTED, 2, 2)


# Lists of images


@pytest.mark.parametrize("ending", [".JPEG", ""])
@pytest.mark.parametrize("folder", ["{wnid}/", "./{wnid}/", ""])
@pytest.mark.parametrize("layout", ["imagefolder", "ilsvrc2012-val"])
def test_lists_of_validation_images_name_them_with_or_without_folder_and_suffix(
    tmp_path: Path, layout: str, folder: str, ending: str
) -> None:
    """RobustBench's list has lines such as n09468604/ILSVRC2012_val_00015253.JPEG, the last without an end of line."""
    stems = layouts.validation_names(3)
    if layout == "imagefolder":
        make(tmp_path / "val", *(f"{wnid}/{name}.JPEG" for wnid, name in zip(SOME_WNIDS, stems, strict=True)))
    else:
        write_validation(tmp_path / "val", SOME_WNIDS, "LOC_val_solution.csv")
    listed = [folder.format(wnid=SOME_WNIDS[index]) + stems[index] + ending for index in (2, 0)]
    (tmp_path / "ids.txt").write_text("\n".join(listed))
    source = open_source("auto", str(tmp_path / "val"), str(tmp_path / "ids.txt"))
    assert {image.id: image.label for image in source} == {
        f"{SOME_WNIDS[index]}/{stems[index]}": IMAGENET.index(SOME_WNIDS[index]) for index in (2, 0)
    }
    assert source.labels == space(Numbering.IMAGENET, 1000, 3)
