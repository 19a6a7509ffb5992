"""Names of folders and files of an export: they sort as their labels do, differ, and lead nowhere else."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from manifests import Row
from pipeline.errors import UserError
from pipeline.sources.base import folded, is_system_folder
from pipeline.text import shown

UNLABELLED = "unlabelled"
"""Folder of images that have neither a label nor a class name."""

MOST_CLASSES = 100_000
"""Labels up to the largest get a folder or a name each; ImageNet-21K has 21,841."""

FOLDER_MARK = "__"
"""Joins the folders below a class and the file name, where a layout has all files of a class in one folder."""

_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that end a line or a text, or cannot be written as UTF-8."""

_DEVICES = frozenset(
    {
        *("con", "prn", "aux", "nul"),
        *(f"{device}{number}" for device in ("com", "lpt") for number in range(1, 10)),
    }
)
"""Names that Windows keeps for devices, in lower case."""


@dataclass
class Classes:
    """The classes of a data set: label -> name, and the names of images without a label."""

    labelled: dict[int, str] = field(default_factory=dict)
    unlabelled: set[str] = field(default_factory=set)

    def see(self, row: Row) -> None:
        """Note the class of a row. Raises UserError for a label that has another name in an earlier row."""
        if row.label < 0:
            self.unlabelled.add(row.class_name or UNLABELLED)
        elif (first := self.labelled.setdefault(row.label, row.class_name)) != row.class_name:
            names = f"{shown(first)} and {shown(row.class_name)}"
            raise UserError(f"the label {row.label} has two class names, {names}: each label must have one")

    def names(self) -> list[str]:
        """Return the name of each label from 0 on, empty for one without a name. Raises UserError for too many."""
        most = max(self.labelled, default=-1)
        if most >= MOST_CLASSES:
            raise UserError(f"the label {most} is too large for this layout: 0 to {MOST_CLASSES - 1} are allowed")
        return [self.labelled.get(label, "") for label in range(most + 1)]


@dataclass(frozen=True)
class ClassFolders:
    """Folders of an export's classes: ``names``, sorted by code point, are in the order of labels.

    ``warnings``: what a reader who counts the folders must know.
    """

    names: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    _labelled: Mapping[int, int] = field(default_factory=dict)
    _unlabelled: Mapping[str, int] = field(default_factory=dict)

    @property
    def unlabelled(self) -> tuple[str, ...]:
        """The folders of images without a label."""
        places = set(self._unlabelled.values()).difference(self._labelled.values())
        return tuple(self.names[place] for place in sorted(places))

    def of(self, row: Row) -> str:
        """Return the folder of a row's class."""
        place = self._labelled[row.label] if row.label >= 0 else self._unlabelled[row.class_name or UNLABELLED]
        return self.names[place]


def class_folders(classes: Classes, wanted: Sequence[str] = ()) -> ClassFolders:
    """Return a folder for each label, for those without images and those ``wanted`` too.

    Class names are kept where they can be folders' names and sort as their labels do; otherwise each gets its label in
    front. Raises UserError for names that are refused, and where ``wanted`` lacks a class.
    """
    if wanted:
        named, labelled, warnings = _wanted(classes, wanted)
    else:
        named, warnings = classes.names(), []
        labelled = {label: label for label in classes.labelled}
    loose = sorted(classes.unlabelled.difference(wanted))
    if loose:
        warnings.append(f"images without a label are in {', '.join(map(shown, loose))}, which readers count as a class")
    unlabelled = {name: named.index(name) for name in classes.unlabelled.intersection(wanted)}
    unlabelled |= {name: len(named) + place for place, name in enumerate(loose)}
    named = [*named, *loose]
    for name in named:
        _check_class(name)
    plain = _with_fillers(named)
    return ClassFolders(tuple(plain if _fit(plain) else _numbered(named)), tuple(warnings), labelled, unlabelled)


def class_labels(classes: Classes) -> list[str]:
    """Return a name for each label from 0 on, no two alike. Raises UserError."""
    names = [name or str(label) for label, name in enumerate(classes.names())]
    return names if len(set(names)) == len(names) else _numbered(classes.names())


def file_stem(row: Row) -> str:
    """Return a sample's name below its class folder: the folders between them joined. Raises UserError."""
    first, *below = row.source_id.split("/")
    parts = below if below and first == row.class_name.replace(".", "_") else [first, *below]
    return safe_name(FOLDER_MARK.join(parts), f"the name of the sample {shown(row.source_id)}")


