"""Checks and digests of model files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pipeline.errors import UserError
from pipeline.storage import local_path, open_regular


def model_file(name: str, folder: str, advice: str) -> Path:
    """Return the path of a model file, after checking that it is a readable regular file.

    Args:
        name: Path of the file.
        folder: Folder that a relative ``name`` starts from.
        advice: Last part of error messages: what the user can do.

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
