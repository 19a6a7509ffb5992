"""Tars read in place: an index of members, and tars of WebDataset samples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from pipeline.errors import UserError
from pipeline.sources.base import (
    SUFFIXES,
    UNLABELLED,
    SourceImage,
    check_label,
    check_size,
    identifier,
    is_passed_over,
    is_skipped,
    refuse_mixed,
    refuse_skipped,
    source_files,
    suffix,
)
from pipeline.storage import Place
from pipeline.storage.tar_index import Member, TarIndex

MAX_SIDE_BYTES = 2**20
"""Of a label or a description in a tar."""

MAX_LABEL_DIGITS = 20

_LABELS = frozenset({"cls", "json"})
"""Extensions of members that may hold a label."""

MAX_CLASS_NAME = 1000
"""Characters of a class name in a description."""


class WebDatasetTars:
    """Samples of WebDataset tars: a ``.tar``, or all tars of a folder by name, samples in their order.

    A sample's image is its member with an image suffix; its label is its ``.cls``, or ``label`` in its ``.json``.
    """

    def __init__(self, place: Place) -> None:
        """Raises UserError where there is no tar."""
        self.location = place.location
        self._beside: Counter[str] = Counter()
        names = source_files(place, ".tar", self._beside)
        self.ignored = self._beside.copy()
        if not names:
            raise UserError(f"{self.location} holds no .tar")
        refuse_mixed(place, names)
        self._indexes = {name: TarIndex(place.store, name) for name in names}

    def __iter__(self) -> Iterator[SourceImage]:
        """All samples. Raises UserError for a sample without an image, and for keys that occur twice.

        Also where some samples have labels and others do not.
        """
        self.ignored = self._beside.copy()
        seen: set[str] = set()
        first: tuple[str, bool] | None = None
        for tar, index in self._indexes.items():
            for key, group in groupby(self._parts(index), key=lambda each: each[0]):
                parts = list(group)
                if not any(_belongs(key, extension) for _, extension, _, _ in parts):
                    self.ignored.update(suffix(name) or "no suffix" for _, _, name, _ in parts)
                    continue
                sample = _sample(tar, key, parts)
                if (plain := key.removeprefix("./")) in seen:
                    raise UserError(f"{tar} has the key {key!r} a second time: keys must be unique over all tars")
                seen.add(plain)
                image, labelled = self._image(tar, key, sample)
                first = first or (key, labelled)
                if labelled != first[1]:
                    without, other = (first[0], key) if labelled else (key, first[0])
                    raise UserError(
                        f"{tar}: the sample {without!r} has no label, {other!r} has one: add the label (.cls, or "
                        f"'label' in .json; {UNLABELLED} for none)"
                    )
                yield image

    def read(self, image: SourceImage) -> bytes:
        """The bytes of a sample's image."""
        check_size(image)
        tar, _, name = image.origin.partition("#")
        while tar not in self._indexes:  # its name has a "#" too
            more, _, name = name.partition("#")
            tar = f"{tar}#{more}"
        return self._indexes[tar].read(name)

    def _parts(self, index: TarIndex) -> Iterator[tuple[str, str, str, Member]]:
        """Key, extension, name and place of each member that readers see."""
        for name, member in index.members().items():
            if is_passed_over(name):
                self.ignored["hidden or of the system"] += 1
            else:
                yield (*_split_key(name), name, member)

    def _image(self, tar: str, key: str, sample: Mapping[str, tuple[str, Member]]) -> tuple[SourceImage, bool]:
        """A sample's image, and whether it has a label."""
        images = [extension for extension in sample if suffix(f"x.{extension}") in SUFFIXES]
        if len(images) != 1:
            raise UserError(
                f"{tar}: the sample {key!r} has {len(images)} images, not one (its members: "
                f"{', '.join(f'.{extension}' for extension in sample)[:200]}); a sample has one image, and may have a "
                "label in .cls or .json"
            )
        name, member = sample[images[0]]
        label, class_name = self._label(tar, key, sample)
        named = "" if label in (None, UNLABELLED) else str(label)
        number = UNLABELLED if label is None else label
        image = SourceImage(key, number, named if class_name is None else class_name, f"{tar}#{name}", member.size)
        return image, label is not None

    def _label(self, tar: str, key: str, sample: Mapping[str, tuple[str, Member]]) -> tuple[int | None, str | None]:
        """A sample's label and class name, None where there is none."""
        where = f"{tar}: the sample {key!r}"
        about = self._description(tar, where, sample)
        named = about.get("class_name")
        if not (named is None or type(named) is int or _is_name(named)):
            raise UserError(f"{where}: class_name in its .json must be text of at most {MAX_CLASS_NAME} characters")
        class_name = None if named is None else str(named)
        told = about.get("label")
        if isinstance(told, str) and ("cls" not in sample or _is_number(told)):
            told = _whole(told.encode(errors="replace"), where)
        if "cls" not in sample:
            return (None if told is None else check_label(told, where)), class_name
        label = check_label(_whole(self._side(tar, where, sample["cls"]), where), where)
        if type(told) is int and told != label:
            raise UserError(f"{where}: its .cls has the label {label}, its .json has another one; remove one of them")
        return label, class_name

    def _description(self, tar: str, where: str, sample: Mapping[str, tuple[str, Member]]) -> dict[str, Any]:
        if "json" not in sample:
            return {}
        try:
            about = json.loads(self._side(tar, where, sample["json"]))
        except (ValueError, RecursionError) as error:  # of whatever is no text, no JSON, or nested deeply
            raise UserError(f"{where}: its label cannot be read: its .json is damaged: {str(error)[:200]}") from error
        if not isinstance(about, dict):
            raise UserError(f"{where}: its label cannot be read: its .json holds no object")
        return about

    def _side(self, tar: str, where: str, part: tuple[str, Member]) -> bytes:
        name, member = part
        if member.size > MAX_SIDE_BYTES:
            raise UserError(f"{where}: {name} has {member.size} bytes; {MAX_SIDE_BYTES} are allowed")
        try:
            return self._indexes[tar].read(name)
        except OSError as error:
            raise UserError(f"{tar} cannot be read: {error.strerror or error}") from error


