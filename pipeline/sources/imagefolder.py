"""ImageFolder: one folder per class, images anywhere below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pipeline.errors import UserError
from pipeline.sources.base import (
    SPLITS,
    SUFFIXES,
    UNLABELLED,
    SourceImage,
    check_size,
    identifier,
    is_system_folder,
    refuse_duplicates,
    refuse_lookalikes,
    refuse_skipped,
    suffix,
)
from pipeline.storage import Place


class ImageFolder:
    """``root/class/*.JPEG``, nested or not. Labels count the sorted class folders from 0, empty ones included.

    A folder that holds images and no class folders is taken as unlabelled. Order: class folders by name, then the
    paths inside, by code point, on every machine alike; one class is in memory at a time. Names that start with a
    dot are passed over, and so are folders that systems make by themselves. The id of an image is its path below the
    root without the suffix, dots turned into underscores.
    """

    def __init__(self, place: Place) -> None:
        """Raises UserError where ``place`` is no folder, holds no or ambiguous class folders, or images beside them."""
        self.location = place.location
        if not place.is_folder:
            raise UserError(f"the source {self.location} is not a folder; an imagefolder has one folder per class")
        self.ignored: Counter[str] = Counter()
        self._store = place.store
        entries = self._store.entries("")
        folders = [entry.name for entry in entries if entry.is_folder]
        self._classes = [name for name in folders if not is_system_folder(name)]
        self._passed_over = [name for name in folders if is_system_folder(name)]
        for entry in entries:
            self._refuse_dangling(entry.name, entry.size, entry.is_folder)
        loose = [entry.name for entry in entries if not entry.is_folder and suffix(entry.name) in SUFFIXES]
        if loose and self._classes:
            raise UserError(
                f"{self.location} holds images ({loose[0]}, ...) beside class folders ({self._classes[0]}, ...): "
                "move them into a class folder, or away"
            )
        self._refuse_splits()
        # Ids begin with the class folder, so unlike class folders are all it takes for ids to differ across classes.
        named = ((name.replace(".", "_"), name) for name in self._classes)
        refuse_duplicates(f"{self.location} has class folders", named)
        refuse_lookalikes(f"{self.location} has the class folders", self._classes)
        for name in self._classes:
            refuse_skipped(f"{name.replace('.', '_')}/", f"{self.location} has a class folder that readers skip: it")

    def __iter__(self) -> Iterator[SourceImage]:
        """All images in order. Raises UserError for an id that occurs twice and for names that are not valid text."""
        self.ignored = Counter(f"{name}/" for name in self._passed_over)
        if not self._classes:
            yield from self._folder("", UNLABELLED)
        for label, name in enumerate(self._classes):
            yield from self._folder(name, label)

    def read(self, image: SourceImage) -> bytes:
        """The bytes of one file. Raises OSError."""
        check_size(image)
        return self._store.read(image.origin)

    def _folder(self, class_name: str, label: int) -> Iterator[SourceImage]:
        """The images at any depth below one class folder."""
        paths = sorted(self._walk(class_name))
        images = [SourceImage(identifier(path), label, class_name, path, size) for path, size in paths]
        refuse_duplicates("the source has images", ((image.id, image.origin) for image in images))
        yield from images

    def _walk(self, folder: str) -> Iterator[tuple[str, int]]:
        """(path below the root, size in bytes) of each image below ``folder``, in no order."""
        for path, size in self._store.walk(folder, self._skipped):
            if suffix(path) in SUFFIXES:
                yield path, size
            else:
                self._refuse_dangling(path, size, False)
                self.ignored[suffix(path) or "no suffix"] += 1

    def _skipped(self, name: str) -> bool:
        """Whether a folder is passed over, which is counted."""
        if is_system_folder(name):
            self.ignored[f"{name}/"] += 1
            return True
        return False

    def _refuse_splits(self) -> None:
        """Raise UserError for folders of several splits, and for one folder of a split that holds class folders."""
        splits = [name for name in self._classes if name.lower() in SPLITS]
        several = len({SPLITS[name.lower()] for name in splits}) > 1 or len(splits) == len(self._classes) > 1
        if several or (splits == self._classes and splits and self._holds_folders_alone(splits[0])):
            raise UserError(
                f"{self.location} holds the splits {', '.join(splits)}, not class folders: name one of them, "
                f"for example {self.location}/{splits[-1]}"
            )

    def _holds_folders_alone(self, folder: str) -> bool:
        """Whether there are folders in a folder, and no images beside them."""
        entries = self._store.entries(folder)
        folders = any(entry.is_folder and not is_system_folder(entry.name) for entry in entries)
        return folders and not any(suffix(entry.name) in SUFFIXES for entry in entries if not entry.is_folder)

    def _refuse_dangling(self, path: str, size: int, is_folder: bool) -> None:
        """Raise UserError for a link to nothing that may stand for a folder. Images fail one by one."""
        if size < 0 and not is_folder and suffix(path) not in SUFFIXES:
            raise UserError(
                f"{self.location}/{path} is a link to nothing, or cannot be looked at: if it stands for a folder of "
                "images, they would be lost and labels shift; mend or remove it"
            )
