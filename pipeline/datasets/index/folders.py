"""Indexing of class folders, on disk and in tars."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from pipeline.datasets.index.detected import (
    ENCODER_OF_SUFFIX,
    DetectedLayout,
    Entry,
    condition_of,
    expected_folders,
    file_entry,
)
from pipeline.datasets.paths import INDEX_FILE, MANIFEST_FILE
from pipeline.errors import UserError
from pipeline.sources.base import LONGEST_LIST, SUFFIXES, UNLABELLED, is_hidden, is_system_folder, suffix
from pipeline.storage import LocalStore
from pipeline.storage.tar_index import TarIndex
from pipeline.text import SHOWN, shown
from pipeline.transforms.family import Condition

EXPORT_FILE = "export.toml"
"""File that an export writes beside its images."""

GENERATED_FILES = frozenset({INDEX_FILE, MANIFEST_FILE, EXPORT_FILE, "classes.txt"})
"""Files of this project that may be beside the class folders."""

TAR = ".tar"

LABEL_MEMBER = ".cls"
"""Suffix of members with the label of an image, as in WebDataset."""

_LABEL = re.compile("-1|[0-9]{1,7}")

Parts = tuple[str, ...]
"""The components of a path in a tar."""


def find_folders(root: Path, classes: Sequence[str], unlabelled: Collection[str] = ()) -> DetectedLayout:
    """Return the layout of class folders.

    Args:
        root: The folder.
        classes: Class names in label order. Default: the sorted names of all class folders, including empty ones.
        unlabelled: Class folders of images without a label.

    Raises:
        UserError: The folders do not match a known layout, or images would be skipped.
    """
    store = LocalStore(str(root))
    found: dict[Condition, list[str]] = {}
    nonempty: set[Condition] = set()
    passed_over = 0
    for folder, below, files in _walk(store):
        samples = sum(is_sample(name, f"{root}/{folder}") for name in files)
        passed_over += len(files) - samples - (0 if folder else len(GENERATED_FILES.intersection(files)))
        if below and samples:
            raise UserError(f"{root / folder} contains images and folders; supported folders: {expected_folders()}")
        if below or not folder:
            continue
        if files and not samples:
            raise UserError(f"{root / folder} contains files but no images, and would count as a class: move it away")
        condition = condition_of(folder.split("/")[:-1], str(root / folder))
        found.setdefault(condition, []).append(folder)
        nonempty |= {condition} if samples else set()
    for condition in found.keys() - nonempty if nonempty else ():
        raise UserError(
            f"{root / found[condition][0]} is empty, like all class folders of {condition}: remove it, or add "
            "the images"
        )
    named = sorted({_last_component(folder) for folders in found.values() for folder in folders}.difference(unlabelled))

    def listing(folders: list[str], labels: Sequence[str]) -> Iterator[Entry]:
        positions = {name: label for label, name in enumerate(labels)} | dict.fromkeys(unlabelled, UNLABELLED)
        lists = {place for folder in folders for place in (folder, folder.rpartition("/")[0]) if place}
        listed = {path: label for place in sorted(lists) for path, label in _listed_labels(store, place)}
        for folder in sorted(folders, key=_last_component):
            for entry in store.entries(folder):
                if not entry.is_folder and suffix(entry.name) in ENCODER_OF_SUFFIX:
                    path = f"{folder}/{entry.name}"
                    found = file_entry(path, path, 0, entry.size, positions)
                    if listed.get(path, found.label) != found.label:
                        raise UserError(
                            f"{root}/{path} has label {found.label} from its folder, but {listed[path]} in the list "
                            "file beside it: give the class names in label order with --classes"
                        )
                    yield found

    conditions = {condition: partial(listing, each) for condition, each in found.items() if condition in nonempty}
    return DetectedLayout("folders", root, conditions, classes or named, passed_over)


def find_tars(path: Path, classes: Sequence[str]) -> DetectedLayout:
    """Return the layout of class folders in tars. Raise UserError if they do not match a known layout."""
    found: dict[Condition, list[tuple[str, str, int, int]]] = {}
    root, tars = (path, files_with(path, TAR)) if path.is_dir() else (path.parent, [path.name])
    named, folders, passed_over = set[str](), list[Parts](), 0
    beside, nonempty, other = set[Parts](), set[Parts](), set[Parts]()
    label_members: dict[tuple[str, str], tuple[int, int]] = {}
    for tar in tars:
        content = TarIndex(LocalStore(str(root)), tar)
        for name, member in content.members().items():
            parts = PurePosixPath(name).parts
            if is_hidden(name) or not is_sample(name, f"{root / tar}"):
                passed_over += 1
                other.add(parts[:-1])
                if suffix(name) == LABEL_MEMBER:
                    label_members[tar, PurePosixPath(name).with_suffix("").as_posix()] = member
                continue
            if len(parts) < 2:
                raise UserError(f"{root / tar}: {name} is not in a class folder; supported: {expected_folders()}")
            condition = condition_of(parts[:-2], f"{root / tar}: {name}")
            found.setdefault(condition, []).append((PurePosixPath(name).as_posix(), tar, *member))
            named.add(parts[-2])
            nonempty.add(parts[:-1])
            beside.add(parts[:-2])
        folders += [PurePosixPath(name).parts for name in content.folders() if not is_hidden(f"{name}/x")]
    for parts in folders:  # a folder beside class folders is a class too, even if it is empty
        if parts and parts[:-1] in beside and parts not in beside:
            if parts in other and parts not in nonempty:
                where = "/".join(parts)
                what = "contains files but no images, and would count as a class"
                raise UserError(f"{path}: {where} {what}: remove it from the tar")
            named.add(parts[-1])

    def listing(members: list[tuple[str, str, int, int]], labels: Sequence[str]) -> Iterator[Entry]:
        positions = {name: label for label, name in enumerate(labels)}
        for name, tar, offset, size in sorted(members, key=lambda each: PurePosixPath(each[0]).parts[-2:]):
            found = file_entry(name, tar, offset, size, positions)
            if span := label_members.get((tar, PurePosixPath(name).with_suffix("").as_posix())):
                label = LocalStore(str(root)).read(tar, span[0], min(span[1], SHOWN)).decode(errors="replace").strip()
                if label != str(found.label):
                    raise UserError(
                        f"{root / tar}: {name} has label {found.label} from its folder, but {shown(label)} in its "
                        f"{LABEL_MEMBER} member: give the class names in label order with --classes"
                    )
            yield found

    conditions = {condition: partial(listing, each) for condition, each in found.items()}
    return DetectedLayout("tars", root, conditions, classes or sorted(named), passed_over)


def files_with(folder: Path, ending: str) -> list[str]:
    """Return the files of a folder with this suffix, ignoring case, by name. Raise UserError if it cannot be listed."""
    entries = LocalStore(str(folder)).entries("")
    return [entry.name for entry in entries if not entry.is_folder and suffix(entry.name) == ending]


def is_sample(name: str, where: str) -> bool:
    """Return whether a file is a sample. Raise UserError for an image in an unsupported format."""
    ending = suffix(name)
    if ending in SUFFIXES and ending not in ENCODER_OF_SUFFIX:
        allowed = ", ".join(ENCODER_OF_SUFFIX)
        raise UserError(f"{where}: {name} is an image in an unsupported format: convert it to one of {allowed}")
    return ending in ENCODER_OF_SUFFIX


def _walk(store: LocalStore) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder with its subfolders and files, by name. Skip hidden files and folders, and system folders.

    Raises:
        UserError: A folder cannot be listed, is outside of the store, or is reached twice.
    """
    seen: dict[tuple[int, int], str] = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        about = store.path(folder).stat()
        first = seen.setdefault((about.st_dev, about.st_ino), folder)
        if first != folder:
            raise UserError(f"{store.root}/{folder} and {store.root}/{first} are the same folder; remove the link")
        entries = store.entries(folder)
        below = [entry.name for entry in entries if entry.is_folder and not is_system_folder(entry.name)]
        yield folder, below, [entry.name for entry in entries if not entry.is_folder]
        waiting += [f"{folder}/{name}" if folder else name for name in reversed(below)]


def _listed_labels(store: LocalStore, folder: str) -> Iterator[tuple[str, int]]:
    """Yield each path and label of the list file beside a folder, as in ImageNet-S: lines ``path label``."""
    name = f"{folder}.txt"
    if store.size(name) >= 0:
        for line in store.read(name, limit=LONGEST_LIST).decode(errors="replace").splitlines():
            path, _, label = line.rpartition(" ")
            if _LABEL.fullmatch(label):
                yield f"{folder}/{path}", int(label)


def _last_component(folder: str) -> str:
    return folder.rpartition("/")[2]
