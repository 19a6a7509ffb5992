"""File and folder names of an export. Class folders sort in label order; names are unique and stay in the export."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from manifests import Row
from pipeline.errors import UserError
from pipeline.sources.base import folded
from pipeline.sources.files import is_system_folder
from pipeline.text import has_control, shown

UNLABELLED = "unlabelled"
"""Folder of images with neither a label nor a class name."""

MOST_CLASSES = 100_000
"""Maximum number of labels, since each gets a folder or a name. ImageNet-21K has 21,841."""

FOLDER_MARK = "__"
"""Separator that replaces slashes in file names, for layouts with all files of a class in one folder."""

_DEVICES = frozenset(
    {*("con", "prn", "aux", "nul"), *(f"{device}{number}" for device in ("com", "lpt") for number in range(1, 10))}
)
"""Names that Windows reserves for devices, in lower case."""


@dataclass
class Classes:
    """The classes of a data set.

    Attributes:
        labelled: Label -> class name, of the classes that have images.
        unlabelled: Class names of unlabelled images.
        known: Names of all classes in label order, also of those without images. Empty if unknown.
    """

    labelled: dict[int, str] = field(default_factory=dict)
    unlabelled: set[str] = field(default_factory=set)
    known: Sequence[str] = ()

    def add(self, row: Row) -> None:
        """Add the class of a row. Raise UserError if an earlier row has another name for the same label."""
        if row.label < 0:
            self.unlabelled.add(row.class_name or UNLABELLED)
        elif (first := self.labelled.setdefault(row.label, row.class_name)) != row.class_name:
            names = f"{shown(first)} and {shown(row.class_name)}"
            raise UserError(
                f"label {row.label} has two class names, {names}: give each label one name, or export an index without "
                "a task"
            )

    def names(self) -> list[str]:
        """Return the class name of each label from 0, or "" if it has none. Raise UserError for too many labels."""
        known = dict(enumerate(self.known))
        if self.labelled and self.labelled.items() <= known.items():
            return list(self.known)
        most = max(self.labelled, default=-1)
        if most >= MOST_CLASSES:
            raise UserError(f"invalid label {most}: this layout allows labels from 0 to {MOST_CLASSES - 1}")
        return [self.labelled.get(label, "") for label in range(most + 1)]


@dataclass(frozen=True)
class ClassFolders:
    """The class folders of an export: ``names``, sorted by code point, are in label order.

    ``warnings`` are for users whose tools derive labels from the folders.
    """

    names: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    _labelled: Mapping[int, int] = field(default_factory=dict)
    _unlabelled: Mapping[str, int] = field(default_factory=dict)

    @property
    def unlabelled(self) -> tuple[str, ...]:
        """The folders of unlabelled images."""
        indices = set(self._unlabelled.values()).difference(self._labelled.values())
        return tuple(self.names[index] for index in sorted(indices))

    def of(self, row: Row) -> str:
        """Return the class folder of a row."""
        index = self._labelled[row.label] if row.label >= 0 else self._unlabelled[row.class_name or UNLABELLED]
        return self.names[index]


def class_folders(classes: Classes, wanted: Sequence[str] = ()) -> ClassFolders:
    """Return a folder for each label, including labels and known classes without images, and those in ``wanted``.

    Class names are used as folder names if they are valid and sort in label order. Otherwise every name gets its label
    as a prefix.

    Raises:
        UserError: A name is invalid, or ``wanted`` lacks a class of the data set.
    """
    if wanted:
        named, labelled, warnings = _folders_for_names(classes, wanted)
    else:
        named, warnings = classes.names(), []
        labelled = {label: label for label in classes.labelled}
    extra = sorted(classes.unlabelled.difference(wanted))
    if extra:
        folders = ", ".join(map(shown, extra))
        warnings.append(f"unlabelled images are in the folder {folders}, which readers count as a class")
    unlabelled = {name: named.index(name) for name in classes.unlabelled.intersection(wanted)}
    unlabelled |= {name: len(named) + index for index, name in enumerate(extra)}
    named = [*named, *extra]
    for name in named:
        _check_class(name)
    plain = _with_placeholders(named)
    names = plain if _are_sorted_and_unique(plain) else _numbered(named)
    return ClassFolders(tuple(names), tuple(warnings), labelled, unlabelled)


def class_labels(classes: Classes) -> list[str]:
    """Return a unique class name for each label from 0. Raise UserError for too many labels."""
    names = [name or str(label) for label, name in enumerate(classes.names())]
    return names if len(set(names)) == len(names) else _numbered(classes.names())


def file_stem(row: Row) -> str:
    """Return the file name of a sample in its class folder, without suffix. Raise UserError if it is invalid."""
    first, *below = row.source_id.split("/")
    parts = below if below and first == row.class_name.replace(".", "_") else [first, *below]
    return safe_name(FOLDER_MARK.join(parts), f"the name of the sample {shown(row.source_id)}")


def safe_name(name: str, what: str) -> str:
    """Return a valid name unchanged. Raise UserError, starting with ``what``, for an invalid or hidden one."""
    if "/" in name or name in (".", ".."):
        raise UserError(f"{what} is outside of its folder: rename it in the source")
    if not name or name.startswith(".") or has_control(name):
        why = "it is empty, starts with a dot, or contains control characters"
        raise UserError(f"{what} is not a valid file name, because {why}: rename it in the source")
    return name


def refuse_overlaps(paths: Iterable[str]) -> None:
    """Raise UserError if two paths are equal on some file system, or one is inside another."""
    known = dict[str, str]()
    for path in paths:
        if folded(path) in known:
            both = f"{shown(known[folded(path)])} and {shown(path)}"
            raise UserError(f"two transforms of the data set have the same path, {both}: rename one of them")
        known[folded(path)] = path
    for path in known.values():
        above = path.rpartition("/")[0]
        if above and folded(above) in known:
            raise UserError(f"{shown(path)} is inside {shown(above)}, a transform without levels: rename the transform")


def _folders_for_names(classes: Classes, wanted: Sequence[str]) -> tuple[list[str], dict[int, int], list[str]]:
    """Return the names given by the user in folder order, label -> index, and warnings."""
    seen = dict[str, str]()
    for name in wanted:
        if folded(name) in seen:
            both = f"{shown(seen[folded(name)])} and {shown(name)}"
            raise UserError(f"--classes lists {both}, which are the same folder on some file systems: remove one")
        seen[folded(name)] = name
    known = {label: name or "".join(wanted[label : label + 1]) for label, name in classes.labelled.items()}
    for label, name in known.items():
        if name not in wanted:
            missing = shown(name) if name else f"of label {label}"
            raise UserError(f"--classes lacks the class {missing} of the data set: list all classes, one per line")
    for named in (list(wanted), sorted(wanted)):
        position = {name: index for index, name in enumerate(named)}
        indices = {label: position[name] for label, name in known.items()}
        if all(label == index for label, index in indices.items()):
            return named, indices, []
    if len(set(indices.values())) < len(indices):
        raise UserError("two labels of the data set have the same class name: omit --classes, which needs unique names")
    label, index = next((label, index) for label, index in indices.items() if label != index)
    what = f"class {shown(named[index])} has label {label} in the data set, but {index} among the folders"
    return named, indices, [f"the folders of --classes, sorted by name, give other labels than the data set: {what}"]


def _check_class(name: str) -> None:
    """Raise UserError if a class name is not valid as a folder name, even with a number as prefix."""
    if name.startswith("/") or ".." in name.replace("\\", "/").split("/"):
        raise UserError(f"the class name {shown(name)} is outside of the export's folder: rename the class")
    if has_control(name):
        raise UserError(f"the class name {shown(name)} contains control characters: rename the class")


def _with_placeholders(named: Sequence[str]) -> list[str]:
    """Return the names; each label without one gets a name that sorts after the preceding name."""
    names, last = list[str](), ""
    for number, name in zip(_numbers(len(named)), named, strict=True):
        names.append(name or (f"{last}-label-{number}" if last else number))
        last = name or last
    return names


def _numbered(named: Sequence[str]) -> list[str]:
    """Return the names with their labels as prefixes. They sort in label order and are unique."""
    numbers = zip(_numbers(len(named)), named, strict=True)
    return [f"{number}_{_without_separators(name)}" if name else number for number, name in numbers]


def _numbers(count: int) -> list[str]:
    """Return the labels as zero-padded strings of equal length."""
    digits = len(str(max(count - 1, 0)))
    return [f"{label:0{digits}d}" for label in range(count)]


def _without_separators(name: str) -> str:
    """Return a name without path separators, and without trailing spaces and dots, which some systems drop."""
    clean = name.replace("/", "_").replace("\\", "_")
    return f"{clean}_" if clean != clean.rstrip().rstrip(".") else clean


def _are_sorted_and_unique(names: Sequence[str]) -> bool:
    """Return whether the names are sorted, unique on every file system, and not skipped by readers."""
    alike = len({folded(name) for name in names}) < len(names)
    return not alike and list(names) == sorted(names) and all(map(_is_plain, names))


def _is_plain(name: str) -> bool:
    device = folded(name).partition(".")[0] in _DEVICES
    return name[0].isalnum() and name == _without_separators(name) and not device and not is_system_folder(name)
