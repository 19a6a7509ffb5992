"""Labels of class folders, and what the labels of a data set count."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pipeline.config import StrictTable
from pipeline.errors import UserError
from pipeline.tasks.lists import IMAGENET, position_by_name
from pipeline.text import counted

MAX_LABEL = 10**6
"""Largest valid label."""


class Numbering(StrEnum):
    """How the classes of a data set are numbered."""

    IMAGENET = "imagenet"
    """Each label is the index of the class among the 1,000 sorted WordNet ids of ImageNet."""
    NUMBERS = "numbers"
    """The names of the class folders are numbers, which are the labels."""
    SORTED = "sorted"
    """The class folders are numbered from 0 in sorted order."""
    LISTED = "listed"
    """The classes are numbered from 0 in the order of a list, which the user gave or which belongs to the source."""


class LabelSpace(StrictTable):
    """What the labels of a data set count: the table ``[labels]`` of a recipe or an index.

    Attributes:
        numbering: How the classes are numbered.
        classes: Number of classes that the labels count, which a model must have; 0 if unknown.
        present: Number of classes that the data set has; 0 if unknown.
        names: Names of the classes in label order, for reports that show each class. None for other data sets.
    """

    numbering: Numbering
    classes: Annotated[int, Field(ge=0)] = 0
    present: Annotated[int, Field(ge=0)] = 0
    names: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """Return a description for messages, for example ``200 of the 1,000 classes of ImageNet, by WordNet id``."""
        return _DESCRIPTIONS[self.numbering](self)

    def among(self, present: int) -> "LabelSpace":
        """Return what the labels count in a part with ``present`` classes; 0 if unknown."""
        return self.model_copy(update={"present": present or self.present})

    @property
    def is_partial(self) -> bool:
        """Whether the data set has fewer classes than its labels count; False if unknown."""
        return 0 < self.present < self.classes

    @property
    def is_imagenet(self) -> bool:
        """Whether the data set has all 1,000 classes of ImageNet, in the order of published models."""
        return self.numbering == Numbering.IMAGENET and not self.is_partial

    @property
    def notice(self) -> str:
        """What to know before scoring a model; empty if the labels are all classes of ImageNet."""
        if self.is_imagenet:
            return ""
        is_own = self.classes and self.numbering != Numbering.IMAGENET
        return f"{self}; a model must have {counted(self.classes, 'output')}, in this order" if is_own else str(self)

    def mismatch(self, outputs: int) -> str | None:
        """Return why a number of outputs cannot be these labels, and what to do; None if they can."""
        if not self.classes or outputs == self.classes:
            return None
        return (
            f"the model has {counted(outputs, 'output')}, but the labels are {self}, so its outputs would be compared "
            "with labels of other classes: use a model of these classes, or list the class of each output in a file, "
            "in order, and number the data set again with --classes FILE"
        )


_DESCRIPTIONS: Mapping[Numbering, Callable[[LabelSpace], str]] = {
    Numbering.IMAGENET: lambda space: f"{_share(space)}the {space.classes:,} classes of ImageNet, by WordNet id",
    Numbering.NUMBERS: lambda space: f"the names of the {space.present:,} class folders, which are numbers",
    Numbering.SORTED: lambda space: f"{space.classes:,} class folders, numbered from 0 in sorted order",
    Numbering.LISTED: lambda space: f"{_share(space)}{space.classes:,} classes, in the order of a list",
}


@dataclass(frozen=True)
class FolderLabels:
    """The label of each class folder, and what the labels count."""

    labels: Mapping[str, int]
    space: LabelSpace


def label_folders(folders: Sequence[str], classes: Sequence[str] = ()) -> FolderLabels:
    """Return the labels of class folders.

    Numbers are labels. WordNet ids of ImageNet's 1,000 classes have the index of the class among these. Other folders,
    and a mixture of both, are numbered from 0 in sorted order.

    Args:
        folders: Names of all class folders, including empty ones.
        classes: All class names in label order, which then all have a label. Default: labels follow from the folders.

    Raises:
        UserError: Two folders have the same number, or a number is too large.
    """
    names = sorted(folders)
    if classes:
        positions = position_by_name(classes)
        present = len(positions.keys() & set(names))
        return FolderLabels(positions, LabelSpace(numbering=Numbering.LISTED, classes=len(classes), present=present))
    if names and all(map(is_number, names)):
        return FolderLabels(_numbers(names), LabelSpace(numbering=Numbering.NUMBERS, classes=0, present=len(names)))
    imagenet = position_by_name(IMAGENET)
    if names and all(name in imagenet for name in names):
        space = LabelSpace(numbering=Numbering.IMAGENET, classes=len(imagenet), present=len(names))
        return FolderLabels({name: imagenet[name] for name in names}, space)
    space = LabelSpace(numbering=Numbering.SORTED, classes=len(names), present=len(names))
    return FolderLabels(position_by_name(names), space)


def space_of(names: Sequence[str], numbering: Numbering, present: int = 0) -> LabelSpace:
    """Return what the labels count if a source numbers its own classes from 0.

    Args:
        names: All class names in label order.
        numbering: How this order is defined.
        present: Number of classes that have images; 0 if unknown.
    """
    is_imagenet = tuple(names) == IMAGENET
    return LabelSpace(numbering=Numbering.IMAGENET if is_imagenet else numbering, classes=len(names), present=present)


def is_number(name: str) -> bool:
    """Return whether a name consists of the digits 0 to 9."""
    return name.isascii() and name.isdigit()


def _share(space: LabelSpace) -> str:
    return f"{space.present:,} of " if space.is_partial else ""


def _numbers(names: Sequence[str]) -> dict[str, int]:
    """Return the number of each name. Raise UserError if two are equal, or if one is too large."""
    first: dict[int, str] = {}
    for name in names:
        digits = name.lstrip("0") or "0"
        number = int(digits) if len(digits) <= len(str(MAX_LABEL)) else MAX_LABEL + 1
        if number > MAX_LABEL:
            raise UserError(
                f"the class folder {name!r} is a number above {MAX_LABEL}: folders named by numbers are labels"
            )
        if first.setdefault(number, name) != name:
            raise UserError(
                f"the class folders {first[number]!r} and {name!r} are the same number, so both have the label "
                f"{number}: rename or merge them"
            )
    return {name: number for number, name in first.items()}
