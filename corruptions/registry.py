"""Lookup by name, with an error message that suggests similar names."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import chain
from typing import TypeVar

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
