"""CIFAR-100 with held-out fine classes: parts, labels, ids, and errors."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import UserError
from pipeline.sources.cifar_subclasses import FINE_CLASSES
from pipeline.sources.kinds import open_source
from pipeline.sources.parts import PartOptions
from pipeline.tasks.labels import LabelSpace, Numbering
from tests.factories.layouts import write_pickle
from tests.factories.parts import write_cifar_100

FIRST = (72, 73, 92, 16, 51, 40, 20, 14, 43, 37, 49, 15, 75, 77, 11, 29, 65, 56, 8, 81)
"""The first fine class that is held out of each coarse class, as published."""


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cifar_100(tmp_path_factory.mktemp("cifar"))


def images_of(cifar: Path, **options):
    return list(open_source("cifar-100-subclass", str(cifar), part=PartOptions(**options)))


@pytest.mark.parametrize("hold_out", [1, 2, 3])
@pytest.mark.parametrize(("split", "count"), [("test", 5), ("train", 20)])
def test_parts_are_disjoint_and_cover_everything(cifar: Path, hold_out: int, split: str, count: int) -> None:
    options = {"hold_out": hold_out, "split": split}
    held_out, seen = (images_of(cifar, part=part, **options) for part in ("held_out", "seen"))
    assert (len(held_out), len(seen)) == (100 * count * hold_out // 5, 100 * count * (5 - hold_out) // 5)
    origins = [image.origin for image in (*held_out, *seen)]
    assert sorted(origins) == sorted(f"{split}#{index}" for index in range(100 * count))
    fine = {int(image.id.partition("/")[0].removeprefix("fine_")) for image in held_out}
    assert fine == {number for numbers in FINE_CLASSES.values() for number in numbers[:hold_out]}
    assert {image.label for image in held_out} == {image.label for image in seen} == {*range(20)}


def test_the_first_held_out_classes_are_the_published_ones() -> None:
    assert tuple(numbers[0] for numbers in FINE_CLASSES.values()) == FIRST
    assert sorted(number for numbers in FINE_CLASSES.values() for number in numbers) == [*range(100)]


def test_the_complete_data_set_has_the_published_sizes() -> None:
    """500 training and 100 test images of each fine class."""
    for hold_out in (1, 2, 3):
        fine = sum(len(numbers[:hold_out]) for numbers in FINE_CLASSES.values())
        assert (100 * fine, 100 * (100 - fine), 500 * (100 - fine)) == (
            2000 * hold_out, 10_000 - 2000 * hold_out, 50_000 - 10_000 * hold_out,
        )  # fmt: skip


def test_ids_name_the_fine_class_and_labels_are_coarse(cifar: Path) -> None:
    source = open_source("cifar-100-subclass", str(cifar), part=PartOptions(hold_out=1, part="held_out"))
    first = next(iter(source))
    assert (first.id, first.label, first.class_name, first.origin) == (
        "fine_08/image_000008", 18, "vehicles_1", "test#8",
    )  # fmt: skip
    np.testing.assert_array_equal(source.read(first), np.full((32, 32, 3), 8, np.uint8))
    names = tuple(FINE_CLASSES)
    assert source.labels == LabelSpace(numbering=Numbering.LISTED, classes=20, present=20, names=names)


def test_a_batch_file_can_be_given(cifar: Path) -> None:
    options = {"hold_out": 1, "part": "seen"}
    assert images_of(cifar / "train", **options) == images_of(cifar, split="train", **options)
    with pytest.raises(UserError, match=r"source.split=train has no effect on a file"):
        images_of(cifar / "test", split="train", **options)


@pytest.mark.parametrize(
    ("options", "missing"),
    [({}, "source.hold_out and source.part"), ({"hold_out": 1}, "source.part"), ({"part": "seen"}, "source.hold_out")],
)
def test_missing_options_are_named(cifar: Path, options, missing: str) -> None:
    with pytest.raises(UserError, match=f"needs {missing}: give them with --set, for example --set source.hold_out=1"):
        images_of(cifar, **options)


@pytest.mark.parametrize(
    ("fine", "coarse", "message"),
    [
        ([72, 4], [0, 1], "fine class 4 and the coarse class 1, which do not belong together"),
        ([72, 4], [0, 0], "has 2 of the 5 fine classes of aquatic_mammals"),
        ([72], [0, 0], "'fine_labels' .* must be 2 labels"),
        ([72, 100], [0, 0], "fine class 100 and the coarse class 0"),
    ],
)
def test_other_classes_than_those_of_cifar_100_are_refused(tmp_path: Path, fine, coarse, message: str) -> None:
    content = {"data": np.zeros((2, 3072), np.uint8), "fine_labels": fine, "coarse_labels": coarse}
    write_pickle(tmp_path / "test", content)
    with pytest.raises(UserError, match=message):
        images_of(tmp_path, hold_out=1, part="seen")
