"""Indexes of sets of natural images, and their evaluation with a model that reads the truth off the pixels."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pipeline.datasets.export import export
from pipeline.datasets.index.manifest import index
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.preview import preview
from pipeline.datasets.samples import pixel_digest
from pipeline.datasets.verify import verify
from pipeline.errors import UserError
from pipeline.evaluate.predict.preparation import Preparation
from pipeline.images.decoders import decode
from pipeline.images.resizers import prepare
from pipeline.tasks.library import chosen, load
from pipeline.tasks.lists import IMAGENET, shipped_list
from tests.conftest import ROOT, Run
from tests.factories.data_sets import rows_of
from tests.factories.indexed_sets import change_rows, pack
from tests.factories.natural_sets import outputs_of, write_tree, write_truth

WNIDS_A = shipped_list("imagenet_a.txt")


def indexed(data: Path, task: str, role: str | None = None, out: Path | None = None) -> Path:
    """Return an index of a data set with a task, by default beside the data."""
    folder = out or data.with_name(f"{data.name}-{task}-{role}")
    index(str(data), str(folder), task=chosen(task, role))
    return folder


def labels_of(data_set: Path) -> dict[str, int]:
    """Return the label of each class folder. Images of one folder must have the same."""
    labels: dict[str, int] = {}
    for row in rows_of(data_set):
        folder = row.origin.split("/")[-2]
        assert labels.setdefault(folder, row.label) == row.label
    return labels


def table_of(data_set: Path) -> dict[str, Any]:
    return tomllib.loads((data_set / "index.toml").read_text())


def accuracies(robustshards: Run, data: Path, out: Path, *more: object) -> tuple[float, float]:
    """Evaluate a model from the command line, and return its accuracy among the labels and among all outputs."""
    plain = ("--mean", "0,0,0", "--std", "1,1,1", "--batch-size", 50, "--device", "cpu", "--workers", 1, "--loaders", 0)
    command = ("evaluate", data, "--model", "tests.factories.natural_sets:reader", "--out", out, *plain, *more)
    robustshards.succeed(*command, cwd=ROOT)
    found = pq.read_table(out / "predictions.parquet", columns=["label", "top1", "free"]).to_pydict()
    label, top1, free = (np.array(found[name]) for name in ("label", "top1", "free"))
    assert len(label) > 0
    return float((top1 == label).mean()), float((free == label).mean())


# Without a task


def test_folders_named_by_numbers_are_labels(tmp_path: Path, robustshards: Run) -> None:
    write_tree(tmp_path / "data", {str(number): number for number in range(12)})
    done = robustshards("index", tmp_path / "data", "--out", tmp_path / "index")
    assert "labels: the names of the 12 class folders, which are numbers" in done.stdout
    assert labels_of(tmp_path / "index") == {str(number): number for number in range(12)}
    assert table_of(tmp_path / "index")["labels"] == {"numbering": "numbers", "classes": 0, "present": 12}
    assert open_data_set(str(tmp_path / "index")).labels is not None
    assert accuracies(robustshards, tmp_path / "index", tmp_path / "out", "--steps", "square=32") == (1, 1)


@pytest.mark.parametrize(
    ("folders", "labels", "description"),
    [
        (("0003", "10", "2"), (3, 10, 2), "the names of the 3 class folders, which are numbers"),
        (("10", "2", "n01440764"), (0, 1, 2), "3 class folders, numbered from 0 in sorted order"),
        (("n01440764", "n15075141"), (0, 999), "2 of the 1,000 classes of ImageNet, by WordNet id"),
        (("n01440764", "n00000001"), (1, 0), "2 class folders, numbered from 0 in sorted order"),
    ],
)
@pytest.mark.parametrize("layout", ["folders", "tars"])
def test_names_of_folders_decide_labels(
    tmp_path: Path, folders: tuple[str, ...], labels: tuple[int, ...], description: str, layout: str
) -> None:
    data = write_tree(tmp_path / "data", dict.fromkeys(folders, 0))
    if layout == "tars":
        data = pack(data, tmp_path / "data.tar")
    done = index(str(data), str(tmp_path / "index"))
    assert done.facts()["labels"]["description"] == description
    assert labels_of(tmp_path / "index") == dict(zip(folders, labels, strict=True))
    assert open_data_set(str(tmp_path / "index")).labels == done.layout.labelled.space


def test_labels_of_arrays_are_known_with_a_list_only(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "fog.npy", np.zeros((5, 4, 4, 3), np.uint8))
    np.save(tmp_path / "data" / "labels.npy", np.array([0]))
    assert index(str(tmp_path / "data"), str(tmp_path / "index")).layout.labelled.space is None
    assert "labels" not in table_of(tmp_path / "index")
    listed = index(str(tmp_path / "data"), str(tmp_path / "index"), classes=["a", "b"])
    assert str(listed.layout.labelled.space) == "1 of 2 classes, in the order of a list"
    with pytest.raises(UserError, match=r"'fog.npy', but the task imagenet-a labels images by their class folders"):
        indexed(tmp_path / "data", "imagenet-a")


# With a task


@pytest.mark.parametrize("name", ["imagenet-a", "imagenet-r"])
def test_a_model_that_reads_the_truth_is_always_right(tmp_path: Path, robustshards: Run, name: str) -> None:
    data = write_tree(tmp_path / "data", outputs_of(name))
    (data / "README.txt").write_text("about the images")
    done = robustshards("index", data, "--task", name, "--out", tmp_path / "index", "--json")
    facts = json.loads(done.stdout)
    assert (facts["samples"], facts["failed"], facts["passed_over"], facts["labels"]) == (200, 0, 1, None)
    complete = load(name).task.images
    assert facts["task"] == {
        "name": name,
        "role": "shift",
        "labels": 200,
        "left_out_folders": 0,
        "left_out_images": 0,
        "missing_folders": [],
        "complete_images": complete,
    }
    assert labels_of(tmp_path / "index") == load(name).folders
    assert open_data_set(str(tmp_path / "index")).task == load(name).task
    assert accuracies(robustshards, tmp_path / "index", tmp_path / "out") == (1, 1)
    assert not verify(str(tmp_path / "index")).faults


def test_other_classes_are_left_out_and_counted(tmp_path: Path, robustshards: Run) -> None:
    data = write_tree(tmp_path / "val", {wnid: output for output, wnid in enumerate(IMAGENET)})
    command = ("index", data, "--task", "imagenet-a", "--role", "clean", "--out", tmp_path / "index")
    done = robustshards(*command)
    assert done.stdout.splitlines()[:3] == [
        "indexed imagenet-a-clean (layout: folders): 200 samples, 1 combination of transform and level",
        "task: imagenet-a, 200 groups, clean",
        "left out: 800 folders of other classes (800 images)",
    ]
    assert labels_of(tmp_path / "index") == {wnid: label for label, wnid in enumerate(WNIDS_A)}
    task = open_data_set(str(tmp_path / "index")).task
    assert task is not None
    assert (task.role, task.groups_digest) == ("clean", load("imagenet-a").task.groups_digest)
    facts = json.loads(robustshards(*command, "--json").stdout)
    assert (facts["task"]["left_out_folders"], facts["task"]["left_out_images"]) == (800, 800)
    assert facts["task"]["complete_images"] is None


def test_missing_folders_and_images_are_told(tmp_path: Path, robustshards: Run) -> None:
    data = write_tree(tmp_path / "data", dict.fromkeys(WNIDS_A[4:], 0))
    (data / WNIDS_A[0]).mkdir()
    (data / WNIDS_A[1]).mkdir()
    (data / WNIDS_A[1] / "notes.txt").write_text("no images")
    done = robustshards.succeed("index", data, "--task", "imagenet-a", "--out", tmp_path / "index")
    assert done.stdout.splitlines()[2:4] == [
        f"missing: 4 class folders of the task: {', '.join(WNIDS_A[:3])} ...",
        "images: 196; the complete data set has 7,500",
    ]


def test_anomalies_have_no_label(tmp_path: Path) -> None:
    data = write_tree(tmp_path / "data", outputs_of("imagenet-o"))
    found = indexed(data, "imagenet-o")
    assert {(row.label, row.class_name) for row in rows_of(found)} == {(-1, "")}
    assert len(rows_of(found)) == 200
    clean = indexed(data, "imagenet-o-clean")
    assert labels_of(clean) == {wnid: label for label, wnid in enumerate(shipped_list("imagenet_o.txt"))}
    for each in (found, clean):
        assert not verify(str(each)).faults
        assert not verify(str(each), quick=True).faults
    done = export(str(found), "imagefolder", str(tmp_path / "out"))
    assert done.warnings == ["unlabelled images are in the folder 'unlabelled', which readers count as a class"]
    assert len(list((tmp_path / "out/none/unlabelled").iterdir())) == 200


def test_numbers_of_v2_are_labels_with_leading_zeros_too(tmp_path: Path, robustshards: Run) -> None:
    outputs = {str(number): number for number in (0, 2, 10, 999)} | {"0011": 11}
    data = indexed(write_tree(tmp_path / "data", outputs), "imagenet-v2-matched-frequency")
    assert labels_of(data) == outputs
    assert accuracies(robustshards, data, tmp_path / "out") == (1, 1)
    write_tree(tmp_path / "data", {"011": 11})
    with pytest.raises(UserError, match=r"0011 and .*011 are the same class of the task .*: rename or merge"):
        indexed(tmp_path / "data", "imagenet-v2-matched-frequency")


def test_objects_of_imagenet_v_share_labels(tmp_path: Path) -> None:
    folders = {"hotdog": 0, "hotdog_2": 1, "1.7apple_2": 2}
    data = indexed(write_tree(tmp_path / "data", folders), "imagenet-v")
    hot_dog = IMAGENET.index("n07697537")
    assert labels_of(data) == {"hotdog": hot_dog, "hotdog_2": hot_dog, "1.7apple_2": IMAGENET.index("n07742313")}
    assert not verify(str(data)).faults
    assert not verify(str(data), quick=True).faults
    with pytest.raises(UserError, match=r"two class names, 'hotdog' and 'hotdog_2': .* export an index without a task"):
        export(str(data), "imagefolder", str(tmp_path / "out"))
    write_tree(tmp_path / "data", {"unicorn": 3})
    with pytest.raises(UserError, match="the folder 'unicorn' is not in the task imagenet-v, which names 100 folders"):
        indexed(tmp_path / "data", "imagenet-v")


def test_verify_finds_two_labels_of_a_class(tmp_path: Path) -> None:
    data = write_tree(tmp_path / "data", {"hotdog": 0, "hotdog_2": 1})
    write_truth(data / "hotdog" / "second.png", 3)
    found = indexed(data, "imagenet-v")
    change_rows(found, label=lambda number, row: 3 if number == 1 else row.label)
    for faults in (verify(str(found)).faults, verify(str(found), quick=True).faults):
        assert list(map(str, faults)) == ["hotdog/second-none-0: has another label than the class 'hotdog' before: 934"]


# Places


def test_two_sets_in_one_folder_are_refused(tmp_path: Path) -> None:
    for split in ("train", "val"):
        write_tree(tmp_path / "data" / split, {"n01440764": 0})
    with pytest.raises(UserError, match=r"both .*/train and .*/val have class folders of the task imagenet: give one"):
        indexed(tmp_path / "data", "imagenet")
    pack(tmp_path / "data", tmp_path / "all.tar")
    with pytest.raises(UserError, match=r"both .*train and .*val have class folders of the task imagenet: give one"):
        indexed(tmp_path / "all.tar", "imagenet")


def test_compressed_tars_are_refused(tmp_path: Path) -> None:
    write_tree(tmp_path / "data", {"0": 0})
    (tmp_path / "set").mkdir()
    tar = pack(tmp_path / "data", tmp_path / "set" / "v2.tar.gz")
    for location in (tar, tar.parent):
        for task in (None, chosen("imagenet-v2-top-images")):
            with pytest.raises(UserError, match=r"v2.tar.gz is compressed: unpack it, or repack it as .tar"):
                index(str(location), str(tmp_path / "index"), task=task)
    write_tree(tmp_path / "set" / "unpacked", {"0": 0})
    assert labels_of(indexed(tar.parent, "imagenet-v2-top-images")) == {"0": 0}


def test_a_list_of_classes_and_a_task_are_refused(tmp_path: Path) -> None:
    data = write_tree(tmp_path / "data", {"n01440764": 0})
    with pytest.raises(UserError, match="--classes and --task imagenet both number the classes: give one of them"):
        index(str(data), str(tmp_path / "index"), classes=["n01440764"], task=load("imagenet"))


# Images


def test_images_of_all_kinds_are_decoded_as_sources_do(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "n01440764"
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    image = Image.fromarray(pixels)
    kinds = {
        "cmyk.jpg": image.convert("CMYK"),
        "grey.JPEG": image.convert("L"),
        "alpha.png": image.convert("RGBA"),
        "palette.png": image.convert("P"),
        "sixteen.png": Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30) * 100),
        "web.webp": image,
        "bitmap.bmp": image,
        "turned.jpg": image,
    }
    for name, each in kinds.items():
        each.save(folder / name, exif=orientation() if name == "turned.jpg" else b"")
    image.save(folder / "png-in.jpeg", format="PNG")
    (folder / "damaged.jpg").write_bytes((folder / "turned.jpg").read_bytes()[:300])
    out = tmp_path / "index"
    done = index(str(folder.parent), str(out), task=load("imagenet"))
    assert (done.samples, done.failed) == (10, 1)
    rows = {row.origin.rpartition("/")[2]: row for row in rows_of(out)}
    assert rows["damaged.jpg"].status == "failed"
    data_set = open_data_set(str(out))
    prepared = Preparation((("square", 8.0),), "pillow-bilinear")
    for name in (*kinds, "png-in.jpeg"):
        expected = decode((folder / name).read_bytes())
        assert (rows[name].height, rows[name].width, rows[name].encoder) == (20, 30, "original")
        assert rows[name].pixel_sha256 == pixel_digest(expected)
        np.testing.assert_array_equal(data_set.pick(rows[name]).pixels(), expected)
        np.testing.assert_array_equal(prepared.pixels(data_set.pick(rows[name])), prepare(expected, prepared.steps))
    assert not verify(str(out)).faults
    preview(str(out), str(tmp_path / "page.html"), images=10)
    assert (tmp_path / "page.html").read_text().count("data:image/jpeg;") == 4
    done_export = export(str(out), "imagefolder", str(tmp_path / "export"))
    assert (done_export.samples, done_export.passed_over) == (9, 1)
    names = {path.name for path in (tmp_path / "export/none/n01440764").iterdir()}
    assert {"cmyk.JPEG", "grey.jpeg", "web.webp", "bitmap.bmp", "sixteen.png", "png-in.jpeg"} <= names
    assert (tmp_path / "export/none/n01440764/cmyk.JPEG").read_bytes() == (folder / "cmyk.jpg").read_bytes()


def orientation() -> bytes:
    """Return EXIF data that says that the image is turned by 90 degrees."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif.tobytes()


