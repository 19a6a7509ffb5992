"""The shipped tasks, and tasks of users."""

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from pipeline.errors import UserError
from pipeline.tasks import library
from pipeline.tasks.library import load, read, shipped
from pipeline.tasks.lists import IMAGENET, shipped_list

PUBLISHED = {
    "imagenet": ("clean", 50_000, 1000, 1000),
    "imagenet-22k-seen": ("clean", 27_100, 25, 542),
    "imagenet-22k-seen-untuned": ("clean", 27_100, 25, 542),
    "imagenet-22k-unseen": ("shift", 0, 25, 5017),
    "imagenet-22k-unseen-untuned": ("shift", 0, 25, 5017),
    "imagenet-a": ("shift", 7500, 200, 200),
    "imagenet-o": ("anomalous", 2000, 200, 200),
    "imagenet-o-clean": ("clean", 10_000, 200, 200),
    "imagenet-r": ("shift", 30_000, 200, 200),
    "imagenet-sketch": ("shift", 50_889, 1000, 1000),
    "imagenet-v": ("shift", 10_000, 1000, 100),
    "imagenet-v2-matched-frequency": ("shift", 10_000, 1000, 1000),
    "imagenet-v2-threshold-0.7": ("shift", 10_000, 1000, 1000),
    "imagenet-v2-top-images": ("shift", 10_000, 1000, 1000),
    "laion-c": ("shift", 0, 16, 16),
    "objectnet": ("shift", 0, 113, 113),
    "objectnet-clean": ("clean", 6250, 113, 125),
    "stylized-imagenet": ("shift", 50_000, 1000, 1000),
}
"""Task -> role, images of the complete data set (0: not known exactly), labels, and folders."""


def test_all_shipped_tasks_are_listed_here() -> None:
    assert shipped() == tuple(sorted(PUBLISHED))


@pytest.mark.parametrize("name", PUBLISHED)
def test_shipped_tasks_have_the_published_counts(name: str) -> None:
    loaded = load(name)
    task = loaded.task
    assert (task.role, task.images, task.labels, len(loaded.folders)) == PUBLISHED[name]
    outputs = 25 if name in ("imagenet-22k-seen", "imagenet-22k-unseen") else 1000
    assert (task.name, task.outputs, read(name).name) == (name, outputs, name)
    assert read(name).title
    assert {*loaded.folders.values()} <= {*range(task.labels)}
    steps = {
        "laion-c": (),
        "stylized-imagenet": (),
        "objectnet": (("trim", 2), ("shorter_side", 224), ("center_crop", 224)),
    }
    assert task.steps == steps.get(name, (("shorter_side", 256), ("center_crop", 224)))
    assert task.resize == "pillow-bilinear"


@pytest.mark.parametrize("name", ["imagenet-a", "imagenet-r", "imagenet-o"])
def test_groups_of_one_class_have_the_label_of_its_rank(name: str) -> None:
    loaded, wnids = load(name), shipped_list(f"{name.replace('-', '_')}.txt")
    assert list(wnids) == sorted(wnids)
    assert {folder: IMAGENET[loaded.task.groups[label][0]] for folder, label in loaded.folders.items()} == dict(
        zip(wnids, wnids, strict=True)
    )


def test_a_and_r_share_86_classes() -> None:
    assert len({*load("imagenet-a").folders} & {*load("imagenet-r").folders}) == 86


def test_objectnet_counts_125_classes_in_113_groups() -> None:
    groups = load("objectnet").task.groups
    assert sum(map(len, groups)) == 125
    assert [sum(len(group) == size for group in groups) for size in (1, 2, 3)] == [104, 6, 3]
    assert load("objectnet-clean").task.groups == groups


def test_superclasses_of_imagenet_22k_share_no_class() -> None:
    seen, unseen = load("imagenet-22k-seen"), load("imagenet-22k-unseen")
    names = seen.task.classes or ()
    assert len(names) == len(set(names)) == 25
    assert seen.task.classes == unseen.task.classes
    assert {*seen.folders} <= {*IMAGENET}
    assert not {*unseen.folders} & {*IMAGENET}
    counts = {
        name: tuple(list(task.folders.values()).count(label) for task in (seen, unseen))
        for label, name in enumerate(names)
    }
    published = {"bird": (58, 792), "dog": (118, 72), "bear": (4, 8), "fish": (16, 538), "vehicle": (44, 166)}
    assert {name: counts[name] for name in published} == published


def test_superclasses_without_fine_tuning_are_groups_of_the_seen_classes() -> None:
    seen, tuned = load("imagenet-22k-seen-untuned"), load("imagenet-22k-seen")
    unseen = load("imagenet-22k-unseen-untuned")
    assert seen.folders == tuned.folders
    assert unseen.folders == load("imagenet-22k-unseen").folders
    assert seen.task.classes == unseen.task.classes == tuned.task.classes
    assert seen.task.groups_digest == unseen.task.groups_digest != ""
    assert {IMAGENET[output]: label for label, group in enumerate(seen.task.groups) for output in group} == seen.folders


