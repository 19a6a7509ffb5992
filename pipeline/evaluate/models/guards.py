"""Conversion of exceptions from libraries and from users' code to UserError."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from types import ModuleType

from pipeline.errors import UserError


def first_line(error: BaseException) -> str:
    """Return the type and first line of an error, without torch's advice to load the file unsafely."""
    text = (str(error).strip() or "no reason given").splitlines()[0]
    return f"{type(error).__name__}: {'it contains more than weights' if 'weights_only' in text else text}"


@contextmanager
def user_errors(spec: str, advice: str) -> Iterator[None]:
    """Convert every exception in the block to a UserError, and redirect its output to standard error.

    SystemExit is converted too, because it would end the command with exit code 0. KeyboardInterrupt is not converted.

    Args:
        spec: Name of the model, for the error message.
        advice: Last part of the error message: what the user can do.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UserError(f"{spec} cannot be loaded: {first_line(error)}; {advice}") from error


def optional_library(name: str, purpose: str) -> ModuleType:
    """Import and return a library that only some models need.

    Args:
        name: Module to import.
        purpose: Name of the model or file that needs it, for the error message.

    Raises:
        UserError: The library is not installed or cannot be imported.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or name).split(".")[0]
        message = f"{purpose} needs {missing}, which is not installed; install it: pip install {missing}"
        raise UserError(message) from error
    except Exception as error:  # libraries built for another torch version raise many types
        raise UserError(f"{purpose} needs {name}, which cannot be imported: {first_line(error)}") from error
