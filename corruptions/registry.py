"""Published transforms by name and by group: corruptions here, perturbations in the package beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, Protocol, TypeVar

KINDS = ("noise", "blur", "weather", "digital")
"""The groups into which the publications sort what they do to an image."""


class Published(Protocol):
    """What each transform of the publications says of itself."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def group(self) -> str:
        """One of KINDS."""

    @property
    def benchmark(self) -> bool:
        """Whether the benchmark has it, and not only its validation."""

    @property
    def version(self) -> int:
        """A number that rises with every change of a pixel."""


Row = TypeVar("Row", bound=Published)


class Registry(Generic[Row]):
    """Transforms of one publication: first those of its benchmark, then the others, each in the order given."""

    def __init__(self, what: str, others: str, rows: Iterable[Row]) -> None:
        """``what`` a transform is called in messages; ``others``: the group of those outside the benchmark."""
        self._what = what
        self._rows = {row.name: row for row in sorted(rows, key=lambda row: not row.benchmark)}
        published = self._rows.values()
        self.groups: Mapping[str, tuple[str, ...]] = {
            "benchmark": tuple(row.name for row in published if row.benchmark),
            others: tuple(row.name for row in published if not row.benchmark),
            "all": tuple(self._rows),
        } | {kind: tuple(row.name for row in published if row.group == kind) for kind in KINDS}

    def names(self, group: str = "benchmark") -> tuple[str, ...]:
        """Return the names of a group in published order.

        Args:
            group: ``benchmark``, ``all``, ``noise``, ``blur``, ``weather``, ``digital``, or those outside of the
                benchmark: ``extra`` for corruptions, ``validation`` for perturbations.

        Raises:
            ValueError: There is no such group.
        """
        if group not in self.groups:
            raise ValueError(f"unknown group {group!r}; choose one of {', '.join(self.groups)}")
        return self.groups[group]

    def get(self, name: str) -> Row:
        """Return the transform of that name, with its table of parameters and its version.

        Raises:
            ValueError: There is none.
        """
        if name not in self._rows:
            raise ValueError(f"unknown {self._what} {name!r}; choose one of {', '.join(self._rows)}")
        return self._rows[name]