def test_shipped_lists_are_the_published_ones(shared: Path) -> None:
    folder = shared / "spec" / "data"
    groups = json.loads((folder / "objectnet_groups.json").read_text())["groups"]
    objectnet = load("objectnet")
    wnids = {
        name: {IMAGENET[output] for output in objectnet.task.groups[label]} for name, label in objectnet.folders.items()
    }
    assert wnids == {name: set(each) for name, each in groups.items()}
    objects = json.loads((folder / "imagenet_v_objects.json").read_text())["objects"]
    assert {name: IMAGENET[label] for name, label in load("imagenet-v").folders.items()} == objects
    superclasses = json.loads((folder / "imagenet22k_superclasses.json").read_text())["superclasses"]
    for part in ("seen", "unseen"):
        expected = {wnid: label for label, each in enumerate(superclasses) for wnid in each[part]}
        assert load(f"imagenet-22k-{part}").folders == expected
    listed = json.loads((folder / "imagenet_o_wnids.json").read_text())
    assert list(load("imagenet-o").folders) in listed.values()


def test_numbers_name_outputs_with_leading_zeros_too() -> None:
    task = load("imagenet-v2-matched-frequency")
    assert {folder: task.label(folder) for folder in ("0", "10", "0010", "999", "000")} == {
        "0": 0,
        "10": 10,
        "0010": 10,
        "999": 999,
        "000": 0,
    }
    assert [task.label(folder) for folder in ("1000", "-1", "٣", "n01440764", "")] == [None] * 5


def test_numbers_before_objects_of_imagenet_v_are_ignored() -> None:
    task = load("imagenet-v")
    assert task.label("1.7apple_2") == task.label("apple_2") == IMAGENET.index("n07742313")
    with pytest.raises(UserError, match=r"the folder '1\.7unicorn' is not in the task imagenet-v, which names 100"):
        task.label("1.7unicorn")


def test_roles_are_replaced_for_other_images() -> None:
    shift = load("imagenet-a")
    clean = library.chosen("imagenet-a", "clean")
    assert clean is not None
    assert (clean.task.role, clean.task.images, clean.data_set) == ("clean", 0, "imagenet-a-clean")
    assert clean.task.groups_digest == shift.task.groups_digest
    assert library.chosen("imagenet-a", "shift") == shift
    assert library.chosen(None) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "imagenet-a", "role": "dirty"}, "unknown role 'dirty'; allowed: clean, shift, anomalous"),
        ({"name": None, "role": "clean"}, "--role clean has no effect without a task"),
        ({"name": None, "mappings": "folder"}, "--mappings folder has no effect without a task"),
        ({"name": "imagenet-a", "mappings": "folder"}, "--mappings is only for --task objectnet"),
        ({"name": "imagenet-b"}, "unknown task 'imagenet-b' .*; shipped: imagenet, imagenet-22k-seen, "),
        ({"name": "missing/own.toml"}, "cannot read the task .*own.toml: No such file"),
        ({"name": ""}, "unknown task ''|a path is empty"),
    ],
)
def test_invalid_choices_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        library.chosen(**options)


# Tasks of users


ANIMALS = "cat\ndog\nemu\nfox\n"


def write_task(folder: Path, files: dict[str, str] | None = None, **fields: Any) -> str:
    """Write a task of four animals, with some fields replaced or, if None, left out."""
    table = {"name": "animals", "outputs": "outputs.txt", "role": "shift", **fields}
    path = folder / "animals.toml"
    path.write_text(tomli_w.dumps({name: value for name, value in table.items() if value is not None}))
    for name, text in {"outputs.txt": ANIMALS, **(files or {})}.items():
        (folder / name).write_text(text)
    return str(path)


def test_outputs_of_users_are_classes(tmp_path: Path) -> None:
    task = load(write_task(tmp_path))
    assert (task.task.outputs, task.task.labels, task.task.outputs_are) == (4, 4, "the lines of outputs.txt")
    assert task.folders == {"cat": 0, "dog": 1, "emu": 2, "fox": 3}
    message = task.task.mismatch(1000)
    assert message is not None
    assert "the model has 1,000 outputs, but the task animals counts 4 (the lines of outputs.txt)" in message


def test_folders_of_users_have_the_label_of_their_group(tmp_path: Path) -> None:
    files = {"groups.txt": "pets: cat dog\nwild: fox\n", "folders.txt": "kitten: cat\npuppy: dog\nden: fox\n"}
    task = load(write_task(tmp_path, files, groups="groups.txt", folders="folders.txt"))
    assert task.task.groups == ((0, 1), (3,))
    assert task.folders == {"kitten": 0, "puppy": 0, "den": 1}
    assert task.label("emu") is None


