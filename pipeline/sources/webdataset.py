"""Tars of WebDataset samples, read without extracting them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from pipeline.errors import UserError
from pipeline.sources.base import (
    UNLABELLED,
    SourceImage,
    check_label,
    check_size,
    identifier,
    is_skipped,
    refuse_mixed,
    refuse_skipped,
    source_files,
)
from pipeline.sources.files import SUFFIXES, counted_as, is_hidden, suffix
from pipeline.storage import READERS, Place
from pipeline.storage.tars import TarIndex, TarMember

MAX_SIDE_BYTES = 2**20
"""Size limit in bytes for a ``.cls`` or ``.json`` member."""

MAX_LABEL_DIGITS = 20
"""Maximum number of characters of a label."""

_LABELS = ("cls", "json")
"""Extensions of members that can contain a label."""

MAX_CLASS_NAME = 1000
"""Maximum number of characters of a class name in a ``.json`` member."""


class WebDatasetTars:
    """The samples of one tar, or of all tars of a folder by name, in their order in the tars.

    The image of a sample is its member with an image suffix. Its label is the content of its ``.cls`` member, or the
    field ``label`` of its ``.json`` member. What the labels count is unknown.
    """

    labels, readers = None, READERS

    def __init__(self, place: Place) -> None:
        """List the tars. Raise UserError if there are none, or of several splits."""
        self.location = place.location
        self._other_files: Counter[str] = Counter()
        names = source_files(place, ".tar", self._other_files)
        self.ignored = self._other_files.copy()
        if not names:
            raise UserError(f"{self.location} contains no .tar files")
        refuse_mixed(place, names)
        labels = tuple(f".{extension}" for extension in _LABELS)
        self._indexes = {name: TarIndex(place.store, name, labels) for name in names}

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield all samples.

        Raises:
            UserError: A tar or label is invalid, a sample does not have exactly one image, a key occurs twice, or only
                some of the samples have labels.
        """
        self.ignored = self._other_files.copy()
        seen: set[str] = set()
        first: tuple[str, bool] | None = None
        for tar, index in self._indexes.items():
            for key, group in groupby(self._parts(index), key=lambda each: each[0]):
                parts = list(group)
                if not any(_starts_sample(key, extension) for _, extension, _, _ in parts):
                    self.ignored.update(counted_as(name) for _, _, name, _ in parts)
                    continue
                sample = _sample(tar, key, parts)
                if (plain := key.removeprefix("./")) in seen:
                    raise UserError(f"{tar} repeats the key {key!r}: keys must be unique across all tars")
                seen.add(plain)
                image, is_labelled = self._image(tar, key, sample)
                first = first or (key, is_labelled)
                if is_labelled != first[1]:
                    without, other = (first[0], key) if is_labelled else (key, first[0])
                    raise UserError(
                        f"{tar}: the sample {without!r} has no label, but {other!r} has one: add a label as .cls or as "
                        f"'label' in .json ({UNLABELLED} for unlabelled images)"
                    )
                yield image

    def read(self, image: SourceImage) -> bytes:
        """Return the image bytes of one sample. Raise OSError if they cannot be read."""
        check_size(image)
        tar, _, name = image.origin.partition("#")
        while tar not in self._indexes:  # the name of the tar can also contain "#"
            more, _, name = name.partition("#")
            tar = f"{tar}#{more}"
        return self._indexes[tar].read(name, image.offset, image.size)

    def _parts(self, index: TarIndex) -> Iterator[tuple[str, str, str, TarMember]]:
        """Yield key, extension, name and position of each member that is not hidden."""
        for name, member in index.members().items():
            if is_hidden(name):
                self.ignored["hidden or system file"] += 1
            else:
                yield (*_split_key(name), name, member)

    def _image(self, tar: str, key: str, sample: Mapping[str, tuple[str, TarMember]]) -> tuple[SourceImage, bool]:
        """Return the image of a sample, and whether it has a label."""
        images = [extension for extension in sample if suffix(f"x.{extension}") in SUFFIXES]
        if len(images) != 1:
            raise UserError(
                f"{tar}: the sample {key!r} has {len(images)} images; expected one image and an optional label in .cls "
                f"or .json, found the members {', '.join(f'.{extension}' for extension in sample)[:200]}"
            )
        name, member = sample[images[0]]
        label, class_name = self._label(tar, key, sample)
        named = "" if label in (None, UNLABELLED) else str(label)
        number = UNLABELLED if label is None else label
        shown_class, origin = named if class_name is None else class_name, f"{tar}#{name}"
        return SourceImage(key, number, shown_class, origin, member.size, offset=member.offset), label is not None

    def _label(self, tar: str, key: str, sample: Mapping[str, tuple[str, TarMember]]) -> tuple[int | None, str | None]:
        """Return the label and the class name of a sample, None for each that is missing."""
        where = f"{tar}: the sample {key!r}"
        fields = self._json_fields(tar, where, sample)
        name = fields.get("class_name")
        if not (name is None or type(name) is int or _is_class_name(name)):
            raise UserError(f"{where}: class_name in its .json must be a string of at most {MAX_CLASS_NAME} characters")
        class_name = None if name is None else str(name)
        json_label = fields.get("label")
        if isinstance(json_label, str) and ("cls" not in sample or _is_integer(json_label)):
            json_label = _parse_integer(json_label.encode(errors="replace"), where)
        if "cls" not in sample:
            return (None if json_label is None else check_label(json_label, where)), class_name
        label = check_label(_parse_integer(self._side(tar, where, sample["cls"]), where), where)
        if type(json_label) is int and json_label != label:
            raise UserError(
                f"{where}: the label {label} in its .cls differs from {json_label} in its .json; remove one of them"
            )
        return label, class_name

    def _json_fields(self, tar: str, where: str, sample: Mapping[str, tuple[str, TarMember]]) -> dict[str, Any]:
        if "json" not in sample:
            return {}
        try:
            fields = json.loads(self._side(tar, where, sample["json"]))
        except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
            raise UserError(f"{where}: cannot read the label: .json is damaged: {str(error)[:200]}") from error
        if not isinstance(fields, dict):
            raise UserError(f"{where}: cannot read the label: .json is not an object")
        return fields

    def _side(self, tar: str, where: str, part: tuple[str, TarMember]) -> bytes:
        name, member = part
        if member.size > MAX_SIDE_BYTES:
            raise UserError(f"{where}: {name} has {member.size} bytes; the maximum is {MAX_SIDE_BYTES}")
        try:
            return self._indexes[tar].read(name)
        except OSError as error:
            raise UserError(f"cannot read {tar}: {error.strerror or error}") from error


