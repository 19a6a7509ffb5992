"""Which class folders of a data set are indexed, and their labels: from their names, from a list, or from a task."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from pipeline.datasets.index.detected import ENCODER_OF_SUFFIX, Labelled, condition_of
from pipeline.datasets.indexed import ORIGINAL
from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED
from pipeline.sources.files import SUFFIXES
from pipeline.tasks.labels import Numbering, label_folders
from pipeline.tasks.library import load
from pipeline.tasks.schema import LoadedTask
from pipeline.text import shown
from pipeline.transforms.clean import CLEAN
from pipeline.transforms.family import Condition
from pipeline.transforms.registry import FAMILIES

EXAMPLES = 3
"""Number of folders that a message names."""

Where = Callable[[str], str]
"""A function that returns the full path of a folder for messages."""


@dataclass(frozen=True)
class LabelledFolders:
    """The class folders that are indexed, and the labels of their images.

    Attributes:
        conditions: The class folders of each condition, by path.
        labels: Label of each class, by name.
        labelled: What the labels count. Its task is that of the family of the transforms, if no other one was given.
    """

    conditions: Mapping[Condition, Sequence[str]]
    labels: Mapping[str, int]
    labelled: Labelled

    def label(self, path: str) -> int:
        """Return the label of a file in a class folder. Raise UserError if its class has none."""
        name = last_component(path.rpartition("/")[0])
        if name not in self.labels:
            raise UserError(
                f"{path}: class {name!r} is not one of the {len(self.labels)} given classes: add it to --classes"
            )
        return self.labels[name]


@dataclass(frozen=True)
class ByName:
    """All folders are classes, which are numbered by their names or by a list, under any number of conditions.

    Attributes:
        encoders: Suffix of a sample -> name of its encoder.
        names_every_folder: Whether each folder is a class, so that lists of labels must agree with the folders, and
            folders without images count.
        classes: All class names in label order. Empty: labels follow from the names of the folders.
        unlabelled: Class folders of images without a label.
    """

    classes: Sequence[str] = ()
    unlabelled: Collection[str] = ()
    encoders: ClassVar[Mapping[str, str]] = ENCODER_OF_SUFFIX
    names_every_folder: ClassVar[bool] = True

    def choose(self, images: Mapping[str, int], where: Where) -> LabelledFolders:
        """Choose and label class folders, given with their numbers of images.

        Raises:
            UserError: A folder has no label, or its images would be skipped.
        """
        conditions: dict[Condition, list[str]] = {}
        for folder in images:
            conditions.setdefault(condition_of(folder.split("/")[:-1], where(folder)), []).append(folder)
        nonempty = {condition: each for condition, each in conditions.items() if any(map(images.__getitem__, each))}
        for condition in conditions.keys() - nonempty.keys() if nonempty else ():
            raise UserError(
                f"{where(conditions[condition][0])} is empty, like all class folders of {condition}: remove it, or add "
                "the images"
            )
        names = {last_component(folder) for folder in images}.difference(self.unlabelled)
        unlabelled, task = dict.fromkeys(self.unlabelled, UNLABELLED), _family_task(nonempty)
        if task and names and names <= task.folders.keys() and not self.classes:
            return LabelledFolders(nonempty, {**task.folders, **unlabelled}, Labelled(task=task.task))
        labelled = label_folders(sorted(names), self.classes)
        of_outputs = task.task.of_outputs() if task and labelled.space.numbering == Numbering.IMAGENET else None
        about = Labelled(labelled.space if names else None, of_outputs)
        return LabelledFolders(nonempty, {**labelled.labels, **unlabelled}, about)


def _family_task(conditions: Iterable[Condition]) -> LoadedTask | None:
    """Return the task of a family that has these transforms; None if it has none."""
    names = {condition.transform for condition in conditions}
    tasks = [family.task for family in FAMILIES.values() if family.task and names & {*family.names}]
    return load(tasks[0]) if tasks else None


@dataclass(frozen=True)
class ByTask:
    """The folders that a task names are classes; all of them are in one folder. Others are left out.

    Attributes:
        task: The task.
    """

    task: LoadedTask
    encoders: ClassVar[Mapping[str, str]] = dict.fromkeys(sorted(SUFFIXES), ORIGINAL)
    names_every_folder: ClassVar[bool] = False

    def choose(self, images: Mapping[str, int], where: Where) -> LabelledFolders:
        """Choose and label class folders, see :meth:`ByName.choose`."""
        filled = [folder for folder in images if images[folder]]
        parent = self._parent(filled, where)
        labels: dict[str, int] = {}
        chosen: dict[str, str] = {}
        for folder in filled:
            name = last_component(folder)
            label = self.task.label(name) if _parent(folder) == parent else None
            if label is not None:
                labels[name] = UNLABELLED if self.task.task.role == "anomalous" else label
                if (first := chosen.setdefault(self.task.key(name) or "", folder)) != folder:
                    raise UserError(
                        f"{where(first)} and {where(folder)} are the same class of the task {self.task.task.name}: "
                        "rename or merge them"
                    )
        kept = set(chosen.values())
        left_out = {folder: images[folder] for folder in filled if folder not in kept}
        missing = tuple(name for name in self.task.folders if name not in chosen)
        about = Labelled(None, self.task.task, left_out, missing)
        return LabelledFolders({CLEAN: list(chosen.values())}, labels, about)

    def _parent(self, folders: Sequence[str], where: Where) -> str:
        """Return the folder with the class folders of the task. Raise UserError if there is none, or several."""
        task, expected = self.task.task, ", ".join(map(shown, islice(self.task.folders, EXAMPLES)))
        if not folders:
            raise UserError(
                f"{where('')} contains no folders with images: give the folder that contains the class folders of the "
                f"task {task.name}, such as {expected}"
            )
        parents = list(
            dict.fromkeys(_parent(name) for name in folders if self.task.key(last_component(name)) is not None)
        )
        if not parents:
            raise UserError(
                f"{where('')} contains no class folder of the task {task.name}: it has {shown(folders[0])}, but the "
                f"task names {len(self.task.folders)} folders, such as {expected}; give the data set of this task, or "
                "another task"
            )
        if len(parents) > 1:
            first, second = map(where, parents[:2])
            raise UserError(f"both {first} and {second} have class folders of the task {task.name}: give one of them")
        return parents[0]


Labelling = ByName | ByTask
"""A rule that chooses and labels class folders."""


def last_component(folder: str) -> str:
    """Return the last component of a path."""
    return folder.rpartition("/")[2]


def _parent(folder: str) -> str:
    return folder.rpartition("/")[0]
