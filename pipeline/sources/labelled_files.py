"""A source of files in one place whose labels come from a label file, and functions for flat folders."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat

from pipeline.errors import UserError
from pipeline.sources.base import Box, SourceImage, check_class, check_size, identifier, read_lines, refuse_duplicates
from pipeline.sources.files import SUFFIXES, counted_as, is_system_folder, suffix
from pipeline.storage import READERS, Place, Store, map_ahead
from pipeline.tasks.labels import LabelSpace
from pipeline.tasks.lists import position_by_name

LONGEST_CLASS = 200
"""Maximum number of characters of a class name in a label file."""

Listing = Callable[[Counter[str]], Sequence[tuple[str, int, int | None]]]
"""A function that returns path, size and offset in a tar of each image in order, and counts other files by suffix."""


class LabelledFiles:
    """The files of a listing, in its order, with labels from a label file. Every image must be in the label file."""

    readers = READERS

    def __init__(
        self,
        location: str,
        listing: Listing,
        classes: Mapping[str, str],
        numbers: Mapping[str, int],
        labels: LabelSpace,
        read: Callable[[SourceImage], bytes],
        box: Callable[[str], Box] | None = None,
    ) -> None:
        """Create the source.

        Args:
            location: Location for messages.
            listing: Lists the images.
            classes: Image name without suffix -> class.
            numbers: Label of each class. Images of other classes are omitted.
            labels: What the labels count.
            read: Returns the bytes of a file. Raises OSError if it cannot be read.
            box: Returns the region of an image to use, given its name without suffix. None: the whole image.
        """
        self.location, self.labels = location, labels
        self.ignored: Counter[str] = Counter()
        self._listing, self._classes, self._numbers, self._read, self._box = listing, classes, numbers, read, box

    def __iter__(self) -> Iterator[SourceImage]:
        """Return all images. Raise UserError if an image has no label or ids are not unique."""
        self.ignored = Counter()
        files = [(path.rpartition("/")[2], (path, size, offset)) for path, size, offset in self._listing(self.ignored)]
        refuse_duplicates(f"{self.location} has images", ((identifier(name), place[0]) for name, place in files))
        images, stems = list[SourceImage](), list[str]()
        for name, (path, size, offset) in files:
            stem = name.rpartition(".")[0]
            if stem not in self._classes:
                raise UserError(f"the image {name} has no label in the label file: add one, or remove the image")
            class_ = self._classes[stem]
            if class_ in self._numbers:
                id_ = f"{class_}/{identifier(name)}"
                images.append(SourceImage(id_, self._numbers[class_], class_, path, size, offset=offset))
                stems.append(stem)
        boxes = map_ahead(self._box, stems, READERS) if self._box else repeat(None)
        return (replace(image, box=box) for image, box in zip(images, boxes, strict=False))

    def read(self, image: SourceImage) -> bytes:
        """Return the bytes of one file. Raise OSError if it cannot be read."""
        check_size(image)
        return self._read(image)


def folder_of(place: Place) -> Store:
    """Return the folder at a place. Raise UserError if it is not a folder."""
    if not place.is_folder:
        raise UserError(f"the source {place.location} is not a folder: give the folder of the images")
    return place.store


def flat_folder(folder: Store, below: str = "") -> Listing:
    """Return the listing of the images directly in a folder of a store, by name, as names."""

    def listing(ignored: Counter[str]) -> list[tuple[str, int, None]]:
        images = []
        for entry in folder.entries(below):
            if entry.is_folder:
                _refuse_images(folder, f"{below}/{entry.name}" if below else entry.name, ignored)
            elif suffix(entry.name) in SUFFIXES:
                images.append((entry.name, entry.size, None))
            else:
                ignored[counted_as(entry.name)] += 1
        return images

    return listing


def _refuse_images(folder: Store, below: str, ignored: Counter[str]) -> None:
    """Raise UserError if a subfolder contains images, because they would be skipped."""
    name = below.rpartition("/")[2]
    if is_system_folder(name):
        ignored[f"{name}/"] += 1
        return
    for path, _ in folder.walk(below, is_system_folder):
        if suffix(path) in SUFFIXES:
            raise UserError(
                f"{folder.root} contains images both directly and in subfolders ({path}, ...): move all images into "
                "one folder, or all into class folders"
            )


def class_name(text: str, where: str) -> str:
    """Return a class name from a label file. Raise UserError with the file and line if it is invalid."""
    if len(text) > LONGEST_CLASS or any(map(str.isspace, text)):
        raise UserError(
            f"{where} has the invalid class name {text[:80]!r}: use one word of at most {LONGEST_CLASS} characters"
        )
    return check_class(text, where)


def class_numbers(place: Place) -> Mapping[str, int]:
    """Return class -> place among the sorted classes of a ``wnids.txt``. Raise UserError if it is empty or repeats."""
    lines = read_lines(place)
    wnids = [class_name(line, f"{place.location}, line {index},") for index, line in enumerate(lines, start=1)]
    repeated = [wnid for wnid, count in Counter(wnids).items() if count > 1]
    if not wnids or repeated:
        what = f"repeats the class {repeated[0]!r}" if repeated else "contains no classes"
        raise UserError(f"{place.location} {what}: list each wnid once, one per line")
    return position_by_name(sorted(wnids))