def safe_name(name: str, what: str) -> str:
    """Return a name that can be a visible file's in its folder. Raises UserError that begins with ``what``."""
    if "/" in name or name in (".", ".."):
        raise UserError(f"{what} leads out of its folder; rename it in the source")
    if not name or name.startswith(".") or _holds_control(name):
        why = "it is empty, begins with a dot, or holds control characters"
        raise UserError(f"{what} cannot be a file's: {why}; rename it in the source")
    return name


def refuse_overlaps(places: Iterable[str]) -> None:
    """Raise UserError where two folders or files have one name, or one lies in another."""
    known = dict[str, str]()
    for place in places:
        if folded(place) in known:
            both = f"{shown(known[folded(place)])} and {shown(place)}"
            raise UserError(f"the data set's transforms and levels come to {both}, which are one; rename a transform")
        known[folded(place)] = place
    for place in known.values():
        above = place.rpartition("/")[0]
        if above and folded(above) in known:
            raise UserError(f"the data set has {shown(above)} with levels and without: {shown(place)} lies in it")


def _wanted(classes: Classes, wanted: Sequence[str]) -> tuple[list[str], dict[int, int], list[str]]:
    """Return the names that the user gave in the order of their folders, label -> place, and warnings."""
    seen = dict[str, str]()
    for name in wanted:
        if folded(name) in seen:
            both = f"{shown(seen[folded(name)])} and {shown(name)}"
            raise UserError(f"--classes names {both}, which are one folder; remove one")
        seen[folded(name)] = name
    known = {label: name or "".join(wanted[label : label + 1]) for label, name in classes.labelled.items()}
    for label, name in known.items():
        if name not in wanted:
            missing = shown(name) if name else f"of the label {label}"
            raise UserError(f"--classes lacks the class {missing} of the data set: name all classes, one per line")
    for named in (list(wanted), sorted(wanted)):
        position = {name: place for place, name in enumerate(named)}
        places = {label: position[name] for label, name in known.items()}
        if all(label == place for label, place in places.items()):
            return named, places, []
    if len(set(places.values())) < len(places):
        raise UserError("two labels of the data set have one class name: --classes cannot tell which is which")
    label, place = next((label, place) for label, place in places.items() if label != place)
    told = f"class {shown(named[place])} has the label {label} in the data set, and {place} among the folders"
    return named, places, [f"the folders of --classes, sorted, count other labels than the data set: {told}"]


def _check_class(name: str) -> None:
    """Raise UserError for a class name that cannot be a folder's, with or without a number in front."""
    if name.startswith("/") or ".." in name.replace("\\", "/").split("/"):
        raise UserError(f"the class name {shown(name)} leads out of the export's folder; rename it in the source")
    if _holds_control(name):
        raise UserError(f"the class name {shown(name)} holds control characters; rename it in the source")


def _with_fillers(named: Sequence[str]) -> list[str]:
    """Return the names as they are; a label without one gets a name that sorts behind the one before it."""
    names, last = list[str](), ""
    for number, name in zip(_numbers(len(named)), named, strict=True):
        names.append(name or (f"{last}-label-{number}" if last else number))
        last = name or last
    return names


def _numbered(named: Sequence[str]) -> list[str]:
    """Return names with their label in front, which sort as the labels do and never coincide."""
    numbers = zip(_numbers(len(named)), named, strict=True)
    return [f"{number}_{_tame(name)}" if name else number for number, name in numbers]


def _numbers(count: int) -> list[str]:
    """Return the labels as text of one length."""
    digits = len(str(max(count - 1, 0)))
    return [f"{label:0{digits}d}" for label in range(count)]


def _tame(name: str) -> str:
    """Return a name without separators of folders, and without an end that readers or systems drop."""
    tame = name.replace("/", "_").replace("\\", "_")
    return f"{tame}_" if tame != tame.rstrip().rstrip(".") else tame


def _fit(names: Sequence[str]) -> bool:
    """Whether names sort in their order, differ on every disk, and no reader or system passes over them."""
    alike = len({folded(name) for name in names}) < len(names)
    return not alike and list(names) == sorted(names) and all(map(_is_plain, names))


def _is_plain(name: str) -> bool:
    device = folded(name).partition(".")[0] in _DEVICES
    return name[0].isalnum() and name == _tame(name) and not device and not is_system_folder(name)


def _holds_control(text: str) -> bool:
    return any(unicodedata.category(character) in _CONTROL for character in text)
