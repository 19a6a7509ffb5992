"""ImageFolder: one folder per class, images anywhere below it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED, SourceImage

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".bmp", ".tif", ".tiff", ".webp"})
"""Files that count as images, compared in lower case (torchvision's list)."""


class ImageFolder:
    """``root/class/*.JPEG``, nested or not. Labels count the sorted class folders from 0, empty ones included.

    A folder that holds images and no class folders is taken as unlabelled. Order: class folders by name, then the
    paths inside, by code point, on every machine alike; one class is in memory at a time. Names that start with a
    dot are passed over. The id of an image is its path below the root without the suffix, dots turned into
    underscores.
    """

    def __init__(self, root: Path) -> None:
        """Raises UserError where ``root`` is no folder, holds no or ambiguous class folders, or images beside them."""
        if not root.is_dir():
            raise UserError(f"the source {root} is not a folder; an imagefolder has one folder per class")
        self.location = str(root)
        self.ignored: Counter[str] = Counter()
        self._root = root
        entries = _visible(root)
        self._classes = [entry.name for entry in entries if entry.is_dir()]
        loose = [entry.name for entry in entries if entry.is_file() and _suffix(entry.name) in SUFFIXES]
        if loose and self._classes:
            raise UserError(
                f"{root} holds images ({loose[0]}, ...) beside class folders ({self._classes[0]}, ...): "
                "move them into a class folder, or away"
            )
        # Ids begin with the class folder, so unlike class folders are all it takes for ids to differ across classes.
        _refuse_duplicates(f"{root} has class folders", ((name.replace(".", "_"), name) for name in self._classes))

    def __iter__(self) -> Iterator[SourceImage]:
        """All images in order. Raises UserError for an id that occurs twice and for names that are not valid text."""
        self.ignored = Counter()
        if not self._classes:
            yield from self._folder("", UNLABELLED)
        for label, name in enumerate(self._classes):
            yield from self._folder(name, label)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one file."""
        return (self._root / image.origin).read_bytes()

    def _folder(self, class_name: str, label: int) -> Iterator[SourceImage]:
        """The images at any depth below one class folder."""
        paths = sorted(self._walk(class_name, ancestors=()))
        images = [SourceImage(_identifier(path), label, class_name, path, size) for path, size in paths]
        _refuse_duplicates("the source has images", ((image.id, image.origin) for image in images))
        yield from images

    def _walk(self, folder: str, ancestors: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """(path below the root, size in bytes) of each image below ``folder``, in no order."""
        real = os.path.realpath(self._root / folder)
        if real in ancestors:
            raise UserError(f"the folder {self._root / folder} links back to one that holds it; remove the link")
        for entry in _visible(self._root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                yield from self._walk(path, (*ancestors, real))
            elif _suffix(entry.name) in SUFFIXES:
                yield path, _size(entry)
            else:
                self.ignored[_suffix(entry.name) or "no suffix"] += 1


def _visible(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder by name, without hidden ones. Raises UserError where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"cannot list the folder {folder}: {error.strerror}") from error


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _size(entry: os.DirEntry[str]) -> int:
    """Length in bytes; -1 for a dangling link, whose reading then fails and is recorded."""
    try:
        return entry.stat().st_size
    except OSError:
        return -1


def _identifier(path: str) -> str:
    """The id for a path below the root. Raises UserError for names that no tar member or JSON text can carry."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UserError(f"the file name {path!r} is not valid UTF-8; rename it") from None
    if not path.isprintable():
        raise UserError(f"the file name {path!r} holds control characters; rename it")
    return os.path.splitext(path)[0].replace(".", "_")


def _refuse_duplicates(what: str, named: Iterable[tuple[str, str]]) -> None:
    """Raises UserError naming the two paths that come to the same id."""
    seen: dict[str, str] = {}
    for identifier, path in named:
        if identifier in seen:
            raise UserError(
                f"{what} {seen[identifier]} and {path}, which come to the same id {identifier!r} "
                "(suffixes are dropped, dots become underscores); rename or remove one"
            )
        seen[identifier] = path
