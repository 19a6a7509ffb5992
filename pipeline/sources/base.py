"""The interface of sources, and checks that all layouts share."""

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

from manifests.limits import MAX_TEXT
from pipeline.errors import RefusedFileError, UserError
from pipeline.sources.files import counted_as, is_system_folder
from pipeline.storage import LARGEST_READ, Place, find_place
from pipeline.storage.base import path_sort_key
from pipeline.tasks.labels import MAX_LABEL, LabelSpace
from pipeline.text import shown

UNLABELLED = -1
"""Label of an image without a class; its class name is an empty string."""

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst", ".lz4")
"""File suffixes of compressed files."""

LONGEST_LIST = 2**26
"""Size limit in bytes for a list of names or labels: 64 MiB, about 50 bytes per ImageNet training image."""

FORBIDDEN_CATEGORIES: Mapping[str, str] = {
    "Cc": "the control character",
    "Cs": "the surrogate",
    "Zl": "the line separator",
    "Zp": "the paragraph separator",
}
"""Unicode categories that ids must not contain -> their names in error messages."""

SPLITS: Mapping[str, str] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
}
"""Words in file and folder names -> the split that they mean, following Hugging Face's conventions."""

_NUMBERED_FILE = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.[a-z]+)")
"""Name of one file of a numbered set, as written by Hugging Face and TensorFlow."""

_SKIPPED_BY_READERS = re.compile(r"__[^/]*__(/|$)")
"""Start of member names that WebDataset reserves for metadata and therefore skips."""

Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; right and bottom are exclusive."""

Pixels = NDArray[np.uint8]
"""RGB image of shape (H, W, 3), values 0..255."""


@dataclass(frozen=True, slots=True)
class SourceImage:
    """A reference to one clean image. Workers read its bytes when they need them.

    Attributes:
        id: Unique id in the source, without dots.
        label: Class number from 0, or ``UNLABELLED``.
        class_name: Name of the class; an empty string if unlabelled or unknown.
        origin: Position of the image in the source, for example its path.
        size: Size in bytes, to detect changed files before reading them.
        box: Region of the image to use. Default: the whole image.
        offset: Position of its bytes in a tar, with which readers need no index. None if unknown.
    """

    id: str
    label: int
    class_name: str
    origin: str
    size: int
    box: Box | None = None
    offset: int | None = None


class Source(Protocol):
    """Clean images in a fixed order. Can be iterated more than once."""

    location: str

    @property
    def ignored(self) -> Counter[str]:
        """Suffix -> number of files that the last iteration skipped because they are not images."""

    @property
    def labels(self) -> LabelSpace | None:
        """What the labels count, which can be known only after an iteration. None if unknown."""

    def __iter__(self) -> Iterator[SourceImage]: ...

    def read(self, image: SourceImage) -> bytes | Pixels:
        """Return the encoded bytes of an image, or its pixels if the source stores pixels.

        Raises:
            OSError: The image cannot be read.
            UnreachableError: The storage service does not respond.
        """


def notices_of(source: Source) -> tuple[str, ...]:
    """Return what a source has to tell about its last iteration; empty for sources without an attribute ``notices``."""
    return tuple(getattr(source, "notices", ()))


def readers_of(source: Source) -> int:
    """Return how many threads may read a source at the same time: 1 without an attribute ``readers``."""
    return int(getattr(source, "readers", 1))


def source_files(place: Place, ending: str, ignored: Counter[str]) -> list[str]:
    """Return the paths of the files at a place that have a given suffix, relative to it and sorted.

    Args:
        place: A file, a pattern, or a folder, which is searched recursively. Links are followed; hidden files and
            system folders are skipped.
        ending: Suffix in lower case, with its dot.
        ignored: Counter that receives the suffixes of all other files of a folder.

    Raises:
        UserError: A folder cannot be listed, or contains a compressed file of this kind.
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
            raise UserError(f"{place.location}/{path} is compressed: decompress it or remove it")
        else:
            ignored[counted_as(path)] += 1
    return sorted(found, key=path_sort_key)


