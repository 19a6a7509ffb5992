"""Calls into libraries and users' code, with every failure turned into a UserError."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from types import ModuleType

from pipeline.errors import UserError


def first_line(error: BaseException) -> str:
    """Return an error in one line, without torch's advice to load a file unsafely."""
    text = (str(error).strip() or "no reason given").splitlines()[0]
    return f"{type(error).__name__}: {'it contains more than weights' if 'weights_only' in text else text}"


@contextmanager
def failures(spec: str, advice: str) -> Iterator[None]:
    """Turn whatever a library or a user's code raises into a UserError; redirect its output to standard error.

    SystemExit is caught too: it would end the command as if it had succeeded. KeyboardInterrupt passes.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UserError(f"{spec} cannot be loaded: {first_line(error)}; {advice}") from error


def optional_library(name: str, purpose: str) -> ModuleType:
    """Import a library that only some models need. Raise UserError with the command that installs it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or name).split(".")[0]
        message = f"{purpose} needs {missing}, which is not installed; install it: pip install {missing}"
        raise UserError(message) from error
    except Exception as error:  # a library built for another version of torch may raise anything
        raise UserError(f"{purpose} needs {name}, which cannot be imported: {first_line(error)}") from error
