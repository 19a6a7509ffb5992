"""What every source offers to the plan and to the workers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.storage import Place, find_place

UNLABELLED = -1
"""Label of an image that stands in no class folder; its class name is empty."""

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".bmp", ".tif", ".tiff", ".webp"})
"""Files that count as images, compared in lower case (torchvision's list)."""

Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; right and bottom are the first beyond."""

Pixels = NDArray[np.uint8]
"""RGB (H, W, 3), 0..255."""


@dataclass(frozen=True, slots=True)
class SourceImage:
    """One clean image, by reference: workers read the bytes where they need them.

    ``id`` is unique in the source and holds no dot; ``origin`` finds the image inside the source; ``size`` is its
    length in bytes, so that a changed file is noticed before it is read. Of an image with a ``box`` only that counts.
    """

    id: str
    label: int
    class_name: str
    origin: str
    size: int
    box: Box | None = None


class Source(Protocol):
    """A fixed, ordered listing that can be walked again and again, and the bytes behind each entry."""

    location: str

    @property
    def ignored(self) -> Counter[str]:
        """Suffix -> number of files that the last walk passed over because they are not images."""

    def __iter__(self) -> Iterator[SourceImage]: ...

    def read(self, image: SourceImage) -> bytes | Pixels:
        """The encoded bytes, or the pixels where the source holds those. Raises OSError, and UnreachableError."""


def suffix(name: str) -> str:
    """The suffix of a file name in lower case."""
    return os.path.splitext(name)[1].lower()


def identifier(path: str) -> str:
    """The id for a path inside a source. Raises UserError for names that no tar member or JSON text can carry."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UserError(f"the file name {path!r} is not valid UTF-8; rename it") from None
    if not path.isprintable():
        raise UserError(f"the file name {path!r} holds control characters; rename it")
    return os.path.splitext(path)[0].replace(".", "_")


def refuse_duplicates(what: str, named: Iterable[tuple[str, str]]) -> None:
    """Raises UserError naming the two paths that come to the same id."""
    seen: dict[str, str] = {}
    for id_, path in named:
        if id_ in seen:
            raise UserError(
                f"{what} {seen[id_]} and {path}, which come to the same id {id_!r} "
                "(suffixes are dropped, dots become underscores); rename or remove one"
            )
        seen[id_] = path


def read_lines(place: Place) -> list[str]:
    """The lines of a small text file that hold anything, whatever their ends. Raises UserError."""
    try:
        text = place.store.read(place.name).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {place.location}: {error}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def lines_at(location: str) -> list[str]:
    """As :func:`read_lines`, of a file that the user names."""
    place = find_place(location)
    if place is None or place.is_folder:
        raise UserError(f"the file {location} does not exist")
    return read_lines(place)
