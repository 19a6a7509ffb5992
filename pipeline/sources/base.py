"""What every source offers to the plan and to the workers."""

from __future__ import annotations

import codecs
import errno
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import RefusedFileError, UserError
from pipeline.storage import LARGEST_READ, Place, find_place
from pipeline.storage.base import path_sort_key

UNLABELLED = -1
"""Label of an image that stands in no class folder; its class name is empty."""

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".bmp", ".tif", ".tiff", ".webp"})
"""Files that count as images, compared in lower case (torchvision's list)."""

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst", ".lz4")

SYSTEM_FOLDERS = frozenset(
    {
        *("__macosx", ".trashes", ".spotlight-v100", ".fseventsd", "network trash folder", "temporary items"),
        *("lost+found", "__pycache__"),
        *("$recycle.bin", "recycler", "recycled", "system volume information", "found.000"),
        *("@eadir", "#recycle", "#snapshot", "@tmp", "@sharebin"),
        *("@recycle", "@recently-snapshot", "@__thumb", ".@__thumb"),
        *(".snapshot", ".snapshots", "~snapshot", ".zfs"),
    }
)
"""Folders that macOS, Linux, Windows, Synology, QNAP and file servers make by themselves, in lower case."""

LONGEST_LIST = 2**26
"""Bytes of a list of names or labels: 64 MiB, some 50 bytes for each of ImageNet's training images."""

MAX_LABEL = 10**6
"""No data set has more classes."""

UNWRITABLE: Mapping[str, str] = {
    "Cc": "the control character",
    "Cs": "the surrogate",
    "Zl": "the line separator",
    "Zp": "the paragraph separator",
}
"""Categories of Unicode that no id may hold -> what they are called."""

SPLITS: Mapping[str, str] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
}
"""Words in names of files and folders -> the split that they stand for, as Hugging Face has them."""

_OF_SEVERAL = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.[a-z]+)")
"""A file of several, as Hugging Face and TensorFlow number them."""

_SKIPPED_BY_READERS = re.compile(r"__[^/]*__(/|$)")
"""WebDataset takes members in such a folder for its own notes, and passes over them."""

Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; right and bottom are the first beyond."""

Pixels = NDArray[np.uint8]
"""RGB (H, W, 3), 0..255."""


@dataclass(frozen=True, slots=True)
class SourceImage:
    """One clean image, by reference: workers read the bytes where they need them.

    ``id`` is unique in the source and holds no dot; ``origin`` finds the image inside the source; ``size`` is its
    length in bytes, so that a changed file is noticed before it is read. Of an image with a ``box`` only that counts.
    """

    id: str
    label: int
    class_name: str
    origin: str
    size: int
    box: Box | None = None


class Source(Protocol):
    """A fixed, ordered listing that can be walked again and again, and the bytes behind each entry."""

    location: str

    @property
    def ignored(self) -> Counter[str]:
        """Suffix -> number of files that the last walk passed over because they are not images."""

    def __iter__(self) -> Iterator[SourceImage]: ...

    def read(self, image: SourceImage) -> bytes | Pixels:
        """The encoded bytes, or the pixels where the source holds those. Raises OSError, and UnreachableError."""


def suffix(name: str) -> str:
    """The suffix of a file name in lower case."""
    return os.path.splitext(name)[1].lower()


def is_system_folder(name: str) -> bool:
    """Return whether a folder of this name is the system's own, and holds nobody's images."""
    return name.casefold() in SYSTEM_FOLDERS


def is_passed_over(path: str) -> bool:
    """Return whether a file is hidden, or lies in a hidden folder or one of the system."""
    *folders, name = path.split("/")
    hidden = any(part.startswith(".") and part not in (".", "..") for part in (*folders, name))
    return hidden or any(map(is_system_folder, folders))


def source_files(place: Place, ending: str, ignored: Counter[str]) -> list[str]:
    """Return the files that end so: the one named, those that match, or all below the folder, folder by folder.

    Links are followed. Hidden files and the system's are left out; others are counted. Raises UserError, also for
    compressed ones among them.
    """
    if not place.is_folder:
        return place.files(ending)
    found: list[str] = []
    compressed = (".tgz", *(ending + compression for compression in COMPRESSIONS))
    for path, _ in place.store.walk("", is_system_folder):
        name = path.lower()
        if name.endswith(ending):
            found.append(path)
        elif name.endswith(compressed):
            raise UserError(f"{place.location}/{path} is compressed: decompress it, or move it away")
        else:
            ignored[suffix(path) or "no suffix"] += 1
    return sorted(found, key=path_sort_key)


def split_of(path: str) -> str:
    """Return the split that a file name says, or else the nearest folder; an empty string where none does."""
    for part in reversed(path.split("/")):
        for word in re.split("[^a-z]+", part.lower()):
            if word in SPLITS:
                return SPLITS[word]
    return ""


def refuse_mixed(place: Place, names: Sequence[str]) -> None:
    """Raise UserError for files of several splits, and for files of several of which some are missing.

    Those of a pattern, or a single one, are what the user has named.
    """
    if not place.is_folder:
        return
    splits: dict[str, str] = {}
    numbered: dict[tuple[str, str, str], set[str]] = {}
    for name in names:
        splits.setdefault(split_of(name), name)
        if match := _OF_SEVERAL.fullmatch(name):
            start, number, count, ending = match.groups()
            numbered.setdefault((start, count, ending), set()).add(number)
    if len(splits.keys() - {""}) > 1:
        files = ", ".join(f"{split} ({name})" for split, name in sorted(splits.items()) if split)
        some = names[0].rpartition(".")[2]
        raise UserError(
            f"{place.location} holds files of more than one split: {files}; name one file, one folder, or a pattern "
            f"such as '{place.location}/test-*.{some}'"
        )
    for (start, count, ending), found in numbered.items():
        if len(found) != int(count):
            raise UserError(
                f"{place.location} holds {len(found)} of {int(count)} files {start}-*-of-{count}{ending}: download the "
                "others, or name the files by a pattern"
            )


def identifier(path: str) -> str:
    """The id for a path inside a source. Raises UserError for names that no tar member or JSON text can carry."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UserError(f"the file name {path!r} is not valid UTF-8; rename it") from None
    for character in "" if path.isprintable() else path:
        if (category := unicodedata.category(character)) in UNWRITABLE:
            raise UserError(
                f"the file name {path!r} holds control characters ({UNWRITABLE[category]} U+{ord(character):04X}); "
                "rename it"
            )
    return os.path.splitext(path)[0].replace(".", "_")


