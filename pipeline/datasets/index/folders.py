"""Indexing of class folders, on disk and in tars."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from pipeline.datasets.index.detected import DetectedLayout, Entry, expected_folders, file_entry
from pipeline.datasets.index.labelling import Labelling, last_component
from pipeline.datasets.paths import INDEX_FILE, MANIFEST_FILE
from pipeline.errors import UserError
from pipeline.sources.base import LONGEST_LIST
from pipeline.sources.files import SUFFIXES, counted_as, is_hidden, is_system_folder, suffix
from pipeline.storage import LocalStore
from pipeline.storage.tars import TarIndex, TarMember
from pipeline.text import SHOWN, shown

EXPORT_FILE = "export.toml"
"""File that an export writes beside its images."""

GENERATED_FILES = frozenset({INDEX_FILE, MANIFEST_FILE, EXPORT_FILE, "classes.txt"})
"""Files of this project that may be beside the class folders."""

TAR = ".tar"

LABEL_MEMBER = ".cls"
"""Suffix of members with the label of an image, as in WebDataset."""

_LABEL = re.compile("-1|[0-9]{1,7}")


def find_folders(root: Path, labelling: Labelling) -> DetectedLayout:
    """Return the layout of class folders.

    Raises:
        UserError: The folders do not match a known layout, or images would be skipped.
    """
    store, encoders = LocalStore(str(root)), labelling.encoders
    images: dict[str, int] = {}
    ignored: Counter[str] = Counter()
    for folder, entries in store.folders("", is_system_folder):
        store.path(folder)  # raises UserError for a link to outside of the store
        below = [entry for entry in entries if entry.is_folder and not is_system_folder(entry.name)]
        files = [entry.name for entry in entries if not entry.is_folder]
        other = [name for name in files if not is_sample(name, f"{root}/{folder}", encoders)]
        samples = len(files) - len(other)
        ignored.update(counted_as(name) for name in other if folder or name not in GENERATED_FILES)
        if below and samples:
            raise UserError(f"{root / folder} contains images and folders; supported folders: {expected_folders()}")
        if below or not folder:
            continue
        if labelling.names_every_folder and files and not samples:
            raise UserError(f"{root / folder} contains files but no images, and would count as a class: move it away")
        images[folder] = samples
    chosen = labelling.choose(images, lambda folder: str(root / folder))

    def listing(folders: Sequence[str]) -> Iterator[Entry]:
        lists = {place for folder in folders for place in (folder, folder.rpartition("/")[0]) if place}
        listed = {path: label for place in sorted(lists) for path, label in _listed_labels(store, place)}
        for folder in sorted(folders, key=last_component):
            for entry in store.entries(folder):
                if not entry.is_folder and suffix(entry.name) in encoders:
                    path = f"{folder}/{entry.name}"
                    found = file_entry(path, path, 0, entry.size, chosen.label(path), encoders[suffix(path)])
                    if labelling.names_every_folder and listed.get(path, found.label) != found.label:
                        raise UserError(
                            f"{root}/{path} has label {found.label} from its folder, but {listed[path]} in the list "
                            "file beside it: give the class names in label order with --classes"
                        )
                    yield found

    conditions = {condition: partial(listing, each) for condition, each in chosen.conditions.items()}
    return DetectedLayout("folders", root, conditions, chosen.labelled, ignored)


def find_tars(path: Path, labelling: Labelling) -> DetectedLayout:
    """Return the layout of class folders in tars. Raise UserError if they do not match a known layout."""
    found: dict[str, list[tuple[str, str, TarMember]]] = {}  # folder -> path, tar and member of each sample in it
    root, tars = (path, files_with(path, TAR)) if path.is_dir() else (path.parent, [path.name])
    encoders, folders, ignored = labelling.encoders, list[str](), Counter[str]()
    other = set[str]()
    label_members: dict[tuple[str, str], TarMember] = {}
    for tar in tars:
        content = TarIndex(LocalStore(str(root)), tar)
        for name, member in content.members().items():
            folder, _, file = PurePosixPath(name).as_posix().rpartition("/")
            if is_hidden(name) or not is_sample(name, f"{root / tar}", encoders):
                ignored[counted_as(name)] += 1
                other.add(folder)
                if suffix(name) == LABEL_MEMBER:
                    label_members[tar, PurePosixPath(name).with_suffix("").as_posix()] = member
                continue
            if not folder:
                raise UserError(f"{root / tar}: {name} is not in a class folder; supported: {expected_folders()}")
            found.setdefault(folder, []).append((f"{folder}/{file}", tar, member))
        folders += [PurePosixPath(name).as_posix() for name in content.folders() if not is_hidden(f"{name}/x")]
    images = {folder: len(samples) for folder, samples in found.items()}
    parents = {folder.rpartition("/")[0] for folder in found}
    for folder in folders:  # a folder beside class folders is a class too, even if it is empty
        if folder != "." and folder.rpartition("/")[0] in parents and folder not in parents:
            if labelling.names_every_folder and folder in other and folder not in found:
                what = "contains files but no images, and would count as a class"
                raise UserError(f"{path}: {folder} {what}: remove it from the tar")
            images.setdefault(folder, 0)

    def where(folder: str) -> str:
        tar = found[folder][0][1] if folder in found else ""
        return f"{root / tar if tar else path}: {folder}" if folder else str(path)

    chosen = labelling.choose(images, where)

    def listing(folders: Sequence[str]) -> Iterator[Entry]:
        members = [sample for folder in folders for sample in found.get(folder, ())]
        for name, tar, member in sorted(members, key=lambda sample: PurePosixPath(sample[0]).parts[-2:]):
            entry = file_entry(name, tar, member.offset, member.size, chosen.label(name), encoders[suffix(name)])
            beside = label_members.get((tar, PurePosixPath(name).with_suffix("").as_posix()))
            if labelling.names_every_folder and beside:
                content = LocalStore(str(root)).read(tar, beside.offset, min(beside.size, SHOWN))
                label = content.decode(errors="replace").strip()
                if label != str(entry.label):
                    raise UserError(
                        f"{root / tar}: {name} has label {entry.label} from its folder, but {shown(label)} in its "
                        f"{LABEL_MEMBER} member: give the class names in label order with --classes"
                    )
            yield entry

    conditions = {condition: partial(listing, each) for condition, each in chosen.conditions.items()}
    return DetectedLayout("tars", root, conditions, chosen.labelled, ignored)


def files_with(folder: Path, ending: str) -> list[str]:
    """Return the files of a folder with this suffix, ignoring case, by name. Raise UserError if it cannot be listed."""
    entries = LocalStore(str(folder)).entries("")
    return [entry.name for entry in entries if not entry.is_folder and suffix(entry.name) == ending]


def is_sample(name: str, where: str, encoders: Mapping[str, str]) -> bool:
    """Return whether a file has a suffix in ``encoders``. Raise UserError for an image in an unsupported format."""
    ending = suffix(name)
    if ending in SUFFIXES and ending not in encoders:
        allowed = ", ".join(encoders)
        raise UserError(f"{where}: {name} is an image in an unsupported format: convert it to one of {allowed}")
    return ending in encoders


def _listed_labels(store: LocalStore, folder: str) -> Iterator[tuple[str, int]]:
    """Yield each path and label of the list file beside a folder, as in ImageNet-S: lines ``path label``."""
    name = f"{folder}.txt"
    if store.size(name) >= 0:
        for line in store.read(name, limit=LONGEST_LIST).decode(errors="replace").splitlines():
            path, _, label = line.rpartition(" ")
            if _LABEL.fullmatch(label):
                yield f"{folder}/{path}", int(label)
