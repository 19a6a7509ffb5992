"""ImageFolder: one folder per class, images anywhere below it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import UserError
from pipeline.sources.base import (
    SUFFIXES,
    UNLABELLED,
    SourceImage,
    file_size,
    identifier,
    refuse_duplicates,
    suffix,
    visible,
)


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
        entries = visible(root)
        self._classes = [entry.name for entry in entries if entry.is_dir()]
        loose = [entry.name for entry in entries if entry.is_file() and suffix(entry.name) in SUFFIXES]
        if loose and self._classes:
            raise UserError(
                f"{root} holds images ({loose[0]}, ...) beside class folders ({self._classes[0]}, ...): "
                "move them into a class folder, or away"
            )
        # Ids begin with the class folder, so unlike class folders are all it takes for ids to differ across classes.
        refuse_duplicates(f"{root} has class folders", ((name.replace(".", "_"), name) for name in self._classes))

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
        images = [SourceImage(identifier(path), label, class_name, path, size) for path, size in paths]
        refuse_duplicates("the source has images", ((image.id, image.origin) for image in images))
        yield from images

    def _walk(self, folder: str, ancestors: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """(path below the root, size in bytes) of each image below ``folder``, in no order."""
        real = os.path.realpath(self._root / folder)
        if real in ancestors:
            raise UserError(f"the folder {self._root / folder} links back to one that holds it; remove the link")
        for entry in visible(self._root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                yield from self._walk(path, (*ancestors, real))
            elif suffix(entry.name) in SUFFIXES:
                yield path, file_size(entry)
            else:
                self.ignored[suffix(entry.name) or "no suffix"] += 1