def test_folders_of_users_can_name_groups(tmp_path: Path) -> None:
    files = {"groups.txt": "pets: cat dog\nwild: fox\n", "folders.txt": "kennel: pets\nden: fox\nwood: wild\n"}
    task = load(write_task(tmp_path, files, groups="groups.txt", folders="folders.txt"))
    assert task.folders == {"kennel": 0, "den": 1, "wood": 1}


def test_names_of_classes_are_kept_for_reports_only_if_asked_for(tmp_path: Path) -> None:
    files = {"groups.txt": "pets: cat dog\nemu fox\n"}
    assert load(write_task(tmp_path)).task.classes is None
    assert load(write_task(tmp_path, by_class=True)).task.classes == ("cat", "dog", "emu", "fox")
    groups = load(write_task(tmp_path, files, groups="groups.txt", by_class=True)).task
    assert groups.classes == ("pets", "emu fox")
    assert groups.digest != load(write_task(tmp_path, files, groups="groups.txt")).task.digest


def test_digests_of_earlier_tasks_are_kept() -> None:
    """Evaluations record them."""
    assert load("imagenet-a").task.digest == "232366709bfc9577bba0993f117cb8a42645c8c5a924ee38e79eb4e0337b3afd"


def test_folders_named_by_numbers_have_the_label_of_their_group(tmp_path: Path) -> None:
    task = load(write_task(tmp_path, {"groups.txt": "fox\ncat emu\n"}, groups="groups.txt", folders="number"))
    assert task.folders == {"0": 1, "2": 1, "3": 0}
    assert (task.label("003"), task.label("1")) == (0, None)


@pytest.mark.parametrize(
    ("files", "fields", "message"),
    [
        ({"groups.txt": "cat\nhen\n"}, {"groups": "groups.txt"}, "groups.txt: 'hen' is not one of the 4 outputs"),
        ({"groups.txt": "cat\ndog cat\n"}, {"groups": "groups.txt"}, "groups.txt names cat 2 times"),
        ({"groups.txt": "cat cat\ndog\n"}, {"groups": "groups.txt"}, "groups.txt names cat 2 times"),
        ({"groups.txt": "pets: cat\nwild:\n"}, {"groups": "groups.txt"}, "groups.txt: line 2 names no output"),
        ({"groups.txt": "cat dog\n"}, {"groups": "groups.txt"}, "groups.txt has one group"),
        ({}, {"groups": "none.txt"}, "cannot read none.txt, which the task .*animals.toml names"),
        ({}, {"groups": "../secret.txt"}, r"'../secret.txt' is outside of"),
        ({}, {"outputs": "/etc/hostname"}, r"'/etc/hostname' is outside of"),
        ({"outputs.txt": "cat\n"}, {}, "outputs.txt lists 1 output: write the name of one output per line"),
        ({"outputs.txt": "cat\ndog\ncat\n"}, {}, "outputs.txt lists 'cat' more than once"),
        ({"folders.txt": "den: fox\ncat\n"}, {"folders": "folders.txt"}, "folders.txt: '' must be a folder"),
        ({"folders.txt": "den: fox\nden: cat\n"}, {"folders": "folders.txt"}, "folders.txt names 'den' twice"),
        ({"folders.txt": "den: fox hen\n"}, {"folders": "folders.txt"}, "folders.txt: 'hen' is not one of the 4"),
        ({"folders.txt": "den: fox cat\n"}, {"folders": "folders.txt"}, "'den' must be a folder whose outputs are all"),
        ({}, {"colour": "red"}, r"animals.toml is not valid: colour: unknown field"),
        ({}, {"role": None}, "role: missing field"),
        ({}, {"role": "dirty"}, "role: invalid value 'dirty'"),
        ({}, {"name": "Animals!"}, "name: "),
        ({}, {"steps": [["blur", 2]]}, "steps.*unknown name 'blur'; allowed: shorter_side, "),
        ({}, {"steps": [["square", -1]]}, "steps.*greater than 0"),
        ({}, {"resize": "magic"}, "resize: unknown name 'magic'; allowed: pillow-nearest, "),
        ({}, {"images": -1}, "images: "),
    ],
)
def test_faults_of_tasks_are_named(tmp_path: Path, files: dict[str, str], fields: dict[str, Any], message: str) -> None:
    (tmp_path / "secret.txt").write_text("cat\ndog\n")
    (tmp_path / "task").mkdir()
    with pytest.raises(UserError, match=message):
        load(write_task(tmp_path / "task", files, **fields))


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("name = ")
    with pytest.raises(UserError, match=r"own.toml is not valid TOML"):
        load(str(path))
    path.write_bytes(bytes(2**22 + 1))
    with pytest.raises(UserError, match=r"own.toml: .*larger than"):
        load(str(path))


def test_lists_that_are_not_text_are_named(tmp_path: Path) -> None:
    path = write_task(tmp_path)
    (tmp_path / "outputs.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"cannot read outputs.txt"):
        load(path)
