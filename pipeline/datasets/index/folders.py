"""Files in class folders, on the disk and in tars."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from pipeline.datasets.index.found import ENCODER_OF_SUFFIX, Entry, FoundLayout, condition_of, file_entry, looked_for
from pipeline.datasets.paths import INDEX_FILE, MANIFEST_FILE
from pipeline.errors import UserError
from pipeline.sources.base import LONGEST_LIST, SUFFIXES, UNLABELLED, is_passed_over, is_system_folder, suffix
from pipeline.storage import LocalStore
from pipeline.storage.tar_index import TarIndex
from pipeline.text import SHOWN, shown
from pipeline.transforms.family import Condition

EXPORT_FILE = "export.toml"
"""What an export states beside its files."""

BESIDE = frozenset({INDEX_FILE, MANIFEST_FILE, EXPORT_FILE, "classes.txt"})
"""Files of ours that may lie beside the folders."""

TAR = ".tar"

LABEL_MEMBER = ".cls"
"""Members beside images that tell their labels, as WebDataset has them."""

_LABEL = re.compile("-1|[0-9]{1,7}")

Parts = tuple[str, ...]
"""A path in a tar."""


def find_folders(root: Path, classes: Sequence[str], unlabelled: Collection[str] = ()) -> FoundLayout:
    """Return what class folders hold. Empty ones count for the labels, ``unlabelled`` ones do not. Raises UserError."""
    store = LocalStore(str(root))
    found: dict[Condition, list[str]] = {}
    held: set[Condition] = set()
    passed_over = 0
    for folder, below, files in _walk(store):
        samples = sum(is_sample(name, f"{root}/{folder}") for name in files)
        passed_over += len(files) - samples - (0 if folder else len(BESIDE.intersection(files)))
        if below and samples:
            raise UserError(f"{root / folder} holds images beside folders; looked for: {looked_for()}")
        if below or not folder:
            continue
        if files and not samples:
            raise UserError(f"{root / folder} holds files but no images, and would count as a class: move it away")
        condition = condition_of(folder.split("/")[:-1], str(root / folder))
        found.setdefault(condition, []).append(folder)
        held |= {condition} if samples else set()
    for condition in found.keys() - held if held else ():
        raise UserError(
            f"{root / found[condition][0]} is empty, as is all of {condition}: remove it, or add the images"
        )
    named = sorted({_name(folder) for folders in found.values() for folder in folders}.difference(unlabelled))

    def listing(folders: list[str], labels: Sequence[str]) -> Iterator[Entry]:
        positions = {name: label for label, name in enumerate(labels)} | dict.fromkeys(unlabelled, UNLABELLED)
        lists = {place for folder in folders for place in (folder, folder.rpartition("/")[0]) if place}
        listed = {path: label for place in sorted(lists) for path, label in _listed_labels(store, place)}
        for folder in sorted(folders, key=_name):
            for entry in store.entries(folder):
                if not entry.is_folder and suffix(entry.name) in ENCODER_OF_SUFFIX:
                    path = f"{folder}/{entry.name}"
                    found = file_entry(path, path, 0, entry.size, positions)
                    if listed.get(path, found.label) != found.label:
                        raise UserError(
                            f"{root}/{path} has the label {found.label} by its folder and {listed[path]} in the list "
                            "beside: name all classes with --classes, in label order"
                        )
                    yield found

    conditions = {condition: partial(listing, each) for condition, each in found.items() if condition in held}
    return FoundLayout("folders", root, conditions, classes or named, passed_over)


def find_tars(path: Path, classes: Sequence[str]) -> FoundLayout:
    """Return what class folders inside of tars hold. Raises UserError."""
    found: dict[Condition, list[tuple[str, str, int, int]]] = {}
    root, tars = (path, files_with(path, TAR)) if path.is_dir() else (path.parent, [path.name])
    named, folders, passed_over = set[str](), list[Parts](), 0
    beside, held, other = set[Parts](), set[Parts](), set[Parts]()
    told: dict[tuple[str, str], tuple[int, int]] = {}
    for tar in tars:
        content = TarIndex(LocalStore(str(root)), tar)
        for name, member in content.members().items():
            parts = PurePosixPath(name).parts
            if is_passed_over(name) or not is_sample(name, f"{root / tar}"):
                passed_over += 1
                other.add(parts[:-1])
                if suffix(name) == LABEL_MEMBER:
                    told[tar, PurePosixPath(name).with_suffix("").as_posix()] = member
                continue
            if len(parts) < 2:
                raise UserError(f"{root / tar}: {name} is in no class folder; looked for: {looked_for()}")
            condition = condition_of(parts[:-2], f"{root / tar}: {name}")
            found.setdefault(condition, []).append((PurePosixPath(name).as_posix(), tar, *member))
            named.add(parts[-2])
            held.add(parts[:-1])
            beside.add(parts[:-2])
        folders += [PurePosixPath(name).parts for name in content.folders() if not is_passed_over(f"{name}/x")]
    for parts in folders:  # a folder beside class folders is a class too, though it may be empty
        if parts and parts[:-1] in beside and parts not in beside:
            if parts in other and parts not in held:
                where = "/".join(parts)
                raise UserError(f"{path}: {where} holds files but no images, and would count as a class: leave it out")
            named.add(parts[-1])

    def listing(members: list[tuple[str, str, int, int]], labels: Sequence[str]) -> Iterator[Entry]:
        positions = {name: label for label, name in enumerate(labels)}
        for name, tar, offset, size in sorted(members, key=lambda each: PurePosixPath(each[0]).parts[-2:]):
            found = file_entry(name, tar, offset, size, positions)
            if place := told.get((tar, PurePosixPath(name).with_suffix("").as_posix())):
                label = LocalStore(str(root)).read(tar, place[0], min(place[1], SHOWN)).decode(errors="replace").strip()
                if label != str(found.label):
                    raise UserError(
                        f"{root / tar}: {name} has the label {found.label} by its folder and {shown(label)} in its "
                        f"{LABEL_MEMBER}: name all classes with --classes, in label order"
                    )
            yield found

    conditions = {condition: partial(listing, each) for condition, each in found.items()}
    return FoundLayout("tars", root, conditions, classes or sorted(named), passed_over)


def files_with(folder: Path, ending: str) -> list[str]:
    """Return the files of a folder that end so, in any case, by name. Raises UserError where it cannot be listed."""
    entries = LocalStore(str(folder)).entries("")
    return [entry.name for entry in entries if not entry.is_folder and suffix(entry.name) == ending]


def is_sample(name: str, where: str) -> bool:
    """Return whether a file is a sample. Raises UserError for an image of a format that is not read here."""
    ending = suffix(name)
    if ending in SUFFIXES and ending not in ENCODER_OF_SUFFIX:
        allowed = ", ".join(ENCODER_OF_SUFFIX)
        raise UserError(f"{where}: {name} is an image that would be left out; {allowed} are read: convert it")
    return ending in ENCODER_OF_SUFFIX


def _walk(store: LocalStore) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder, the folders in it and the files, by name; hidden ones and those of the system are left out.

    Raises UserError for a folder that cannot be listed, leads out, or is reached twice.
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
    """Yield each path and its label in the list beside a folder, as ImageNet-S has them: lines ``path label``."""
    name = f"{folder}.txt"
    if store.size(name) >= 0:
        for line in store.read(name, limit=LONGEST_LIST).decode(errors="replace").splitlines():
            path, _, label = line.rpartition(" ")
            if _LABEL.fullmatch(label):
                yield f"{folder}/{path}", int(label)


def _name(folder: str) -> str:
    return folder.rpartition("/")[2]
