"""Conversion of exceptions from libraries and from users' code to UserError, and checks of model files."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import ModuleType

from pipeline.errors import UserError
from pipeline.storage import local_path, open_regular


def first_line(error: BaseException) -> str:
    """Return the type and first line of an error, without torch's advice to load the file unsafely."""
    text = (str(error).strip() or "no reason given").splitlines()[0]
    return f"{type(error).__name__}: {'it contains more than weights' if 'weights_only' in text else text}"


@contextmanager
def user_errors(spec: str, advice: str) -> Iterator[None]:
    """Convert every exception in the block to a UserError, and redirect its output to standard error.

    SystemExit is converted too, because it would end the command with exit code 0. KeyboardInterrupt is not converted.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UserError(f"{spec} cannot be loaded: {first_line(error)}; {advice}") from error


def optional_library(name: str, purpose: str) -> ModuleType:
    """Import and return a library that a model or file needs. Raise UserError if it cannot be imported."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or name).split(".")[0]
        message = f"{purpose} needs {missing}, which is not installed; install it: pip install {missing}"
        raise UserError(message) from error
    except Exception as error:  # libraries built for another torch version raise many types
        raise UserError(f"{purpose} needs {name}, which cannot be imported: {first_line(error)}") from error


def model_file(name: str, folder: str, advice: str) -> Path:
    """Return the path of a model file, which may start from a folder. The advice is the last part of error messages.

    Raises:
        UserError: The file is missing, is a folder, a pipe or a device, or has an invalid name.
    """
    path = folder / local_path(name)
    try:
        open_regular(path).close()
    except FileNotFoundError:
        raise UserError(f"file not found: {name}; {advice}") from None
    except OSError as error:
        raise UserError(f"the file {name} cannot be read: {error.strerror}; {advice}") from error
    return path


def digest(*paths: Path) -> str:
    """Return the hexadecimal SHA-256 of a file. For several files, hash their concatenated digests."""
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
