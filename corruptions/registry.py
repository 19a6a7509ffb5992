"""Lookup of published transforms by name and by group. Used for corruptions and for perturbations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, Protocol, TypeVar

KINDS = ("noise", "blur", "weather", "digital")
"""Groups by kind of change, as in the publications."""


Value = TypeVar("Value")
"""Type of the values of a table."""


def find(what: str, table: Mapping[str, Value], name: str) -> Value:
    """Return an entry of a table. Raises ValueError if it has no such name, with the names that it has."""
    if name not in table:
        raise ValueError(f"unknown {what} {name!r}; choose one of {', '.join(table)}")
    return table[name]


class Published(Protocol):
    """Properties of every published transform."""

    @property
    def name(self) -> str:
        """Name of the transform."""

    @property
    def group(self) -> str:
        """Its kind, one of KINDS."""

    @property
    def benchmark(self) -> bool:
        """Whether it belongs to the benchmark, not only to its validation."""

    @property
    def version(self) -> int:
        """Version number, increased with each change that alters a pixel."""


Row = TypeVar("Row", bound=Published)
"""Type of the transforms in a registry."""


class Registry(Generic[Row]):
    """The transforms of one publication: those of the benchmark first, then the others, each in the given order."""

    def __init__(self, kind: str, extra_group: str, rows: Iterable[Row]) -> None:
        """Create a registry.

        Args:
            kind: What error messages call a transform, for example "corruption".
            extra_group: Name of the group of transforms outside the benchmark.
            rows: The transforms.
        """
        self._kind = kind
        self._rows = {row.name: row for row in sorted(rows, key=lambda row: not row.benchmark)}
        published = self._rows.values()
        self.groups: Mapping[str, tuple[str, ...]] = {
            "benchmark": tuple(row.name for row in published if row.benchmark),
            extra_group: tuple(row.name for row in published if not row.benchmark),
            "all": tuple(self._rows),
        } | {group: tuple(row.name for row in published if row.group == group) for group in KINDS}

    def names(self, group: str = "benchmark") -> tuple[str, ...]:
        """Return the names of a group in published order.

        Args:
            group: ``benchmark``, ``all``, ``noise``, ``blur``, ``weather``, ``digital``, or the group of transforms
                outside the benchmark: ``extra`` for corruptions, ``validation`` for perturbations.

        Returns:
            The names.

        Raises:
            ValueError: If the group is unknown.
        """
        return find("group", self.groups, group)

    def get(self, name: str) -> Row:
        """Return a transform, which has its table of parameters and its version.

        Args:
            name: Name of the transform.

        Returns:
            The transform.

        Raises:
            ValueError: If the name is unknown.
        """
        return find(self._kind, self._rows, name)
