"""Tars read in place: an index of members, and tars of WebDataset samples."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import PurePosixPath
from typing import NamedTuple

from pipeline.errors import UserError
from pipeline.sources.base import SUFFIXES, UNLABELLED, SourceImage, suffix
from pipeline.storage import Place, Store

MAX_SIDE_BYTES = 2**20
"""Of a label or a description in a tar."""


class Member(NamedTuple):
    """Where the data of a member lies in its tar."""

    offset: int
    size: int


class TarIndex:
    """The plain files of an uncompressed tar, and their bytes wherever they lie in it."""

    def __init__(self, store: Store, tar: str) -> None:
        self._store = store
        self._tar = tar
        self._members: dict[str, Member] | None = None

    def members(self) -> Mapping[str, Member]:
        """Name -> member, read once. Raises UserError for names that lead out, links, devices, and damaged tars."""
        if self._members is None:
            self._members = dict(_walk(Place(self._store, self._tar)))
        return self._members

    def read(self, name: str) -> bytes:
        """The bytes of a member. Raises OSError."""
        member = self.members()[name]
        return self._store.read(self._tar, member.offset, member.size)


def _walk(place: Place) -> Iterator[tuple[str, Member]]:
    """The plain files of a tar in their order. Raises UserError."""
    try:
        with place.store.open(place.name) as file, tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                if member.isdir():
                    continue
                path = PurePosixPath(member.name)
                if not member.isreg() or path.is_absolute() or ".." in path.parts:
                    raise UserError(
                        f"{place.location} is refused: its member {member.name!r} is a link, a device, or leads out"
                    )
                yield member.name, Member(member.offset_data, member.size)
    except (tarfile.TarError, OSError) as error:
        raise UserError(f"{place.location} is no readable tar: {error}") from error


class WebDatasetTars:
    """Samples of WebDataset tars: a ``.tar``, or all tars of a folder by name, samples in their order.

    A sample's image is its member with an image suffix; its label is its ``.cls``, or ``label`` in its ``.json``.
    """

    def __init__(self, place: Place) -> None:
        """Raises UserError where there is no tar."""
        self.location = place.location
        self.ignored: Counter[str] = Counter()
        self._indexes = {name: TarIndex(place.store, name) for name in place.files(".tar")}
        if not self._indexes:
            raise UserError(f"{self.location} holds no .tar")

    def __iter__(self) -> Iterator[SourceImage]:
        """All samples. Raises UserError for a sample without an image or label, and for keys that occur twice."""
        self.ignored = Counter()
        seen: set[str] = set()
        for tar, index in self._indexes.items():
            members = ((*_split_key(name), name, member) for name, member in index.members().items())
            for key, group in groupby(members, key=lambda each: each[0]):
                sample = {extension: (name, member) for _, extension, name, member in group}
                if key in seen:
                    raise UserError(f"{tar} has the key {key!r} a second time: keys must be unique over all tars")
                seen.add(key)
                yield self._image(tar, key, sample)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of a sample's image."""
        tar, _, name = image.origin.partition("#")
        return self._indexes[tar].read(name)

    def _image(self, tar: str, key: str, sample: Mapping[str, tuple[str, Member]]) -> SourceImage:
        images = [extension for extension in sample if suffix(f"x.{extension}") in SUFFIXES]
        if len(images) != 1:
            raise UserError(f"{tar}: the sample {key!r} has {len(images)} images, not one")
        name, member = sample[images[0]]
        label, class_name = self._label(tar, sample)
        return SourceImage(key, label, class_name, f"{tar}#{name}", member.size)

    def _label(self, tar: str, sample: Mapping[str, tuple[str, Member]]) -> tuple[int, str]:
        try:
            about = json.loads(self._side(tar, sample, "json") or b"{}")
            text = self._side(tar, sample, "cls")
            label = int(text) if text else int(about.get("label", UNLABELLED))
            return label, str(about.get("class_name", "" if label == UNLABELLED else label))
        except (ValueError, AttributeError) as error:
            raise UserError(f"{tar}: a sample's label cannot be read: {error}") from error

    def _side(self, tar: str, sample: Mapping[str, tuple[str, Member]], extension: str) -> bytes:
        if extension not in sample or sample[extension][1].size > MAX_SIDE_BYTES:
            return b""
        return self._indexes[tar].read(sample[extension][0])


def _split_key(name: str) -> tuple[str, str]:
    """A member's key (up to the first dot of its last part) and extension, as WebDataset splits it."""
    folder, slash, last = name.rpartition("/")
    stem, _, extension = last.partition(".")
    return f"{folder}{slash}{stem}", extension.lower()