def test_listed_tasks_can_be_used(robustshards: Run) -> None:
    facts = json.loads(robustshards("list", "--json").stdout)["tasks"]
    assert facts["imagenet-o"]["role"] == "anomalous"
    shown = robustshards("list").stdout
    assert all(name in shown and load(name).task.role == facts[name]["role"] for name in facts)


# ImageNet-22K


def test_unknown_folders_of_imagenet_22k_are_left_out_and_counted(tmp_path: Path) -> None:
    """A tree of 30 folders: one unseen class of each superclass, and 5 others."""
    wnid_by_label = {label: wnid for wnid, label in load("imagenet-22k-unseen").folders.items()}
    known = dict.fromkeys(wnid_by_label.values(), 0)
    others = dict.fromkeys(("n99999901", "n99999902", "n99999903", "n99999904", IMAGENET[999]), 0)
    data = write_tree(tmp_path / "22k", {**known, **others})
    result = index(str(data), str(tmp_path / "index"), task=chosen("imagenet-22k-unseen"))
    assert labels_of(tmp_path / "index") == {wnid: label for label, wnid in wnid_by_label.items()}
    assert "left out: 5 folders of other classes (5 images)" in list(result.lines())
    assert table_of(tmp_path / "index")["task"]["classes"][:2] == ["amphibian", "appliance"]


