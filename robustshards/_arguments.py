"""Checks of the arguments of public functions."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from textwrap import fill
from typing import Any, TypeVar

from pipeline import settings
from pipeline.datasets.base import DataSet
from pipeline.datasets.base import Location as DataSetLocation
from pipeline.errors import UserError
from pipeline.settings import entries, help_texts

Function = TypeVar("Function", bound=Callable[..., Any])

Location = str | os.PathLike[str]
"""A path, or a URL that fsspec supports."""


def location(value: Any, name: str) -> str:
    """Return a path or URL as text; raise UserError for other types."""
    return settings.location().checked(value, name)


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


def described_by(*models: type[Any]) -> Callable[[Function], Function]:
    """Return a decorator that adds arguments to a docstring, with the help texts of the settings of these classes."""
    texts = {name: text for model in models for name, text in help_texts(model).items()}

    def decorate(function: Function) -> Function:
        if function.__doc__ is None:  # python -OO
            return function
        head, _, rest = function.__doc__.partition("    Args:\n")
        described = texts | entries(function.__doc__, "Args")
        named = [f"{each}: {described[each]}" for each in inspect.signature(function).parameters]
        lines = [
            fill(each, 120, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False)
            for each in named
        ]
        function.__doc__ = "\n".join([f"{head}    Args:", *lines, "", rest.partition("\n\n")[2]])
        return function

    return decorate
