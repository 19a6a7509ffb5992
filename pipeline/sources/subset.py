"""Part of a source: the first images, or those whose ids a file lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pipeline.errors import UserError
from pipeline.sources.base import SUFFIXES, Pixels, Source, SourceImage, lines_at, suffix


class Subset:
    """The images of a source that a text file lists, in the source's order.

    A line is an id, a path in the source, or a file name, with or without suffix (RobustBench's lists, for example).
    """

    def __init__(self, source: Source, listed: str) -> None:
        """Raises UserError for a file that is no list, or lists nothing, or a name twice."""
        self.location = source.location
        self._source = source
        self._listed = listed
        lines = [line.removeprefix("./") for line in lines_at(listed)]  # as ``find`` writes them
        _refuse_repeated(listed, lines)
        self._wanted = {_plain(line) for line in lines}

    @property
    def ignored(self) -> Counter[str]:
        """Files passed over by the whole source."""
        return self._source.ignored

    def __iter__(self) -> Iterator[SourceImage]:
        """The listed images.

        Raises UserError, at the end, for lines that name none, and for a line that names more than one.
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
                        f"{self._listed} lists {name!r}, which is {found[name]} as well as {image.id}: list ids"
                    )
                found[name] = image.id
            if names:
                yield image
        if missing := self._wanted - found.keys():
            some = ", ".join(sorted(missing)[:3])[:300]
            raise UserError(f"{self._listed} lists {len(missing)} images that are not in {self.location}: {some} ...")

    def read(self, image: SourceImage) -> bytes | Pixels:
        """As the whole source."""
        return self._source.read(image)


def _refuse_repeated(listed: str, lines: Sequence[str]) -> None:
    """Raise UserError for a list that is empty, or names an image twice."""
    if not lines:
        raise UserError(f"{listed} lists nothing: write one id or file name per line")
    seen: dict[str, str] = {}
    for line in lines:
        name = _plain(line)
        if name in seen:
            raise UserError(f"{listed} lists {line[:200]!r} twice (first as {seen[name][:200]!r}): remove one line")
        seen[name] = line


def _plain(name: str) -> str:
    """A name without the suffix of an image, dots as in ids."""
    stem = name.removesuffix(name[-len(ending) :]) if (ending := suffix(name)) in SUFFIXES else name
    return stem.replace(".", "_")
