"""Image folders: with one subfolder per class, or of any shape without classes."""

from collections import Counter
from collections.abc import Iterator

from pipeline.errors import UserError
from pipeline.sources.base import (
    SPLITS,
    UNLABELLED,
    SourceImage,
    check_size,
    identifier,
    refuse_duplicates,
    refuse_lookalikes,
    refuse_skipped,
)
from pipeline.sources.files import SUFFIXES, UNREAD_SUFFIXES, counted_as, is_system_folder, suffix
from pipeline.sources.labelled_files import folder_of
from pipeline.storage import READERS, Place, map_ahead
from pipeline.tasks.labels import label_folders


class _Folder:
    """A folder of images, each a file of its own."""

    readers = READERS

    def __init__(self, place: Place) -> None:
        self.location, self._store = place.location, place.store
        self.ignored: Counter[str] = Counter()

    def read(self, image: SourceImage) -> bytes:
        """Return the bytes of one file. Raise OSError if it cannot be read."""
        check_size(image)
        return self._store.read(image.origin)


class ImageFolder(_Folder):
    """A folder of images with one subfolder per class. Class folders can contain subfolders.

    Labels follow from the names of all class folders, including empty ones, see :func:`label_folders`. Images directly
    in the root are unlabelled; then class folders are not allowed. Images are sorted by class folder, then by path (by
    code point, independent of the locale). Threads list a few class folders in advance; no more are in memory. Hidden
    files and system folders are skipped. The id of an image is its path relative to the root without the suffix, dots
    replaced by underscores.
    """

    def __init__(self, place: Place) -> None:
        """List the class folders.

        Raises:
            UserError: The place is not a folder, class names are ambiguous, or images are mixed with class folders.
        """
        super().__init__(place)
        if not place.is_folder:
            raise UserError(f"the source {self.location} is not a folder: an imagefolder has one folder per class")
        entries = self._store.entries("")
        self._classes = [entry.name for entry in entries if entry.is_folder and not is_system_folder(entry.name)]
        for entry in entries:
            self._refuse_broken_link(entry.name, entry.size, entry.is_folder)
        files = [entry.name for entry in entries if not entry.is_folder]
        loose = [name for name in files if suffix(name) in SUFFIXES]
        skipped = [f"{entry.name}/" for entry in entries if entry.is_folder and is_system_folder(entry.name)]
        self._beside = Counter([*skipped, *map(counted_as, files)] if self._classes else [])
        if loose and self._classes:
            raise UserError(
                f"{self.location} contains both images ({loose[0]}, ...) and class folders ({self._classes[0]}, ...): "
                "move the images into class folders, or remove them"
            )
        self._refuse_splits()
        # Ids start with the class folder, so if class folders differ, ids of different classes differ too.
        named = ((name.replace(".", "_"), name) for name in self._classes)
        refuse_duplicates(f"{self.location} has class folders", named)
        refuse_lookalikes(f"{self.location} has the class folders", self._classes)
        for name in self._classes:
            refuse_skipped(f"{name.replace('.', '_')}/", f"the source {self.location}")
        labelled = label_folders(self._classes)
        self._labels = labelled.labels
        self.labels = labelled.space if self._classes else None

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield all images in order. Raise UserError if an id occurs twice or a name is not valid text."""
        self.ignored = self._beside.copy()
        folders = self._classes or [""]
        for name, (files, skipped) in zip(folders, map_ahead(self._walk, folders, READERS), strict=True):
            self.ignored.update(skipped)
            paths = sorted((path, size) for path, size in files if self._is_image(path, size))
            label = self._labels[name] if name else UNLABELLED
            images = [SourceImage(identifier(path), label, name, path, size) for path, size in paths]
            refuse_duplicates("the source has images", ((image.id, image.origin) for image in images))
            yield from images

    def _walk(self, folder: str) -> tuple[list[tuple[str, int]], list[str]]:
        """Return the path and size in bytes of each file below a folder, unordered, and the skipped system folders."""
        skipped: list[str] = []

        def is_skipped(name: str) -> bool:
            if is_system_folder(name):
                skipped.append(f"{name}/")
            return is_system_folder(name)

        return list(self._store.walk(folder, is_skipped)), skipped

    def _is_image(self, path: str, size: int) -> bool:
        """Return whether a file is an image, and count it if not."""
        if suffix(path) in SUFFIXES:
            return True
        self._refuse_broken_link(path, size, False)
        self.ignored[counted_as(path)] += 1
        return False

    def _refuse_splits(self) -> None:
        """Raise UserError if the subfolders are splits instead of classes."""
        splits = [name for name in self._classes if name.lower() in SPLITS]
        several = len({SPLITS[name.lower()] for name in splits}) > 1 or len(splits) == len(self._classes) > 1
        if several or (splits == self._classes and splits and self._has_only_folders(splits[0])):
            raise UserError(
                f"{self.location} contains the splits {', '.join(splits)} instead of class folders: give one of them, "
                f"for example {self.location}/{splits[-1]}"
            )

    def _has_only_folders(self, folder: str) -> bool:
        """Return whether a folder has subfolders but no images directly in it."""
        entries = self._store.entries(folder)
        folders = any(entry.is_folder and not is_system_folder(entry.name) for entry in entries)
        return folders and not any(suffix(entry.name) in SUFFIXES for entry in entries if not entry.is_folder)

    def _refuse_broken_link(self, path: str, size: int, is_folder: bool) -> None:
        """Raise UserError if a broken link could be a class folder. Broken links to images fail when they are read."""
        if size < 0 and not is_folder and suffix(path) not in SUFFIXES:
            raise UserError(
                f"{self.location}/{path} is a broken link or unreadable: if it should be a class folder, skipping it "
                "would change the labels; repair or remove it"
            )


class AnyFolder(_Folder):
    """Any folder of images, flat or nested, without classes.

    The id of an image is its path relative to the root with its suffix, so ``a/x.jpg`` and ``a/x.png`` are two images.
    Images are sorted by path. Files in formats that are not read are listed too, and fail, so that none is missing
    unnoticed. Hidden files, system folders and all other files are skipped.
    """

    labels = None

    def __init__(self, place: Place) -> None:
        """Open the folder. Raise UserError if the place is not a folder."""
        super().__init__(place)
        folder_of(place)

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield all images in order. Raise UserError if a name is not valid text."""
        self.ignored = Counter()
        for path, size in sorted(self._store.walk("", is_system_folder)):
            if suffix(path) in SUFFIXES | UNREAD_SUFFIXES:
                identifier(path)
                yield SourceImage(path, UNLABELLED, "", path, size)
            else:
                self.ignored[counted_as(path)] += 1