def split_of(path: str) -> str:
    """Return the split in the name of a file or of its nearest folder that names one, or an empty string."""
    for part in reversed(path.split("/")):
        for word in re.split("[^a-z]+", part.lower()):
            if word in SPLITS:
                return SPLITS[word]
    return ""


def refuse_mixed(place: Place, names: Sequence[str]) -> None:
    """Raise UserError if a folder mixes splits or lacks some files of a numbered set.

    Single files and patterns are accepted, because the user has chosen them explicitly.
    """
    if not place.is_folder:
        return
    splits: dict[str, str] = {}
    numbered: dict[tuple[str, str, str], set[str]] = {}
    for name in names:
        splits.setdefault(split_of(name), name)
        if match := _NUMBERED_FILE.fullmatch(name):
            start, number, count, ending = match.groups()
            numbered.setdefault((start, count, ending), set()).add(number)
    if len(splits.keys() - {""}) > 1:
        files = ", ".join(f"{split} ({name})" for split, name in sorted(splits.items()) if split)
        some = names[0].rpartition(".")[2]
        raise UserError(
            f"{place.location} contains more than one split: {files}; give one file, one folder, or a pattern "
            f"such as '{place.location}/test-*.{some}'"
        )
    for (start, count, ending), found in numbered.items():
        if len(found) != int(count):
            raise UserError(
                f"{place.location} contains {len(found)} of {int(count)} files {start}-*-of-{count}{ending}: download "
                "the missing files, or give a pattern that matches the files to use"
            )


def identifier(path: str) -> str:
    """Return the image id for a path inside a source: without the suffix, dots replaced by underscores.

    Raises:
        UserError: The path contains characters that a tar member or JSON text cannot store.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UserError(f"the file name {path!r} is not valid UTF-8: rename the file") from None
    for character in "" if path.isprintable() else path:
        if (category := unicodedata.category(character)) in FORBIDDEN_CATEGORIES:
            what = f"{FORBIDDEN_CATEGORIES[category]} U+{ord(character):04X}"
            raise UserError(f"the file name {path!r} contains {what}: rename the file")
    return os.path.splitext(path)[0].replace(".", "_")


def check_class(name: str, where: str) -> str:
    """Return a class name that can be the first part of an image id; ``where`` is its file and line.

    Raises:
        UserError: The name cannot be a folder name, or WebDataset would skip its samples.
    """
    if not name or name in (".", "..") or "/" in name:
        raise UserError(f"{where} has the invalid class name {name[:80]!r}: use a valid folder name")
    identifier(name)
    refuse_skipped(f"{name}/", where)
    return name


def is_skipped(id_: str) -> bool:
    """Return whether WebDataset silently skips samples with this id."""
    return _SKIPPED_BY_READERS.match(id_) is not None


def refuse_skipped(id_: str, where: str) -> None:
    """Raise UserError if WebDataset would silently skip samples with this id."""
    if is_skipped(id_):
        folder = id_.partition("/")[0]
        raise UserError(
            f"{where} has {folder!r}: WebDataset skips names that start and end with two underscores; rename it"
        )


def folded(name: str) -> str:
    """Return a name with case and Unicode normalisation removed, as case-insensitive file systems compare it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def refuse_lookalikes(what: str, names: Iterable[str]) -> None:
    """Raise UserError if two folder names differ only in case or Unicode normalisation, which file systems may merge.

    ``what`` is the start of the message, for example "/data has the class folders".
    """
    seen: dict[str, str] = {}
    for name in names:
        key = folded(name)
        if key in seen:
            raise UserError(
                f"{what} {seen[key]!a} and {name!a}, which differ only in case or Unicode normalisation: "
                "other file systems merge them, which changes the labels; rename or merge them"
            )
        seen[key] = name


