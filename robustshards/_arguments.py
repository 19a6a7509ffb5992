"""Arguments of the public functions."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Any

from pipeline.errors import UserError

Location = str | os.PathLike[str]
"""A path, or a URL that fsspec knows."""


def location(place: Any, name: str) -> str:
    """Return a path or URL as text. Raises UserError for another type."""
    try:
        text = os.fspath(place)
    except TypeError:
        text = b""
    if not isinstance(text, str):
        raise UserError(f"invalid {name} {place!r}: give a path or URL as str or pathlib.Path")
    return text


def optional_location(place: Any, name: str) -> str | None:
    """Return a path or URL as text, None as None. Raises UserError for another type."""
    return None if place is None else location(place, name)


def text(value: Any, name: str) -> str | None:
    """Return text, None as None. Raises UserError for another type."""
    if value is not None and not isinstance(value, str):
        raise UserError(f"invalid {name} {value!r}: give text")
    return value


def whole(number: Any, name: str, least: int) -> int:
    """Return an integer of at least ``least``. Raises UserError for anything else."""
    try:
        value = operator.index(number)
    except TypeError:
        value = least - 1
    if value < least:
        raise UserError(f"invalid {name} {number!r}: give a whole number, {least} or more")
    return value


def several(values: Any) -> list[Any]:
    """Return a list of one value or of several: text counts as one."""
    return [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
