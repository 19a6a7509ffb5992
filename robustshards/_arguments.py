"""Checks of the arguments of public functions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from pipeline.datasets.base import DataSet
from pipeline.datasets.base import Location as DataSetLocation
from pipeline.errors import UserError

Location = str | os.PathLike[str]
"""A path, or a URL that fsspec supports."""


def location(value: Any, name: str) -> str:
    """Return a path or URL as text; raise UserError for other types."""
    try:
        text = os.fspath(value)
    except TypeError:
        text = b""
    if not isinstance(text, str):
        raise UserError(f"invalid {name} {value!r:.80}: pass a path or URL as str or pathlib.Path")
    return text


def data_location(data: Any) -> DataSetLocation:
    """Return where a data set is; raise UserError for other types than a path, a URL or a data set."""
    if isinstance(data, DataSet):
        return data.absolute_location
    if not isinstance(data, str | os.PathLike):
        raise UserError(
            f"invalid data of type {type(data).__name__}: pass a path or URL, or what open or render returns"
        )
    return DataSetLocation(location(data, "data"))


def optional_location(value: Any, name: str) -> str | None:
    """Return a path or URL as text, or None for None; raise UserError for other types."""
    return None if value is None else location(value, name)


def text(value: Any, name: str) -> str | None:
    """Return a string or None; raise UserError for other types."""
    if value is not None and not isinstance(value, str):
        raise UserError(f"invalid {name} {value!r:.80}: pass a str")
    return value


def as_list(values: Any) -> list[Any]:
    """Return the values as a list; a single value, or a string, becomes a list of one."""
    return [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