def test_seen_and_unseen_subclasses_of_a_model_without_fine_tuning(tmp_path: Path, robustshards: Run) -> None:
    """The reader is always right about seen classes, and takes every unseen one for the first class of the first."""
    seen, unseen = load("imagenet-22k-seen-untuned"), load("imagenet-22k-unseen-untuned")
    chosen_seen = dict(list(outputs_of("imagenet-22k-seen-untuned").items())[::60])
    amphibian = seen.task.groups[0][0]
    chosen_unseen = dict.fromkeys(list(unseen.folders)[::500], amphibian)
    found = []
    for name, outputs in (("imagenet-22k-seen-untuned", chosen_seen), ("imagenet-22k-unseen-untuned", chosen_unseen)):
        data = indexed(write_tree(tmp_path / name, outputs), name)
        found.append(accuracies(robustshards, data, tmp_path / f"results-{name}"))
    right = sum(unseen.folders[wnid] == 0 for wnid in chosen_unseen) / len(chosen_unseen)
    assert found == [(1.0, 1.0), (right, right)]
    done = robustshards("report", *(tmp_path / f"results-{task.task.name}" for task in (seen, unseen)), "--json")
    (shift,) = (each for each in json.loads(done.stdout)["results"] if each["family"] == "shifts")
    values = {(each["metric"], each["transform"]): each["value"] for each in shift["measures"]}
    assert (values["clean accuracy", ""], values["accuracy", ""]) == (1.0, right)
    assert (values["accuracy", "class amphibian"], values["accuracy", "class bird"]) == (1, 0)


def test_style_transfer_is_indexed_as_a_corruption_of_five_strengths(tmp_path: Path) -> None:
    for strength in range(1, 6):
        write_tree(tmp_path / "data" / "style_transfer" / str(strength), {IMAGENET[7]: 7})
    index(str(tmp_path / "data"), str(tmp_path / "index"))
    rows = rows_of(tmp_path / "index")
    assert [(row.transform, row.level, row.label) for row in rows] == [("style_transfer", n, 7) for n in range(1, 6)]
    assert open_data_set(str(tmp_path / "index")).family_name == "corruptions"
