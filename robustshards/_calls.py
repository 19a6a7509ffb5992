"""The context in which every public function runs, and checks of arguments."""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import fill
from typing import Any, TypeVar

from pipeline import settings
from pipeline.datasets.base import DataSet
from pipeline.datasets.base import Location as DataSetLocation
from pipeline.errors import UserError, file_error_message, is_permanent
from pipeline.settings import entries, help_texts
from robustshards._process import preserve_process

Function = TypeVar("Function", bound=Callable[..., Any])

Location = str | os.PathLike[str]
"""A path, or a URL that fsspec supports."""


@contextmanager
def public_call(requirements: Callable[[], None] | None = None) -> Iterator[None]:
    """Leave the process as it was, also after an error, and raise UserError for files that cannot be used.

    Args:
        requirements: Function that imports libraries whose state the call changes. None if they are imported already.
    """
    with preserve_process(), _preserve_signal_handlers():
        if requirements:
            requirements()
        with preserve_process():
            try:
                yield
            except OSError as error:
                if is_permanent(error):
                    raise UserError(file_error_message(error)) from error
                raise


@contextmanager
def _preserve_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers that Ray and torch replace; does nothing outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)


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
        docstring = inspect.cleandoc(function.__doc__)  # Python 3.13 and later has removed the indentation already
        head, _, rest = docstring.partition("Args:\n")
        described = texts | entries(docstring, "Args")
        named = [f"{each}: {described[each]}" for each in inspect.signature(function).parameters]
        lines = [
            fill(each, 116, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False) for each in named
        ]
        function.__doc__ = "\n".join([f"{head}Args:", *lines, "", rest.partition("\n\n")[2]])
        return function

    return decorate
