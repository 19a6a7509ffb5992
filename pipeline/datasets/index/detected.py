"""The detected layout of a data set of another tool: its conditions, samples and classes."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED, identifier
from pipeline.tasks.labels import LabelSpace, is_number
from pipeline.tasks.schema import Task
from pipeline.text import shown
from pipeline.transforms.clean import CLEAN
from pipeline.transforms.family import Condition
from pipeline.transforms.registry import FAMILIES

ENCODER_OF_SUFFIX: Mapping[str, str] = {".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png", ".npy": "npy", ".mp4": "mp4"}

MAX_LEVEL = 100
"""Maximum level, except for transforms of families with larger ones. Published severities go up to 10."""


@dataclass(frozen=True)
class Entry:
    """A sample of the indexed data set: its id and the range of bytes with its payload.

    ``shape`` is (H, W, 3) or (T, H, W, 3) for raw pixels, and empty for files.
    """

    id: str
    origin: str
    label: int
    class_name: str
    shard: str
    offset: int
    size: int
    encoder: str
    shape: tuple[int, ...] = ()


Listing = Callable[[], Iterable[Entry]]
"""Function that returns the samples of one condition. A condition may have 50,000."""


@dataclass(frozen=True)
class Labelled:
    """What labels count, and which folders a task leaves out.

    Attributes:
        space: What the labels count. None if unknown, or if a task says it.
        task: The task; None if there is none.
        left_out: Folders that the task does not name, and the number of images in each.
        missing: Folders that the task names and that have no images.
    """

    space: LabelSpace | None = None
    task: Task | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class DetectedLayout:
    """A detected layout.

    Attributes:
        name: Name of the layout.
        root: Folder with the files.
        conditions: The samples of each condition.
        labelled: What their labels count.
        ignored: Suffix -> number of files that are not samples.
    """

    name: str
    root: Path
    conditions: Mapping[Condition, Listing]
    labelled: Labelled
    ignored: Counter[str] = field(default_factory=Counter)


def source_id(id_: str, transform: str) -> str:
    """Return the id of an image without the part of a published file name that differs between conditions."""
    endings = (each.recognition.endings for each in FAMILIES.values() if transform in each.names)
    return next((re.sub(f"(?:{ending})$", "", id_) for ending in endings if ending), id_)


def expected_folders() -> str:
    """Return the supported folder patterns as text for error messages."""
    return ", ".join(place for family in FAMILIES.values() for place in family.recognition.places)


def family_of(transform: str, frames: int) -> str:
    """Return the name of the family of samples, from their transform and number of frames."""
    alike = [family for family in FAMILIES.values() if family.sequences == (frames > 1)]
    named = [family for family in alike if transform in (*family.names, *family.recognition.published_names)]
    return (named or [family for family in alike if family.recognition.other_names])[0].name


def bare_level(name: str, sequences: bool | None = None) -> int | None:
    """Return the level of a transform that is written without a level; None if it requires one or is unknown.

    Args:
        name: Name of the transform.
        sequences: Whether its samples are sequences, or None if unknown.
    """
    named = (each for each in FAMILIES.values() if name in each.names and sequences in (None, each.sequences))
    return next((level for each in named if (level := each.recognition.bare_level) is not None), None)


def _level_folders(name: str) -> Mapping[str, int]:
    """Return the levels of a transform by the names of published folders; empty if these are the levels."""
    return next((found for each in FAMILIES.values() if (found := each.recognition.level_folders.get(name))), {})


def condition_of(folders: Sequence[str], path: str) -> Condition:
    """Return the condition in the names of the folders above a class folder. Raise UserError if there is none."""
    if not folders:
        return CLEAN
    last = folders[-1]
    identifier(last)
    if is_number(last) and len(folders) > 1:
        return Condition(identifier_of_transform(folders[-2]), level_of(folders[-2], last, path))
    if len(folders) > 1 and (published := _level_folders(folders[-2])):
        if last not in published:
            levels = ", ".join(published)
            raise UserError(
                f"{path} has the unknown level {shown(last)} of {folders[-2]}: {levels} or 1, 2, 3 ... are allowed"
            )
        return Condition(folders[-2], published[last])
    if (bare := bare_level(last)) is not None:
        return Condition(last, bare)
    name, _, level = last.rpartition("_")
    if name and is_number(level):
        return Condition(name, level_of(name, level, path))
    raise UserError(f"{path} does not match a transform and a level; supported folders: {expected_folders()}")


def identifier_of_transform(name: str) -> str:
    """Return the name of a transform. Raise UserError if it is not valid in file names."""
    identifier(name)
    return name


def max_level(name: str) -> int:
    """Return the maximum level of a transform."""
    return max([MAX_LEVEL, *(each.largest_level(name) for each in FAMILIES.values() if name in each.names)])


def level_of(name: str, text: str, path: str) -> int:
    """Return the level of a transform, from text. Raise UserError if it is too large."""
    largest = max_level(name)
    if len(text) > len(str(largest)) or int(text) > largest:
        raise UserError(f"{path} has the invalid level {shown(text)}: 0 to {largest} are allowed")
    return int(text)


def file_entry(path: str, shard: str, offset: int, size: int, label: int, encoder: str) -> Entry:
    """Return the sample of a file in a class folder."""
    *_, class_name, name = PurePosixPath(path).parts
    id_, shown_class = identifier(f"{class_name}/{name}"), "" if label == UNLABELLED else class_name
    return Entry(id_, path, label, shown_class, shard, offset, size, encoder)
