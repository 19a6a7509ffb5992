"""What is found at a place: steps, their samples, and the classes. Base of the layouts, and their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import perturbations
from pipeline.errors import UserError, shown
from pipeline.sources.base import UNLABELLED, identifier, suffix
from pipeline.transforms.family import Condition
from pipeline.transforms.imagenet_s import PAIRS

ENCODER_OF_SUFFIX: Mapping[str, str] = {
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".png": "png",
    ".npy": "npy",
    ".mp4": "mp4",
}

CLEAN = Condition("none", 0)

MAX_LEVEL = 100
"""Published severities go to 5 or 10."""

PLACES = (
    "<corruption>/<severity>/<class>/<file>, <corruption>_<severity>/<class>/<file>, "
    "<perturbation>/<class>/<file>.mp4, <decoder>_<resize>/<class>/<file>, none/<class>/<file>, <class>/<file>"
)
"""Where files are looked for, below any other folders."""


@dataclass(frozen=True)
class Entry:
    """One sample of somebody else's data set: what it is called, and the range of bytes where it lies.

    ``shape`` is that of bare pixels, (H, W, 3) or (T, H, W, 3); empty for files.
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


Listing = Callable[[Sequence[str]], Iterable[Entry]]
"""Class names -> the samples of one step; each step is listed by itself, since it may have 50,000."""


@dataclass(frozen=True)
class Layout:
    """What was found: how it is laid out, below which folder, its steps, and its classes in the order of labels.

    ``passed_over`` counts files that are no samples.
    """

    name: str
    root: Path
    conditions: Mapping[Condition, Listing]
    classes: Sequence[str]
    passed_over: int = 0


def step_of(folders: Sequence[str], path: str) -> Condition:
    """Return the step that the folders above a class folder name. Raises UserError."""
    if not folders:
        return CLEAN
    last = folders[-1]
    identifier(last)
    if _is_number(last) and len(folders) > 1:
        return Condition(identifier_of_transform(folders[-2]), level_of(last, path))
    if last == CLEAN.transform or last in PAIRS:
        return Condition(last, 0)
    if last in perturbations.names("all"):
        return Condition(last, 1)
    name, _, level = last.rpartition("_")
    if name and _is_number(level):
        return Condition(name, level_of(level, path))
    raise UserError(f"{path} says nothing of a transform and its level; looked for: {PLACES}")


def identifier_of_transform(name: str) -> str:
    """Return the name of a transform. Raises UserError for one that cannot be a file's."""
    identifier(name)
    return name


def level_of(text: str, path: str) -> int:
    """Return the level that a name tells. Raises UserError for one that is too large."""
    if len(text) > len(str(MAX_LEVEL)) or int(text) > MAX_LEVEL:
        raise UserError(f"{path} names the level {shown(text)}: 0 to {MAX_LEVEL} are allowed")
    return int(text)


def file_entry(path: str, shard: str, offset: int, size: int, labels: Mapping[str, int]) -> Entry:
    """Return the sample that a file in a class folder is. Raises UserError for a class that is not among ``labels``."""
    *_, class_name, name = PurePosixPath(path).parts
    if class_name not in labels:
        raise UserError(f"{path}: the class {class_name!r} is not among the {len(labels)} that were named")
    encoder, id_ = ENCODER_OF_SUFFIX[suffix(name)], identifier(f"{class_name}/{name}")
    label = labels[class_name]
    return Entry(id_, path, label, class_name if label != UNLABELLED else "", shard, offset, size, encoder)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
