"""Lookup of published transforms by name and by group. Used for corruptions and for perturbations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import chain
from typing import Generic, Protocol, TypeVar

KINDS = ("noise", "blur", "weather", "digital")
"""Groups by kind of change, as in the publications."""


LONGEST_NAME = 200
"""Maximum number of characters of an unknown name in an error message."""

Value = TypeVar("Value")
"""Type of the values of a table."""


def find(what: str, table: Mapping[str, Value], name: str) -> Value:
    """Return an entry of a table. Raises ValueError if it has no such name, with the names that it has."""
    if name not in table:
        raise ValueError(unknown(what, name, allowed=table))
    return table[name]


def unknown(what: str, name: object, **allowed: Collection[str]) -> str:
    """Return the error message for an unknown name, with the most similar of the allowed names.

    Args:
        what: What the name should be a name of, for example "corruption".
        name: The unknown name.
        **allowed: Title -> allowed names.
    """
    text = str(name)
    quoted = ascii(text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}...")
    lists = (f"{title}: {', '.join(names) or 'none'}" for title, names in allowed.items())
    return f"unknown {what} {quoted}{suggestion(text, chain(*allowed.values()))}; {'; '.join(lists)}"


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """Return " (did you mean ...?)" with at most three of the allowed names; empty if none is similar."""
    spelled, start = {each.lower(): each for each in allowed}, name[:LONGEST_NAME].lower()
    longer = [each for each in spelled if start and each.startswith(start)]
    similar = list(dict.fromkeys([*longer, *get_close_matches(start, spelled, 3, cutoff=0.75)]))[:3]
    return f" (did you mean {' or '.join(repr(spelled[each]) for each in similar)}?)" if similar else ""


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

    def __init__(self, kind: str, rows: Iterable[Row]) -> None:
        """Create a registry.

        Args:
            kind: What error messages call a transform, for example "corruption".
            rows: The transforms.
        """
        self._kind = kind
        self._rows = {row.name: row for row in sorted(rows, key=lambda row: not row.benchmark)}
        published = self._rows.values()
        self.groups: Mapping[str, tuple[str, ...]] = {
            "benchmark": tuple(row.name for row in published if row.benchmark),
            "validation": tuple(row.name for row in published if not row.benchmark),
            "all": tuple(self._rows),
        } | {kind: tuple(row.name for row in published if row.benchmark and row.group == kind) for kind in KINDS}

    def names(self, group: str = "benchmark") -> tuple[str, ...]:
        """Return the names of a group in published order.

        Args:
            group: ``benchmark``, or one of its parts ``noise``, ``blur``, ``weather`` and ``digital``; ``validation``,
                the transforms outside the benchmark; or ``all``.

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
