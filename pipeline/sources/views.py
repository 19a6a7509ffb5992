"""Views of sources: the images that a file lists, and images whose classes a file numbers."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED, Pixels, Source, SourceImage, lines_at, notices_of, readers_of
from pipeline.sources.files import SUFFIXES, suffix
from pipeline.tasks.labels import LabelSpace, label_folders
from pipeline.tasks.lists import position_by_name
from pipeline.text import counted, shown


class View:
    """A source of which some images are left out, or have other labels."""

    def __init__(
        self,
        source: Source,
        select: Callable[[Source], Iterator[SourceImage]],
        labels: Callable[[], LabelSpace | None] | None = None,
    ) -> None:
        """Keep the source.

        Args:
            source: The whole source.
            select: Yields the images of the view.
            labels: Returns what their labels count. Default: that of the whole source.
        """
        self.location = source.location
        self._source, self._select, self._labels = source, select, labels

    @property
    def ignored(self) -> Counter[str]:
        """Suffix -> number of files that the whole source skipped."""
        return self._source.ignored

    @property
    def notices(self) -> tuple[str, ...]:
        """What the source has to tell about its last iteration."""
        return notices_of(self._source)

    @property
    def readers(self) -> int:
        """How many threads may read the whole source at the same time."""
        return readers_of(self._source)

    @property
    def labels(self) -> LabelSpace | None:
        """What the labels count."""
        return self._labels() if self._labels else self._source.labels

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield the images of the view. Raise UserError if what the user lists does not fit the source."""
        return self._select(self._source)

    def read(self, image: SourceImage) -> bytes | Pixels:
        """Read one image from the whole source."""
        return self._source.read(image)


def read_classes(location: str) -> list[str]:
    """Return the class names in a text file, one per line. Raise UserError if it cannot be read, or is empty."""
    names = lines_at(location)
    if not names:
        raise UserError(f"{location} is empty: write one class name per line, in label order")
    return names


def listed_classes(source: Source, classes: Sequence[str]) -> View:
    """Return the images of a source, with the position of their class in a list as label.

    Unlabelled images remain so. The number of present classes is known after an iteration, which raises UserError for a
    class that is not in the list.
    """
    positions, present = position_by_name(classes), set[str]()

    def select(source: Source) -> Iterator[SourceImage]:
        for image in source:
            if image.label == UNLABELLED:
                yield image
                continue
            if image.class_name not in positions:
                named = f"class {shown(image.class_name)}" if image.class_name else "images without a class name"
                raise UserError(
                    f"{source.location} has the {named} ({image.origin}), which is not one of the "
                    f"{counted(len(classes), 'class', 'classes')} of --classes: add it, or omit --classes"
                )
            present.add(image.class_name)
            yield replace(image, label=positions[image.class_name])

    return View(source, select, lambda: label_folders(list(present), classes).space)


def subset(source: Source, listed: str) -> View:
    """Return the images of a source that a text file lists, in the order of the source.

    A line is an image id, a path in the source, or a file name, with or without suffix, as in RobustBench's lists. An
    iteration raises UserError if a line matches more than one image, two lines match the same image, or, at the end, a
    line matched none.

    Raises:
        UserError: The file cannot be read, is empty, or lists an image twice.
    """
    lines = [line.removeprefix("./") for line in lines_at(listed)]  # the output of ``find``
    _refuse_repeated(listed, lines)
    wanted = {_plain(line) for line in lines}

    def select(source: Source) -> Iterator[SourceImage]:
        found: dict[str, str] = {}
        for image in source:
            names = {_plain(image.id), _plain(image.origin), _plain(image.origin.rpartition("/")[2])} & wanted
            if len(names) > 1:
                raise UserError(f"{listed} lists {image.id} twice, as {' and '.join(sorted(names))}: remove one line")
            for name in names:
                if name in found:
                    raise UserError(
                        f"{listed} lists {name!r}, which matches {found[name]} and {image.id}: list image ids"
                    )
                found[name] = image.id
            if names:
                yield image
        if missing := wanted - found.keys():
            some = ", ".join(sorted(missing)[:3])[:300]
            raise UserError(
                f"{listed} lists {len(missing)} images that are not in {source.location}: {some} ...; remove these "
                "lines, or check the source"
            )

    return View(source, select)


def _refuse_repeated(listed: str, lines: Sequence[str]) -> None:
    """Raise UserError if a list is empty or names an image twice."""
    if not lines:
        raise UserError(f"{listed} is empty: write one image id or file name per line")
    seen: dict[str, str] = {}
    for line in lines:
        name = _plain(line)
        if name in seen:
            raise UserError(f"{listed} lists {line[:200]!r} twice (first as {seen[name][:200]!r}): remove one line")
        seen[name] = line


def _plain(name: str) -> str:
    """Return a name without its image suffix, with dots replaced by underscores as in ids."""
    stem = name.removesuffix(name[-len(ending) :]) if (ending := suffix(name)) in SUFFIXES else name
    return stem.replace(".", "_")
