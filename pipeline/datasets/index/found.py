"""What an index finds: conditions, their samples, and the classes. Base of the layouts, and their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED, identifier, suffix
from pipeline.text import shown
from pipeline.transforms.clean import CLEAN
from pipeline.transforms.family import Condition
from pipeline.transforms.registry import FAMILIES

ENCODER_OF_SUFFIX: Mapping[str, str] = {
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".png": "png",
    ".npy": "npy",
    ".mp4": "mp4",
}

MAX_LEVEL = 100
"""Published severities go to 5 or 10."""


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
"""Class names -> the samples of one condition; each is listed by itself, since it may have 50,000."""


@dataclass(frozen=True)
class FoundLayout:
    """What was found: how it is laid out, below which folder, its conditions, and its classes in the order of labels.

    ``passed_over`` counts files that are no samples.
    """

    name: str
    root: Path
    conditions: Mapping[Condition, Listing]
    classes: Sequence[str]
    passed_over: int = 0


def looked_for() -> str:
    """Return where files are looked for, below any other folders, in words."""
    return ", ".join(place for family in FAMILIES.values() for place in family.recognition.places)


def family_of(transform: str, frames: int) -> str:
    """Return the name of the family that samples belong to, by their transform and whether they are sequences."""
    alike = [family for family in FAMILIES.values() if family.sequences == (frames > 1)]
    named = [family for family in alike if transform in family.names]
    return (named or [family for family in alike if family.recognition.other_names])[0].name


def bare_level(name: str, sequences: bool | None = None) -> int | None:
    """Return the level of what only names a transform; None where a level must stand beside, or no family has it.

    ``sequences``: whether sequences or images are found under the name, where that is known.
    """
    named = (each for each in FAMILIES.values() if name in each.names and sequences in (None, each.sequences))
    return next((level for each in named if (level := each.recognition.bare_level) is not None), None)


def condition_of(folders: Sequence[str], path: str) -> Condition:
    """Return the condition that the folders above a class folder name. Raises UserError."""
    if not folders:
        return CLEAN
    last = folders[-1]
    identifier(last)
    if _is_number(last) and len(folders) > 1:
        return Condition(identifier_of_transform(folders[-2]), level_of(last, path))
    if (bare := bare_level(last)) is not None:
        return Condition(last, bare)
    name, _, level = last.rpartition("_")
    if name and _is_number(level):
        return Condition(name, level_of(level, path))
    raise UserError(f"{path} says nothing of a transform and its level; looked for: {looked_for()}")


def identifier_of_transform(name: str) -> str:
    """Return the name of a transform. Raises UserError for one that cannot be a file's."""
    identifier(name)
    return name


def level_of(text: str, path: str) -> int:
    """Return the level that a name holds. Raises UserError for one that is too large."""
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
