"""Checks of the arguments of public functions."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from textwrap import fill
from typing import Any, TypeVar

from pipeline.errors import UserError
from pipeline.settings import entries, help_texts

Function = TypeVar("Function", bound=Callable[..., Any])

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


def described_by(*models: type[Any]) -> Callable[[Function], Function]:
    """Return a decorator that adds arguments to a docstring, with the help texts of the settings of these classes."""
    texts = {name: text for model in models for name, text in help_texts(model).items()}

    def decorate(function: Function) -> Function:
        head, _, rest = (function.__doc__ or "").partition("    Args:\n")
        described = texts | entries(function.__doc__, "Args")
        named = [f"{each}: {described[each]}" for each in inspect.signature(function).parameters]
        lines = [
            fill(each, 120, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False)
            for each in named
        ]
        function.__doc__ = "\n".join([f"{head}    Args:", *lines, "", rest.partition("\n\n")[2]])
        return function

    return decorate