def _sample(tar: str, key: str, group: list[tuple[str, str, str, TarMember]]) -> dict[str, tuple[str, TarMember]]:
    """Return extension -> name and position. Raise UserError if the key is invalid or an extension occurs twice."""
    if any(part in ("", ".") for part in key.split("/")[1:]):
        raise UserError(f"{tar}: the member {group[0][2]!r} has an empty part or '.' in its path: rename it")
    identifier(key)
    refuse_skipped(key, f"{tar}: the key {key!r}")
    sample: dict[str, tuple[str, TarMember]] = {}
    for _, extension, name, member in group:
        if extension in sample:
            raise UserError(f"{tar}: the sample {key!r} has .{extension} twice: {sample[extension][0]!r} and {name!r}")
        sample[extension] = name, member
    return sample


def _starts_sample(key: str, extension: str) -> bool:
    """Return whether a member is an image or a label. Keys with only other members, such as README, are ignored."""
    return suffix(f"x.{extension}") in SUFFIXES or (extension in _LABELS and not is_skipped(key))


def _is_integer(text: str) -> bool:
    """Return whether a text is an integer of valid length."""
    digits = text.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < MAX_LABEL_DIGITS


def _is_class_name(name: object) -> bool:
    """Return whether a value is a string that a manifest can store."""
    return isinstance(name, str) and len(name) <= MAX_CLASS_NAME and name == name.encode(errors="replace").decode()


def _parse_integer(text: bytes, where: str) -> int:
    """Return the integer in a text. Raise UserError if it is invalid."""
    digits = text.strip()
    if len(digits) > MAX_LABEL_DIGITS or not digits.removeprefix(b"-").isdigit():
        raise UserError(f"{where} has the invalid label {digits[:40]!r}: labels are integers such as 3")
    return int(digits)


def _split_key(name: str) -> tuple[str, str]:
    """Return the key of a member (up to the first dot of its last part) and its extension, as WebDataset does."""
    folder, slash, last = name.rpartition("/")
    stem, _, extension = last.partition(".")
    return f"{folder}{slash}{stem}", extension.lower()