def _sample(tar: str, key: str, group: list[tuple[str, str, str, Member]]) -> dict[str, tuple[str, Member]]:
    """Extension -> name and place. Raises UserError for a key that no sample can have, and for two of one extension."""
    if any(part in ("", ".") for part in key.split("/")[1:]):
        raise UserError(f"{tar}: the member {group[0][2]!r} has an empty part or '.' in its name; rename it")
    identifier(key)
    refuse_skipped(key, f"{tar}: the key {key!r}")
    sample: dict[str, tuple[str, Member]] = {}
    for _, extension, name, member in group:
        if extension in sample:
            raise UserError(f"{tar}: the sample {key!r} has .{extension} twice: {sample[extension][0]!r} and {name!r}")
        sample[extension] = name, member
    return sample


def _belongs(key: str, extension: str) -> bool:
    """Whether a member makes a sample of what has its key: an image does, and a label that readers see.

    Other members are notes of somebody's.
    """
    return suffix(f"x.{extension}") in SUFFIXES or (extension in _LABELS and not is_skipped(key))


def _is_number(text: str) -> bool:
    """Whether a text says a whole number."""
    digits = text.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < MAX_LABEL_DIGITS


def _is_name(named: object) -> bool:
    """Whether it is text that a manifest can hold."""
    return isinstance(named, str) and len(named) <= MAX_CLASS_NAME and named == named.encode(errors="replace").decode()


def _whole(text: bytes, where: str) -> int:
    """The whole number in a text. Raises UserError."""
    digits = text.strip()
    if len(digits) > MAX_LABEL_DIGITS or not digits.removeprefix(b"-").isdigit():
        raise UserError(f"{where}: its label cannot be read: {digits[:40]!r} is no whole number")
    return int(digits)


def _split_key(name: str) -> tuple[str, str]:
    """A member's key (up to the first dot of its last part) and extension, as WebDataset splits it."""
    folder, slash, last = name.rpartition("/")
    stem, _, extension = last.partition(".")
    return f"{folder}{slash}{stem}", extension.lower()
