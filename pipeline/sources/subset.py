"""Subsets of sources, given by a list of images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pipeline.errors import UserError
from pipeline.sources.base import Pixels, Source, SourceImage, lines_at, notices_of
from pipeline.sources.files import SUFFIXES, suffix
from pipeline.tasks.labels import LabelSpace


class Subset:
    """The images of a source that a text file lists, in the order of the source.

    A line is an image id, a path in the source, or a file name, with or without suffix, as in RobustBench's lists.
    """

    def __init__(self, source: Source, listed: str) -> None:
        """Read the list.

        Args:
            source: The whole source.
            listed: Path or URL of the text file.

        Raises:
            UserError: The file cannot be read, is empty, or lists an image twice.
        """
        self.location = source.location
        self._source = source
        self._listed = listed
        lines = [line.removeprefix("./") for line in lines_at(listed)]  # the output of ``find``
        _refuse_repeated(listed, lines)
        self._wanted = {_plain(line) for line in lines}

    @property
    def ignored(self) -> Counter[str]:
        """Suffix -> number of files that the whole source skipped."""
        return self._source.ignored

    @property
    def notices(self) -> tuple[str, ...]:
        """What the source has to tell about its last iteration."""
        return notices_of(self._source)

    @property
    def labels(self) -> LabelSpace | None:
        """What the labels of the whole source count."""
        return self._source.labels

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield the listed images.

        Raises:
            UserError: A line matches more than one image, two lines match the same image, or, at the end, a line
                matched none.
        """
        found: dict[str, str] = {}
        for image in self._source:
            names = {_plain(image.id), _plain(image.origin), _plain(image.origin.rpartition("/")[2])} & self._wanted
            if len(names) > 1:
                raise UserError(
                    f"{self._listed} lists {image.id} twice, as {' and '.join(sorted(names))}: remove one line"
                )
            for name in names:
                if name in found:
                    raise UserError(
                        f"{self._listed} lists {name!r}, which matches {found[name]} and {image.id}: list image ids"
                    )
                found[name] = image.id
            if names:
                yield image
        if missing := self._wanted - found.keys():
            some = ", ".join(sorted(missing)[:3])[:300]
            raise UserError(
                f"{self._listed} lists {len(missing)} images that are not in {self.location}: {some} ...; remove these "
                "lines, or check the source"
            )

    def read(self, image: SourceImage) -> bytes | Pixels:
        """Read one image from the whole source."""
        return self._source.read(image)


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
