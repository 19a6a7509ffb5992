"""Tasks: which outputs of a model count for the images of a data set, and how these images are prepared."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from corruptions.preparation import STEPS
from pipeline.config import StrictTable, one_of
from pipeline.errors import UserError
from pipeline.images.resizers import OPERATORS
from pipeline.tasks.labels import is_number
from pipeline.text import counted, shown

Role = Literal["clean", "shift", "anomalous"]
"""What the images of a data set are to a report: clean images, which give the clean error; natural images under a
distribution shift; or images of none of the classes."""

Combine = Literal["mean"]
"""How a model chooses among groups: by the mean of the probabilities of each, which puts large ones at a disadvantage.
The default is the largest output of each. Absent where it is the default, since digests depend on it."""

Operator = Annotated[str, one_of(OPERATORS)]

Steps = tuple[tuple[Annotated[str, one_of(STEPS)], Annotated[float, Field(gt=0, le=8192)]], ...]

_NUMBER_PREFIX = re.compile(r"^[0-9.]+")
"""A number before the name of a folder, as in ``1.7apple_2``."""


class TaskFile(StrictTable):
    """The content of a task's TOML file.

    Attributes:
        name: Name of the task.
        title: One line about the data set.
        outputs: The outputs of the model: "imagenet", or a text file with the name of one output per line.
        folders: How the folders of the data set name classes: "wnid" (each folder is the name of an output), "number"
            (each is the index of an output), or a text file with lines ``folder: names of outputs``.
        other_folders: What happens to folders that the task does not name.
        number_prefix: Whether a number before the name of a folder is ignored.
        groups: Text file with one group per line: names of outputs, after an optional name of the group and a colon.
            The model chooses among the groups. Empty: each output is a group.
        combine: "mean" decides among groups by the mean of their probabilities. None: by the largest output of each.
        role: Role of the images in reports.
        steps: Preparation steps of images that are not prepared yet.
        resize: Resize operator of these steps.
        images: Number of images of the complete data set.
        by_class: Whether reports show the accuracy of each class.
        citation: BibTeX entry of the paper.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    title: str = ""
    outputs: str = "imagenet"
    folders: str = "wnid"
    other_folders: Literal["skip", "refuse"] = "skip"
    number_prefix: bool = False
    groups: str = ""
    combine: Combine | None = None
    role: Role
    steps: Steps = ()
    resize: Operator = "pillow-bilinear"
    images: Annotated[int, Field(ge=0)] = 0
    by_class: bool = False
    citation: str = ""


class Task(StrictTable):
    """A task without its files: the table ``[task]`` of an index or an evaluation.

    Attributes:
        name: Name of the task.
        outputs: Number of outputs that the model must have.
        outputs_are: What the outputs are, for messages.
        groups: Outputs of each group, in label order. Empty: each output is a group.
        combine: What decides among groups, as in :class:`TaskFile`.
        labels_are: "outputs" if labels and predictions are outputs, beside which the chosen group is recorded. None if
            they are groups.
        role: Role of the images in reports.
        steps: Preparation steps of images that are not prepared yet.
        resize: Resize operator of these steps.
        images: Number of images of the complete data set; 0 if unknown.
        classes: Names of the labels, for reports to show the accuracy of each. None if they show none.
        folders: What each folder of a source id is, such as "style", for reports to show the accuracy of each of them;
            empty for a folder that they do not show. None if they show none.
    """

    name: str
    outputs: Annotated[int, Field(ge=2)]
    outputs_are: str
    groups: tuple[tuple[Annotated[int, Field(ge=0)], ...], ...] = ()
    combine: Combine | None = None
    labels_are: Literal["outputs"] | None = None
    role: Role
    steps: Steps = ()
    resize: Operator = "pillow-bilinear"
    images: Annotated[int, Field(ge=0)] = 0
    classes: tuple[str, ...] | None = None
    folders: tuple[str, ...] | None = None

    @property
    def labels(self) -> int:
        """The number of labels: of groups, or of outputs if there are no groups."""
        return (0 if self.labels_are else len(self.groups)) or self.outputs

    @property
    def digest(self) -> str:
        """The hexadecimal SHA-256 of the whole task."""
        content = self.model_dump(mode="json", exclude_none=True)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def groups_digest(self) -> str:
        """The hexadecimal SHA-256 of the groups, equal for tasks with the same labels; empty if there are none."""
        if not self.groups or self.labels_are:
            return ""
        return hashlib.sha256(json.dumps(self.groups).encode()).hexdigest()

    def of_outputs(self) -> "Task":
        """Return the task of images whose labels are outputs, not groups."""
        return self.model_copy(update={"labels_are": "outputs", "images": 0})

    def mismatch(self, outputs: int) -> str | None:
        """Return why a model with this number of outputs does not fit the task; None if it fits."""
        if outputs == self.outputs:
            return None
        return (
            f"the model has {counted(outputs, 'output')}, but the task {self.name} counts {self.outputs:,} "
            f"({self.outputs_are}): use a model with these outputs"
        )


@dataclass(frozen=True)
class LoadedTask:
    """A task and the labels of its folders.

    Attributes:
        task: The task.
        data_set: Default name of a data set with this task.
        folders: Label of each folder that the task names.
        by_number: Whether folders are named by the indices of outputs, instead of by the keys of ``folders``.
        number_prefix: Whether a number before the name of a folder is ignored.
        refuses_others: Whether folders that the task does not name are an error.
    """

    task: Task
    data_set: str
    folders: Mapping[str, int]
    by_number: bool = False
    number_prefix: bool = False
    refuses_others: bool = False

    def key(self, folder: str) -> str | None:
        """Return the key of ``folders`` that a folder matches; None if the task does not name it."""
        name = folder.lstrip("0") or "0" if self.by_number and is_number(folder) else folder
        if name not in self.folders and self.number_prefix:
            name = _NUMBER_PREFIX.sub("", folder)
        return name if name in self.folders else None

    def label(self, folder: str) -> int | None:
        """Return the label of a folder; None if the task does not name it.

        Raises:
            UserError: The task does not name the folder, and allows no other folders.
        """
        key = self.key(folder)
        if key is None and self.refuses_others:
            raise UserError(
                f"the folder {shown(folder)} is not in the task {self.task.name}, which names {len(self.folders)} "
                "folders: remove it, or rename it"
            )
        return None if key is None else self.folders[key]

    def with_role(self, role: Role) -> "LoadedTask":
        """Return the task of other images than those of its own data set: their number is unknown."""
        if role == self.task.role:
            return self
        changed = self.task.model_copy(update={"role": role, "images": 0})
        return replace(self, task=changed, data_set=f"{self.data_set}-{role}")
