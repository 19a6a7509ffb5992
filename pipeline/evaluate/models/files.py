"""Files of models: found, checked to be regular, and digested."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pipeline.errors import UserError
from pipeline.storage import local_path, open_regular


def model_file(name: str, folder: str, advice: str) -> Path:
    """Return the path of a readable regular file; a relative ``name`` starts from ``folder``.

    Raises:
        UserError: The file is missing, is a folder, a pipe or a device, or has an impossible name.
    """
    path = folder / local_path(name)
    try:
        open_regular(path).close()
    except FileNotFoundError:
        raise UserError(f"there is no file {name}; {advice}") from None
    except OSError as error:
        raise UserError(f"the file {name} cannot be read: {error.strerror}; {advice}") from error
    return path


def digest(*paths: Path) -> str:
    """Return the SHA-256 of one file, or of the digests of several, in hexadecimal."""
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
