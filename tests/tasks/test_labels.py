"""Labels of class folders: numbers, WordNet ids, other names, and mixtures of these."""

import pytest
from hypothesis import strategies as st

from pipeline.errors import UserError
from pipeline.tasks.labels import MAX_LABEL, label_folders
from pipeline.tasks.lists import IMAGENET

numbers = st.integers(0, MAX_LABEL)


@pytest.mark.parametrize(
    "folders",
    [[], ["1", "²", "٣"], ["-1", "1"], ["1", "1.0"]],  # digits of other scripts, signs and points are no numbers
)
def test_other_names_are_numbered_in_sorted_order(folders: list[str]) -> None:
    assert label_folders(folders[::-1]).labels == {name: label for label, name in enumerate(folders)}


@pytest.mark.parametrize("name", [str(MAX_LABEL + 1), "9" * 5000])
def test_large_numbers_are_refused(name: str) -> None:
    assert label_folders([str(MAX_LABEL), "1"]).labels == {str(MAX_LABEL): MAX_LABEL, "1": 1}
    with pytest.raises(UserError, match=f"is a number above {MAX_LABEL}"):
        label_folders([name, "1"])


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
