"""Sources whose classes are numbered by a list of the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED, Pixels, Source, SourceImage, lines_at, notices_of
from pipeline.tasks.labels import LabelSpace, label_folders
from pipeline.tasks.lists import position_by_name
from pipeline.text import counted, shown


def read_classes(location: str) -> list[str]:
    """Return the class names in a text file, one per line.

    Args:
        location: Path or URL of the file.

    Raises:
        UserError: The file cannot be read, or is empty.
    """
    names = lines_at(location)
    if not names:
        raise UserError(f"{location} is empty: write one class name per line, in label order")
    return names


class ListedClasses:
    """The images of a source, with the position of their class in a list as label. Unlabelled images remain so."""

    def __init__(self, source: Source, classes: Sequence[str]) -> None:
        """Keep the source and the list.

        Args:
            source: The source with its own labels.
            classes: All class names in label order.
        """
        self.location = source.location
        self._source = source
        self._classes = classes
        self._positions = position_by_name(classes)
        self._present: set[str] = set()

    @property
    def ignored(self) -> Counter[str]:
        """Suffix -> number of files that the source skipped."""
        return self._source.ignored

    @property
    def notices(self) -> tuple[str, ...]:
        """What the source has to tell about its last iteration."""
        return notices_of(self._source)

    @property
    def labels(self) -> LabelSpace:
        """What the labels count. The number of present classes is known after an iteration."""
        return label_folders(list(self._present), self._classes).space

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield all images. Raise UserError for a class that is not in the list."""
        for image in self._source:
            if image.label == UNLABELLED:
                yield image
                continue
            if image.class_name not in self._positions:
                named = f"class {shown(image.class_name)}" if image.class_name else "images without a class name"
                raise UserError(
                    f"{self.location} has the {named} ({image.origin}), which is not one of the "
                    f"{counted(len(self._classes), 'class', 'classes')} of --classes: add it, or omit --classes"
                )
            self._present.add(image.class_name)
            yield replace(image, label=self._positions[image.class_name])

    def read(self, image: SourceImage) -> bytes | Pixels:
        """Read one image from the source."""
        return self._source.read(image)
