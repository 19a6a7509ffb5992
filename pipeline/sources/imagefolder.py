"""ImageFolder: one folder per class, images anywhere below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pipeline.errors import UserError
from pipeline.sources.base import SUFFIXES, UNLABELLED, SourceImage, identifier, refuse_duplicates, suffix
from pipeline.storage import Place


class ImageFolder:
    """``root/class/*.JPEG``, nested or not. Labels count the sorted class folders from 0, empty ones included.

    A folder that holds images and no class folders is taken as unlabelled. Order: class folders by name, then the
    paths inside, by code point, on every machine alike; one class is in memory at a time. Names that start with a
    dot are passed over. The id of an image is its path below the root without the suffix, dots turned into
    underscores.
    """

    def __init__(self, place: Place) -> None:
        """Raises UserError where ``place`` is no folder, holds no or ambiguous class folders, or images beside them."""
        self.location = place.location
        if not place.is_folder:
            raise UserError(f"the source {self.location} is not a folder; an imagefolder has one folder per class")
        self.ignored: Counter[str] = Counter()
        self._store = place.store
        entries = self._store.entries("")
        self._classes = [entry.name for entry in entries if entry.is_folder]
        loose = [entry.name for entry in entries if not entry.is_folder and suffix(entry.name) in SUFFIXES]
        if loose and self._classes:
            raise UserError(
                f"{self.location} holds images ({loose[0]}, ...) beside class folders ({self._classes[0]}, ...): "
                "move them into a class folder, or away"
            )
        # Ids begin with the class folder, so unlike class folders are all it takes for ids to differ across classes.
        named = ((name.replace(".", "_"), name) for name in self._classes)
        refuse_duplicates(f"{self.location} has class folders", named)

    def __iter__(self) -> Iterator[SourceImage]:
        """All images in order. Raises UserError for an id that occurs twice and for names that are not valid text."""
        self.ignored = Counter()
        if not self._classes:
            yield from self._folder("", UNLABELLED)
        for label, name in enumerate(self._classes):
            yield from self._folder(name, label)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one file."""
        return self._store.read(image.origin)

    def _folder(self, class_name: str, label: int) -> Iterator[SourceImage]:
        """The images at any depth below one class folder."""
        paths = sorted(self._walk(class_name))
        images = [SourceImage(identifier(path), label, class_name, path, size) for path, size in paths]
        refuse_duplicates("the source has images", ((image.id, image.origin) for image in images))
        yield from images

    def _walk(self, folder: str) -> Iterator[tuple[str, int]]:
        """(path below the root, size in bytes) of each image below ``folder``, in no order."""
        for path, size in self._store.walk(folder):
            if suffix(path) in SUFFIXES:
                yield path, size
            else:
                self.ignored[suffix(path) or "no suffix"] += 1
