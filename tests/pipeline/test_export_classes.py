"""Class folders of exports: one for each label, in label order."""

from pathlib import Path

import pytest

from pipeline.datasets.export import export
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.tasks.lists import IMAGENET
from tests.factories.data_sets import rows_of
from tests.factories.indexed_sets import change_rows, index_of, labels_by_pixels, write_folders
from tests.pipeline.test_exports import files_in


@pytest.mark.parametrize("layout", ["imagefolder", "imagefolder-tfds"])
@pytest.mark.parametrize(
    ("labels", "folders"),
    [
        (["zebra", "ant", "10", "2"], ["0_zebra", "1_ant", "2_10", "3_2"]),
        (["Ant", "ant"], ["0_Ant", "1_ant"]),
        (["n01", "n02"], ["n01", "n02"]),
        (["a/b", ".hidden", "__MACOSX", "end "], ["0_a_b", "1_.hidden", "2___MACOSX", "3_end _"]),
    ],
)
def test_sorted_class_folders_are_in_label_order(
    tmp_path: Path, layout: str, labels: list[str], folders: list[str]
) -> None:
    data = index_of(write_folders(tmp_path / "data", [f"class{place}" for place in range(len(labels))]))
    change_rows(data, class_name=lambda place, row: labels[row.label])
    export(str(data), layout, str(tmp_path / "out"))
    assert (tmp_path / "out" / "classes.txt").read_text().splitlines() == folders
    condition = tmp_path / "out" / ("fog/1" if layout == "imagefolder" else "fog_1")
    assert sorted(each.name for each in condition.iterdir()) == folders
    assert labels_by_pixels(index_of(tmp_path / "out")) == labels_by_pixels(data)


def test_labels_without_images_get_folders(tmp_path: Path) -> None:
    data = index_of(write_folders(tmp_path / "data", ["bee", "dog"], ["fog/1"]), ["ant", "bee", "cat", "dog"])
    export(str(data), "imagefolder", str(tmp_path / "out"))
    condition = tmp_path / "out" / "fog" / "1"
    assert sorted(each.name for each in condition.iterdir()) == ["0", "bee", "bee-label-2", "dog"]
    assert labels_by_pixels(index_of(tmp_path / "out")) == labels_by_pixels(data)
    export(str(data), "imagefolder", str(tmp_path / "named"), ["ant", "bee", "cat", "dog", "emu"])
    assert sorted(each.name for each in (tmp_path / "named/fog/1").iterdir()) == ["ant", "bee", "cat", "dog", "emu"]


@pytest.mark.parametrize("layout", ["imagefolder", "imagefolder-tfds"])
def test_some_classes_of_imagenet_keep_their_labels(tmp_path: Path, layout: str) -> None:
    """Each class of ImageNet gets a folder, so that readers that number the folders find the labels of its models."""
    data = index_of(write_folders(tmp_path / "data", ["n01491361", "n01496331"], ["fog/1"]))
    export(str(data), layout, str(tmp_path / "out"))
    condition = tmp_path / "out" / ("fog/1" if layout == "imagefolder" else "fog_1")
    assert sorted(each.name for each in condition.iterdir()) == [*IMAGENET]
    assert (tmp_path / "out" / "classes.txt").read_text().splitlines() == [*IMAGENET]
    assert len(files_in(condition)) == 4
    again = index_of(tmp_path / "out")
    assert labels_by_pixels(again) == labels_by_pixels(data)
    assert {row.label for row in rows_of(again)} == {3, 5}
    labels = open_data_set(str(again)).labels
    assert labels is not None
    assert labels.mismatch(outputs=1000) is None


def test_other_labels_of_imagenets_classes_are_kept(tmp_path: Path) -> None:
    """A list of the user's own numbers them otherwise."""
    data = index_of(write_folders(tmp_path / "data", ["n01491361", "n01496331"], ["fog/1"]), ["n01491361", "n01496331"])
    export(str(data), "imagefolder", str(tmp_path / "out"))
    assert sorted(each.name for each in (tmp_path / "out/fog/1").iterdir()) == ["n01491361", "n01496331"]


def test_labels_without_class_names_get_folders(tmp_path: Path) -> None:
    data = index_of(write_folders(tmp_path / "data", ["a", "b"], ["fog/1"]))
    change_rows(data, class_name=lambda place, row: "", label=lambda place, row: [0, 2, 10, 11][place])
    export(str(data), "imagefolder", str(tmp_path / "out"))
    assert sorted(each.name for each in (tmp_path / "out/fog/1").iterdir()) == [f"{label:02d}" for label in range(12)]
    assert labels_by_pixels(index_of(tmp_path / "out")) == labels_by_pixels(data)


@pytest.mark.parametrize(
    ("classes", "named"),
    [
        (["cat"], r"--classes lacks the class 'dog' .*list all classes"),
        (["cat", "dog", "cat"], r"lists 'cat' and 'cat'.*remove one"),
        (["cat", "Dog", "dog"], r"lists 'Dog' and 'dog'.*remove one"),
        (["cat", "dog", "../up"], r"'\.\./up' is outside of"),
    ],
)
def test_invalid_lists_of_classes_are_refused(tmp_path: Path, classes: list[str], named: str) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat", "dog"]))
    with pytest.raises(UserError, match=named):
        export(str(data), "imagefolder", str(tmp_path / "out"), classes)
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="parquet has no class folders"):
        export(str(data), "parquet", str(tmp_path / "out"), classes)


def test_classes_in_another_order_than_the_labels_warn(tmp_path: Path) -> None:
    """RobustBench requires all 1,000 class folders, even for a data set with fewer classes."""
    data = index_of(write_folders(tmp_path / "data", ["cat", "dog"]))
    done = export(str(data), "imagefolder", str(tmp_path / "out"), ["ant", "cat", "dog"])
    assert "'cat' has label 0 in the data set, but 1 among the folders" in done.warnings[0]
    assert (tmp_path / "out" / "classes.txt").read_text().splitlines() == ["ant", "cat", "dog"]
