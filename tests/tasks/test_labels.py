"""Labels of class folders: numbers, WordNet ids, other names, and mixtures of these."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import UserError
from pipeline.tasks.labels import MAX_LABEL, LabelSpace, Numbering, label_folders
from pipeline.tasks.lists import IMAGENET

numbers = st.integers(0, MAX_LABEL)
other_names = st.text(min_size=1, max_size=8).filter(lambda name: name not in IMAGENET and not name.isascii())


def number_names(number: int) -> st.SearchStrategy[str]:
    """Return the ways to write a number with leading zeros."""
    return st.integers(0, 4).map(lambda zeros: "0" * zeros + str(number))


@given(st.sets(numbers, min_size=1, max_size=20).flatmap(lambda found: st.tuples(*map(number_names, sorted(found)))))
def test_numbers_are_labels(folders: tuple[str, ...]) -> None:
    found = label_folders(folders)
    assert found.labels == {name: int(name) for name in folders}
    assert found.space == LabelSpace(numbering=Numbering.NUMBERS, classes=0, present=len(folders))


@given(st.sets(st.sampled_from(IMAGENET), min_size=1, max_size=30))
def test_wordnet_ids_have_their_index_in_imagenet(folders: set[str]) -> None:
    found = label_folders(sorted(folders, reverse=True))
    assert found.labels == {name: IMAGENET.index(name) for name in folders}
    assert found.space == LabelSpace(numbering=Numbering.IMAGENET, classes=1000, present=len(folders))
    assert found.space.is_partial == (len(folders) < 1000)


@given(
    st.sets(numbers.map(str), max_size=5),
    st.sets(st.sampled_from(IMAGENET), max_size=5),
    st.sets(other_names, min_size=1, max_size=5),
)
def test_other_names_and_mixtures_are_numbered_in_sorted_order(
    numbered: set[str], wnids: set[str], others: set[str]
) -> None:
    folders = sorted(numbered | wnids | others)
    found = label_folders(folders)
    assert found.labels == {name: label for label, name in enumerate(folders)}
    assert found.space == LabelSpace(numbering=Numbering.SORTED, classes=len(folders), present=len(folders))


def test_digits_of_other_scripts_are_no_numbers() -> None:
    assert label_folders(["٣", "²", "1"]).labels == {"1": 0, "²": 1, "٣": 2}
    assert label_folders(["-1", "1"]).labels == {"-1": 0, "1": 1}
    assert label_folders(["1.0", "1"]).labels == {"1": 0, "1.0": 1}


def test_equal_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="'007' and '7' are the same number, so both have the label 7"):
        label_folders(["7", "007", "8"])


@pytest.mark.parametrize("name", [str(MAX_LABEL + 1), "9" * 5000])
def test_large_numbers_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"is a number above {MAX_LABEL}"):
        label_folders([name, "1"])


def test_zeros_are_one_number() -> None:
    assert label_folders(["000", "1"]).labels == {"000": 0, "1": 1}


def test_a_list_gives_positions_to_all_its_classes() -> None:
    found = label_folders(["emu", "5"], ["5", "dog", "emu"])
    assert found.labels == {"5": 0, "dog": 1, "emu": 2}
    assert found.space == LabelSpace(numbering=Numbering.LISTED, classes=3, present=2)
    assert str(found.space) == "2 of 3 classes, in the order of a list"


def test_no_folders_have_no_labels() -> None:
    assert label_folders([]).labels == {}


@pytest.mark.parametrize(
    ("folders", "described", "fits", "differs"),
    [
        (IMAGENET[:200], "200 of the 1,000 classes of ImageNet, by WordNet id", 1000, 200),
        (IMAGENET, "the 1,000 classes of ImageNet, by WordNet id", 1000, 1001),
        (["cat", "dog"], "2 class folders, numbered from 0 in sorted order", 2, 1000),
    ],
)
def test_models_must_have_the_classes_that_labels_count(
    folders: list[str], described: str, fits: int, differs: int
) -> None:
    space = label_folders(folders).space
    assert str(space) == described
    assert space.mismatch(fits) is None
    message = space.mismatch(differs)
    assert message is not None
    assert all(part in message for part in (f"{differs:,} outputs", described, "--classes FILE"))


def test_any_model_fits_numbers() -> None:
    space = label_folders(["0", "10"]).space
    assert (space.mismatch(2), space.mismatch(1000)) == (None, None)
    assert str(space) == "the names of the 2 class folders, which are numbers"