def check_class(name: str, where: str) -> str:
    """Return the name of a class that ids begin with. Raises UserError for one that cannot be a folder, or is skipped.

    ``where`` says what names the class.
    """
    if not name or name in (".", "..") or "/" in name:
        raise UserError(f"{where} names the class {name[:80]!r}: a class must have a name that a folder can have")
    identifier(name)
    refuse_skipped(f"{name}/", where)
    return name


def is_skipped(id_: str) -> bool:
    """Return whether readers of WebDataset pass over the samples of an id without a word."""
    return _SKIPPED_BY_READERS.match(id_) is not None


def refuse_skipped(id_: str, where: str) -> None:
    """Raise UserError for an id whose samples readers of WebDataset would pass over without a word."""
    if is_skipped(id_):
        folder = id_.partition("/")[0]
        raise UserError(
            f"{where} has {folder!r}: readers of WebDataset skip what begins and ends with two underscores; rename it"
        )


def folded(name: str) -> str:
    """Return what names share that are one on a disk which ignores case and Unicode normalisation."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def refuse_lookalikes(what: str, names: Iterable[str]) -> None:
    """Raise UserError for two names that differ in case or Unicode normalisation alone: elsewhere they are one."""
    seen: dict[str, str] = {}
    for name in names:
        key = folded(name)
        if key in seen:
            raise UserError(
                f"{what} {seen[key]!a} and {name!a}, which differ in case or Unicode normalisation alone: "
                "on other machines they are one folder, and labels differ; rename or join them"
            )
        seen[key] = name


def check_size(image: SourceImage) -> None:
    """Raise RefusedFileError, before anything is read, for an image that is listed with more than 256 MiB."""
    if image.size > LARGEST_READ:
        why = f"it has {image.size} bytes, more than the {LARGEST_READ} allowed"
        raise RefusedFileError(errno.EFBIG, why, image.origin)


def check_label(value: object, where: str) -> int:
    """Return a label. Raises UserError for what is no whole number from -1 (unlabelled) to MAX_LABEL."""
    if type(value) is not int or not UNLABELLED <= value <= MAX_LABEL:
        raise UserError(
            f"{where} has the label {_shown(value)}: labels are whole numbers from 0 to {MAX_LABEL}, or {UNLABELLED} "
            "for none"
        )
    return value


def _shown(value: object) -> str:
    """A value in a few characters, whatever it is: a list may hold itself, a number have a million digits."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"(a number of {value.bit_length()} bits)"
    return repr(value)[:80] if isinstance(value, int | float | str | bytes) else f"({type(value).__name__})"


def named_class(label: int, names: Sequence[str], otherwise: str, where: str) -> str:
    """Return the name of a label's class, or ``otherwise`` where no names are known. Raises UserError beyond them."""
    if label == UNLABELLED:
        return ""
    if not names:
        return otherwise
    if label >= len(names):
        raise UserError(f"{where} has the label {label}, but there are names for {len(names)} classes alone")
    return names[label]


def refuse_duplicates(what: str, named: Iterable[tuple[str, str]]) -> None:
    """Raises UserError naming the two paths that come to the same id."""
    seen: dict[str, str] = {}
    for id_, path in named:
        if id_ in seen:
            raise UserError(
                f"{what} {seen[id_]} and {path}, which come to the same id {id_!r} "
                "(suffixes are dropped, dots become underscores); rename or remove one"
            )
        seen[id_] = path


def read_lines(place: Place) -> list[str]:
    """The lines of a small text file that hold anything, whatever their ends. Raises UserError."""
    return [line.strip() for line in read_text(place).splitlines() if line.strip()]


def read_text(place: Place, limit: int = LONGEST_LIST) -> str:
    """The text of a list or of settings. Raises UserError for what is too long, no UTF-8, or no text."""
    try:
        data = place.store.read(place.name, limit=limit)
    except OSError as error:
        raise UserError(f"cannot read {place.location}: {error.strerror or error}") from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{place.location} is UTF-16 text: save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{place.location} is no text in UTF-8 (byte {error.start}): save it as UTF-8") from None
    if "\0" in text:
        raise UserError(f"{place.location} holds NUL bytes: it is damaged, or no text in UTF-8")
    return text


def lines_at(location: str) -> list[str]:
    """As :func:`read_lines`, of a file that the user names."""
    place = find_place(location)
    if place is None:
        raise UserError(f"the file {location} does not exist")
    if place.is_folder:
        raise UserError(f"{location} is a folder; a text file is needed, with one name per line")
    return read_lines(place)