def check_size(image: SourceImage) -> None:
    """Raise RefusedFileError if an image exceeds 256 MiB, before reading it."""
    if image.size > LARGEST_READ:
        why = f"it has {image.size} bytes; the maximum is {LARGEST_READ}"
        raise RefusedFileError(errno.EFBIG, why, image.origin)


def check_label(value: object, where: str) -> int:
    """Return a label of a file. Raise UserError if it is not an integer from -1 (unlabelled) to ``MAX_LABEL``."""
    if type(value) is not int or not UNLABELLED <= value <= MAX_LABEL:
        raise UserError(
            f"{where} has the invalid label {_shown(value)}: labels are integers from 0 to {MAX_LABEL}, or "
            f"{UNLABELLED} for unlabelled images"
        )
    return value


def _shown(value: object) -> str:
    """Return a short representation of any value, also of recursive lists and very large integers."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"(an integer of {value.bit_length()} bits)"
    return repr(value)[:80] if isinstance(value, int | float | str | bytes) else f"({type(value).__name__})"


def class_name_of(label: int, names: Sequence[str], default: str, where: str) -> str:
    """Return the class name of a label, empty for ``UNLABELLED``. Raise UserError if it has none, or an invalid one.

    Args:
        label: Label from 0, or ``UNLABELLED``.
        names: Class names by label. May be empty.
        default: Class name if ``names`` is empty.
        where: File and image for the error message.
    """
    if label == UNLABELLED:
        return ""
    if not names:
        return default
    if label >= len(names):
        raise UserError(f"{where} has the label {label}, but only {len(names)} classes have names")
    stored = names[label].encode(errors="ignore")
    if len(stored) > MAX_TEXT or stored.decode() != names[label]:
        raise UserError(
            f"{where} is of the class {shown(names[label])}: names must be UTF-8 and have at most {MAX_TEXT} bytes"
        )
    return names[label]


def refuse_duplicates(what: str, named: Iterable[tuple[str, str]]) -> None:
    """Raise UserError with both paths if two have the same image id, given pairs of id and path.

    ``what`` is the start of the message, for example "/data has images".
    """
    seen: dict[str, str] = {}
    for id_, path in named:
        if id_ in seen:
            raise UserError(
                f"{what} {seen[id_]} and {path}, which have the same id {id_!r} "
                "(suffixes are removed and dots replaced by underscores): rename or remove one"
            )
        seen[id_] = path


def read_lines(place: Place) -> list[str]:
    """Return the stripped, non-empty lines of a UTF-8 text file. Raise UserError if it cannot be read."""
    return _lines(read_text(place))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_text(place: Place, limit: int = LONGEST_LIST) -> str:
    """Return the content of a UTF-8 text file of at most ``limit`` bytes. Raise UserError if it cannot be read."""
    try:
        data = place.store.read(place.name, limit=limit)
    except OSError as error:
        raise UserError(f"cannot read {place.location}: {error.strerror or error}") from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{place.location} is UTF-16 text: save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{place.location} is not UTF-8 text (invalid byte {error.start}): save it as UTF-8") from None
    if "\0" in text:
        raise UserError(f"{place.location} contains NUL bytes: it is damaged or not UTF-8 text")
    return text


def text_at(location: str, wanted: str, limit: int = LONGEST_LIST) -> str:
    """Return the content of the text file at a path or URL. Raise UserError, which says what is wanted."""
    place = find_place(location)
    if place is None:
        raise UserError(f"the file {location} does not exist")
    if place.is_folder or place.is_pattern:
        raise UserError(f"{location} is not a file: give {wanted}")
    return read_text(place, limit)


def lines_at(location: str) -> list[str]:
    """Return the stripped, non-empty lines of the text file at a path or URL. Raise UserError if it is invalid."""
    return _lines(text_at(location, "a text file with one name per line"))
