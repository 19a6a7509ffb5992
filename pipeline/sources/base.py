"""What every source offers to the plan and to the workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

UNLABELLED = -1
"""Label of an image that stands in no class folder; its class name is empty."""


@dataclass(frozen=True, slots=True)
class SourceImage:
    """One clean image, by reference: workers read the bytes where they need them.

    ``id`` is unique in the source and holds no dot; ``origin`` finds the file inside the source; ``size`` is its
    length in bytes, so that a changed file is noticed before it is read.
    """

    id: str
    label: int
    class_name: str
    origin: str
    size: int


class Source(Protocol):
    """A fixed, ordered listing that can be walked again and again, and the bytes behind each entry."""

    location: str
    ignored: Counter[str]
    """Suffix -> number of files that the last walk passed over because they are not images."""

    def __iter__(self) -> Iterator[SourceImage]: ...

    def read(self, image: SourceImage) -> bytes:
        """The encoded bytes. Raises OSError."""
